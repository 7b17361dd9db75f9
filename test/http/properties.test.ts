/**
 * Property tests of the parsers of JSON, int64, paths and queries, each against a simple oracle.
 */
import '../support/built.js';
import '../support/unmeasured.js';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  emptyReply,
  JsonNumber,
  type JsonValue,
  parseDraft,
  parseJson,
  PetstoreError,
  toByteString,
} from '../../dist/index.js';
import { Query, splitTarget } from '../../dist/request.js';
import { Routes } from '../../dist/router.js';
import { anyText } from '../support/text.js';
import { int64Of, isInt64, queryOf, strictMembers } from '../torture/oracle.js';
import { asByteString, int64OfJsonNumber, parseInt64 } from '../../dist/json.js';
import { parsePet, petJson } from '../../dist/engine/index.js';

/** Converts a value to what JSON.parse returns for the text of `asLists`. */
function plain(value: JsonValue): unknown {
  if (value instanceof JsonNumber) return Number(value.text);
  if (value instanceof Map)
    return ['object', [...value].flatMap(([name, member]) => [name, plain(member)])];
  return Array.isArray(value) ? ['array', value.map(plain)] : value;
}

/**
 * Returns a JSON text with arrays in place of its objects. V8 13.6 (Node 24) sometimes parses a
 * name that begins with an escape as the name `\`, so that its objects are not a reliable oracle.
 */
function asLists(text: string): string {
  const lists: Readonly<Record<string, string>> = {
    '{': '["object",[',
    '}': ']]',
    '[': '["array",[',
    ']': ']]',
    ':': ',',
  };
  return text.replace(/"(?:[^"\\]|\\.)*"|[{}[\]:]/gs, (token) => lists[token] ?? token);
}

/** Parses a byte string; returns the value, or the offset of the error. */
function read(bytes: string): { readonly value: JsonValue } | { readonly at: number } {
  try {
    return { value: parseJson(bytes) };
  } catch (error) {
    assert.ok(error instanceof PetstoreError && error.code === 'invalid_json', String(error));
    const at =
      /^Not valid JSON: .+, at byte ([0-9]+)\.$/.exec(error.message)?.[1] ??
      assert.fail(error.message);
    assert.ok(Number(at) <= bytes.length);
    return { at: Number(at) };
  }
}

/** The oracle: returns the expected value, by JSON.parse and the four known differences. */
function expected(bytes: string): { readonly value: unknown } | undefined {
  let text: string;
  try {
    // The decoder removes one byte order mark, and rejects malformed UTF-8, surrogates included.
    text = new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(bytes, 'latin1'));
    JSON.parse(text);
    return strictMembers(text) === undefined ? undefined : { value: JSON.parse(asLists(text)) };
  } catch {
    return undefined;
  }
}

function assertAsOracle(bytes: string): void {
  const [ours, theirs] = [read(bytes), expected(bytes)];
  assert.equal('value' in ours, theirs !== undefined, JSON.stringify(bytes));
  if ('value' in ours && theirs !== undefined)
    assert.deepEqual(
      JSON.parse(JSON.stringify(plain(ours.value))),
      JSON.parse(JSON.stringify(theirs.value)),
    );
}

const space = fc.string({ unit: fc.constantFrom(' ', '\t', '\r', '\n'), maxLength: 2 });
const spelt = fc
  .string({
    unit: fc.constantFrom(
      ...'a é 猫 🐈 \\n \\" \\\\ \\/ \\u0041 \\u00e9 \\ud83d\\udc08 \\ud83d \\udc08 \u2028 \u007f'.split(
        ' ',
      ),
    ),
    maxLength: 6,
  })
  .map((text) => `"${text}"`);
const number = fc
  .tuple(
    fc.constantFrom('', '-'),
    fc.oneof(fc.constant('0'), fc.bigInt(1n, 10n ** 25n).map(String)),
    fc.constantFrom('', '.0', '.5', '.123', '.000'),
    fc.constantFrom('', 'e0', 'E+2', 'e-3', 'e400'),
  )
  .map((parts) => parts.join(''));
