/** Tests idempotency keys in a file: restarts, faults of the disk, torn tails and damage. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test, type TestContext } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { checkFile, fileStorage, salvageFile } from '../../dist/file/index.js';
import { nodeDisk, type Disk } from '../../dist/journal/index.js';
import { jsonStoreOf } from '../../dist/engine/index.js';
import {
  addOnce,
  committed,
  damaged,
  dayMs,
  expectAdded,
  expectAddedOnce,
  fileWith,
  hang,
  inFlight,
  insertOnce,
  mismatch,
  namesOf,
  newPath,
  onceOf,
  petLine,
  recordLine,
  rex,
  tom,
  unavailable,
  usedAt,
  using,
} from './scene.js';
import { diskWith, systemError } from '../support/disk.js';
import { mockTimeouts } from '../support/timers.js';
import type { PetStorage } from '../../dist/index.js';

test('writes an idempotency record directly before its pet, in the same batch', async () => {
  const path = newPath();
  await using(path, (storage) =>
    Promise.all([
      storage.insert(tom),
      addOnce(storage, 'a', tom),
      insertOnce(storage, tom, onceOf('b', 'other', 0)),
    ]),
  );
  const line = (id: number) => `{"id":${id},"name":"Tom","categoryId":7}\n`;
  const records = [onceOf('a', 'Tom'), onceOf('b', 'other', 0)].map(recordLine);
  const lines = [line(1), records[0], line(2), records[1], line(3)].join('');
  assert.deepEqual(readFileSync(path), committed([lines]));
});

test('returns the first pet of a key for 24 hours, also after a restart with another clock', async () => {
  const path = newPath();
  await using(path, async (storage) => {
    await addOnce(storage, 'a');
    await addOnce(storage, 'b', rex, usedAt + 1);
  });
  const before = readFileSync(path);
  for (const clock of [() => 0, () => usedAt + dayMs, () => usedAt + 365 * dayMs]) {
    await using(
      path,
      async (storage) => {
        await expectAddedOnce(storage, 1n, 'a', rex, usedAt + dayMs - 1);
        await assert.rejects(addOnce(storage, 'a', tom, usedAt + dayMs - 1), mismatch);
        await expectAddedOnce(storage, 2n, 'b', rex, usedAt + dayMs);
      },
      { clock },
    );
  }
  assert.deepEqual(readFileSync(path), before);
  // If a key has two records, the later record counts.
  for (let start = 0; start < 2; start++)
    await using(path, async (storage) => {
      await expectAddedOnce(storage, 3n, 'a', rex, usedAt + dayMs);
      await expectAddedOnce(storage, 2n, 'b', rex, usedAt + dayMs);
      assert.equal(storage.size, 3);
    });
});

test('reads an idempotency record before a pet that was edited by hand', async () => {
  const path = fileWith(
    `${recordLine(onceOf('a'))}{ "name": "T\\u006fm", "id": 7, "categoryId": 7.0 }`,
  );
  await using(path, async (storage) => {
    await expectAddedOnce(storage, 7n, 'a');
    assert.deepEqual(await storage.get(7n), { id: 7n, ...tom });
    await expectAdded(storage, 8n);
  });
  assert.equal((await checkFile(path)).idempotencyKeys, 1);
});

test('F3 refuses an idempotency record in another form or not directly before a pet', async () => {
  const record = recordLine(onceOf('a'));
  const emptyCommit = String(committed([record])).slice(record.length);
  const first = petLine(1);
  const upper = (digits: string): string => digits.toUpperCase();
  const alone = /line 2, byte \d+: an invalid line after/;
  const cases: readonly (readonly [what: string, text: string, message?: RegExp])[] = [
    ['at the end', first + record, /line 3, byte \d+: an invalid line after an idempotency record/],
    ['alone', record, alone],
    ['an empty line between', `${record}\n${first}`, /line 2, byte \d+: no line after/],
    ['a second record', record + record + first, alone],
    ['a commit between', record + emptyCommit + first, alone],
    ['white space', record.replace(':', ': ') + first],
    ['a space after it', record.replace('\n', ' \n') + first],
    ['uppercase digits of the key', record.replace(/(?<="key":")\w+/, upper) + first],
    ['uppercase digits of the body', record.replace(/(?<="body":")\w+/, upper) + first],
    ['63 digits', record.replace(/"key":"./, '"key":"') + first],
    ['65 digits', record.replace('"key":"', '"key":"0') + first],
    ['another order', record.replace(/("key":"\w+"),("body":"\w+")/, '$2,$1') + first],
    ...[`${usedAt},"x":1`, `0${usedAt}`, `-${usedAt}`, '1.5', '9'.repeat(16)].map(
      (time) => [time, record.replace(`${usedAt}`, time) + first] as const,
    ),
  ];
  for (const [what, text, message = /line 1/] of cases) {
    const file = committed([text]);
    const path = fileWith(file);
    await assert.rejects(fileStorage(path), { ...damaged, message }, what);
    assert.deepEqual(readFileSync(path), file, what);
  }
});

test('checks and salvages idempotency records, and drops records without a sound pet', async () => {
  const lines = ['a', '', 'b', 'c', '', 'd'].map(
    (key, index) => (key && recordLine(onceOf(key))) + petLine(index + 1, key),
  );
  const [one = '', two = '', three = ''] = [0, 2, 4].map((at) => lines.slice(at, at + 2).join(''));
  const file = String(committed([one, two, three]));
  const { verdict, animals, idempotencyKeys } = await checkFile(fileWith(file));
  assert.deepEqual([verdict, animals, idempotencyKeys], ['sound', 6, 4]);
  const saved = async (text: string): Promise<readonly [string, readonly number[]]> => {
    const out = `${fileWith('')}.saved`;
    const { leftOut } = await salvageFile(fileWith(text), out);
    assert.equal((await checkFile(out)).verdict, 'sound');
    return [readFileSync(out, 'utf8'), leftOut.map(({ line }) => line)];
  };
  assert.deepEqual(await saved(file), [file, []], 'saves a sound file unchanged');
  const [rest] = await saved(file.replace('"name":"c"', '"name":"x"'));
  assert.equal(rest, String(committed([one, three])));
  const alone = recordLine(onceOf('z'));
  for (const [text, lines] of [
    [file + alone, [14]],
    [file + alone + alone + petLine(7, 'z').slice(0, 9), [14, 15, 16]],
    [`${file}${alone}\n`, [14]],
    [`${file}${alone.slice(0, 50)}`, [14]],
    [String(committed([alone], Buffer.from(file))), [14]],
  ] as const)
    assert.deepEqual(await saved(text), [file, lines]);
  const second = petLine(2);
  const [orphaned] = await saved(String(committed([lines[0] ?? '', alone, second])));
  const both = String(committed([lines[0] ?? '', second]));
  assert.equal(orphaned, both, 'no later pet gets the record');
  const [uncommitted] = await saved(`${file}${alone}${petLine(7, 'z')}`);
  assert.equal((await checkFile(fileWith(uncommitted))).idempotencyKeys, 5);
});

for (const [what, fault] of Object.entries<Partial<Disk>>({
  'a full disk': { write: () => Promise.reject(systemError('ENOSPC')) },
  'a failed write': { write: () => Promise.reject(systemError('EIO')) },
  'a failed fdatasync': { datasync: () => Promise.reject(systemError('EIO')) },
})) {
  test(`accepts a key again after ${what}, and keeps earlier keys`, async () => {
    const path = newPath();
    const disk = diskWith({});
    await using(
      path,
      async (storage) => {
        await addOnce(storage, 'before');
        Object.assign(disk, fault);
        for (let attempt = 0; attempt < 3; attempt++)
          await assert.rejects(addOnce(storage, 'a'), unavailable, 'not in flight');
        await expectAddedOnce(storage, 1n, 'before');
        Object.assign(disk, nodeDisk);
        if (what === 'a full disk') await expectAddedOnce(storage, 2n, 'a');
      },
      { disk },
    );
    await using(path, async (storage) => {
      await expectAddedOnce(storage, 2n, 'a');
      assert.equal(storage.size, 2);
    });
  });
}

test('F10 returns the pet of a refused insert to a retry after the restart', async () => {
  const path = newPath();
  const disk = diskWith({});
  await using(
    path,
    async (storage) => {
      disk.datasync = () => Promise.reject(systemError('EIO'));
      disk.truncate = () => Promise.reject(systemError('EIO'));
      await assert.rejects(addOnce(storage, 'a'), unavailable);
      assert.equal(storage.size, 0);
    },
    { disk },
  );
  await using(path, async (storage) => {
    assert.deepEqual(await namesOf(storage), ['Rex']);
    await expectAddedOnce(storage, 1n, 'a');
    assert.equal(storage.size, 1);
  });
});

/** Opens a storage that hangs in the commit of key `a` while key `b` waits; both were refused. */
async function hung(t: TestContext) {
  const path = newPath();
  const disk = diskWith({});
  const storage = await fileStorage(path, { disk });
  atEnd(t, () => storage.close());
  const { syncing, thaw } = hang(disk);
  const timeouts = mockTimeouts(t);
  const refused = [assert.rejects(addOnce(storage, 'a'), unavailable)];
  await syncing;
  refused.push(assert.rejects(addOnce(storage, 'b'), unavailable));
  timeouts.tick(8000);
  await Promise.all(refused);
  timeouts.reset();
  const end = async (error?: Error): Promise<void> => {
    thaw(error);
    // Some ticks later the commit ends. Then a new key is accepted, or the storage is broken.
    while (
      (await addOnce(storage, 'probe').catch(({ message }) => message)) ===
      'The disk does not respond.'
    )
      await new Promise(setImmediate);
  };
  return { path, storage, end };
}

