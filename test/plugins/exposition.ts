/**
 * Owns a strict reading of Prometheus' text format 0.0.4, by its page of grammar, so that the
 * library does not prove itself.
 */
import assert from 'node:assert/strict';

export interface Family {
  readonly type: string;
  readonly help: string;
  readonly samples: readonly Sample[];
}

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The families of an exposition by name; fails for whatever a collector might stumble over. */
export function readExposition(text: string): ReadonlyMap<string, Family> {
  assert.ok(text.endsWith('\n'), 'the last line ends');
  const families = new Map<string, Family & { readonly samples: Sample[] }>();
  let current = '';
  let help = '';
  for (const line of text.split('\n').filter((each) => each !== '')) {
    const comment = /^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$/.exec(line);
    if (comment !== null) {
      const [, what, name = '', said = ''] = comment;
      if (what === 'HELP') [current, help] = [name, said];
      else {
        assert.equal(name, current, 'TYPE follows its HELP');
        assert.match(said, /^(counter|gauge|histogram|summary|untyped)$/);
        assert.ok(!families.has(name), `${name} stands once`);
        families.set(name, { type: said, help, samples: [] });
      }
      continue;
    }
    const [, name = '', labels = '', value = ''] =
      /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/.exec(line) ??
      assert.fail(`no line of the format: ${line}`);
    const family = families.get(current) ?? assert.fail(`a sample without a TYPE: ${line}`);
    const suffixes = family.type === 'histogram' ? ['_bucket', '_sum', '_count'] : [''];
    assert.ok(
      suffixes.some((suffix) => name === current + suffix),
      `${name} stands under ${current}`,
    );
    // What Go's ParseFloat reads, which takes these words in any case.
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

function labelsOf(text: string): Readonly<Record<string, string>> {
  assert.match(text, /^([a-zA-Z_][a-zA-Z0-9_]*="([^"\\\n]|\\["\\n])*"(,|$))*$/);
  return Object.fromEntries(
    [...text.matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)].map(([, name = '', value = '']) => [
      name,
      value,
    ]),
  );
}

/** Buckets only grow, and the last one, +Inf, is the count. */
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

/**
 * The value of the one sample with this name and these labels, others allowed; undefined where
 * there is none.
 */
export function figureOf(
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
  assert.ok(found.length <= 1, `${name} stands ${found.length} times`);
  return found[0]?.value;
}
