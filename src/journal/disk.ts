/** The disk of a journal, which tests replace, and helpers on top of its functions. */
import fs, { constants, type Stats } from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { ignore } from './disk-errors.js';
import { lockingOn } from './file-lock.js';

/** The facts about a file that a journal needs. */
export type FileFacts = Pick<Stats, 'size' | 'dev' | 'ino' | 'blksize' | 'isFile'>;

/**
 * File functions and a lock. Open files have numeric descriptors. Each function but `lock` rejects
 * with Node's system error, whose `code` is the errno.
 */
export type Disk = typeof nodeDisk;

const read = promisify(fs.read);
const write = promisify(fs.write);

const writing = {
  /** Writes at the descriptor's position; resolves to the number of bytes, which may be fewer. */
  write: async (descriptor: number, bytes: Uint8Array) =>
    (await write(descriptor, bytes)).bytesWritten,
  /** Resolves once the file's bytes and size are on the medium. */
  datasync: promisify(fs.fdatasync),
};

/** Returns an `append` of two calls: a write and an fdatasync. */
export function appendInSteps(disk: typeof writing): typeof writing.write {
  return async (descriptor, bytes) => {
    const count = await disk.write(descriptor, bytes);
    await disk.datasync(descriptor);
    return count;
  };
}

/**
 * Returns how a platform appends: a function and the `O_` flags that it needs. `append` writes at
 * the end and resolves to the number of bytes, which may be fewer, once these and the size are on
 * the medium. If it rejects and the file has grown, the sync failed.
 */
export function appendingOn(platform: NodeJS.Platform) {
  // O_DSYNC adds an fdatasync to each write (open(2) of Linux), which saves a trip to a thread.
  // macOS has the flag too, but only F_FULLFSYNC, Node's fdatasync there, flushes the disk's cache.
  if (platform === 'linux') return { append: writing.write, appendFlags: constants.O_DSYNC };
  return { append: appendInSteps(writing), appendFlags: 0 };
}

/** The disk of this machine. */
export const nodeDisk = Object.freeze({
  ...writing,
  ...appendingOn(process.platform),
  ...lockingOn(process.platform),
  /** Opens a file with `O_` flags of `fs.constants`; a new file gets `mode`. */
  open: (path: string, flags: number, mode: number) => promisify(fs.open)(path, flags, mode),
  /** Closes a file and releases its lock. */
  close: promisify(fs.close),
  /** Reads up to `into.length` bytes at an offset; resolves to their number, 0 at the end. */
  read: async (descriptor: number, into: Uint8Array, position: number) =>
    (await read(descriptor, into, 0, into.length, position)).bytesRead,
  /** Resolves once everything of a file or a folder is on the medium. */
  sync: promisify(fs.fsync),
  /** Truncates a file to a size in bytes. */
  truncate: (descriptor: number, size: number) => promisify(fs.ftruncate)(descriptor, size),
  // Synchronous, because a thread takes forty times as long. The kernel has these facts in memory,
  // so that a disk that hangs does not delay them.
  /** Returns the facts of an open file. */
  factsOf: async (descriptor: number): Promise<FileFacts> => fs.fstatSync(descriptor),
  /** Returns the facts of the file at a path, following symlinks. */
  factsAt: async (path: string): Promise<FileFacts> => fs.statSync(path),
  /** Creates one folder. */
  makeFolder: async (path: string, mode: number): Promise<void> => promisify(fs.mkdir)(path, mode),
  /** Removes a file. */
  remove: (path: string) => promisify(fs.unlink)(path),
});

/**
 * Repeats `step`, which may read or write only a part, until all bytes are done.
 * @throws Error if a step does nothing
 */
export async function transferAll(
  bytes: Uint8Array,
  step: (rest: Uint8Array) => Promise<number>,
): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const count = await step(bytes.subarray(done));
    if (count === 0) throw new Error('the disk transfers no bytes and reports no error');
    done += count;
  }
}

/** Opens a file for the time of `use`. A new file gets mode 600. */
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

/**
 * Creates a file of mode 600; resolves once its bytes and its name are on the medium. If that
 * fails, the file is removed.
 */
export async function createFile(
  disk: Disk,
  path: string,
  parts: readonly Uint8Array[],
): Promise<void> {
  const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_EXCL;
  await withFile(disk, path, flags, async (descriptor) => {
    try {
      for (const part of parts) await transferAll(part, (rest) => disk.write(descriptor, rest));
      await disk.sync(descriptor);
      await syncFolder(disk, dirname(path));
    } catch (error) {
      await disk.remove(path);
      throw error;
    }
  });
}

/** Creates a folder and its parents, durably. Node's recursive `mkdir` never ends below /proc. */
export async function makeFolders(disk: Disk, folder: string): Promise<void> {
  // The root may be missing: a drive of Windows.
  if (folder === dirname(folder) || (await disk.factsAt(folder).catch(ignore('ENOENT')))) return;

  await makeFolders(disk, dirname(folder));
  // Another process that starts may create the same folder.
  await disk.makeFolder(folder, 0o700).catch(ignore('EEXIST'));
  await syncFolder(disk, dirname(folder));
}

/** Makes the names in a folder survive a power cut. Windows does so without a call. */
export async function syncFolder(disk: Disk, folder: string): Promise<void> {
  if (process.platform !== 'win32')
    await withFile(disk, folder, constants.O_RDONLY, (descriptor) => disk.sync(descriptor));
}