const { value: jsonText } = fc.letrec<{ value: string }>((tie) => ({
  value: fc
    .tuple(
      space,
      fc.oneof(
        { maxDepth: 4, depthSize: 'small' },
        fc.constantFrom('null', 'true', 'false'),
        spelt,
        number,
        fc.array(tie('value'), { maxLength: 4 }).map((items) => `[${items.join(',')}]`),
        fc
          .array(fc.tuple(space, spelt, space, tie('value')), { maxLength: 4 })
          .map(
            (members) =>
              `{${members.map(([before, name, after, value]) => `${before}${name}${after}:${value}`).join(',')}}`,
          ),
      ),
      space,
    )
    .map((parts) => parts.join('')),
}));

/** Checks a property with `numRuns` random values. */
function checkProperty<Values>(numRuns: number, property: fc.IRawProperty<Values>): void {
  fc.assert(property, { numRuns });
}

test('C26 parses valid JSON as JSON.parse does, except for the known differences', () => {
  for (const [numRuns, texts, before] of [
    [2_000, fc.json({ maxDepth: 5 }), ''],
    [3_000, jsonText, ''],
    [300, jsonText, '\xef\xbb\xbf'],
  ] as const)
    checkProperty(
      numRuns,
      fc.property(texts, (text) => assertAsOracle(before + toByteString(text))),
    );
});

test('C26 accepts the same mutated JSON texts as JSON.parse', () => {
  const byte = fc.oneof(
    fc.constantFrom(
      ...'"\\{}[],:0123456789.eE+-tfnu/ \n\t\0\x1f\x7f\x80\xbf\xc0\xc3\xe2\xed\xef\xf0\xf4\xff',
    ),
    fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)),
  );
  const edit = fc.record({
    at: fc.nat(),
    cut: fc.nat({ max: 2 }),
    put: fc.string({ unit: byte, maxLength: 2 }),
  });
  checkProperty(
    10_000,
    fc.property(
      fc.oneof(jsonText, fc.json({ maxDepth: 3 })),
      fc.array(edit, { minLength: 1, maxLength: 3 }),
      (text, edits) => {
        let bytes = toByteString(text);
        for (const { at, cut, put } of edits) {
          const from = at % (bytes.length + 1);
          bytes = asByteString(bytes.slice(0, from) + put + bytes.slice(from + cut));
        }
        assertAsOracle(bytes);
      },
    ),
  );
});

test('C26 reports the end of a truncated text as the offset of the error', () => {
  checkProperty(
    2_000,
    fc.property(fc.json({ maxDepth: 3 }), fc.nat(), (text, cut) => {
      const bytes = toByteString(text);
      const start = bytes.slice(0, cut % bytes.length);
      const result = read(start);
      // The beginning of a valid text is wrong only at its end.
      if ('at' in result) assert.equal(result.at, start.length);
    }),
  );
});

test('C26 rejects each kind of malformed UTF-8, and accepts every character', () => {
  const bad =
    '\x80 \xbf \xc0\x80 \xc1\xbf \xc3 \xc3\x28 \xe0\x80\x80 \xe0\x9f\xbf \xe2\x82 \xe2\x28\xa1 \xed\xa0\x80 \xed\xbf\xbf \xf0\x80\x80\x80 \xf0\x8f\xbf\xbf \xf0\x9f\x92 \xf4\x90\x80\x80 \xf5\x80\x80\x80 \xf8\x88\x80\x80\x80 \xfe \xff'.split(
      ' ',
    );
  for (const bytes of bad) {
    for (const text of [`"${bytes}"`, `{"${bytes}":1}`, `["a${bytes}`, `"ab${bytes}c"`, bytes])
      assertAsOracle(text);
    assert.ok('at' in read(`"${bytes}"`));
  }
  for (
    let code = 0;
    code <= 0x10ffff;
    code += code < 0x3000 || (code > 0xd700 && code < 0x10200) ? 1 : 97
  ) {
    if (code < 0x20 || code === 0x22 || code === 0x5c || (code >= 0xd800 && code <= 0xdfff))
      continue;
    const character = String.fromCodePoint(code);
    assert.equal(parseJson(toByteString(`"${character}"`)), character);
  }
});

