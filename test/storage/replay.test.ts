import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import fc from 'fast-check';
import { asByteString } from '../../dist/json.js';
import { filterOf } from '../../dist/pet.js';
import { petJson, parsePet } from '../../dist/engine/index.js';
import { petLines } from '../../dist/file/index.js';
import { nodeDisk, type Disk } from '../../dist/journal/index.js';
import { batches, fileWith, onceOf, petLine, recordLine } from './scene.js';
import { cuts, flip, lines, zeros } from '../support/damage.js';
import { unlocked } from '../support/disk.js';
import { anyText } from '../support/text.js';
import { startFrom } from '../torture/damage.js';
import { keyedText, made, petText, startTexts } from '../torture/files.js';
import { petStatuses, PetstoreError } from '../../dist/index.js';

const isKeyed = (id: number) => id % 3 === 1;
/** A file in which some pets have an idempotency record, and a file of several disk blocks. */
const small = made([1, 2, 1, 2], undefined, isKeyed);
const large = made([3, 150, 2, 80], undefined, isKeyed);

test('F2, F3 serves a damaged file exactly, refuses it, or cuts a torn tail off', async () => {
  const bits = fc.sample(fc.nat({ max: small.bytes.length * 8 - 1 }), 300);
  for (const [whole, damages] of [
    [small, cuts(small.bytes)],
    [small, bits.map((bit) => flip(small.bytes, bit))],
    [small, lines(small.bytes)],
    [large, zeros(large.bytes, 512)],
    [large, zeros(large.bytes, 4096)],
  ] as const)
    for (const { what, bytes } of damages) await startFrom(what, whole, bytes);
});

const chunkBytes = 2 ** 20;

test('replays a file of several chunks with a line longer than a chunk', async () => {
  const nameOf = (id: number) => (id === 1 ? 'x'.repeat(3 * chunkBytes) : `pet ${id}`);
  const whole = made([3, 30_000], nameOf, isKeyed);
  assert.equal(await startFrom('a long file', whole, whole.bytes), 'exact');
});

test('matches an idempotency record with its pet wherever a chunk ends', async () => {
  const [head, middle, tail] = [keyedText(1, 'x'), petText(2, ''), keyedText(3, 'last')];
  // From a record at the end of a chunk to a record at the start of the next, in steps of 3 bytes.
  for (let over = -4; over < tail.length + 5; over += 3) {
    const filler = 'x'.repeat(chunkBytes - `${head}\n${middle}\n`.length - over);
    const names = ['x', filler, 'last'];
    const whole = made(
      [3],
      (id) => names[id - 1] ?? '',
      (id) => id !== 2,
    );
    assert.equal(await startFrom(`${over} over`, whole, whole.bytes), 'exact');
  }
});

test('replays a file whose disk returns short reads of any length', async () => {
  const whole = made([3, 1], (id) => `Ünï ${id}`, isKeyed);
  const path = fileWith(whole.bytes);
  const parts = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1 });
  await fc.assert(
    fc.asyncProperty(parts, async (parts) => {
      let call = 0;
      const read: Disk['read'] = (from, into, position) =>
        nodeDisk.read(from, into.subarray(0, parts[call++ % parts.length]), position);
      assert.deepEqual(await startTexts({ ...unlocked, read }, path), whole.texts);
    }),
    { numRuns: 20 },
  );
});

/** Returns the result of a reader, or the message of its PetstoreError. */
function outcomeOf(read: () => unknown): unknown {
  try {
    return read();
  } catch (error) {
    assert.ok(error instanceof PetstoreError);
    return error.message;
  }
}

const viaLines = (line: string) =>
  outcomeOf(() => {
    let seen: unknown;
    petLines((id, json, indexed) => (seen = { id, json, indexed }))(asByteString(line));
    return seen;
  });

/** Expects that the fast reader reads or refuses a line as the JSON parser does. */
function expectSame(line: string): void {
  const viaParse = outcomeOf(() => {
    const { id, ...draft } = parsePet(asByteString(line));
    return { id, json: petJson(id, draft), indexed: filterOf(draft) };
  });
  assert.deepEqual(viaLines(line), viaParse, line);
}

const positive = fc.oneof(
  fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }),
  fc.bigInt({ min: 1n, max: 99n }),
);
const canonical = fc
  .record({
    id: positive,
    name: anyText(),
    categoryId: fc.tuple(positive, fc.constantFrom(1n, 0n, -1n)).map(([id, sign]) => id * sign),
    status: fc.constantFrom(...petStatuses, undefined),
  })
  .map(({ id, status, ...rest }) => {
    const line: string = petJson(id, { ...rest, ...(status && { status }) });
    return { id, status, line };
  });

