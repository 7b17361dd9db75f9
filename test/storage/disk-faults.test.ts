// Tests a disk that is full, fails or hangs, and other programs that change the file (F5, F6, F10).
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
import { casesOf, runCase } from '../torture/failing-calls.js';
import { Share } from '../torture/row.js';

/** Opens a storage with one pet on a disk that a test can change. `said` is its log. */
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

/** True if an insert was refused with the disk's error as its cause. */
const isDiskFailure = ({ code, cause }: PetstoreError): boolean =>
  code === 'unavailable' && cause instanceof Error;

/** Expects that a storage refuses an insert, is not ready, and still lists its pet. */
async function assertRefusing(storage: PetStorage): Promise<void> {
  await expectRefused(storage);
  await expectUnready(storage);
  assert.equal((await storage.list({ limit: 5 })).length, 1);
}

const fail = (code: string) => () => Promise.reject(systemError(code));

/** Writes only the first 20 bytes. */
const part: Disk['write'] = (descriptor, bytes) =>
  nodeDisk.write(descriptor, bytes.subarray(0, 20));

for (const code of ['ENOSPC', 'EDQUOT', 'EFBIG']) {
  test(`F5 undoes a batch on ${code}, serves reads, and tries the next insert again`, async (t) => {
    const { path, disk, storage, said } = await scene(t);
    const before = readFileSync(path);
    // Like a real disk: writes a part, then nothing.
    disk.write = (descriptor, bytes) =>
      bytes.length > 20 ? part(descriptor, bytes) : fail(code)();
    await assert.rejects(storage.insert(rex), isDiskFailure);
    for (let attempt = 0; attempt < 2; attempt++) await assertRefusing(storage);
    assert.deepEqual(readFileSync(path), before);
    disk.write = nodeDisk.write;
    await expectAdded(storage, 2n);
    await storage.ready?.();
    await storage.close();
    const changes = [`warn ${path}`, `info ${path}`];
    assert.deepEqual(said, changes, 'logs each change of state once');
    assert.equal((await checkFile(path)).animals, 2);
  });
}

test('F5 becomes ready without an insert once the disk has room', async (t) => {
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

test('F5 tries a full disk once a second, however many inserts it has refused', async (t) => {
  const { path, disk, storage } = await scene(t);
  const timeouts = mockTimeouts(t);
  disk.write = fail('ENOSPC');
  for (let attempt = 0; attempt < 3; attempt++) await expectRefused(storage);
  disk.write = nodeDisk.write;
  timeouts.tick(1000);
  timeouts.reset();
  await storage.close();
  assert.equal((await checkFile(path)).commits, 2, 'one of the pet, and an empty one');
});

/** Keeps the process alive, because the storage's timers do not. */
function keepAlive(t: TestContext): void {
  const alive = setTimeout(() => undefined, patienceMs);
  atEnd(t, () => clearTimeout(alive));
}

/** Returns faults: a write fails as on a full disk, and then the file's size is unknown. */
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
  'a full disk found by fdatasync after a partial write': { write: part, datasync: fail('ENOSPC') },
  'a full disk on which the size of the file is unknown': fullAndUnseen(),
  'a full disk whose undo fails': { write: fail('ENOSPC'), truncate: fail('EIO') },
  'a failed write': { write: fail('EIO') },
  'a write of no bytes': { write: async () => 0 },
  'a read-only disk': { write: fail('EROFS') },
  'a failed stat of the path': { factsAt: fail('EIO') },
};
for (const [what, fault] of Object.entries(faults)) {
  test(`F6 stops writing after ${what} until a restart, and serves reads`, async (t) => {
    const { path, disk, storage, said } = await scene(t);
    Object.assign(disk, fault);
    await assert.rejects(storage.insert(rex), isDiskFailure);
    const calls: string[] = [];
    disk.write = async (_descriptor, bytes) => (calls.push('write'), bytes.length);
    disk.datasync = async () => void calls.push('datasync');
    disk.truncate = async () => void calls.push('truncate');
    await assertRefusing(storage);
    await storage.close();
    assert.deepEqual(calls, []);
    assert.deepEqual(said, [`error ${path}`]);
    // F10: the acknowledged pet is there. The refused pet may be there, because it was written.
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
  for (const isProbed of [true, false]) {
    const finder = isProbed ? 'when it is checked for readiness' : 'at the next insert';
    test(`F6 detects a file ${what} by another program ${finder}`, async (t) => {
      const { path, storage } = await scene(t);
      await storage.ready?.();
      intrude(path);
      if (isProbed) await expectUnready(storage);
      await assertRefusing(storage);
    });
  }
}

test('F6 refuses a batch if another program writes to the file meanwhile', async (t) => {
  const { path, disk, storage } = await scene(t);
  const append = disk.append;
  disk.append = (descriptor, bytes) => {
    appendFileSync(path, 'x\n');
    return append(descriptor, bytes);
  };
  await assertRefusing(storage);
});

test('F6 truncates a batch whose fdatasync failed, so that the next start does not serve it', async (t) => {
  const { path, disk, storage } = await scene(t);
  const before = readFileSync(path);
  disk.datasync = fail('EIO');
  await expectRefused(storage);
  assert.deepEqual(readFileSync(path), before);
});

test('keeps every acknowledged pet when any call of the disk fails at a start (R4)', async () => {
  const share = new Share(0, 1);
  for (const [what, ...each] of await casesOf(share))
    if (/^open with a torn tail, .* (EIO|ENOSPC once|writes of 7)/.test(what))
      await runCase(share, ...each);
});

/** Opens the storage of `scene` on a disk that hangs. */
async function hung(t: TestContext) {
  const { disk, storage } = await scene(t);
  return { storage, ...hang(disk) };
}

test('serves reads and stays ready while the disk hangs for less than 8 s', async (t) => {
  const { storage, syncing, thaw } = await hung(t);
  const added = expectAdded(storage, 2n);
  await syncing;
  assert.equal((await storage.get(1n))?.id, 1n);
  await storage.ready?.();
  thaw();
  await added;
});

test('is not ready once the disk has hung for 8 s, until the disk responds again', async (t) => {
  const { storage, syncing, thaw } = await hung(t);
  const timeouts = mockTimeouts(t);
  const refused = expectRefused(storage);
  await syncing;
  timeouts.tick(8000);
  await refused;
  await expectUnready(storage);
  timeouts.reset();
  thaw();
  await until('the storage is ready', () => isReady(storage));
});

test('closes after 9 s although the disk hangs, and refuses the waiting insert', async (t) => {
  const { storage, syncing, thaw } = await hung(t);
  const timeouts = mockTimeouts(t);
  const refused = expectRefused(storage);
  await syncing;
  const closing = storage.close();
  timeouts.tick(8000);
  await refused;
  timeouts.reset();
  // The last second is not mocked. The disk of the test does not keep the process alive.
  keepAlive(t);
  await closing;
  thaw();
});

test('resolves close once the disk has closed the file', async (t) => {
  const { disk, storage } = await scene(t);
  const [closing, closed] = [gate(), gate()];
  disk.close = (descriptor) => (
    closing.open(), closed.opened.then(() => nodeDisk.close(descriptor))
  );
  let isOver = false;
  const over = storage.close().then(() => (isOver = true));
  await closing.opened;
  await new Promise(setImmediate);
  assert.equal(isOver, false);
  closed.open();
  await over;
});

test('rejects each close of a journal with the same error', async () => {
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
