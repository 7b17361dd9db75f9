import assert from 'node:assert/strict';
import {
  appendFileSync,
  chmodSync,
  constants,
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { checkFile } from '../../build/storage/check.js';
import { appendingOn, appendInSteps, nodeDisk, type Disk } from '../../build/storage/disk.js';
import { fileStorage } from '../../build/storage/file.js';
import { memoryStorage } from '../../build/storage/memory.js';
import type { Commit, PetStorage } from '../../build/storage.js';
import { whenOpen } from '../../build/storage/opening.js';
import { atEnd } from '../at-end.js';
import { commitOf } from './commit-line.js';
import { testStorage } from './conformance.js';
import { notes, testRecords } from './records.js';
import { batches, diskWith, fileWith, gate, newPath, petLine, tornTails } from './scene.js';
import { systemError } from './system-errors.js';

testStorage('fileStorage', () => fileStorage(newPath()));
testRecords('fileStorage', () => fileStorage(newPath()));
testRecords('a fileStorage that still opens', async () => whenOpen(fileStorage(newPath())));

const draft = { name: 'Rex', categoryId: 5n, status: 'available' } as const;
const unavailable = { name: 'PetstoreError', code: 'unavailable' };
const damaged = { name: 'PetstoreError', code: 'storage_damaged' };
const unusable = { name: 'PetstoreError', code: 'storage_unusable' };

/** Opens, hands over, closes in any case. */
async function using<T>(path: string, use: (storage: PetStorage) => Promise<T>, disk?: Disk): Promise<T> {
  const storage = await fileStorage(path, { ...(disk && { disk }) });
  try {
    return await use(storage);
  } finally {
    await storage.close();
  }
}

const namesIn = (path: string) => using(path, async (storage) => (await storage.list({ limit: 100 })).map((pet) => pet.name));

test('fileStorage is durable: what was inserted is there when it is opened again, and C31 ids go on', async () => {
  const path = newPath();
  await using(path, (storage) => Promise.all([storage.insert(draft), storage.insert({ name: 'Tüm\n', categoryId: -(2n ** 63n) })]));
  const before = readFileSync(path);
  await using(path, async (storage) => {
    assert.equal(storage.durable, true);
    assert.equal(storage.size, 2);
    assert.deepEqual(readFileSync(path), before, 'a sound file is not written to');
    assert.deepEqual(await storage.get(2n), { id: 2n, name: 'Tüm\n', categoryId: -(2n ** 63n) });
    assert.equal((await storage.insert(draft)).id, 3n);
  });
});

test('onCommit tells of each batch that lasts, through a storage that still opens too; a watcher that throws is logged and harms nobody', async () => {
  const logged: unknown[] = [];
  const opening = fileStorage(newPath(), { log: (...line) => logged.push(line) });
  const storage = whenOpen(opening);
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
  for (const { syncMilliseconds } of commits) assert.ok(syncMilliseconds > 0 && syncMilliseconds < 5_000);
  assert.equal(logged.length, 2);
  assert.match(JSON.stringify(logged), /not my day/);
  await storage.close();
  await assert.rejects(storage.insert(draft), unavailable);
  assert.equal(commits.length, 2);
});

test('F1 a batch is its lines and one commit line, in one write and then one fdatasync', async () => {
  const path = newPath();
  const calls: string[] = [];
  const disk = diskWith({
    write: (descriptor, bytes) => (calls.push('write'), nodeDisk.write(descriptor, bytes)),
    datasync: (descriptor) => (calls.push('datasync'), nodeDisk.datasync(descriptor)),
  });
  await using(
    path,
    async (storage) => {
      calls.length = 0;
      await Promise.all([storage.insert(draft), storage.insert({ name: 'Tom', categoryId: 7n })]);
      assert.deepEqual(calls, ['write', 'datasync']);
    },
    disk,
  );
  const body = '{"id":1,"name":"Rex","categoryId":5,"status":"available"}\n{"id":2,"name":"Tom","categoryId":7}\n';
  assert.equal(readFileSync(path, 'utf8'), body + commitOf(Buffer.from(body), 0).toString());
});

test('F1 an animal is visible only after the fdatasync; the next batch collects meanwhile', async () => {
  const syncing = gate();
  const mayEnd = gate();
  let opened = false;
  const disk = diskWith({
    datasync: async (descriptor) => {
      if (opened) {
        syncing.open();
        await mayEnd.opened;
      }
      return nodeDisk.datasync(descriptor);
    },
  });
  await using(
    newPath(),
    async (storage) => {
      opened = true;
      const first = storage.insert(draft);
      await syncing.opened;
      const second = storage.insert(draft);
      try {
        // Whoever does not wait for the disk has had a turn of the event loop to show it.
        await new Promise((resolve) => setImmediate(resolve));
        assert.equal(await storage.get(1n), undefined);
        assert.deepEqual(await storage.list({ limit: 5 }), []);
      } finally {
        // Or closing would wait for the disk, and nobody would hear what failed.
        mayEnd.open();
      }
      assert.deepEqual([(await first).id, (await second).id], [1n, 2n]);
      assert.equal(storage.size, 2);
    },
    disk,
  );
});

test('F1 this machine appends by one call, which on Linux is a write to a descriptor of O_DSYNC', async () => {
  const path = newPath();
  const calls: string[] = [];
  const disk: Disk = {
    ...nodeDisk,
    write: async () => assert.fail('a write without its sync'),
    append: (descriptor, bytes) => (calls.push(String(bytes)), nodeDisk.append(descriptor, bytes)),
  };
  await using(
    path,
    async (storage) => {
      await Promise.all([storage.insert(draft), storage.insert({ name: 'Tom', categoryId: 7n })]);
      assert.deepEqual(calls, [readFileSync(path, 'utf8')]);
      if (process.platform === 'linux')
        assert.deepEqual(
          flagsOf(path).map((flags) => flags & constants.O_DSYNC),
          [constants.O_DSYNC],
        );
    },
    disk,
  );
});

/** The `O_` flags of this process's descriptors of a file, as the kernel has them. */
function flagsOf(path: string): readonly number[] {
  const ours = readdirSync('/proc/self/fd').filter((descriptor) => pathOf(descriptor) === realpathSync(path));
  return ours.map((descriptor) => Number.parseInt(/^flags:\s*([0-7]+)/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8'))?.[1] ?? '', 8));
}

/** Undefined for the descriptor that lists the others, and is gone. */
function pathOf(descriptor: string): string | undefined {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`);
  } catch {
    return undefined;
  }
}

test('F1 where O_DSYNC is not that, a batch is appended by a write and an fdatasync', async () => {
  for (const platform of ['darwin', 'win32', 'freebsd'] as const) {
    const path = newPath();
    const { append, appendFlags } = appendingOn(platform);
    assert.equal(appendFlags, 0);
    await using(path, (storage) => storage.insert(draft), { ...nodeDisk, append, appendFlags });
    assert.equal((await checkFile(path)).animals, 1);
  }
  const failing = appendInSteps({ write: async () => 7, datasync: () => Promise.reject(systemError('EIO')) });
  await assert.rejects(failing(0, Buffer.alloc(7)), { code: 'EIO' });
});

test('F1 short writes are finished', async () => {
  const path = newPath();
  const disk = diskWith({ write: (descriptor, bytes) => nodeDisk.write(descriptor, bytes.subarray(0, 7)) });
  await using(path, (storage) => Promise.all([storage.insert(draft), storage.insert(draft)]), disk);
  assert.equal((await checkFile(path)).animals, 2);
});

test('F2 whole lines after the last commit are kept and committed, the torn rest is set aside', async () => {
  const torn = '{"id":5,"na';
  const path = fileWith(Buffer.concat([batches(2, 1), Buffer.from(petLine(4) + torn)]));
  const said: unknown[] = [];
  const clock = () => Date.UTC(2026, 10, 21, 7, 30);
  const storage = await fileStorage(path, { clock, log: (...line) => said.push(line) });
  assert.equal(storage.size, 4);
  assert.equal((await storage.insert(draft)).id, 5n);
  await storage.close();
  const copy = `${path}.torn-2026-11-21T07-30-00.000Z`;
  assert.equal(readFileSync(copy, 'utf8'), torn);
  assert.equal(statSync(copy).mode & 0o777, 0o600);
  assert.match(JSON.stringify(said), new RegExp(`"warn".*"bytes":${torn.length},.*"copy":"${copy}"`));
  assert.deepEqual(await checkFile(path).then(({ verdict, commits }) => [verdict, commits]), ['sound', 4]);
});

test('F2 a second torn tail of the same moment does not replace the first', async () => {
  const path = fileWith(batches(1));
  for (const torn of ['{"a', '{"b']) {
    appendFileSync(path, torn);
    await (await fileStorage(path, { clock: () => 0 })).close();
  }
  assert.deepEqual(tornTails(path).map(String), ['{"a', '{"b']);
});

test('F2 a file by hand is served in our own text: other order, white space, escapes, members, empty lines, no newline', async () => {
  const path = fileWith('\uFEFF{ "categoryId": 5e0, "name": "R\\u0065x", "id": 3, "age": {"commit": 1} }\r\n\n \t\r\n{"id":7,"name":"Tom","categoryId":7}');
  await using(path, async (storage) => {
    assert.deepEqual(await storage.texts?.list({ limit: 5 }), {
      texts: ['{"id":3,"name":"Rex","categoryId":5}', '{"id":7,"name":"Tom","categoryId":7}'],
    });
    assert.equal((await storage.insert(draft)).id, 8n);
  });
  assert.equal((await checkFile(path)).verdict, 'sound');
  assert.deepEqual(await namesIn(path), ['Rex', 'Tom', 'Rex']);
});

test('F2 an animal by hand with the last id of int64 leaves no id to give', async () => {
  await using(fileWith(petLine(1).replace('1', '9223372036854775807')), async (storage) => {
    await assert.rejects(storage.insert(draft), unavailable);
    await assert.rejects(async () => storage.ready?.(), unavailable);
    assert.equal((await storage.get(2n ** 63n - 1n))?.name, 'pet 1');
  });
});

test('F2 a broken last commit line costs no animal', async () => {
  const sound = batches(2, 2);
  for (const [at, byte] of [
    [sound.length - 1, 0x58],
    [sound.length - 8, 0x58],
    [sound.length - 8, 0],
  ] as const) {
    const file = Buffer.from(sound);
    file[at] = byte;
    const path = fileWith(file);
    assert.equal((await checkFile(path)).verdict, 'torn');
    assert.equal(await using(path, async (storage) => storage.size), 4);
    assert.equal(tornTails(path).length, 1);
  }
});

test('F2 a block of the last batch that the disk never wrote is a torn tail though its commit line stands', async () => {
  const file = batches(10, 300);
  const blockBytes = statSync('.').blksize;
  const from = (Math.floor(batches(10).length / blockBytes) + 1) * blockBytes;
  assert.ok(from + blockBytes < file.length);
  const path = fileWith(Buffer.from(file).fill(0, from, from + blockBytes));
  const size = await using(path, async (storage) => storage.size ?? 0);
  assert.ok(size > 10 && size < 310);
  assert.equal(tornTails(path).length, 1);

  const atBatch = fileWith(Buffer.from(file).fill(0, batches(10).length, from));
  assert.equal(await using(atBatch, async (storage) => storage.size), 10);

  for (const [a, b] of [
    [from, from + blockBytes - 1],
    [from + 1, from + blockBytes],
    [from + 512, from + 1024],
  ] as const) {
    await assert.rejects(fileStorage(fileWith(Buffer.from(file).fill(0, a, b))), damaged);
  }
});

test('F3 what no crash explains is refused with file, line and byte, and the file stays as it is', async () => {
  const head = batches(2);
  const cases: readonly (readonly [string, Buffer, RegExp])[] = [
    ['a changed letter', Buffer.from(String(batches(2, 2)).replace('pet 2', 'pet X')), /line 3, byte 120: .*checksum/],
    ['a changed letter of the last batch', Buffer.from(String(batches(2)).replace('pet 2', 'pet X')), /line 3, byte 120: .*checksum/],
    ['no JSON', Buffer.from(String(batches(2, 2)).replace('"id":2', '"id":!')), /line 2, byte 60: .*JSON/],
    ['a bad field', Buffer.from(String(batches(2, 2)).replace('"id":2', '"id":0')), /line 2, byte 60: id must/],
    ['an id that does not grow', Buffer.from(String(batches(2, 2)).replace('"id":2', '"id":1')), /line 2, byte 60: id 1 stands/],
    ['a batch twice', Buffer.concat([head, head]), /line 4, byte 161: id 1 stands/],
    ['a commit of elsewhere', Buffer.concat([head, commitOf(Buffer.alloc(0), 5)]), /line 4, byte 161: a commit from byte 5/],
    ['a commit line taken out', Buffer.concat([head.subarray(0, 120), batches(2, 2).subarray(161)]), /a commit from byte 161/],
    ['a missing newline', Buffer.from(String(head).replace('"}\n{"commit', '"} {"commit')), /line 2, byte 60/],
  ];
  for (const [what, file, message] of cases) {
    const path = fileWith(file);
    await assert.rejects(fileStorage(path), { ...damaged, message }, what);
    await assert.rejects(fileStorage(path), { message: new RegExp(`^${path} [^\n]*dist/server.js check [^\n]*$`) }, what);
    assert.deepEqual(readFileSync(path), file, what);
    assert.deepEqual(tornTails(path), [], what);
    assert.equal((await checkFile(path)).verdict, 'damaged', what);
  }
});

for (const code of ['ENOSPC', 'EDQUOT', 'EFBIG']) {
  test(`F5 ${code}: undone to the last commit, reads go on, adding is tried again`, async () => {
    const path = newPath();
    let failing = false;
    const said: string[] = [];
    const disk = diskWith({
      // As a real disk: a part goes, then none.
      write: async (descriptor, bytes) => {
        if (!failing) return nodeDisk.write(descriptor, bytes);
        if (bytes.length > 20) return nodeDisk.write(descriptor, bytes.subarray(0, 20));
        throw systemError(code);
      },
    });
    const storage = await fileStorage(path, { disk, log: (level) => said.push(level) });
    await storage.insert(draft);
    const before = readFileSync(path);
    failing = true;
    for (let attempt = 0; attempt < 3; attempt++) await assert.rejects(storage.insert(draft), unavailable);
    await assert.rejects(async () => storage.ready?.(), unavailable);
    assert.deepEqual(readFileSync(path), before);
    assert.equal((await storage.list({ limit: 5 })).length, 1);
    failing = false;
    assert.equal((await storage.insert(draft)).id, 2n, 'no id is lost');
    await storage.ready?.();
    await storage.close();
    assert.deepEqual(said, ['warn', 'info'], 'each change of state is said once');
    assert.equal((await checkFile(path)).animals, 2);
  });
}

test('F5 when there is room again the storage is ready again by itself', async (t) => {
  const path = newPath();
  let failing = true;
  const ready = gate();
  const disk = diskWith({
    write: async (descriptor, bytes) => {
      if (failing) throw systemError('ENOSPC');
      return nodeDisk.write(descriptor, bytes);
    },
  });
  const alive = setInterval(() => undefined, 1000);
  atEnd(t, () => clearInterval(alive));
  const storage = await fileStorage(path, { disk, log: (level) => level === 'info' && ready.open() });
  await assert.rejects(storage.insert(draft), unavailable);
  failing = false;
  await ready.opened;
  await storage.ready?.();
  assert.equal(readFileSync(path, 'utf8'), '{"commit":{"from":0,"crc32":"00000000"}}\n');
  assert.equal((await storage.insert(draft)).id, 1n);
  await storage.close();
  assert.equal((await checkFile(path)).animals, 1);
});

test('F5 an undo that fails is F6', async () => {
  const disk = diskWith({
    write: () => Promise.reject(systemError('ENOSPC')),
    truncate: () => Promise.reject(systemError('EIO')),
  });
  let writes = 0;
  await using(
    newPath(),
    async (storage) => {
      await assert.rejects(storage.insert(draft), unavailable);
      disk.write = async (_descriptor, bytes) => (writes++, bytes.length);
      await assert.rejects(storage.insert(draft), unavailable);
    },
    disk,
  );
  assert.equal(writes, 0);
});

/** Takes 20 bytes of a write. */
const part: Disk['write'] = (descriptor, bytes) => nodeDisk.write(descriptor, bytes.subarray(0, 20));

/** A write fails as a full disk does, and then nobody knows whether it took anything. */
function fullAndUnseen(): Partial<Disk> {
  let isFull = false;
  return {
    write: async () => {
      isFull = true;
      throw systemError('ENOSPC');
    },
    factsOf: async (descriptor) => {
      if (isFull) throw systemError('EIO');
      return nodeDisk.factsOf(descriptor);
    },
  };
}

const faults: readonly (readonly [string, Partial<Disk>])[] = [
  ['a failed fdatasync', { datasync: () => Promise.reject(systemError('EIO')) }],
  ['a full disk found by fdatasync', { datasync: () => Promise.reject(systemError('ENOSPC')) }],
  ['a quota found by fdatasync', { datasync: () => Promise.reject(systemError('EDQUOT')) }],
  ['a full disk found by fdatasync, a part being written', { write: part, datasync: () => Promise.reject(systemError('ENOSPC')) }],
  ['a full disk whose file cannot be looked at any more', fullAndUnseen()],
  ['a failed write', { write: () => Promise.reject(systemError('EIO')) }],
  ['a write that takes nothing', { write: async () => 0 }],
  ['a read-only disk', { write: () => Promise.reject(systemError('EROFS')) }],
  ['a path that cannot be looked at', { factsAt: () => Promise.reject(systemError('EIO')) }],
];
for (const [what, fault] of faults) {
  test(`F6 after ${what} nothing is written or synced until a restart, and reads go on`, async () => {
    const path = newPath();
    const disk = diskWith({});
    const said: string[] = [];
    const storage = await fileStorage(path, { disk, log: (level) => said.push(level) });
    await storage.insert(draft);
    Object.assign(disk, fault);
    await assert.rejects(storage.insert(draft), unavailable);
    const calls: string[] = [];
    disk.write = async (_descriptor, bytes) => (calls.push('write'), bytes.length);
    disk.datasync = async () => void calls.push('datasync');
    disk.truncate = async () => void calls.push('truncate');
    await assert.rejects(storage.insert(draft), unavailable);
    await assert.rejects(async () => storage.ready?.(), unavailable);
    assert.equal((await storage.get(1n))?.name, 'Rex');
    await storage.close();
    assert.deepEqual(calls, []);
    assert.deepEqual(said, ['error']);
    // F10: what was refused with its write begun may be there, what was acknowledged is.
    assert.ok((await using(path, async (again) => again.size ?? 0)) >= 1);
  });
}

const intruders: readonly (readonly [string, (path: string) => void])[] = [
  ['cut', (path) => truncateSync(path, 10)],
  ['appended to', (path) => appendFileSync(path, '\n')],
  ['moved away', (path) => renameSync(path, `${path}.moved`)],
  ['replaced by a copy', (path) => (copyFileSync(path, `${path}.copy`), renameSync(`${path}.copy`, path))],
];
for (const [what, intrude] of intruders) {
  test(`F6 a file ${what} by another program is found by whoever asks whether it is ready`, async () => {
    const path = newPath();
    await using(path, async (storage) => {
      await storage.insert(draft);
      await storage.ready?.();
      intrude(path);
      await assert.rejects(async () => storage.ready?.(), unavailable);
      await assert.rejects(storage.insert(draft), unavailable);
    });
  });

  test(`F6 a file ${what} by another program is not written to again`, async () => {
    const path = newPath();
    await using(path, async (storage) => {
      await storage.insert(draft);
      intrude(path);
      await assert.rejects(storage.insert(draft), unavailable);
      await assert.rejects(async () => storage.ready?.(), unavailable);
      assert.equal((await storage.list({ limit: 5 })).length, 1);
    });
  });
}

test('F6 what another program writes while a batch goes out is found before anyone is promised that batch', async () => {
  const path = newPath();
  const disk = diskWith({});
  const storage = await fileStorage(path, { disk });
  await storage.insert(draft);
  const append = disk.append;
  disk.append = (descriptor, bytes) => {
    appendFileSync(path, 'x\n');
    return append(descriptor, bytes);
  };
  await assert.rejects(storage.insert(draft), unavailable);
  await assert.rejects(async () => storage.ready?.(), unavailable);
  assert.equal((await storage.list({ limit: 5 })).length, 1);
  await storage.close();
});

test('F7 what cannot be a data file is refused in one line, and no descriptor stays open', async () => {
  const folder = dirname(fileWith(''));
  writeFileSync(join(folder, 'file'), '');
  const failing = (code: string) => diskWith({ open: () => Promise.reject(systemError(code)) });
  const cases: readonly (readonly [string, RegExp, Disk?])[] = [
    [folder, /it is a folder/],
    [join(folder, 'file', 'pets.jsonl'), /is a file, not a folder/],
    ['/proc/none/pets.jsonl', /cannot be used/],
    ['/dev/null', /not a regular file/],
    [join(folder, 'a'), /right to read and write/, failing('EACCES')],
    [join(folder, 'a'), /read-only/, failing('EROFS')],
    [join(folder, 'a'), /too many files/, failing('EMFILE')],
  ];
  for (const [path, message, disk] of cases) {
    await assert.rejects(fileStorage(path, { ...(disk && { disk }) }), { ...unusable, message });
    await assert.rejects(fileStorage(path, { ...(disk && { disk }) }), { message: /^[^\n]*$/ });
  }
});

test('F7 a folder without the right to write is refused', async () => {
  const folder = dirname(fileWith(''));
  chmodSync(dirname(folder), 0o711);
  chmodSync(folder, 0o555);
  // Root may write anywhere, so for this moment it is nobody.
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) process.seteuid?.(65534);
  try {
    await assert.rejects(fileStorage(join(folder, 'new.jsonl')), { ...unusable, message: /right to read and write/ });
  } finally {
    if (isRoot) process.seteuid?.(0);
  }
});

test('F8 a new file has mode 600 in a folder of mode 700, and both names are synced before it is open', async () => {
  const path = join(dirname(newPath()), 'deep', 'er', 'pets.jsonl');
  const folders = new Map<number, string>();
  const synced: string[] = [];
  const disk = diskWith({
    open: async (name, flags, mode) => {
      const descriptor = await nodeDisk.open(name, flags, mode);
      folders.set(descriptor, name);
      return descriptor;
    },
    sync: (descriptor) => (synced.push(folders.get(descriptor) ?? ''), nodeDisk.sync(descriptor)),
  });
  await using(
    path,
    async () => {
      const above = [dirname(path), dirname(dirname(path)), dirname(dirname(dirname(path)))];
      for (const folder of above) assert.ok(synced.includes(folder), folder);
    },
    disk,
  );
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.equal(statSync(dirname(path)).mode & 0o777, 0o700);
  synced.length = 0;
  await using(path, async () => assert.deepEqual(synced, [dirname(path)]), disk);
});

test('F9 a copy made at any moment starts, with everything that was acknowledged before it', async () => {
  const path = newPath();
  await using(path, async (storage) => {
    let acknowledged = 0;
    const inserting = Promise.all(
      Array.from({ length: 200 }, async (_, index) => {
        for (let turn = 0; turn < index % 20; turn++) await new Promise(setImmediate);
        await storage.insert({ name: 'x'.repeat(index * 10), categoryId: 1n });
        acknowledged++;
      }),
    );
    for (let round = 0; round < 20; round++) {
      const least = acknowledged;
      const copy = fileWith(readFileSync(path));
      assert.ok((await using(copy, async (copied) => copied.size ?? 0)) >= least);
    }
    await inserting;
  });
});

test('F6 what a failed fdatasync left in memory alone is taken back, or the next start would serve it', async () => {
  const path = newPath();
  const disk = diskWith({});
  await using(
    path,
    async (storage) => {
      await storage.insert(draft);
      const before = readFileSync(path);
      disk.datasync = () => Promise.reject(systemError('EIO'));
      await assert.rejects(storage.insert(draft), unavailable);
      assert.deepEqual(readFileSync(path), before);
    },
    disk,
  );
});

test('F10 an add refused after its write began may be there after a restart, whole', async () => {
  const path = newPath();
  const disk = diskWith({});
  await using(
    path,
    async (storage) => {
      disk.datasync = () => Promise.reject(systemError('EIO'));
      disk.truncate = () => Promise.reject(systemError('EIO'));
      await assert.rejects(storage.insert(draft), unavailable);
      assert.equal(storage.size, 0);
    },
    disk,
  );
  assert.deepEqual(await namesIn(path), ['Rex']);
});

test('every call of the disk failing at every moment loses nothing acknowledged and hangs nothing (R4)', async () => {
  for (const code of ['EIO', 'ENOSPC', 'EMFILE']) {
    for (const forever of [false, true]) {
      for (let failAt = 1, calls = Infinity; failAt <= calls; failAt++) {
        const path = fileWith(Buffer.concat([batches(1), Buffer.from(`${petLine(2)}{"torn`)]));
        let call = 0;
        let open = 0;
        const fault =
          <A extends readonly unknown[], R>(work: (...args: A) => Promise<R>) =>
          (...args: A): Promise<R> => {
            call++;
            return call === failAt || (forever && call > failAt) ? Promise.reject(systemError(code)) : work(...args);
          };
        const steps = { write: fault(nodeDisk.write), datasync: fault(nodeDisk.datasync) };
        const disk: Disk = {
          ...nodeDisk,
          ...steps,
          append: appendInSteps(steps),
          open: fault(async (...args) => (open++, nodeDisk.open(...args))),
          close: async (descriptor) => (open--, nodeDisk.close(descriptor)),
          read: fault(nodeDisk.read),
          sync: fault(nodeDisk.sync),
          truncate: fault(nodeDisk.truncate),
          factsOf: fault(nodeDisk.factsOf),
          factsAt: fault(nodeDisk.factsAt),
        };
        const acknowledged = ['pet 1'];
        try {
          const storage = await fileStorage(path, { disk });
          for (const name of ['a', 'b']) {
            await storage.insert({ name, categoryId: 1n }).then(
              () => acknowledged.push(name),
              (error) => assert.equal(error.code, 'unavailable'),
            );
          }
          await storage.close();
        } catch (error) {
          assert.ok(error instanceof Error && 'code' in error && error.code === 'storage_unusable', String(error));
        }
        calls = call < failAt ? 0 : Infinity;
        assert.equal(open, 0, 'every descriptor is closed');
        const names = await namesIn(path);
        for (const name of acknowledged) assert.ok(names.includes(name), `${name} after call ${failAt}`);
        assert.ok(tornTails(path).every((tail) => isDeepStrictEqual(String(tail), '{"torn') || acknowledged.length < 3));
      }
    }
  }
});