test('reads a written line as the JSON parser does, and keeps its bytes', () => {
  fc.assert(
    fc.property(canonical, ({ id, line }) => {
      assert.deepEqual(viaLines(line), { id, json: line, indexed: filterOf(parsePet(line)) });
      expectSame(line);
    }),
  );
});

test('reads numbers in another form as the JSON parser does', () => {
  const short = '0 -0 00 01 -01 - 7 -7 +7 1e2 1.0 -9223372036854775808 -9223372036854775809';
  const parts = ['', ...short.split(' '), ...[15, 19, 20].map((digits) => '9'.repeat(digits))];
  for (const id of parts)
    for (const categoryId of parts) expectSame(`{"id":${id},"name":"","categoryId":${categoryId}}`);
});

test('reads members without a value as the JSON parser does', () => {
  for (const member of ['"status":', '"status":"', '"status":""', '"status":"sol"'])
    expectSame(`{"id":1,"name":"","categoryId":1,${member}}`);
});

test('reads or refuses a changed line as the JSON parser does', () => {
  const edit = fc.record({
    where: fc.nat(),
    removed: fc.nat({ max: 3 }),
    byte: fc.oneof(
      fc.nat({ max: 255 }),
      fc.constantFrom(...Buffer.from('"\\,{}:0123456789-.e \t')),
    ),
  });
  fc.assert(
    fc.property(
      canonical,
      fc.array(edit, { minLength: 1, maxLength: 3 }),
      ({ line: canonicalLine }, edits) => {
        let line = canonicalLine;
        for (const { where, removed, byte } of edits) {
          const at = where % (line.length + 1);
          line = line.slice(0, at) + String.fromCharCode(byte) + line.slice(at + removed);
        }
        expectSame(line);
      },
    ),
    { numRuns: 5000 },
  );
});

/** Texts that are not the torn first write of a petstore, by what they are. */
const record = recordLine(onceOf('a'));
const line = petLine(1).trimEnd();
const foreign: Readonly<Record<string, readonly string[]>> = {
  'a file of another program': [
    '# A shopping list',
    'milk\neggs\n',
    'SQLite format 3\0\0\0',
    '{"name":"Rex","categoryId":1}\n',
    readFileSync(new URL('../../data/animals.jsonl', import.meta.url), 'utf8'),
  ],
  'a line of another program': [
    '{}',
    '{"name":"my-app","version":"1.0.0"}',
    '\n\n{"name":"my-app"}',
    '{"id":"my-app","version":',
    '{"commits":',
    '{ "id": 1, "name": "R',
    Buffer.from(line, 'utf16le').toString('latin1'),
    `${line}{"Id":2}`,
    `${line},`,
    `${line}\r${petLine(2).trimEnd()}\r`,
    '\0\0\0RIFF',
    `${'\0'.repeat(4095)}x`,
  ],
  // Acknowledged pets are in the only line.
  'a file whose newlines were removed or replaced': [
    ...[String(batches(1, 3, 2, 4)), record + String(batches(1, 3, 2, 4))],
    petLine(1, 'a \\"}{\\" b') + petLine(2),
  ].flatMap((file) =>
    ['', ' ', '\r', '\t', ',', ', ', ';', 'x'].flatMap((end) => {
      const joined = file.replaceAll('\n', end);
      return [joined, joined.slice(0, -20), `${joined}\n`];
    }),
  ),
};
const nothing = made([]);
for (const [what, files] of Object.entries(foreign))
  test(`F3 refuses ${what} and changes nothing`, async () => {
    for (const file of files)
      assert.equal(await startFrom(file, nothing, Buffer.from(file)), 'refused', file);
  });

test('F2 cuts off a torn first write, cut at any byte or without its first block', async () => {
  const first = petLine(1, 'a \\"}\\" b').trimEnd();
  const wholes = [record + first, String(batches(0)).trimEnd()];
  const gap = '\0'.repeat(4096);
  const gaps = ['\0'.repeat(50), gap, `${gap}x`, first + gap].map((text) => Buffer.from(text));
  const torn = wholes.flatMap((whole) =>
    Array.from(cuts(Buffer.from(whole)), ({ bytes }) => bytes).slice(1, -1),
  );
  for (const bytes of [...torn, ...gaps])
    assert.equal(await startFrom(String(bytes), nothing, bytes), 'exact');
});
