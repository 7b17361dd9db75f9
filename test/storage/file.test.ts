// Tests the file storage as a whole.
import assert from 'node:assert/strict';
import { appendFileSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, test } from 'node:test';
import { testInsertOnce, testRecords, testStorage } from '../../dist/conformance/index.js';
import { checkFile, fileStorage, salvageFile } from '../../dist/file/index.js';
import { fileImport, fileRecordNames, petStatuses, type Commit } from '../../dist/index.js';
import { notes, notesIn } from './records.js';
import {
  batches,
  committed,
  damaged,
  expectAdded,
  expectRefused,
  expectUnready,
  fileWith,
  newPath,
  rex,
  sizeOf,
  tornTails,
  unavailable,
  unusable,
  using,
} from './scene.js';

describe('fileStorage keeps', () => {
  const open = () => fileStorage(newPath());
  testStorage({ open });
  testInsertOnce({ open });
  testRecords({ open });
});

test('stores a draft as it was given, although its owner changes it meanwhile', async () => {
  const path = newPath();
  await using(path, async (storage) => {
    const changed = { ...rex };
    const adding = storage.insert(changed);
    Object.assign(changed, { name: 1, categoryId: 2n ** 70n, status: 'x"' });
    assert.deepEqual(await adding, { id: 1n, ...rex });
    let reads = 0;
    const changing = Object.defineProperty({ ...rex }, 'status', {
      get: () => (reads++ === 0 ? 'sold' : 'x"'),
    });
    assert.deepEqual(await storage.insert(changing), { id: 2n, ...rex, status: 'sold' });
  });
  await using(path, async (storage) => {
    assert.equal(storage.durable, true);
    assert.deepEqual(await storage.get(1n), { id: 1n, ...rex });
  });
});

test('calls onCommit watchers after each durable batch, and logs a watcher that throws', async () => {
  const since = performance.now();
  const logged: unknown[] = [];
  const storage = await fileStorage(newPath(), { log: (...line) => logged.push(line) });
  const commits: Commit[] = [];
  storage.onCommit?.(() => {
    throw new Error('watcher failed');
  });
  storage.onCommit?.((commit) => commits.push(commit));
  await Promise.all([storage.insert(rex), storage.insert(rex)]);
  await storage.insert(rex);
  assert.deepEqual(
    commits.map(({ count }) => count),
    [2, 1],
  );
  for (const { syncMilliseconds } of commits)
    assert.ok(syncMilliseconds > 0 && syncMilliseconds < performance.now() - since);
  assert.equal(logged.length, 2);
  assert.match(JSON.stringify(logged), /watcher failed/);
  await storage.close();
  await expectRefused(storage);
  assert.equal(commits.length, 2);
});