test('a disk that hangs stops neither readers nor whoever asks whether it is ready', async () => {
  const hung = gate();
  const disk = diskWith({});
  const storage = await fileStorage(newPath(), { disk });
  await storage.insert(draft);
  disk.datasync = () => hung.opened;
  const insert = storage.insert(draft);
  assert.equal((await storage.get(1n))?.id, 1n);
  await new Promise(setImmediate);
  await storage.ready?.();
  hung.open();
  assert.equal((await insert).id, 2n);
  await storage.close();
});

test('closing does not wait for a disk that hangs for longer than 9 s, and whoever waits to add is told', async (t) => {
  const disk = diskWith({});
  const storage = await fileStorage(newPath(), { disk });
  await storage.insert(draft);
  const syncing = gate();
  const thawed = gate();
  disk.datasync = () => (syncing.open(), thawed.opened);
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const refused = assert.rejects(storage.insert(draft), unavailable);
  await syncing.opened;
  const closing = storage.close();
  t.mock.timers.tick(8000);
  await refused;
  // The last second is a real one, whose timer keeps no process alive; the hung file function would.
  const alive = setInterval(() => undefined, 1000);
  atEnd(t, () => clearInterval(alive));
  await closing;
  thawed.open();
});

test('checkFile says what a file holds, also while a server has it', async () => {
  const path = newPath();
  mkdirSync(dirname(path));
  writeFileSync(path, Buffer.concat([batches(2, 3), Buffer.from('{"id":9,"name":"","categoryId":1}\n{"torn')]));
  const torn = await checkFile(path);
  const committedBytes = batches(2, 3).length;
  assert.deepEqual(torn, {
    verdict: 'torn',
    problem: { kind: 'torn', line: 9, byte: committedBytes + 34, what: 'Not valid JSON: the text ends too early, at byte 6' },
    animals: 6,
    byStatus: { available: 5, pending: 0, sold: 0, none: 1 },
    idempotencyKeys: 0,
    commits: 2,
    bytes: committedBytes + 40,
    committedBytes,
    tornBytes: 6,
  });
  await using(path, async () => assert.equal((await checkFile(path)).verdict, 'sound'));
  await assert.rejects(checkFile(dirname(path)), unusable);
  await assert.rejects(checkFile(`${path}.none`), unusable);
});

