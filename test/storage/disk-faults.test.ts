// A disk that is full, that fails, that hangs; and other programs at our file (F5, F6, F10).
import assert from 'node:assert/strict';
import { appendFileSync, copyFileSync, readFileSync, renameSync, truncateSync } from 'node:fs';
import { test, type TestContext } from 'node:test';
import { checkFile, fileStorage } from '../../dist/file/index.js';
import type { Log, PetstoreError, PetStorage } from '../../dist/index.js';
import { nodeDisk, openJournal, type Disk } from '../../dist/journal/index.js';
import { atEnd } from '../support/at-end.js';
import {
  expectAdded,
  expectRefused,
  expectUnready,
  hang,
  isReady,
  newPath,
  rex,
  sizeOf,
  unavailable,
} from './scene.js';
import { diskWith, systemError } from '../support/disk.js';
import { gate, patienceMs, until } from '../support/waiting.js';
import { mockTimeouts } from '../support/timers.js';
import { casesOf, playCase } from '../torture/failing-calls.js';
import { Share } from '../torture/row.js';

/** A storage with one animal, on a disk that may change, and of each line of its log the level and the file. */
async function scene(t: TestContext) {
  const path = newPath();
  const disk = diskWith({});
  const said: string[] = [];
  const log: Log = (level, _message, fields) => said.push(`${level} ${fields?.['file']}`);
  const storage = await fileStorage(path, { disk, log });
  atEnd(t, () => storage.close());
  await storage.insert(rex);
  return { path, disk, storage, said };
}

/** Whether an add was refused because of the disk, whose own error is kept for whoever looks. */
const isDisks = ({ code, cause }: PetstoreError): boolean =>
  code === 'unavailable' && cause instanceof Error;

/** Adding is refused, and so it says; what was there is read. */
async function assertRefusing(storage: PetStorage): Promise<void> {
  await expectRefused(storage);
  await expectUnready(storage);
  assert.equal((await storage.list({ limit: 5 })).length, 1);
}

const fail = (code: string) => () => Promise.reject(systemError(code));

/** Takes 20 bytes of a write. */
const part: Disk['write'] = (descriptor, bytes) =>
  nodeDisk.write(descriptor, bytes.subarray(0, 20));

for (const code of ['ENOSPC', 'EDQUOT', 'EFBIG']) {
  test(`F5 ${code}: undone to the last commit, reads go on, adding is tried again`, async (t) => {
    const { path, disk, storage, said } = await scene(t);
    const before = readFileSync(path);
    // As a real disk: a part goes, then none.
    disk.write = (descriptor, bytes) =>
      bytes.length > 20 ? part(descriptor, bytes) : fail(code)();
    await assert.rejects(storage.insert(rex), isDisks);
    for (let attempt = 0; attempt < 2; attempt++) await assertRefusing(storage);
    assert.deepEqual(readFileSync(path), before);
    disk.write = nodeDisk.write;
    await expectAdded(storage, 2n);
    await storage.ready?.();
    await storage.close();
    const changes = [`warn ${path}`, `info ${path}`];
    assert.deepEqual(said, changes, 'each change of state is said once');
    assert.equal((await checkFile(path)).animals, 2);
  });
}

test('F5 when there is room again the storage is ready again by itself', async (t) => {
  const path = newPath();
  const ready = gate();
  const disk = diskWith({ write: fail('ENOSPC') });
  const storage = await fileStorage(path, {
    disk,
    log: (level) => level === 'info' && ready.open(),
  });
  keepAlive(t);
  atEnd(t, () => storage.close());
  await expectRefused(storage);
  disk.write = nodeDisk.write;
  await ready.opened;
  await storage.ready?.();
  assert.equal(readFileSync(path, 'utf8'), '{"commit":{"from":0,"crc32":"00000000"}}\n');
  await expectAdded(storage, 1n);
  assert.equal((await checkFile(path)).animals, 1);
});

/** Keeps the process alive for a timer of the storage, which does not. */
function keepAlive(t: TestContext): void {
  const alive = setTimeout(() => undefined, patienceMs);
  atEnd(t, () => clearTimeout(alive));
}

/** A write fails as a full disk does, and then nobody knows whether it took anything. */
function fullAndUnseen(): Partial<Disk> {
  let { factsOf } = nodeDisk;
  return {
    write: () => {
      factsOf = fail('EIO');
      return fail('ENOSPC')();
    },
    factsOf: (descriptor) => factsOf(descriptor),
  };
}

