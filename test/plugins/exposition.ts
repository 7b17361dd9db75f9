// Parses Prometheus' text format 0.0.4 strictly by its specification, because the library that is
// under test must not check itself.
import assert from 'node:assert/strict';

/** A metric family. */
export interface Family {
  readonly type: string;
  readonly help: string;
  readonly samples: readonly Sample[];
}

/** A line with a value. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Parses an exposition to its families by name. Fails if anything is against the format. */
export function readExposition(text: string): ReadonlyMap<string, Family> {
  assert.ok(text.endsWith('\n'), 'the last line must end with LF');
  const families = new Map<string, Family & { readonly samples: Sample[] }>();
  let current = '';
  let help = '';
  for (const line of text.split('\n').filter((each) => each !== '')) {
    const comment = /^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$/.exec(line);
    if (comment !== null) {
      const [, keyword, name = '', text = ''] = comment;
      if (keyword === 'HELP') [current, help] = [name, text];
      else {
        assert.equal(name, current, 'TYPE must follow HELP');
        assert.match(text, /^(counter|gauge|histogram|summary|untyped)$/);
        assert.ok(!families.has(name), `${name} must have one TYPE`);
        families.set(name, { type: text, help, samples: [] });
      }
      continue;
    }
    const [, name = '', labels = '', value = ''] =
      /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/.exec(line) ??
      assert.fail(`invalid line: ${line}`);
    const family = families.get(current) ?? assert.fail(`a sample without a TYPE: ${line}`);
    const suffixes = family.type === 'histogram' ? ['_bucket', '_sum', '_count'] : [''];
    assert.ok(
      suffixes.some((suffix) => name === current + suffix),
      `${name} must not follow the TYPE of ${current}`,
    );
    // Go's ParseFloat accepts these words in any case.
    assert.match(value, /^([+-]?Inf|NaN|-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?)$/i);
    family.samples.push({
      name,
      labels: labelsOf(labels),
      value: value.endsWith('Inf') ? Infinity : Number(value),
    });
  }
  for (const [name, family] of families)
    if (family.type === 'histogram') checkHistogram(name, family.samples);
  return families;
}

/** Parses the labels of a sample. */
function labelsOf(text: string): Readonly<Record<string, string>> {
  assert.match(text, /^([a-zA-Z_][a-zA-Z0-9_]*="([^"\\\n]|\\["\\n])*"(,|$))*$/);
  return Object.fromEntries(
    [...text.matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)].map(([, name = '', value = '']) => [
      name,
      value,
    ]),
  );
}

/** Checks that counts of buckets do not decrease, and that the last one, +Inf, is the total. */
function checkHistogram(name: string, samples: readonly Sample[]): void {
  const seriesOf = ({ labels: { le, ...rest } }: Sample): string => JSON.stringify(rest);
  for (const series of new Set(samples.map(seriesOf))) {
    const own = samples.filter((sample) => seriesOf(sample) === series);
    const buckets = own.filter((sample) => sample.name === `${name}_bucket`);
    const counts = buckets.map(({ value }) => value);
    assert.deepEqual(
      counts,
      [...counts].sort((one, other) => one - other),
      name,
    );
    assert.equal(buckets.at(-1)?.labels['le'], '+Inf');
    assert.equal(own.find((sample) => sample.name === `${name}_count`)?.value, counts.at(-1));
    assert.ok(own.some((sample) => sample.name === `${name}_sum`));
  }
}

/** Returns the value of the sample with a name and at least the given labels, if any. */
export function sampleValue(
  families: ReadonlyMap<string, Family>,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const found = [...families.values()]
    .flatMap(({ samples }) => samples)
    .filter(
      (sample) =>
        sample.name === name &&
        Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
    );
  assert.ok(found.length <= 1, `${name} has ${found.length} samples`);
  return found[0]?.value;
}
