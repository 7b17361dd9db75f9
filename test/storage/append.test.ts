// Tests what an insert writes to the file, and when the pet becomes visible (F1).
import assert from 'node:assert/strict';
import {
  constants,
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
} from 'node:fs';
import { test } from 'node:test';
import { checkFile } from '../../dist/file/index.js';
import { appendingOn, appendInSteps, nodeDisk, type Disk } from '../../dist/journal/index.js';
import { committed, hang, newPath, petLine, rex, tom, using } from './scene.js';
import { diskWith, systemError } from '../support/disk.js';

test('F1 writes a batch and its commit record by one write and one fdatasync', async () => {
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
      await Promise.all([storage.insert(rex), storage.insert(tom)]);
      assert.deepEqual(calls, ['write', 'datasync']);
    },
    { disk },
  );
  const lines = `${petLine(1, 'Rex')}{"id":2,"name":"Tom","categoryId":7}\n`;
  assert.deepEqual(readFileSync(path), committed([lines]));
});

test('C48 writes waiting pets in batches of at most 8 MiB, so that a slow disk keeps the 8 s', async () => {
  const written: number[] = [];
  const disk = diskWith({
    write: (descriptor, bytes) => (written.push(bytes.length), nodeDisk.write(descriptor, bytes)),
  });
  const long = { name: 'x'.repeat(3 * 2 ** 20), categoryId: 1n };
  await using(
    newPath(),
    (storage) => Promise.all([long, long, long, long].map((draft) => storage.insert(draft))),
    { disk },
  );
  assert.ok(Math.max(...written) <= 2 ** 23, `${written}`);
});

test('F1 shows a pet only after its fdatasync, and collects the next batch meanwhile', async () => {
  const disk = diskWith({});
  await using(
    newPath(),
    async (storage) => {
      const { syncing, thaw } = hang(disk);
      const first = storage.insert(rex);
      await syncing;
      const second = storage.insert(rex);
      try {
        // A storage that did not wait for the disk would show the pet after one event loop tick.
        await new Promise(setImmediate);
        assert.equal(await storage.get(1n), undefined);
        assert.deepEqual(await storage.list({ limit: 5 }), []);
      } finally {
        // If an assertion failed, closing would otherwise wait for the disk.
        thaw();
      }
      assert.deepEqual([(await first).id, (await second).id], [1n, 2n]);
      assert.equal(storage.size, 2);
    },
    { disk },
  );
});

test('F1 appends a batch by one call, which on Linux is a write with O_DSYNC', async () => {
  const path = newPath();
  const calls: string[] = [];
  const disk: Disk = {
    ...nodeDisk,
    write: async () => assert.fail('wrote without a sync'),
    append: (descriptor, bytes) => (calls.push(String(bytes)), nodeDisk.append(descriptor, bytes)),
  };
  await using(
    path,
    async (storage) => {
      await Promise.all([storage.insert(rex), storage.insert(tom)]);
      assert.deepEqual(calls, [readFileSync(path, 'utf8')]);
      if (process.platform === 'linux')
        assert.deepEqual(
          flagsOf(path).map((flags) => flags & constants.O_DSYNC),
          [constants.O_DSYNC],
        );
    },
    { disk },
  );
});

/** Returns the `O_` flags of this process's descriptors of a file, as /proc shows them. */
function flagsOf(path: string): readonly number[] {
  return readdirSync('/proc/self/fd').flatMap((descriptor) => {
    // The descriptor that listed the folder is closed by now.
    if (!existsSync(`/proc/self/fd/${descriptor}`)) return [];
    if (readlinkSync(`/proc/self/fd/${descriptor}`) !== realpathSync(path)) return [];
    const facts = readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8');
    return [Number.parseInt(/^flags:\s*([0-7]+)/m.exec(facts)?.[1] ?? '', 8)];
  });
}

test('F1 appends a batch by a write and an fdatasync on platforms without a usable O_DSYNC', async () => {
  for (const platform of ['darwin', 'win32', 'freebsd'] as const) {
    const path = newPath();
    const { append, appendFlags } = appendingOn(platform);
    assert.equal(appendFlags, 0);
    await using(path, (storage) => storage.insert(rex), {
      disk: { ...nodeDisk, append, appendFlags },
    });
    assert.equal((await checkFile(path)).animals, 1);
  }
  const failing = appendInSteps({
    write: async () => 7,
    datasync: () => Promise.reject(systemError('EIO')),
  });
  await assert.rejects(failing(0, Buffer.alloc(7)), { code: 'EIO' });
});