const faults: Readonly<Record<string, Partial<Disk>>> = {
  'a failed fdatasync': { datasync: fail('EIO') },
  'a full disk found by fdatasync': { datasync: fail('ENOSPC') },
  'a quota found by fdatasync': { datasync: fail('EDQUOT') },
  'a full disk found by fdatasync, a part being written': { write: part, datasync: fail('ENOSPC') },
  'a full disk whose file cannot be looked at any more': fullAndUnseen(),
  'a full disk whose undo fails': { write: fail('ENOSPC'), truncate: fail('EIO') },
  'a failed write': { write: fail('EIO') },
  'a write that takes nothing': { write: async () => 0 },
  'a read-only disk': { write: fail('EROFS') },
  'a path that cannot be looked at': { factsAt: fail('EIO') },
};
for (const [what, fault] of Object.entries(faults)) {
  test(`F6 after ${what} nothing is written or synced until a restart, and reads go on`, async (t) => {
    const { path, disk, storage, said } = await scene(t);
    Object.assign(disk, fault);
    await assert.rejects(storage.insert(rex), isDisks);
    const calls: string[] = [];
    disk.write = async (_descriptor, bytes) => (calls.push('write'), bytes.length);
    disk.datasync = async () => void calls.push('datasync');
    disk.truncate = async () => void calls.push('truncate');
    await assertRefusing(storage);
    await storage.close();
    assert.deepEqual(calls, []);
    assert.deepEqual(said, [`error ${path}`]);
    // F10: what was refused with its write begun may be there, what was acknowledged is.
    assert.ok((await sizeOf(path)) >= 1);
  });
}

const intruders: Readonly<Record<string, (path: string) => void>> = {
  cut: (path) => truncateSync(path, 10),
  'appended to': (path) => appendFileSync(path, '\n'),
  'moved away': (path) => renameSync(path, `${path}.moved`),
  'replaced by a copy': (path) => {
    copyFileSync(path, `${path}.copy`);
    renameSync(`${path}.copy`, path);
  },
};
for (const [what, intrude] of Object.entries(intruders)) {
  for (const isAsked of [true, false]) {
    const finder = isAsked
      ? 'whoever asks whether it is ready'
      : 'the next add, and not written to';
    test(`F6 a file ${what} by another program is found by ${finder}`, async (t) => {
      const { path, storage } = await scene(t);
      await storage.ready?.();
      intrude(path);
      if (isAsked) await expectUnready(storage);
      await assertRefusing(storage);
    });
  }
}

test('F6 what another program writes while a batch goes out is found before anyone is promised that batch', async (t) => {
  const { path, disk, storage } = await scene(t);
  const append = disk.append;
  disk.append = (descriptor, bytes) => {
    appendFileSync(path, 'x\n');
    return append(descriptor, bytes);
  };
  await assertRefusing(storage);
});

test('F6 what a failed fdatasync left in memory alone is taken back, or the next start would serve it', async (t) => {
  const { path, disk, storage } = await scene(t);
  const before = readFileSync(path);
  disk.datasync = fail('EIO');
  await expectRefused(storage);
  assert.deepEqual(readFileSync(path), before);
});

test('every call of the disk failing at every moment loses nothing acknowledged and hangs nothing (R4)', async () => {
  const share = new Share(0, 1);
  for (const [what, ...each] of await casesOf(share))
    if (/^open with a torn tail, .* (EIO|ENOSPC once|writes of 7)/.test(what))
      await playCase(share, ...each);
});

/** The same, and its disk hangs. */
async function hung(t: TestContext) {
  const { disk, storage } = await scene(t);
  return { storage, ...hang(disk) };
}

test('a disk that hangs stops neither readers nor whoever asks whether it is ready', async (t) => {
  const { storage, syncing, thaw } = await hung(t);
  const added = expectAdded(storage, 2n);
  await syncing;
  assert.equal((await storage.get(1n))?.id, 1n);
  await storage.ready?.();
  thaw();
  await added;
});

test('a disk that hangs for 8 s is one that is not ready, until it goes on', async (t) => {
  const { storage, syncing, thaw } = await hung(t);
  const timeouts = mockTimeouts(t);
  const refused = expectRefused(storage);
  await syncing;
  timeouts.tick(8000);
  await refused;
  await expectUnready(storage);
  timeouts.reset();
  thaw();
  await until('a storage that is ready', () => isReady(storage));
});

test('closing does not wait for a disk that hangs for longer than 9 s, and whoever waits to add is told', async (t) => {
  const { storage, syncing, thaw } = await hung(t);
  const timeouts = mockTimeouts(t);
  const refused = expectRefused(storage);
  await syncing;
  const closing = storage.close();
  timeouts.tick(8000);
  await refused;
  timeouts.reset();
  // The last second is a real one; the hung file function would keep the process alive.
  keepAlive(t);
  await closing;
  thaw();
});

test('close ends once the disk has closed the file', async (t) => {
  const { disk, storage } = await scene(t);
  const [asked, closed] = [gate(), gate()];
  disk.close = (descriptor) => (asked.open(), closed.opened.then(() => nodeDisk.close(descriptor)));
  let isOver = false;
  const closing = storage.close().then(() => (isOver = true));
  await asked.opened;
  await new Promise(setImmediate);
  assert.equal(isOver, false);
  closed.open();
  await closing;
});

test('whoever closes a journal again is answered as the first one was, be it by a failure', async () => {
  const disk = diskWith({});
  const journal = await openJournal(newPath(), { disk }, () => undefined);
  let closes = 0;
  disk.close = async (descriptor) => {
    closes++;
    await nodeDisk.close(descriptor);
    throw systemError('EIO');
  };
  const failure = { code: 'EIO' };
  const first = journal.close();
  await Promise.all([assert.rejects(first, failure), assert.rejects(journal.close(), failure)]);
  await assert.rejects(journal.close(), failure);
  await assert.rejects(journal.append(['{}']), unavailable);
  assert.equal(closes, 1);
});
