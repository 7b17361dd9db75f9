/**
 * The disk that a journal is built on, for tests to make fail: its file functions and its lock,
 * what is made of them, and the words for their failures.
 */
import { spawnSync } from 'node:child_process';
import fs, { constants, type Stats } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { constants as osConstants } from 'node:os';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { codeOf, denialOf, PetstoreError, reasonOf } from '../errors.js';

/** What a journal asks about a file. */
export type FileFacts = Pick<Stats, 'size' | 'dev' | 'ino' | 'blksize' | 'isFile'>;

/**
 * A disk, whose open files have numeric descriptors. Each function but `lock` rejects with Node's
 * system error, whose `code` is the errno.
 */
export type Disk = typeof nodeDisk;

const read = promisify(fs.read);
const write = promisify(fs.write);

const steps = {
  /** Writes where the descriptor stands; resolves to how many bytes were written, maybe fewer. */
  write: async (descriptor: number, bytes: Uint8Array) =>
    (await write(descriptor, bytes)).bytesWritten,
  /** Resolves once the file's bytes and size are on the medium. */
  datasync: promisify(fs.fdatasync),
};

/** The `append` of a disk that has no one call for it. */
export function appendInSteps(disk: typeof steps): typeof steps.write {
  return async (descriptor, bytes) => {
    const count = await disk.write(descriptor, bytes);
    await disk.datasync(descriptor);
    return count;
  };
}

/**
 * How a platform appends: by `append`, which writes at the end and resolves, once bytes and size
 * are on the medium, to how many bytes were written, maybe fewer (where it rejects and the file has
 * grown, the sync has failed); and the `O_` flags for it. With `O_DSYNC` each write is as if
 * followed by an fdatasync (open(2) of Linux), which saves one of two ways to a thread and back.
 * macOS has the flag, but leaves in the disk's cache what fdatasync (F_FULLFSYNC) drives out.
 */
export function appendingOn(platform: NodeJS.Platform) {
  if (platform === 'linux') return { append: steps.write, appendFlags: constants.O_DSYNC };
  return { append: appendInSteps(steps), appendFlags: 0 };
}

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

/** This machine's disk. */
export const nodeDisk = Object.freeze({
  ...steps,
  ...appendingOn(process.platform),
  ...lockingOn(process.platform),
  /** Opens a file by the `O_` flags of `fs.constants`; `mode` is for a new one. */
  open: (path: string, flags: number, mode: number) => promisify(fs.open)(path, flags, mode),
  /** Closes a file, which frees its lock. */
  close: promisify(fs.close),
  /** Reads at most `into.length` bytes from an offset; resolves to how many, 0 at the end. */
  read: async (descriptor: number, into: Uint8Array, position: number) =>
    (await read(descriptor, into, 0, into.length, position)).bytesRead,
  /** As `datasync`, with all else of a file or a folder. */
  sync: promisify(fs.fsync),
  /** Cuts a file off at a size in bytes. */
  truncate: (descriptor: number, size: number) => promisify(fs.ftruncate)(descriptor, size),
  // Synchronous: the kernel answers from memory, even for a disk that hangs; a libuv thread takes
  // forty times as long.
  /** Tells of an open file. */
  factsOf: async (descriptor: number): Promise<FileFacts> => fs.fstatSync(descriptor),
  /** Tells of the file that a path leads to. */
  factsAt: async (path: string): Promise<FileFacts> => fs.statSync(path),
  /** Makes one folder. */
  makeFolder: async (path: string, mode: number): Promise<void> => promisify(fs.mkdir)(path, mode),
  /** Removes a file. */
  remove: (path: string) => promisify(fs.unlink)(path),
});

/**
 * The name of an error's errno; '' where it has none. libuv does not know EDQUOT: its `code` is a
 * sentence.
 */
export function errnoOf(error: unknown): string {
  const isQuota =
    error instanceof Error && 'errno' in error && error.errno === -osConstants.errno.EDQUOT;
  return isQuota ? 'EDQUOT' : (codeOf(error) ?? '');
}

/** For `catch`: a step that fails with this errno answers undefined. */
export function unless(errno: string) {
  return (error: unknown): undefined => {
    if (errnoOf(error) !== errno) throw error;
  };
}

/**
 * Writes all bytes, or fills them by reading: each step may do only a part.
 * @throws Error where a step does nothing.
 */
export async function transferAll(
  bytes: Uint8Array,
  step: (rest: Uint8Array) => Promise<number>,
): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const count = await step(bytes.subarray(done));
    if (count === 0) throw new Error('the disk goes no further and does not say why');
    done += count;
  }
}

/** Opens a file, with mode 600 where it is new, and closes it in any case. */
export async function withFile<Result>(
  disk: Disk,
  path: string,
  flags: number,
  use: (descriptor: number) => Promise<Result>,
): Promise<Result> {
  const descriptor = await disk.open(path, flags, 0o600);
  try {
    return await use(descriptor);
  } finally {
    await disk.close(descriptor);
  }
}

/** Makes a new file of mode 600, its bytes and its name on the medium; none where that fails. */
export async function createFile(
  disk: Disk,
  path: string,
  pieces: readonly Uint8Array[],
): Promise<void> {
  const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_EXCL;
  await withFile(disk, path, flags, async (descriptor) => {
    try {
      for (const piece of pieces) await transferAll(piece, (rest) => disk.write(descriptor, rest));
      await disk.sync(descriptor);
      await syncFolder(disk, dirname(path));
    } catch (error) {
      await disk.remove(path);
      throw error;
    }
  });
}

/** Makes a folder and those above it: Node's recursive `mkdir` never ends below /proc. */
export async function makeFolders(disk: Disk, folder: string): Promise<void> {
  // A drive of Windows may be missing.
  if (folder === dirname(folder) || (await disk.factsAt(folder).catch(unless('ENOENT')))) return;

  await makeFolders(disk, dirname(folder));
  // Another process that starts may make the same one.
  await disk.makeFolder(folder, 0o700).catch(unless('EEXIST'));
  await syncFolder(disk, dirname(folder));
}

/** Makes a folder's names outlast a power cut; Windows does that by itself. */
export async function syncFolder(disk: Disk, folder: string): Promise<void> {
  if (process.platform !== 'win32')
    await withFile(disk, folder, constants.O_RDONLY, (descriptor) => disk.sync(descriptor));
}

const mends: Readonly<Record<string, string>> = {
  EACCES: 'give this user the right to read and write the file and its folder',
  EROFS: 'the disk is read-only: name a file on another, or mount it for writing',
  ENOENT: 'there is no such file or folder: name one that exists',
  EISDIR: 'it is a folder: name a file',
  ENOTDIR: 'a part of its path is a file, not a folder: name another',
  EEXIST: 'something is there already: name another',
  ENAMETOOLONG: 'its name is too long for this disk: name a file with a shorter name',
  EFTYPE: 'name a regular file',
  ELOOP: 'it is a link to nothing, or in a circle: name a file',
};

/** Whatever was thrown as a `storage_unusable` (F7); a PetstoreError stays as it is. */
export function unusable(path: string, thrown: unknown): PetstoreError {
  if (thrown instanceof PetstoreError) return thrown;

  const denial = denialOf(thrown);
  if (denial !== undefined)
    return new PetstoreError('storage_unusable', `${path} cannot be used: ${denial}`, {
      cause: thrown,
    });

  const mend = mends[errnoOf(thrown)] ?? 'see to the disk and its free space, or name another file';
  const what = `${path} cannot be used: ${mend} (${reasonOf(thrown)})`;
  return new PetstoreError('storage_unusable', what, { cause: thrown });
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
