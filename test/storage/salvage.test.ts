import assert from 'node:assert/strict';
import { readFileSync, statSync, truncateSync } from 'node:fs';
import { test } from 'node:test';
import { checkFile, fileStorage, salvageFile } from '../../dist/file/index.js';
import { commitOf } from './commit-line.js';
import { batches, fileWith, newPath, petLine } from './scene.js';

const sound = String(batches(2, 3, 2));
const newOut = (): string => `${fileWith('')}.saved`;
const animalsIn = async (path: string): Promise<readonly bigint[]> => {
  const storage = await fileStorage(path);
  const ids = (await storage.list({ limit: 100 })).map(({ id }) => id);
  await storage.close();
  return ids;
};

test('F3 salvage of a sound file is the same file', async () => {
  const out = newOut();
  assert.deepEqual(await salvageFile(fileWith(sound), out), {
    animals: 7,
    missing: [],
    leftOut: [],
  });
  assert.equal(String(readFileSync(out)), sound);
  assert.equal(statSync(out).mode & 0o777, 0o600);
});

test('F3 salvage leaves out a batch whose checksum does not fit, says so, and touches nothing', async () => {
  const damaged = fileWith(sound.replace('pet 4', 'pet 9'));
  const before = readFileSync(damaged);
  const out = newOut();
  const { animals, missing, leftOut } = await salvageFile(damaged, out);
  assert.equal(animals, 4);
  assert.deepEqual(missing, [{ from: 3n, to: 5n }]);
  assert.deepEqual(
    leftOut.map(({ line, animal }) => [line, animal]),
    [
      [4, 3n],
      [5, 4n],
      [6, 5n],
    ],
  );
  assert.match(leftOut[0]?.what ?? '', /checksum/);
  assert.deepEqual(readFileSync(damaged), before);
  assert.equal((await checkFile(out)).verdict, 'sound');
  assert.deepEqual(await animalsIn(out), [1n, 2n, 6n, 7n]);
});

test('F3 salvage finds sound batches behind lines that are gone, doubled or no animals', async () => {
  const [first = '', second = '', third = ''] = sound.split(/(?<=crc32":"\w{8}"\}\}\n)/);
  const cases: readonly (readonly [string, readonly bigint[], number])[] = [
    [second + third, [3n, 4n, 5n, 6n, 7n], 0],
    [first + first + second + third, [1n, 2n, 3n, 4n, 5n, 6n, 7n], 2],
    [first + third + second, [1n, 2n, 6n, 7n], 3],
    [`${first}no animal\n${second}${third}`, [1n, 2n, 3n, 4n, 5n, 6n, 7n], 1],
    [first + second.replace('"commit"', '"commiu"') + third, [1n, 2n, 6n, 7n], 4],
    [`${sound}no animal\n${petLine(8)}`, [1n, 2n, 3n, 4n, 5n, 6n, 7n, 8n], 1],
    [first + second + petLine(6) + petLine(7).slice(0, 9), [1n, 2n, 3n, 4n, 5n, 6n], 1],
    ['', [], 0],
  ];
  for (const [text, ids, leftOutCount] of cases) {
    const out = newOut();
    const { animals, leftOut } = await salvageFile(fileWith(text), out);
    assert.equal(animals, ids.length, text);
    assert.equal(leftOut.length, leftOutCount, text);
    assert.deepEqual(await animalsIn(out), ids);
  }
});

test('F3 salvage saves the batch after an idempotency record whose animal and commit are gone', async () => {
  const recordOf = (digit: string) =>
    `{"idempotency":{"key":"${digit.repeat(64)}","body":"${'b'.repeat(64)}","at":7}}\n`;
  const batch = Buffer.from(recordOf('2') + petLine(2) + petLine(3));
  const path = fileWith(`${recordOf('1')}${batch}${commitOf(batch, 0)}`);
  const { animals, leftOut } = await salvageFile(path, newOut());
  assert.deepEqual([animals, leftOut.map(({ line }) => line)], [2, [1]]);
});

test('F3 salvage names ids that were seen, though not soundly, behind the last that it saved', async () => {
  const { missing } = await salvageFile(fileWith(sound.replace('pet 7', 'pet 9')), newOut());
  assert.deepEqual(missing, [{ from: 6n, to: 7n }]);
});

test('F3 salvage reads lines that are longer than a piece, and names one that is longer than any animal', async () => {
  const long = 'x'.repeat(3_000_000);
  const path = fileWith(`${petLine(1, long)}${long}\n${petLine(2)}`);
  const salvaged = newOut();
  assert.deepEqual(await salvageFile(path, salvaged), {
    animals: 2,
    missing: [],
    leftOut: [{ line: 2, what: 'Not valid JSON: expected a value, at byte 0' }],
  });
  assert.deepEqual(await animalsIn(salvaged), [1n, 2n]);

  const hole = fileWith(petLine(1));
  truncateSync(hole, 2 ** 27 + 1_000);
  const { animals, leftOut } = await salvageFile(hole, newOut());
  assert.deepEqual(
    [animals, leftOut],
    [1, [{ line: 2, what: 'a line of more than 134217728 bytes' }]],
  );
});

test('F3 salvage writes a long batch as several of 1,000, each with its commit, and a record always with its animal', async () => {
  const record = `{"idempotency":{"key":"${'a'.repeat(64)}","body":"${'b'.repeat(64)}","at":7}}\n`;
  const animals = Array.from(
    { length: 2_001 },
    (_, index) => (index === 1_000 ? record : '') + petLine(index + 1),
  );
  const out = newOut();
  assert.equal((await salvageFile(fileWith(animals.join('')), out)).animals, 2_001);
  let saved = '';
  for (const from of [0, 1_000, 2_000]) {
    const batch = animals.slice(from, from + 1_000).join('');
    saved += `${batch}${String(commitOf(Buffer.from(batch), saved.length))}`;
  }
  assert.equal(String(readFileSync(out)), saved);
  assert.deepEqual(await checkFile(out).then(({ verdict, commits }) => [verdict, commits]), [
    'sound',
    3,
  ]);
});

test('F7 salvage never writes over a file, and says which cannot be used', async () => {
  const there = fileWith(sound);
  await assert.rejects(salvageFile(there, there), { code: 'storage_unusable', message: /already/ });
  await assert.rejects(salvageFile(newPath(), newOut()), {
    code: 'storage_unusable',
    message: /no such file/,
  });
});
