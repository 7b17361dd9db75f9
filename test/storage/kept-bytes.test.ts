// Tests the memory that a pet and an idempotency key take, which the documents promise.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { folder, root, StartedProcess } from '../support/process.js';
import { writeCatalogue } from '../bench/catalogue.js';

const started = 200_000;
const added = 50_000;

/** A script that prints the bytes in memory for each pet of a file, each new pet, and each key. */
const script = `
import { hash } from 'node:crypto';
import { fileStorage } from ${JSON.stringify(join(root, 'dist/index.js'))};

// Collects three times, because Node 24 leaves up to 150 bytes a key after one collection.
const used = () => {
  for (let count = 0; count < 3; count++) gc();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
};
const eachOf = async (count, work) => {
  const before = used();
  await work();
  return (used() - before) / count;
};
let storage;
const atStart = await eachOf(${started}, async () => (storage = await fileStorage(process.argv[1])));
const draft = { name: 'Kitten 1000000', categoryId: 39n, status: 'available' };
const keyUse = (number) => ({ key: hash('sha256', 'key' + number), body: hash('sha256', 'body'), at: 1 });
const adding = (add) => eachOf(${added}, async () => {
  for (let number = 0; number < ${added}; number += 1_000)
    await Promise.all(Array.from({ length: 1_000 }, (_, index) => add(number + index)));
});
const afterStart = await adding(() => storage.insert(draft));
const withKey = await adding((number) => storage.insertOnce(draft, keyUse(number)));
console.log(JSON.stringify({ atStart, afterStart, key: withKey - afterStart }));
await storage.close();
`;

test('takes at most the documented memory for a pet and for an idempotency key', async (t) => {
  const path = join(folder(t), 'pets.jsonl');
  writeCatalogue(path, started);
  const text = '{"id":1000001,"name":"Kitten 1000000","categoryId":39,"status":"available"}';
  const args = ['--expose-gc', '--input-type=module', '-e', script, path];
  const { code, stdout, stderr } = await new StartedProcess(process.execPath, args, { cwd: root })
    .ended;
  assert.equal(code, 0, stderr);
  const { atStart, afterStart, key } = JSON.parse(stdout);
  const readme = readFileSync(join(root, 'README.md'), 'utf8').replace(/\s+/g, ' ');
  const [, petBytes, keyBytes] =
    /at most (\d+) bytes each beside their text.*? take at most (\d+) bytes each/.exec(readme) ??
    [];
  for (const bytes of [atStart, afterStart])
    assert.ok(bytes - text.length < Number(petBytes), `${stdout}: ${petBytes}`);
  assert.ok(key < Number(keyBytes), `${stdout}: ${keyBytes}`);
  // The promise is not more than twice the measured value.
  assert.ok(atStart - text.length > Number(petBytes) / 2 && key > Number(keyBytes) / 2, stdout);
});