test('keeps a key in flight while its commit hangs, and accepts a key that only waited', async (t) => {
  const { storage, end } = await hung(t);
  for (const draft of [rex, tom]) await assert.rejects(addOnce(storage, 'a', draft), inFlight);
  await assert.rejects(addOnce(storage, 'b'), unavailable);
  await end();
  await expectAddedOnce(storage, 1n, 'a');
  await expectAddedOnce(storage, 3n, 'b', tom);
  assert.equal(storage.size, 3);
});

test('accepts a key again after a commit that hung and then failed', async (t) => {
  const { path, storage, end } = await hung(t);
  await assert.rejects(addOnce(storage, 'a'), inFlight);
  await end(systemError('EIO'));
  await assert.rejects(addOnce(storage, 'a'), unavailable);
  await storage.close();
  await using(path, async (again) => await expectAddedOnce(again, 1n, 'a'));
});

test('refuses idempotency keys for a storage without insertOnce', async () => {
  const { insert, insertOnce, get, list, texts, close } = await fileStorage(newPath());
  const bare: PetStorage = { durable: false, insert, get, list, close };
  const { insertOnce: _none, ...ofTexts } = texts ?? assert.fail();
  const refused = { code: 'invalid_parameter', message: /keeps no idempotency keys/ };
  for (const one of [bare, { ...bare, texts: ofTexts }].map(jsonStoreOf)) {
    await assert.rejects(async () => one.insertOnce(rex, onceOf('a')), refused);
    assert.equal((await one.insert(rex)).json.includes('Rex'), true);
    assert.notEqual(await one.get(1n), undefined);
    assert.notDeepEqual(await one.list({ limit: 1 }), { texts: [] });
  }
  const once = jsonStoreOf({ ...bare, ...(insertOnce && { insertOnce }) });
  for (let count = 0; count < 2; count++)
    assert.deepEqual(await once.insertOnce(tom, onceOf('a')), {
      id: 3n,
      json: '{"id":3,"name":"Tom","categoryId":7}',
    });
  await close();
});
