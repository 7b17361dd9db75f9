/** Locks a storage file, so that one process at a time uses it (F4). */
import { spawnSync } from 'node:child_process';
import { constants } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { codeOf, PetstoreError, reasonOf } from '../errors.js';
import { inUseError } from './disk-errors.js';

/** The open flag by which macOS and the BSDs lock; `fs.constants` lacks it. */
const O_EXLOCK = 0x20;

/** libuv's flag of that name: on Windows, no other process can open the file, even to read. */
const UV_FS_O_EXLOCK = 0x1000_0000;

/**
 * Returns how a platform locks: the BSDs, macOS and Windows by a flag when they open the file, and
 * others by the program `flock`.
 */
export function lockingOn(platform: NodeJS.Platform, flock = 'flock') {
  let lockFlags = 0;
  if (platform === 'win32') lockFlags = UV_FS_O_EXLOCK;
  if (['darwin', 'freebsd', 'openbsd', 'netbsd'].includes(platform))
    lockFlags = O_EXLOCK | constants.O_NONBLOCK;

  return {
    /**
     * `O_` flags that lock a file when it is opened, or 0 if `lock` does. If another process has
     * the lock, opening fails with an error for which `isHeldElsewhere` is true.
     */
    lockFlags,
    /**
     * Locks an open file, unless opening it did.
     * @throws PetstoreError `storage_in_use` if another process has the lock
     * @throws PetstoreError `storage_unusable` if the file cannot be locked
     */
    lock: async (descriptor: number, path: string): Promise<void> => {
      if (lockFlags === 0 && !takesLock(flock, descriptor, path))
        throw inUseError(path, await ownerOf(descriptor));
    },
  };
}

/** True if opening a file failed because another process has its lock (EBUSY on Windows). */
export function isHeldElsewhere(error: unknown): boolean {
  return codeOf(error) === 'EAGAIN' || codeOf(error) === 'EBUSY';
}

/**
 * Locks an open file by a child process, because Node has no flock(2). The lock belongs to the open
 * file, so that it stays when the child ends. Returns false if another process has it.
 * @throws PetstoreError `storage_unusable` if `flock` fails in another way
 */
function takesLock(flock: string, descriptor: number, path: string): boolean {
  const { status, stderr, error } = spawnSync(flock, ['-n', '3'], {
    stdio: ['ignore', 'ignore', 'pipe', descriptor],
    encoding: 'utf8',
  });

  if (status === 0 || status === 1) return status === 0;

  const reason = reasonOf(error ?? (stderr || 'it was killed'));
  const hint =
    codeOf(error) === 'ENOENT'
      ? 'there is no program flock on this system; install the package util-linux, which has it'
      : `flock failed; fix that, or put the file on a disk that has locks (${reason})`;
  throw new PetstoreError('storage_unusable', `${path} cannot be locked: ${hint}`, {
    cause: error,
  });
}

/** Returns `process PID` of the process that has locked a file, if /proc shows it. */
async function ownerOf(descriptor: number): Promise<string | undefined> {
  const file = await stat(`/proc/self/fd/${descriptor}`).catch(() => undefined);

  for (const pid of (await namesIn('/proc')).filter((name) => /^[0-9]+$/.test(name))) {
    for (const number of await namesIn(`/proc/${pid}/fd`)) {
      const opened = await stat(`/proc/${pid}/fd/${number}`).catch(() => undefined);
      if (!opened || opened.ino !== file?.ino || opened.dev !== file.dev) continue;

      // The pid in this text is that of `flock`, which has ended. The owner is the process under
      // whose descriptors the text is found.
      const info = await readFile(`/proc/${pid}/fdinfo/${number}`, 'utf8').catch(() => '');
      if (/^lock:.*FLOCK/m.test(info)) return `process ${pid}`;
    }
  }
  return undefined;
}

const namesIn = (folder: string) => readdir(folder).catch(() => []);
