/** Keeps a file to one process (F4), by the kernel's lock on it. */
import { spawnSync } from 'node:child_process';
import { constants } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { codeOf, PetstoreError, reasonOf } from '../errors.js';

/** macOS and the BSDs lock as they open; Node has no constant for the flag. */
const O_EXLOCK = 0x20;

/**
 * libuv's flag of this name is share mode 0 on Windows: nobody else may open the file, not even to
 * read.
 */
const UV_FS_O_EXLOCK = 0x1000_0000;

/** How a platform locks: the BSDs and Windows as they open a file, others by a program `flock`. */
export function lockingOn(platform: NodeJS.Platform, flock = 'flock') {
  let lockFlags = 0;
  if (platform === 'win32') lockFlags = UV_FS_O_EXLOCK;
  if (['darwin', 'freebsd', 'openbsd', 'netbsd'].includes(platform))
    lockFlags = O_EXLOCK | constants.O_NONBLOCK;

  return {
    /**
     * The `O_` flags with which opening a file locks it, and fails as `isHeldElsewhere` tells; 0
     * where `lock` does the work.
     */
    lockFlags,
    /**
     * Locks an open file, unless opening it did.
     * @throws PetstoreError `storage_in_use`, or `storage_unusable` where it cannot be locked.
     */
    lock: async (descriptor: number, path: string): Promise<void> => {
      if (lockFlags === 0 && !takesLock(flock, descriptor, path))
        throw inUse(path, await ownerOf(descriptor));
    },
  };
}

/** Whether opening a file failed by the lock of another process, for which Windows says EBUSY. */
export function isHeldElsewhere(error: unknown): boolean {
  return codeOf(error) === 'EAGAIN' || codeOf(error) === 'EBUSY';
}

/**
 * Whether a child process could lock our open file: Node has no flock(2), and the lock, which
 * belongs to the open file, stays when the child ends.
 * @throws PetstoreError `storage_unusable` where the child fails in another way.
 */
function takesLock(flock: string, descriptor: number, path: string): boolean {
  const { status, stderr, error } = spawnSync(flock, ['-n', '3'], {
    stdio: ['ignore', 'ignore', 'pipe', descriptor],
    encoding: 'utf8',
  });

  if (status === 0 || status === 1) return status === 0;

  const reason = reasonOf(error ?? (stderr || 'it was killed'));
  const mend =
    codeOf(error) === 'ENOENT'
      ? 'there is no program flock on this system; install the package util-linux, which has it'
      : `flock failed; see to it, or put the file on a disk that has locks (${reason})`;
  throw new PetstoreError('storage_unusable', `${path} cannot be locked: ${mend}`, {
    cause: error,
  });
}

/** Which process has a flock on a file; undefined where /proc does not show it. */
async function ownerOf(descriptor: number): Promise<string | undefined> {
  const file = await stat(`/proc/self/fd/${descriptor}`).catch(() => undefined);

  for (const pid of (await namesIn('/proc')).filter((name) => /^[0-9]+$/.test(name))) {
    for (const number of await namesIn(`/proc/${pid}/fd`)) {
      const opened = await stat(`/proc/${pid}/fd/${number}`).catch(() => undefined);
      if (!opened || opened.ino !== file?.ino || opened.dev !== file.dev) continue;

      // The pid in this text is that of the program `flock`, which has ended: the lock belongs to
      // the process among whose files the text stands.
      const info = await readFile(`/proc/${pid}/fdinfo/${number}`, 'utf8').catch(() => '');
      if (/^lock:.*FLOCK/m.test(info)) return `process ${pid}`;
    }
  }
  return undefined;
}

const namesIn = (folder: string) => readdir(folder).catch(() => []);

/** The error for a file that another process has. */
export function inUse(path: string, who = 'another process'): PetstoreError {
  return new PetstoreError(
    'storage_in_use',
    `${path} is in use by ${who}: stop that one first, or name another file`,
  );
}
