import assert from 'node:assert/strict';
import { readFileSync, statSync, truncateSync } from 'node:fs';
import { test } from 'node:test';
import { checkFile, salvageFile } from '../../dist/file/index.js';
import {
  batches,
  committed,
  fileWith,
  idsOf,
  newPath,
  onceOf,
  petLine,
  recordLine,
  unusable,
  using,
} from './scene.js';

const sound = String(batches(2, 3, 2));
/** Salvages a file; returns the report and the paths of both files. */
async function salvaged(content: string | Uint8Array) {
  const path = fileWith(content);
  const out = `${path}.saved`;
  return { path, out, ...(await salvageFile(path, out)) };
}

/** Returns the integers from `from` to `to`. */
const range = (from: number, to: number): readonly number[] =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index);

test('F3 salvages a sound file to an equal file', async () => {
  const { path: _path, out, ...said } = await salvaged(sound);
  assert.deepEqual(said, { animals: 7, missing: [], leftOut: [] });
  assert.equal(String(readFileSync(out)), sound);
  assert.equal(statSync(out).mode & 0o777, 0o600);
});

test('F3 leaves out a batch whose checksum does not fit, and reports its lines', async () => {
  const damaged = sound.replace('pet 4', 'pet 9');
  const { path, out, animals, missing, leftOut } = await salvaged(damaged);
  assert.equal(animals, 4);
  assert.deepEqual(missing, [{ from: 3n, to: 5n }]);
  assert.deepEqual(
    leftOut.map(({ line, animal }) => [line, animal]),
    [3n, 4n, 5n].map((id) => [Number(id) + 1, id]),
  );
  assert.match(leftOut[0]?.what ?? '', /checksum/);
  assert.equal(String(readFileSync(path)), damaged);
  assert.equal((await checkFile(out)).verdict, 'sound');
  assert.deepEqual(await using(out, idsOf), [1, 2, 6, 7]);
});

test('F3 salvages sound batches after lines that are missing, doubled or invalid', async () => {
  const [first = '', second = '', third = ''] = sound.split(/(?<=crc32":"\w{8}"\}\}\n)/);
  const changed = second.replace('"commit"', '"commiu"');
  const unfinished = petLine(6) + petLine(7).slice(0, 9);
  const cases: readonly (readonly [text: string, ids: readonly number[], leftOut: number])[] = [
    [second + third, range(3, 7), 0],
    [first + first + second + third, range(1, 7), 2],
    [first + third + second, [1, 2, 6, 7], 3],
    [`${first}not a pet\n${second}${third}`, range(1, 7), 1],
    [first + changed + third, [1, 2, 6, 7], 4],
    [`${sound}not a pet\n${petLine(8)}`, range(1, 8), 1],
    [first + second + unfinished, range(1, 6), 1],
    ['', [], 0],
  ];
  for (const [text, ids, count] of cases) {
    const { out, animals, leftOut } = await salvaged(text);
    assert.deepEqual([animals, leftOut.length], [ids.length, count], text);
    assert.deepEqual(await using(out, idsOf), ids);
  }
});

test('F3 salvages the batch after an idempotency record without a pet and a commit', async () => {
  const [first = '', other = ''] = ['a', 'b'].map((key) => recordLine(onceOf(key)));
  const { animals, leftOut } = await salvaged(first + committed([other + petLine(2) + petLine(3)]));
  assert.deepEqual([animals, leftOut.map(({ line }) => line)], [2, [1]]);
});

test('F3 reports ids after the last saved pet as missing if the file has them', async () => {
  const { missing } = await salvaged(sound.replace('pet 7', 'pet 9'));
  assert.deepEqual(missing, [{ from: 6n, to: 7n }]);
});

test('F3 salvages lines longer than a chunk, and reports a line longer than any pet', async () => {
  const long = 'x'.repeat(3_000_000);
  const { path: _path, out, ...said } = await salvaged(`${petLine(1, long)}${long}\n${petLine(2)}`);
  assert.deepEqual(said, {
    animals: 2,
    missing: [],
    leftOut: [{ line: 2, what: 'Not valid JSON: expected a value, at byte 0' }],
  });
  assert.deepEqual(await using(out, idsOf), [1, 2]);

  const hole = fileWith(petLine(1));
  truncateSync(hole, 2 ** 27 + 1_000);
  const { animals, leftOut } = await salvageFile(hole, `${hole}.saved`);
  assert.deepEqual(
    [animals, leftOut],
    [1, [{ line: 2, what: 'a line of more than 134217728 bytes' }]],
  );
});

test('F3 salvages a long batch as batches of 1,000 pets with their idempotency records', async () => {
  const lines = range(1, 2_001).map(
    (id) => (id === 1_001 ? recordLine(onceOf('a')) : '') + petLine(id),
  );
  const { out, animals } = await salvaged(lines.join(''));
  assert.equal(animals, 2_001);
  const batches = [0, 1_000, 2_000].map((from) => lines.slice(from, from + 1_000).join(''));
  assert.deepEqual(readFileSync(out), committed(batches));
  const { verdict, commits } = await checkFile(out);
  assert.deepEqual([verdict, commits], ['sound', 3]);
});

test('F7 refuses to salvage to an existing file or from a missing file', async () => {
  const there = fileWith(sound);
  await assert.rejects(salvageFile(there, there), { ...unusable, message: /exists already/ });
  await assert.rejects(salvageFile(newPath(), newPath()), { ...unusable, message: /no such file/ });
});