test('reports the content of a file by checkFile, also while a storage has opened it', async () => {
  const path = fileWith(`${batches(2, 3)}{"id":9,"name":"","categoryId":1}\n{"torn`);
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

test('keeps records of plugins in a file beside the pets, through a restart', async () => {
  const path = newPath();
  await using(path, async (storage) => {
    const kept = notesIn(storage);
    await Promise.all([kept.insert('a'), kept.insert('b')]);
  });
  const lines = '{"id":1,"text":"a"}\n{"id":2,"text":"b"}\n';
  assert.deepEqual(readFileSync(`${path}.notes`), committed([lines]));
  assert.equal(statSync(`${path}.notes`).mode & 0o777, 0o600);
  // As a person may write it: white space, another order, another member, no commit, no newline.
  appendFileSync(`${path}.notes`, '{ "more": 1, "text": "\\u0063", "id": 5 }');
  await using(path, async (storage) => {
    const kept = notesIn(storage);
    assert.deepEqual(await kept.list({ limit: 9 }), {
      texts: ['{"id":1,"text":"a"}', '{"id":2,"text":"b"}', '{"id":5,"text":"c"}'],
    });
    assert.equal((await kept.insert('d')).id, 6n);
  });
});

test('lists the names of records beside a file, although blank lines precede the first line', async () => {
  const path = fileWith('');
  const names = ['a', 'notes', 'b', 'orders', 'c'];
  for (const name of names)
    writeFileSync(`${path}.${name}`, `${'\n'.repeat(2 ** 20)}{"id":1,"text":"a"}\n`);
  assert.deepEqual(await fileRecordNames(path), names.sort());
});

test('cuts a torn tail off a records file, and refuses only the records if their file is damaged', async () => {
  const path = newPath();
  const note = (text: string) =>
    using(path, async (storage) => (await notesIn(storage).insert(text)).id);
  assert.equal(await note('a'), 1n);
  assert.equal(await note('b'), 2n);
  appendFileSync(`${path}.notes`, '{"id":3,"te');
  assert.equal(await note('c'), 3n);
  assert.equal(tornTails(`${path}.notes`).length, 1);
  const sound = readFileSync(`${path}.notes`, 'utf8');
  writeFileSync(`${path}.notes`, sound.replace('"a"', '"x"'));
  await using(path, async (storage) => {
    await storage.insert(rex);
    const kept = notesIn(storage);
    await assert.rejects(kept.opened, {
      ...damaged,
      message:
        /pets\.jsonl\.notes line 2, byte 20: .*checksum.*; nothing was changed: restore this file from a backup$/,
    });
    await assert.rejects(kept.insert('d'), unavailable);
    await expectUnready(storage);
    await expectAdded(storage, 2n);
  });
  assert.equal(readFileSync(`${path}.notes`, 'utf8'), sound.replace('"a"', '"x"'));
});

test('stays ready if the name of records is refused or taken', async () => {
  await using(newPath(), async (storage) => {
    for (const name of ['Bad Name', 'notes', 'notes'])
      await storage.records?.(name, notes).opened.catch(() => undefined);
    await storage.ready?.();
  });
});

test('F6 refuses records, but not pets, once another program has changed the records file', async () => {
  const path = newPath();
  const storage = await fileStorage(path);
  const kept = notesIn(storage);
  await kept.insert('a');
  await storage.ready?.();
  appendFileSync(`${path}.notes`, 'x');
  await expectUnready(storage);
  await assert.rejects(kept.insert('b'), unavailable);
  assert.deepEqual(await kept.list({ limit: 9 }), { texts: ['{"id":1,"text":"a"}'] });
  await expectAdded(storage, 1n);
  await storage.close();
});

const source = 'ab'.repeat(32);
const drafts = Array.from({ length: 400 }, (_, index) => ({
  name: `${index + 1}`.padEnd(40, 'x'),
  categoryId: 1n,
}));

/** Makes a file with two imported batches of 400 pets; `end` is the offset after the first. */
async function imported(): Promise<{
  readonly path: string;
  readonly bytes: Buffer;
  readonly end: number;
}> {
  const path = newPath();
  const target = await fileImport(path, source);
  assert.deepEqual([target.start, target.isEmpty], [0, true]);
  assert.equal(await target.add(drafts), 400);
  const end = readFileSync(path).length;
  assert.equal(await target.add(drafts), 800);
  await target.close();
  return { path, bytes: readFileSync(path), end };
}

/** Expects that a storage has `size` pets, and that the import goes on at `place`. */
async function assertReopened(path: string, size: number, place: number, what?: string) {
  assert.equal(await sizeOf(path), size, what);
  const target = await fileImport(path, source);
  await target.close();
  assert.equal(target.start, place, what);
}

describe('an import into a file', () => {
  test('F11 an import writes the same lines as a server, and keeps a place for each source', async () => {
    const { path, bytes } = await imported();
    assert.match(
      bytes.toString(),
      new RegExp(`^{"import":{"source":"${source}","place":400}}\n{"id":1,"name":"1x`),
    );
    const { verdict, animals, commits } = await checkFile(path);
    assert.deepEqual([verdict, animals, commits], ['sound', 800, 2]);
    await assertReopened(path, 800, 800);
    const other = await fileImport(path, 'cd'.repeat(32));
    assert.deepEqual([other.start, other.isEmpty], [0, false]);
    await other.add([{ name: 'c', categoryId: 3n }]);
    await other.close();
    await assertReopened(path, 801, 800);
  });

  test('F12 keeps each batch whole or not at all, wherever the file is cut', async () => {
    const { path, bytes, end } = await imported();
    const aroundEnd = [-61, -1, 0, 1, 30, 9_000].map((offset) => end + offset);
    const atLast = [-60, -1, 0].map((offset) => bytes.length + offset);
    for (const cut of [1, 2, 5, 30, 100, 107, 108, 109, 5_000, ...aroundEnd, ...atLast]) {
      writeFileSync(path, bytes.subarray(0, cut));
      // F13: a commit line proves its batch without its newline.
      const whole = cut >= bytes.length - 1 ? 800 : cut >= end - 1 ? 400 : 0;
      await assertReopened(path, whole, whole, `cut at ${cut}`);
    }
    assert.ok(readdirSync(dirname(path)).length > 10, 'torn tails are kept');
  });

  test('F12 drops a whole batch if one of its blocks was not written', async () => {
    const { path, bytes, end } = await imported();
    const first = Math.ceil(end / 4_096) * 4_096;
    for (const from of [first, first + 8_192]) {
      writeFileSync(path, Buffer.from(bytes).fill(0, from, from + 4_096));
      await assertReopened(path, 400, 400, `zeros from ${from}`);
    }
  });

  test('F3 refuses a damaged imported batch, and cuts nothing off', async () => {
    const { path, bytes, end } = await imported();
    /** Returns the file with `text` written at an offset. */
    const other = (at: number, text: string) => {
      const changed = Buffer.from(bytes);
      changed.write(text, at);
      return changed;
    };
    for (const [what, file] of [
      ['a byte', other(500, '\x01')],
      ['a letter', other(end + 200, 'yy')],
      ['an import in the middle', Buffer.concat([bytes.subarray(109, end), bytes])],
    ] as const) {
      writeFileSync(path, file);
      await assert.rejects(fileStorage(path), damaged, what);
      assert.deepEqual(readFileSync(path), file, what);
    }
    const { animals } = await salvageFile(path, `${path}.saved`);
    assert.ok(animals >= 400, `${animals}`);
  });
});
