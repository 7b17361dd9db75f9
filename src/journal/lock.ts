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

/**
 * Locks by `lockFlags`, with which opening fails as `isHeldElsewhere` says, or by `lock` (`flock`
 * on Linux).
 */
export function lockingOn(platform: NodeJS.Platform, flock = 'flock') {
  const isBsd = ['darwin', 'freebsd', 'openbsd', 'netbsd'].includes(platform);
  const lockFlags = isBsd
    ? O_EXLOCK | constants.O_NONBLOCK
    : platform === 'win32'
      ? UV_FS_O_EXLOCK
      : 0;
  return {
    lockFlags,
    lock: async (descriptor: number, path: string): Promise<void> => {
      if (lockFlags === 0 && !takesLock(flock, descriptor, path))
        throw inUse(path, await ownerOf(descriptor));
    },
  };
}

/** Whether opening failed by another process's lock; EBUSY is Windows' word. */
export function isHeldElsewhere(error: unknown): boolean {
  return codeOf(error) === 'EAGAIN' || codeOf(error) === 'EBUSY';
}

/**
 * Whether a child could lock our open file, which stays locked when the child ends: Node has no
 * flock(2).
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

/** Who holds a flock on the file of this descriptor; undefined where /proc does not show it. */
async function ownerOf(descriptor: number): Promise<string | undefined> {
  const file = await stat(`/proc/self/fd/${descriptor}`).catch(() => undefined);
  for (const pid of (await namesIn('/proc')).filter((name) => /^[0-9]+$/.test(name))) {
    for (const number of await namesIn(`/proc/${pid}/fd`)) {
      const opened = await stat(`/proc/${pid}/fd/${number}`).catch(() => undefined);
      if (!opened || opened.ino !== file?.ino || opened.dev !== file.dev) continue;
      // The pid in it is the dead `flock` program's; whose entry it is has the lock.
      const info = await readFile(`/proc/${pid}/fdinfo/${number}`, 'utf8').catch(() => '');
      if (/^lock:.*FLOCK/m.test(info)) return `process ${pid}`;
    }
  }
  return undefined;
}

const namesIn = (folder: string) => readdir(folder).catch(() => []);

export function inUse(path: string, who = 'another process'): PetstoreError {
  return new PetstoreError(
    'storage_in_use',
    `${path} is in use by ${who}: stop that one first, or name another file`,
  );
}