test('records beside the animals have a file of the same form, and outlast a restart; ids go on', async () => {
  const path = newPath();
  await using(path, async (storage) => {
    const kept = storage.records?.('notes', notes);
    await Promise.all([kept?.insert('a'), kept?.insert('b')]);
  });
  const body = '{"id":1,"text":"a"}\n{"id":2,"text":"b"}\n';
  assert.equal(readFileSync(`${path}.notes`, 'utf8'), body + commitOf(Buffer.from(body), 0).toString());
  assert.equal(statSync(`${path}.notes`).mode & 0o777, 0o600);
  // As a person may leave it: white space, another order, members that nobody asked for, no commit, no newline.
  appendFileSync(`${path}.notes`, '{ "more": 1, "text": "\\u0063", "id": 5 }');
  await using(path, async (storage) => {
    const kept = storage.records?.('notes', notes);
    assert.deepEqual(await kept?.list({ limit: 9 }), { texts: ['{"id":1,"text":"a"}', '{"id":2,"text":"b"}', '{"id":5,"text":"c"}'] });
    assert.equal((await kept?.insert('d'))?.id, 6n);
  });
});

test('records: a torn tail is set aside, damage is refused with file, line and byte, and the animals stay', async () => {
  const path = newPath();
  const note = (text: string) => using(path, async (storage) => (await storage.records?.('notes', notes).insert(text))?.id);
  assert.equal(await note('a'), 1n);
  assert.equal(await note('b'), 2n);
  appendFileSync(`${path}.notes`, '{"id":3,"te');
  assert.equal(await note('c'), 3n);
  assert.equal(tornTails(path).length, 1);
  const sound = readFileSync(`${path}.notes`, 'utf8');
  writeFileSync(`${path}.notes`, sound.replace('"a"', '"x"'));
  await using(path, async (storage) => {
    await storage.insert(draft);
    const kept = storage.records?.('notes', notes);
    await assert.rejects(kept?.opened ?? Promise.resolve(), {
      ...damaged,
      message: /pets\.jsonl\.notes line 2, byte 20: .*checksum.*; nothing was changed: put a copy from before in its place$/,
    });
    await assert.rejects(kept?.insert('d') ?? Promise.resolve(), unavailable);
    await assert.rejects(storage.ready?.() ?? Promise.resolve(), unavailable);
    assert.equal((await storage.insert(draft)).id, 2n);
  });
  assert.equal(readFileSync(`${path}.notes`, 'utf8'), sound.replace('"a"', '"x"'));
});

