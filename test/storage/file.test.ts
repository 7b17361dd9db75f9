// The storage that lasts, as a whole.
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

test('a draft that its owner changes while it waits is kept as it was given, and the file stays sound', async () => {
  const path = newPath();
  await using(path, async (storage) => {
    const changed = { ...rex };
    const adding = storage.insert(changed);
    Object.assign(changed, { name: 1, categoryId: 2n ** 70n, status: 'x"' });
    assert.deepEqual(await adding, { id: 1n, ...rex });
    let asked = 0;
    const twoFaced = Object.defineProperty({ ...rex }, 'status', {
      get: () => (asked++ === 0 ? 'sold' : 'x"'),
    });
    assert.deepEqual(await storage.insert(twoFaced), { id: 2n, ...rex, status: 'sold' });
  });
  await using(path, async (storage) => {
    assert.equal(storage.durable, true);
    assert.deepEqual(await storage.get(1n), { id: 1n, ...rex });
  });
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
  await Promise.all([storage.insert(rex), storage.insert(rex)]);
  await storage.insert(rex);
  assert.deepEqual(
    commits.map(({ count }) => count),
    [2, 1],
  );
  for (const { syncMilliseconds } of commits)
    assert.ok(syncMilliseconds > 0 && syncMilliseconds < performance.now() - since);
  assert.equal(logged.length, 2);
  assert.match(JSON.stringify(logged), /not my day/);
  await storage.close();
  await expectRefused(storage);
  assert.equal(commits.length, 2);
});

test('checkFile says what a file holds, also while a server has it', async () => {
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

test('records beside the animals have a file of the same form, and outlast a restart; ids go on', async () => {
  const path = newPath();
  await using(path, async (storage) => {
    const kept = notesIn(storage);
    await Promise.all([kept.insert('a'), kept.insert('b')]);
  });
  const lines = '{"id":1,"text":"a"}\n{"id":2,"text":"b"}\n';
  assert.deepEqual(readFileSync(`${path}.notes`), committed([lines]));
  assert.equal(statSync(`${path}.notes`).mode & 0o777, 0o600);
  // As a person may leave it: white space, another order, members that nobody asked for, no commit,
  // no newline.
  appendFileSync(`${path}.notes`, '{ "more": 1, "text": "\\u0063", "id": 5 }');
  await using(path, async (storage) => {
    const kept = notesIn(storage);
    assert.deepEqual(await kept.list({ limit: 9 }), {
      texts: ['{"id":1,"text":"a"}', '{"id":2,"text":"b"}', '{"id":5,"text":"c"}'],
    });
    assert.equal((await kept.insert('d')).id, 6n);
  });
});

test('the names of records beside a file are told in their order, however far their first line is', async () => {
  const path = fileWith('');
  const names = ['a', 'notes', 'b', 'orders', 'c'];
  for (const name of names)
    writeFileSync(`${path}.${name}`, `${'\n'.repeat(2 ** 20)}{"id":1,"text":"a"}\n`);
  assert.deepEqual(await fileRecordNames(path), names.sort());
});

test('records: a torn tail is set aside, damage is refused with file, line and byte, and the animals stay', async () => {
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

test('records under a name that is refused, or taken, leave the storage ready', async () => {
  await using(newPath(), async (storage) => {
    for (const name of ['Bad Name', 'notes', 'notes'])
      await storage.records?.(name, notes).opened.catch(() => undefined);
    await storage.ready?.();
  });
});

test('records: what another program does to their file ends readiness and adding there, not adding animals', async () => {
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

/** A file with two imported batches of 400 animals, and where the first ends. */
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

/** Asserts how many animals a server would have, and that the import goes on behind those of it. */
async function assertReopened(path: string, size: number, place: number, what?: string) {
  assert.equal(await sizeOf(path), size, what);
  const target = await fileImport(path, source);
  await target.close();
  assert.equal(target.start, place, what);
}

describe('an import into a file', () => {
  test('F11 it is as a server left it: same lines, sound, and another source has a place of its own', async () => {
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

  test('F12 cut at any byte, each batch is there whole or not at all, and the place says which', async () => {
    const { path, bytes, end } = await imported();
    const aroundEnd = [-61, -1, 0, 1, 30, 9_000].map((offset) => end + offset);
    const atLast = [-60, -1, 0].map((offset) => bytes.length + offset);
    for (const cut of [1, 2, 5, 30, 100, 107, 108, 109, 5_000, ...aroundEnd, ...atLast]) {
      writeFileSync(path, bytes.subarray(0, cut));
      // F13: a commit line proves its batch without its newline.
      const whole = cut >= bytes.length - 1 ? 800 : cut >= end - 1 ? 400 : 0;
      await assertReopened(path, whole, whole, `cut at ${cut}`);
    }
    assert.ok(readdirSync(dirname(path)).length > 10, 'what was cut off is kept aside');
  });

  test('F12 a block that was never written takes all of its batch along', async () => {
    const { path, bytes, end } = await imported();
    const first = Math.ceil(end / 4_096) * 4_096;
    for (const from of [first, first + 8_192]) {
      writeFileSync(path, Buffer.from(bytes).fill(0, from, from + 4_096));
      await assertReopened(path, 400, 400, `zeros from ${from}`);
    }
  });

  test('F3 damage in an imported batch is damage: nothing of a batch that was acknowledged is cut off', async () => {
    const { path, bytes, end } = await imported();
    /** The file with other bytes in the place of as many. */
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
