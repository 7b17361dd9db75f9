/** Reads and replaces small files of the operator: keys, certificates, a seed. */
import fs, { constants } from 'node:fs';
import { dirname } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as wait } from 'node:timers/promises';
import { codeOf, PetstoreError } from '../index.js';
import { makeFolders, nodeDisk, syncFolder } from '../journal/index.js';
import { refuse } from './output.js';

/** The size of one read in bytes. */
const chunkBytes = 2 ** 16;

/**
 * Reads a whole regular file, following links. Anything else is rejected, because reading a pipe or
 * a device could block the process.
 *
 * @throws Error if the path is not a regular file, or the file is longer than `maxBytes`
 * @throws Error of the system, such as ENOENT
 */
export function readRegularFile(path: string, maxBytes: number): Buffer {
  // Checked before it is opened, because opening a device can have side effects.
  requireRegularFile(path, fs.statSync(path));

  // Checked again, because the path may have been replaced. O_NONBLOCK: opening a pipe would wait.
  const descriptor = fs.openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    requireRegularFile(path, fs.fstatSync(descriptor));
    const bytes = readUpTo(descriptor, maxBytes);
    if (bytes === undefined) throw new RangeError(`${path} is longer than ${maxBytes} bytes`);
    return bytes;
  } finally {
    fs.closeSync(descriptor);
  }
}

/** @throws Error if the path is a pipe, a device, a socket or a folder */
export function requireRegularFile(path: string, stats: fs.Stats): void {
  if (!stats.isFile()) throw new Error(`${path} is not a regular file`);
}

/** Reads an open file to its end. Returns undefined if the file is longer than `maxBytes`. */
function readUpTo(descriptor: number, maxBytes: number): Buffer | undefined {
  const chunks: Buffer[] = [];
  let length = 0;

  // The size from `fstat` is not usable, because it is 0 for files below /proc.
  for (;;) {
    const chunk = Buffer.allocUnsafe(chunkBytes);
    const count = fs.readSync(descriptor, chunk);
    if (count === 0) return Buffer.concat(chunks, length);

    length += count;
    if (length > maxBytes) return undefined;
    chunks.push(chunk.subarray(0, count));
  }
}

/**
 * Replaces a file atomically and syncs it. The new file keeps owner, group and mode of the old one;
 * a first file gets mode 600. The text is written to `FILE.lock`, which is then renamed; the kernel
 * lock on `FILE.lock` makes other processes wait. If anything fails, the file is unchanged.
 *
 * @param makeText Returns the new text. It runs under the lock.
 * @param patienceMs The longest wait for the lock.
 * @throws Refusal if the lock is not free in time, or the owner cannot be kept
 * @throws Error if the path is not a regular file, or any error of `makeText` or the system
 */
export async function replaceFile(
  path: string,
  makeText: () => string,
  patienceMs = 5_000,
): Promise<void> {
  // Renaming onto a symbolic link would replace the link. `realpath` throws for a dangling link.
  const file = statsOf(path, fs.lstatSync) === undefined ? path : fs.realpathSync(path);
  const old = statsOf(file, fs.statSync);
  if (old !== undefined) requireRegularFile(file, old);
  const folder = dirname(file);
  await makeFolders(nodeDisk, folder);

  const lock = `${file}.lock`;
  const descriptor = await openLocked(lock, patienceMs);
  let isOpen = true;
  const close = () => {
    if (isOpen) fs.closeSync(descriptor);
    isOpen = false;
  };

  try {
    fs.writeFileSync(descriptor, makeText());
    copyOwnerAndMode(file, descriptor);
    fs.fsyncSync(descriptor);
    // Windows cannot rename an open file.
    if (process.platform === 'win32') close();
    fs.renameSync(lock, file);
  } catch (error) {
    fs.rmSync(lock, { force: true });
    throw error;
  } finally {
    close();
  }

  await syncFolder(nodeDisk, folder);
}

/** Returns the stats of a file; undefined if the file does not exist. */
function statsOf(path: string, stat: typeof fs.statSync): fs.Stats | undefined {
  return stat(path, { throwIfNoEntry: false });
}

/**
 * Gives an open file the owner, the group and the mode of the file `from`, or mode 600 if `from`
 * does not exist.
 *
 * @throws Refusal if this user must not change the owner
 */
function copyOwnerAndMode(from: string, descriptor: number): void {
  const { uid, gid } = fs.fstatSync(descriptor);
  const old = statsOf(from, fs.statSync) ?? { uid, gid, mode: 0o600 };

  try {
    if (old.uid !== uid || old.gid !== gid) fs.fchownSync(descriptor, old.uid, old.gid);
    // Set after the owner, because changing the owner may clear bits of the mode.
    fs.fchmodSync(descriptor, old.mode & 0o7777);
  } catch {
    const reason = `its owner ${old.uid} and group ${old.gid} cannot be kept`;
    refuse(`${from} cannot be replaced: ${reason}; run the command as that owner or as root`);
  }
}

/**
 * Creates the lock file, locks it and returns its descriptor. Waits while another process holds it.
 *
 * @throws Refusal if another process still holds it after `patienceMs`
 */
async function openLocked(lock: string, patienceMs: number): Promise<number> {
  const giveUpAt = performance.now() + patienceMs;

  for (;;) {
    const result = await tryToLock(lock);
    if (typeof result === 'number') return result;
    if (performance.now() > giveUpAt) refuse(`${result}; try again when that process has ended`);
    await wait(20);
  }
}

/** Creates and locks the lock file. Returns its descriptor, or the reason if another holds it. */
async function tryToLock(lock: string): Promise<number | string> {
  const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDWR } = constants;
  const isThere = statsOf(lock, fs.lstatSync) !== undefined;
  const kind = isThere ? O_NOFOLLOW | O_NONBLOCK : O_CREAT | O_EXCL;
  const inUse = `${lock} is in use by another process`;

  let descriptor: number;
  try {
    descriptor = await nodeDisk.open(lock, O_RDWR | kind | nodeDisk.lockFlags, 0o600);
  } catch (error) {
    // Another process created or removed the file meanwhile, or, on systems that lock while
    // opening, holds the lock.
    const transient = [isThere ? 'ENOENT' : 'EEXIST', 'EAGAIN', 'EBUSY'];
    if (transient.includes(codeOf(error) ?? '')) return inUse;
    throw error;
  }

  let isAcquired = false;
  try {
    await nodeDisk.lock(descriptor, lock);

    // The file may have been renamed or removed before it was locked.
    const opened = fs.fstatSync(descriptor);
    const current = statsOf(lock, fs.lstatSync);
    const isCurrent = opened.ino === current?.ino && opened.dev === current.dev;
    isAcquired = isCurrent && !isThere;
    if (isAcquired) return descriptor;

    // An unlocked lock file was left by a process that was killed. The next try creates a new file.
    if (isCurrent) fs.unlinkSync(lock);
    return inUse;
  } catch (error) {
    if (!(error instanceof PetstoreError)) throw error;
    if (error.code !== 'storage_in_use') refuse(error.message);
    return /^.* is in use by [^:]+/.exec(error.message)?.[0] ?? inUse;
  } finally {
    if (!isAcquired) fs.closeSync(descriptor);
  }
}
