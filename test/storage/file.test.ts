// The storage that lasts, as a whole.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, test } from 'node:test';
import { testInsertOnce, testRecords, testStorage } from '../../dist/conformance/index.js';
import { checkFile, fileStorage } from '../../dist/file/index.js';
import { batches, draft, newPath, unavailable, unusable, using } from './scene.js';
import { petStatuses, type Commit } from '../../dist/index.js';

describe('fileStorage keeps', () => {
  const open = () => fileStorage(newPath());
  testStorage({ open });
  testInsertOnce({ open });
  testRecords({ open });
});

test('fileStorage is durable: what was inserted is there when it is opened again, and C31 ids go on', async () => {
  const path = newPath();
  await using(path, (storage) =>
    Promise.all([
      storage.insert(draft),
      storage.insert({ name: 'Tüm\n', categoryId: -(2n ** 63n) }),
    ]),
  );
  const before = readFileSync(path);
  await using(path, async (storage) => {
    assert.equal(storage.durable, true);
    assert.equal(storage.size, 2);
    assert.deepEqual(readFileSync(path), before, 'a sound file is not written to');
    assert.deepEqual(await storage.get(2n), { id: 2n, name: 'Tüm\n', categoryId: -(2n ** 63n) });
    assert.equal((await storage.insert(draft)).id, 3n);
  });
});

test('a draft that its owner changes while it waits is kept as it was given, and the file stays sound', async () => {
  const path = newPath();
  await using(path, async (storage) => {
    const changed = { ...draft };
    const adding = storage.insert(changed);
    Object.assign(changed, { name: 1, categoryId: 2n ** 70n, status: 'x"' });
    assert.deepEqual(await adding, { id: 1n, ...draft });
    let asked = 0;
    const twoFaced = Object.defineProperty({ ...draft }, 'status', {
      get: () => (asked++ === 0 ? 'sold' : 'x"'),
    });
    assert.deepEqual(await storage.insert(twoFaced), { id: 2n, ...draft, status: 'sold' });
  });
  await using(path, async (storage) =>
    assert.deepEqual(await storage.get(1n), { id: 1n, ...draft }),
  );
});

test('onCommit tells of each batch that lasts; a watcher that throws is logged and harms nobody', async () => {
  const since = performance.now();
  const logged: unknown[] = [];
  const storage = await fileStorage(newPath(), { log: (...line) => logged.push(line) });
  const commits: Commit[] = [];
  storage.onCommit?.(() => {
    throw new Error('not my day');
  });
  storage.onCommit?.((commit) => commits.push(commit));
  await Promise.all([storage.insert(draft), storage.insert(draft)]);
  await storage.insert(draft);
  assert.deepEqual(
    commits.map(({ count }) => count),
    [2, 1],
  );
  for (const { syncMilliseconds } of commits)
    assert.ok(syncMilliseconds > 0 && syncMilliseconds < performance.now() - since);
  assert.equal(logged.length, 2);
  assert.match(JSON.stringify(logged), /not my day/);
  await storage.close();
  await assert.rejects(storage.insert(draft), unavailable);
  assert.equal(commits.length, 2);
});

test('checkFile says what a file holds, also while a server has it', async () => {
  const path = newPath();
  mkdirSync(dirname(path));
  writeFileSync(
    path,
    Buffer.concat([batches(2, 3), Buffer.from('{"id":9,"name":"","categoryId":1}\n{"torn')]),
  );
  const torn = await checkFile(path);
  const committedBytes = batches(2, 3).length;
  assert.deepEqual(torn, {
    verdict: 'torn',
    problem: {
      line: 9,
      byte: committedBytes + 34,
      what: 'Not valid JSON: the text ends too early, at byte 6',
    },
    animals: 6,
    byStatus: {
      ...Object.fromEntries(petStatuses.map((status) => [status, 0])),
      available: 5,
      none: 1,
    },
    idempotencyKeys: 0,
    commits: 2,
    bytes: committedBytes + 40,
    committedBytes,
    tornBytes: 6,
  });
  const storage = await fileStorage(path);
  assert.equal((await checkFile(path)).verdict, 'sound');
  await storage.close();
  await assert.rejects(checkFile(dirname(path)), unusable);
  await assert.rejects(checkFile(`${path}.none`), unusable);
});
