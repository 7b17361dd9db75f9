/**
 * R6: real faults: a disk that is full, limited, read-only or frozen, and programs that change the
 * file.
 */
import assert from 'node:assert/strict';
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { atEnd } from '../support/at-end.js';
import { FileSystem, memoryFolder, tool } from './file-system.js';
import { needPrograms, Skip, type TortureRow, type Share } from './row.js';
import { ownPath, TorturedServer } from './scene.js';
import { refusalMs, Watched } from './watched.js';

const hungMs = 10_000;
const frozenMs = 15_000;

export const realFaults: TortureRow = {
  id: 'R6',
  title:
    'real faults: a full tmpfs, `prlimit --fsize`, a file that is moved, replaced, cut or appended to, a thin disk without room, a read-only disk, `fsfreeze` for 15 s',
  fullS: 20,
  isAlwaysFull: true,
  run: async (share) => {
    const slowest: number[] = [];
    const skipped = new Set<string>();
    for (const fault of [full, limited, ...intruders, unsynced, readOnly, frozen]) {
      try {
        slowest.push(await fault(share));
      } catch (error) {
        if (!(error instanceof Skip)) throw error;
        skipped.add(error.message);
      }
    }
    if (skipped.size > 0)
      throw new Skip(`${[...skipped].join('; ')} (the other ${slowest.length} faults passed)`);
    const hungS = (slowest.pop() ?? 0) / 1000;
    return `${slowest.length + 1} faults: every GET 200; slowest 503 after ${Math.ceil(Math.max(...slowest))} ms, on a frozen disk after ${hungS.toFixed(1)} s; recovery as in F5 and F6; 0 acknowledged pets lost`;
  },
};

/** F5: a disk that is full and has room again later. */
async function full(share: Share): Promise<number> {
  const folder = memoryFolder(share, 2);
  const watched = await Watched.start(share, { path: join(folder, 'pets.jsonl') });
  const ms = await refusesWhileFull(watched, folder);
  await watched.recovers();
  return ms;
}

/**
 * Fills the disk of a folder, checks that every insert is refused, and frees the disk. Returns the
 * time of the slowest refusal in milliseconds.
 */
async function refusesWhileFull(watched: Watched, folder: string): Promise<number> {
  const filler = join(folder, 'filler');
  for (let bytes = 2 ** 20; bytes >= 1; bytes /= 2) {
    assert.throws(() => {
      for (;;) appendFileSync(filler, Buffer.alloc(bytes));
    }, /ENOSPC/);
  }
  const ms = await watched.refuses();
  rmSync(filler);
  return ms;
}

/** F5: a limit on the file's size that is raised later. */
async function limited(share: Share): Promise<number> {
  needPrograms('prlimit');
  const under = ['prlimit', '--fsize=200000:unlimited'];
  const watched = await Watched.start(share, {}, { under });
  const ms = await watched.refuses();
  tool('prlimit', '--pid', String(watched.server.pid), '--fsize=unlimited');
  await watched.recovers();
  return ms;
}

/**
 * F6: changes that another program makes to the file, each with its repair before the next start.
 */
const intruders = (
  [
    [(path) => renameSync(path, `${path}.moved`), (path) => renameSync(`${path}.moved`, path)],
    [(path) => (copyFileSync(path, `${path}.new`), renameSync(`${path}.new`, path))],
    [
      (path) => (copyFileSync(path, `${path}.copy`), truncateSync(path, 100)),
      (path) => renameSync(`${path}.copy`, path),
    ],
    // The next start cuts this off as a torn tail, so that no repair is needed.
    [(path) => appendFileSync(path, '{"id":')],
  ] satisfies readonly (readonly [
    intrude: (path: string) => void,
    repair?: (path: string) => void,
  ])[]
).map(([intrude, repair]) => async (share: Share): Promise<number> => {
  const path = ownPath(share);
  const watched = await Watched.start(share, { path });
  intrude(path);
  const ms = await watched.refuses();
  await watched.end();
  repair?.(path);
  await watched.startsAgain();
  return ms;
});

/**
 * F6: a thin disk that has less room than its file system assumes. The file system accepts the
 * write, and only the sync fails. The errno is that of a full disk, but the state of the disk is
 * unknown, so that the server must not recover when the disk has room again.
 */
async function unsynced(share: Share): Promise<number> {
  const scratch = memoryFolder(share, 8);
  // A journal of the file system would fail first, and make the file system unusable.
  const fileSystem = FileSystem.create(share, 'rw', { scratch, features: '^has_journal' });
  const watched = await Watched.start(share, { path: join(fileSystem.folder, 'pets.jsonl') });
  const ms = await refusesWhileFull(watched, scratch);
  assert.match(watched.server.stdout, /cannot be trusted.*ENOSPC/, 'no sync has failed');
  const later = await watched.refuses();
  await watched.end();
  // Does not start again, because this file system loses synced bytes when it is mounted again.
  await fileSystem.unmount();
  return Math.max(ms, later);
}

/** F6 and F7: a file system that becomes read-only after an error, as most are configured. */
async function readOnly(share: Share): Promise<number> {
  const fileSystem = FileSystem.create(share, 'errors=remount-ro');
  const path = join(fileSystem.folder, 'pets.jsonl');
  const watched = await Watched.start(share, { path });
  const trigger = `/sys/fs/ext4/${fileSystem.device}/trigger_fs_error`;
  if (!existsSync(trigger)) throw new Skip(`no ${trigger}`);
  writeFileSync(trigger, '1');
  const ms = await watched.refuses();
  await watched.end();
  const { code, stderr } = await new TorturedServer(share, path).ended;
  assert.equal(code, 3, `a start on a read-only disk exits with ${code}`);
  assert.match(stderr, /read-only/);
  await fileSystem.unmount();
  fileSystem.mount('rw');
  await watched.startsAgain();
  await fileSystem.unmount();
  return ms;
}

/**
 * A disk that hangs. The first inserts are refused in time and later ones at once. The server
 * recovers when the disk does. Returns the time of the slowest first refusal in milliseconds.
 */
async function frozen(share: Share): Promise<number> {
  needPrograms('fsfreeze');
  const fileSystem = FileSystem.create(share, 'rw');
  const watched = await Watched.start(share, { path: join(fileSystem.folder, 'pets.jsonl') });
  let isFrozen = true;
  tool('fsfreeze', '--freeze', fileSystem.folder);
  const thaw = (): void => {
    if (isFrozen) tool('fsfreeze', '--unfreeze', fileSystem.folder);
    isFrozen = false;
  };
  atEnd(share, thaw);
  const thawing = wait(frozenMs);
  const ms = await watched.refuses(hungMs, 0);
  assert.ok((await watched.refuses()) <= refusalMs, 'a later refusal took too long');
  await thawing;
  thaw();
  await watched.recovers();
  await fileSystem.unmount();
  return ms;
}