test('C22 C23 C24 parses every spelling of a JSON integer exactly', () => {
  const edge = fc
    .constantFrom(0n, 2n ** 63n, 2n ** 53n, 10n ** 18n, 10n ** 15n, 10n ** 16n)
    .chain((middle) =>
      fc.bigInt(middle - 3n, middle + 3n).map((value) => (value < 0n ? -value : value)),
    );
  const whole = fc.oneof(edge, fc.bigInt(0n, 10n ** 30n)).map(String);
  const text = fc
    .tuple(
      fc.constantFrom('', '-'),
      whole,
      fc.constantFrom('', '.0', '.00', '.5', '.50', '.123', '.0000000000000000001'),
      fc.oneof(
        fc.constant(''),
        fc.integer({ min: -40, max: 40 }).map((power) => `e${power}`),
        fc.nat({ max: 30 }).map((power) => `E+0${power}`),
      ),
    )
    .map((parts) => parts.join(''));
  checkProperty(
    10_000,
    fc.property(text, (number) =>
      assert.equal(int64OfJsonNumber(number)?.toString(), int64Of(number), number),
    ),
  );
  checkProperty(
    2_000,
    fc.property(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), fc.nat({ max: 20 }), (value, power) => {
      const digits = String(value < 0n ? -value : value).padStart(power + 1, '0');
      const moved = `${value < 0n ? '-' : ''}${digits.slice(0, digits.length - power)}${power ? `.${digits.slice(-power)}` : ''}e${power}`;
      assert.equal(int64OfJsonNumber(moved), value, moved);
    }),
  );
});

test('C2 C10 accepts only one spelling of an integer in a path or query', () => {
  const text = fc.oneof(
    fc.bigInt(-(2n ** 64n), 2n ** 64n).map(String),
    fc.string({ unit: fc.constantFrom(...'0123456789-+. eEx'), maxLength: 22 }),
    fc.string(),
  );
  checkProperty(
    5_000,
    fc.property(text, (spelling) => {
      const expected = isInt64(spelling) ? BigInt(spelling) : undefined;
      assert.equal(parseInt64(spelling), expected, spelling);
    }),
  );
});

test('C25 writes JSON of a pet that parses back to the same pet', () => {
  const draft = fc.record(
    {
      name: anyText(),
      categoryId: fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n),
      status: fc.constantFrom('available', 'pending', 'sold'),
    },
    { requiredKeys: ['name', 'categoryId'], noNullPrototype: true },
  );
  checkProperty(
    2_000,
    fc.property(draft, fc.bigInt(1n, 2n ** 63n - 1n), (given, id) => {
      const json = petJson(id, given);
      assert.deepEqual(parsePet(json), { id, ...given });
      assert.deepEqual(parseDraft(parseJson(json)), given);
      assert.deepEqual(JSON.parse(Buffer.from(json, 'latin1').toString()), {
        id: Number(id),
        ...given,
        categoryId: Number(given.categoryId),
      });
      assert.ok(!json.includes('\n'));
    }),
  );
});

