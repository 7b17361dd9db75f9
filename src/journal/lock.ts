/** Keeps a file to one process (F4), by the kernel's lock on it, which ends with the process however that ends. */
import { spawnSync } from 'node:child_process';
import { constants } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { PetstoreError, reasonOf } from '../errors.js';
import { failedBy } from './disk.js';

/** How a platform locks files. */
export interface Locking {
  /** `O_` flags to open the file with; where these take the lock, opening fails as `isHeldElsewhere` says. */
  readonly openFlags: number;
  /** Takes the file for this open descriptor alone. @throws PetstoreError `storage_in_use`, `storage_unusable` */
  lock(descriptor: number, path: string): Promise<void>;
}

/** macOS and every BSD take the lock of flock(2) as they open; the flag is not among Node's constants. */
const O_EXLOCK = 0x20;
/** libuv's flag of this name opens with share mode 0 on Windows: nobody else may open the file, not even to read. */
const UV_FS_O_EXLOCK = 0x1000_0000;

/** The way of a platform; `flock` is the program that a Linux locks by. */
export function lockingOn(platform: NodeJS.Platform, flock = 'flock'): Locking {
  const isBsd = ['darwin', 'freebsd', 'openbsd', 'netbsd'].includes(platform);
  const openFlags = isBsd ? O_EXLOCK | constants.O_NONBLOCK : platform === 'win32' ? UV_FS_O_EXLOCK : 0;
  const lock: Locking['lock'] = async (descriptor, path) => {
    if (openFlags === 0 && !takesLock(flock, descriptor, path)) throw inUse(path, await ownerOf(descriptor));
  };
  return { openFlags, lock };
}

/** Whether opening failed because another process has the file: EBUSY is Windows' word for it. */
export function isHeldElsewhere(error: unknown): boolean {
  return failedBy(error, 'EAGAIN', 'EBUSY');
}

/** Whether a child could lock our open file, which it shares with us, before it ended: Node has no flock(2). */
function takesLock(flock: string, descriptor: number, path: string): boolean {
  const { status, stderr, error } = spawnSync(flock, ['-n', '3'], {
    stdio: ['ignore', 'ignore', 'pipe', descriptor],
    encoding: 'utf8',
  });
  if (status === 0 || status === 1) return status === 0;
  const reason = reasonOf(error ?? (stderr || 'it was killed'));
  const mend = failedBy(error, 'ENOENT')
    ? 'there is no program flock on this system; install the package util-linux, which has it'
    : `flock failed; see to it, or put the file on a disk that has locks (${reason})`;
  throw new PetstoreError('storage_unusable', `${path} cannot be locked: ${mend}`, { cause: error });
}

/** The pid of the process that holds a flock on the file of this descriptor; undefined where /proc does not show it. */
async function ownerOf(descriptor: number): Promise<string | undefined> {
  const file = await stat(`/proc/self/fd/${descriptor}`).catch(() => undefined);
  for (const pid of (await namesIn('/proc')).filter((name) => /^[0-9]+$/.test(name))) {
    for (const number of await namesIn(`/proc/${pid}/fd`)) {
      const opened = await stat(`/proc/${pid}/fd/${number}`).catch(() => undefined);
      if (opened === undefined || opened.ino !== file?.ino || opened.dev !== file.dev) continue;
      // The pid in this entry is the dead `flock` program's; that it stands here tells whose open file has the lock.
      const info = await readFile(`/proc/${pid}/fdinfo/${number}`, 'utf8').catch(() => '');
      if (/^lock:.*FLOCK/m.test(info)) return pid;
    }
  }
  return undefined;
}

/** Another user's processes are closed to us, and any may end while we look. */
async function namesIn(folder: string): Promise<readonly string[]> {
  return readdir(folder).catch(() => []);
}

/** The refusal of a file that the process of this pid has, or one that cannot be told. */
export function inUse(path: string, owner: string | undefined): PetstoreError {
  const who = owner === undefined ? 'another process' : `process ${owner}`;
  return new PetstoreError('storage_in_use', `${path} is in use by ${who}: stop that one first, or name another file`);
}