test('records: what another program does to their file ends readiness and adding there, not adding animals', async () => {
  const path = newPath();
  const storage = await fileStorage(path);
  const kept = storage.records?.('notes', notes) ?? assert.fail();
  await kept.insert('a');
  await storage.ready?.();
  appendFileSync(`${path}.notes`, 'x');
  await assert.rejects(storage.ready?.() ?? Promise.resolve(), unavailable);
  await assert.rejects(kept.insert('b'), unavailable);
  assert.deepEqual(await kept.list({ limit: 9 }), { texts: ['{"id":1,"text":"a"}'] });
  assert.equal((await storage.insert(draft)).id, 1n);
  await storage.close();
});

test('a storage without records has none while it still opens either, and says so', async () => {
  const { insert, get, list, close } = memoryStorage();
  const kept = whenOpen(Promise.resolve({ durable: false, insert, get, list, close })).records?.('notes', notes) ?? assert.fail();
  await assert.rejects(kept.opened, { code: 'storage_unusable' });
  await assert.rejects(kept.insert('a'), unavailable);
});

test('a start that takes long says each second how far it has come, and a short one nothing', async () => {
  const file = batches(40_000);
  for (const [msBetween, told] of [
    [400, 1],
    [0, 0],
  ] as const) {
    let now = 0;
    const lines: unknown[][] = [];
    const storage = await fileStorage(fileWith(file), { clock: () => (now += msBetween), log: (...line) => lines.push(line) });
    await storage.close();
    const read = lines
      .filter(([, message]) => message === 'reading the storage file')
      .map(([level, , fields]) => [level, Object(fields).read > 0 && Object(fields).read < file.length, Object(fields).size]);
    assert.deepEqual(read, Array(told).fill(['info', true, file.length]), `${file.length} bytes`);
  }
});
