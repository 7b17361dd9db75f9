/** Reads and replaces the small files that belong to a process: keys, certificates, a seed. */
import fs, { constants } from 'node:fs';
import { dirname } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as wait } from 'node:timers/promises';
import { codeOf, PetstoreError } from '../index.js';
import { makeFolders, nodeDisk, syncFolder } from '../journal/index.js';
import { refuse } from './output.js';

/** How many bytes one read asks for. */
const readBytes = 2 ** 16;

/**
 * Reads a whole file, to which links may lead. Never waits: a pipe or a device could keep the
 * process from every other event.
 *
 * @throws Error if the path leads to anything but a regular file, or to more than `maxBytes`, and
 * that of the system
 */
export function readRegularFile(path: string, maxBytes: number): Buffer {
  // Opening a device can have effects, so the path is checked before it is opened.
  requireRegularFile(path, fs.statSync(path));

  // Another file can be there by now. Opening a pipe with this flag does not wait for its writer.
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

/** @throws Error for a pipe, a device, a socket or a folder */
export function requireRegularFile(path: string, stats: fs.Stats): void {
  if (!stats.isFile()) throw new Error(`${path} is not a regular file`);
}

/** Reads an open file to its end. Undefined if it is longer than `maxBytes`. */
function readUpTo(descriptor: number, maxBytes: number): Buffer | undefined {
  const pieces: Buffer[] = [];
  let length = 0;

  // The size that the system states is not trusted: files below /proc state 0.
  for (;;) {
    const piece = Buffer.allocUnsafe(readBytes);
    const count = fs.readSync(descriptor, piece);
    if (count === 0) return Buffer.concat(pieces, length);

    length += count;
    if (length > maxBytes) return undefined;
    pieces.push(piece.subarray(0, count));
  }
}

/**
 * Replaces a file by a new one, which is on the medium in the end. The new file has the owner, the
 * group and the mode of the old one; without an old one it has mode 600. It is written as
 * `FILE.lock`, which is locked by the kernel, and then renamed. Meanwhile other processes wait.
 *
 * @param makeText Returns the text of the new file, while no other process changes the old one.
 * @throws Refusal if the lock is not free in time, or if the owner cannot be kept
 * @throws Error if the path leads to something else than a regular file
 * @throws whatever `makeText` and the system throw
 * After any of these the file is as it was.
 */
export async function replaceFile(
  path: string,
  makeText: () => string,
  patienceMs = 5_000,
): Promise<void> {
  // Renaming to a symbolic link would replace the link. A link that leads nowhere is refused here.
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
    // Windows renames no file that is open.
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

/** Returns the stats of a file; undefined if there is none. */
function statsOf(path: string, stat: typeof fs.statSync): fs.Stats | undefined {
  return stat(path, { throwIfNoEntry: false });
}

/**
 * Gives an open file the owner, the group and the mode of `from`, if that exists.
 *
 * @throws Refusal if this user is not permitted to
 */
function copyOwnerAndMode(from: string, descriptor: number): void {
  const { uid, gid } = fs.fstatSync(descriptor);
  const old = statsOf(from, fs.statSync) ?? { uid, gid, mode: 0o600 };

  try {
    if (old.uid !== uid || old.gid !== gid) fs.fchownSync(descriptor, old.uid, old.gid);
    // Changing the owner may clear bits of the mode, so the mode comes second.
    fs.fchmodSync(descriptor, old.mode & 0o7777);
  } catch (error) {
    const reason = `its owner ${old.uid} and group ${old.gid} cannot be kept (${codeOf(error)})`;
    refuse(`${from} cannot be replaced: ${reason}; run the command as that owner or as root`);
  }
}

/**
 * Makes a file and locks it, and waits while another process has one of this name.
 *
 * @returns its descriptor
 * @throws Refusal if another process still has it after `patienceMs`
 */
async function openLocked(lock: string, patienceMs: number): Promise<number> {
  const giveUpAt = performance.now() + patienceMs;

  for (;;) {
    const result = await tryToLock(lock);
    if (typeof result === 'number') return result;
    if (performance.now() > giveUpAt) refuse(`${result}; try again once that process has ended`);
    await wait(20);
  }
}

/** Returns the descriptor of a new, locked file, or the reason why there is none yet. */
async function tryToLock(lock: string): Promise<number | string> {
  const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDWR } = constants;
  const isThere = statsOf(lock, fs.lstatSync) !== undefined;
  const kind = isThere ? O_NOFOLLOW | O_NONBLOCK : O_CREAT | O_EXCL;
  const inUse = `${lock} is in use by another process`;

  let descriptor: number;
  try {
    descriptor = await nodeDisk.open(lock, O_RDWR | kind | nodeDisk.lockFlags, 0o600);
  } catch (error) {
    // The file came or went meanwhile, or its lock, which some systems take here, is not free.
    const passing = [isThere ? 'ENOENT' : 'EEXIST', 'EAGAIN', 'EBUSY'];
    if (passing.includes(codeOf(error) ?? '')) return inUse;
    throw error;
  }

  let isOurs = false;
  try {
    await nodeDisk.lock(descriptor, lock);

    // The file may have been renamed or removed before it was locked.
    const opened = fs.fstatSync(descriptor);
    const named = statsOf(lock, fs.lstatSync);
    const isNamed = opened.ino === named?.ino && opened.dev === named.dev;
    isOurs = isNamed && !isThere;
    if (isOurs) return descriptor;

    // A process that was killed left this file, because no process has it locked.
    if (isNamed) fs.unlinkSync(lock);
    return inUse;
  } catch (error) {
    if (!(error instanceof PetstoreError)) throw error;
    if (error.code !== 'storage_in_use') refuse(error.message);
    return /^.* is in use by [^:]+/.exec(error.message)?.[0] ?? inUse;
  } finally {
    if (!isOurs) fs.closeSync(descriptor);
  }
}
