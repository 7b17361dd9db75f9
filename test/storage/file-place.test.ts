// Tests the path, the mode and copies of a storage file (F7 to F9).
import assert from 'node:assert/strict';
import {
  chmodSync,
  constants,
  existsSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileStorage } from '../../dist/file/index.js';
import { nodeDisk, lineChunks, withFile, type Disk } from '../../dist/journal/index.js';
import { fileWith, newPath, sizeOf, unusable, using } from './scene.js';
import { diskWith, systemError } from '../support/disk.js';

test('F7 refuses a path that cannot be a storage file, with a message of one line', async () => {
  const folder = dirname(fileWith(''));
  writeFileSync(join(folder, 'file'), '');
  const failing = (code: string) => diskWith({ open: () => Promise.reject(systemError(code)) });
  const cases: readonly (readonly [string, RegExp, Disk?])[] = [
    [folder, /it is a folder/],
    // Without the slash, this would be a new file.
    [join(folder, 'new/'), /it is a folder; name a file/],
    [join(folder, 'file', 'pets.jsonl'), /is a file, not a folder/],
    ['/proc/none/pets.jsonl', /cannot be used/],
    ['/dev/null', /name a regular file/],
    [join(folder, 'a'), /permission denied; let this user/, failing('EACCES')],
    [join(folder, 'a'), /read-only/, failing('EROFS')],
    [join(folder, 'a'), /EMFILE.*; check the disk/, failing('EMFILE')],
  ];
  for (const [path, message, disk] of cases) {
    await assert.rejects(fileStorage(path, { ...(disk && { disk }) }), { ...unusable, message });
    await assert.rejects(fileStorage(path, { ...(disk && { disk }) }), { message: /^[^\n]*$/ });
  }
});

test('F7 reads a file that another server has begun since it was found empty', async () => {
  const path = fileWith('{"id":1,"na');
  const chunks: Buffer[] = [];
  await withFile(nodeDisk, path, constants.O_RDONLY, async (descriptor) => {
    const facts = { ...(await nodeDisk.factsOf(descriptor)), size: 0, isFile: () => true };
    for await (const { bytes } of lineChunks(nodeDisk, descriptor, facts)) chunks.push(bytes);
  });
  assert.deepEqual(chunks, []);
});

test('throws a TypeError for a wrong clock before it creates a file', async () => {
  const path = newPath();
  for (const now of [NaN, Infinity, -1, Date.UTC(10_000, 0)])
    await assert.rejects(fileStorage(path, { clock: () => now }), {
      name: 'TypeError',
      message: new RegExp(`^the clock must .* not ${now}$`),
    });
  assert.ok(!existsSync(dirname(path)));
});

test('F7 refuses a folder without write permission', async () => {
  const folder = dirname(fileWith(''));
  chmodSync(dirname(folder), 0o711);
  chmodSync(folder, 0o555);
  // Root may write anywhere, so that the test becomes the user nobody for a moment.
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) process.seteuid?.(65534);
  try {
    await assert.rejects(fileStorage(join(folder, 'new.jsonl')), {
      ...unusable,
      message: /permission denied; let this user/,
    });
  } finally {
    if (isRoot) process.seteuid?.(0);
    // Otherwise only root could remove the folder's content.
    chmodSync(folder, 0o755);
  }
});

test('F7 refuses a broken link, and does not create the file that it names', async () => {
  const folder = dirname(fileWith(''));
  const [link, target] = [join(folder, 'link'), join(folder, 'target')];
  symlinkSync(target, link);
  await assert.rejects(fileStorage(link), {
    ...unusable,
    message: /it is a broken or circular li/,
  });
  assert.ok(!existsSync(target));
});

test('F8 creates a file of mode 600 in a folder of mode 700 and syncs both names', async () => {
  const path = join(dirname(newPath()), 'deep', 'er', 'pets.jsonl');
  const folders = new Map<number, string>();
  const synced: string[] = [];
  const disk = diskWith({
    open: async (name, flags, mode) => {
      const descriptor = await nodeDisk.open(name, flags, mode);
      folders.set(descriptor, name);
      return descriptor;
    },
    // The second call fails as if another process that starts had created the folder.
    makeFolder: async (...folder) => {
      await nodeDisk.makeFolder(...folder);
      await nodeDisk.makeFolder(...folder);
    },
    sync: (descriptor) => (synced.push(folders.get(descriptor) ?? ''), nodeDisk.sync(descriptor)),
  });
  await using(
    path,
    async () => {
      const above = [dirname(path), dirname(dirname(path)), dirname(dirname(dirname(path)))];
      for (const folder of above) assert.ok(synced.includes(folder), folder);
    },
    { disk },
  );
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.equal(statSync(dirname(path)).mode & 0o777, 0o700);
  synced.length = 0;
  await using(path, async () => assert.deepEqual(synced, [dirname(path)]), { disk });
});

test('F9 starts on a copy made at any moment, with all pets acknowledged before', async () => {
  const path = newPath();
  await using(path, async (storage) => {
    let acknowledged = 0;
    const copies: { readonly path: string; readonly least: number }[] = [];
    const copyNow = () => copies.push({ path: fileWith(readFileSync(path)), least: acknowledged });
    const inserting = Promise.all(
      Array.from({ length: 200 }, async (_, index) => {
        for (let tick = 0; tick < index % 20; tick++) await new Promise(setImmediate);
        await storage.insert({ name: 'x'.repeat(index * 10), categoryId: 1n });
        acknowledged++;
        if (acknowledged % 10 === 0) copyNow();
      }),
    );
    for (let round = 0; round < 20; round++) {
      copyNow();
      await new Promise(setImmediate);
    }
    await inserting;
    for (const copy of copies) assert.ok((await sizeOf(copy.path)) >= copy.least);
  });
});