test('C11 C12 finds the same route as a simple comparison of segments', () => {
  const segment = fc.constantFrom('a', 'b', 'v1', '{x}', '{x}', 'a.b', '~');
  const routes = fc.uniqueArray(
    fc
      .tuple(fc.array(segment, { maxLength: 3 }), fc.constantFrom('', '/'))
      .map(([segments, end]) => {
        const named = segments.map((text, at) => (text === '{x}' ? `/{p${at}}` : `/${text}`));
        return named.join('') + end || '/';
      }),
    { minLength: 1, maxLength: 6 },
  );
  const parts = 'a b v1 %61 %2F %2f . .. %2e a.b %zz % %%361 %2561 %ff ä ~ %7E A {p0} x%20y';
  const part = fc.constantFrom('', ...parts.split(' '));
  const paths = fc.oneof(
    fc.array(part, { maxLength: 4 }).map((parts) => `/${parts.join('/')}`),
    fc.array(part, { maxLength: 3 }).map((parts) => parts.join('/')),
    fc.string(),
  );
  const oracle = (
    known: readonly string[],
    path: string,
  ): { value: string; params: Record<string, string> } | undefined => {
    if (!path.startsWith('/')) return undefined;
    let segments: string[];
    try {
      segments = path.slice(1).split('/').map(decodeURIComponent);
    } catch {
      return undefined;
    }
    if (segments.some((text) => text === '.' || text === '..')) return undefined;
    // From the left, a fixed segment takes precedence over a parameter, without backtracking.
    let left = known.map((route) => ({ route, parts: route.slice(1).split('/') }));
    for (const [index, text] of segments.entries()) {
      const fixed = left.filter(({ parts }) => parts[index] === text && !text.startsWith('{'));
      left =
        fixed.length > 0
          ? fixed
          : left.filter(({ parts }) => text !== '' && parts[index]?.startsWith('{'));
    }
    const found = left.find(({ parts }) => parts.length === segments.length);
    if (found === undefined) return undefined;
    const params = found.parts.flatMap((name, index): [string, string][] =>
      name.startsWith('{') ? [[name.slice(1, -1), segments[index] ?? '']] : [],
    );
    return { value: found.route, params: Object.fromEntries(params) };
  };
  checkProperty(
    3_000,
    fc.property(routes, fc.array(paths, { minLength: 1, maxLength: 8 }), (known, requested) => {
      const router = new Routes(Date.now);
      for (const path of known)
        router.add({ path, methods: { GET: { handler: () => emptyReply(204, []) } } });
      const find = (path: string) => {
        try {
          const { resource, params } = router.find('GET', path, '/v1');
          return { value: resource.path, params };
        } catch {
          return undefined;
        }
      };
      for (const path of [...requested, ...known.map((route) => route.replace(/[{}]/g, ''))])
        assert.deepEqual(find(path), oracle(known, path), path);
    }),
  );
});

test('C3 C4 C12 decodes each query parameter like a simple split', () => {
  const piece = fc.string({
    unit: fc.constantFrom('a', 'b', '%61', '%3D', '%26', '+', ' ', '%C3%A9', '%zz', '%', '/', '?'),
    maxLength: 3,
  });
  const text = fc
    .array(
      fc.oneof(
        piece,
        fc.tuple(piece, piece).map((pair) => pair.join('=')),
      ),
      { maxLength: 5 },
    )
    .map((pairs) => pairs.join('&'));
  checkProperty(
    3_000,
    fc.property(text, (query) => {
      const expected = queryOf(query);
      if (expected === undefined) {
        assert.throws(() => new Query(query), { code: 'invalid_parameter' });
        return;
      }
      const parsed = new Query(query);
      for (const name of ['a', 'b', 'aa', 'é', '+', '=', 'a=', 'toString', '__proto__']) {
        const values: readonly string[] = expected.get(name) ?? [];
        if (values.length > 1) assert.throws(() => parsed.get(name), { code: 'invalid_parameter' });
        else assert.equal(parsed.get(name), values[0], `${query} ${name}`);
      }
    }),
  );
});

test('C13 splits a target at the first question mark after the authority', () => {
  checkProperty(
    2_000,
    fc.property(
      fc.constantFrom('', 'http://a', 'https://a:1', 'HTTP://[::1]'),
      fc.string({ unit: fc.constantFrom(...'/?#a:@%.'), maxLength: 8 }),
      (origin, rest) => {
        const target = `${origin}/${rest}`;
        const { path, query } = splitTarget(target);
        assert.ok(!path.includes('?') && path.startsWith('/'));
        assert.equal(
          origin + path + (target.slice(origin.length).includes('?') ? `?${query}` : ''),
          target,
        );
      },
    ),
  );
});
