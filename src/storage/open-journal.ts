/**
 * Owns the way from a path to a journal that can be served from: opened, locked, replayed, mended where a crash cut it,
 * all of it on the disk (F2). Knows no animal.
 */
import { dirname } from 'node:path';
import { PetstoreError } from '../errors.js';
import type { Log } from '../log.js';
import { commitLine } from './commit-line.js';
import { openDataFile, syncFolder } from './data-file.js';
import { writeAll, type Disk } from './disk.js';
import { Journal, type JournalFile } from './journal.js';
import { crc32 } from './late-builtins.js';
import { isHeldElsewhere, type Lock, type Locking } from './lock.js';
import { replay, type AcceptLine, type Progress, type ReplayProblem } from './replay.js';
import { setTornTailAside } from './torn-tail.js';
import { inUse, unusable } from './unusable.js';

/** What a journal is opened with. */
export interface OpenJournalOptions {
  readonly disk: Disk;
  readonly locking: Locking;
  readonly log: Log;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  /** What to do about damage, for the message. @defaultValue the command that looks at animals */
  readonly mend?: string;
}

/**
 * Opens the journal at a path, making it where missing, and hands each of its lines to `accept`.
 * @throws PetstoreError `storage_unusable` (F7), `storage_in_use` (F4), `storage_damaged` (F3: the file is untouched).
 */
export async function openJournal(path: string, options: OpenJournalOptions, accept: AcceptLine): Promise<Journal> {
  const { disk, locking } = options;
  let descriptor: number | undefined;
  let lock: Lock | undefined;
  try {
    descriptor = await openDataFile(disk, path, locking.openFlags);
    lock = await locking.lock(descriptor, path);
    // At every start: whoever made the file may have died before it came to this.
    await syncFolder(disk, dirname(path));
    const end = await recover({ path, descriptor, ...options }, accept);
    return await Journal.on({ path, descriptor, end, disk, lock, log: options.log });
  } catch (error) {
    await lock?.release();
    if (descriptor !== undefined) await disk.close(descriptor).catch(() => undefined);
    throw isHeldElsewhere(error) ? inUse(path, undefined) : unusable(path, error);
  }
}

/** One line for the operator, who must decide: nothing here can know which animals are gone. */
function damaged(path: string, { line, byte, what }: Omit<ReplayProblem, 'kind'>, mend = `see \`node dist/server.js check ${path}\``): PetstoreError {
  return new PetstoreError('storage_damaged', `${path} line ${line}, byte ${byte}: ${what}; nothing was changed: ${mend}`);
}

interface Recovery extends OpenJournalOptions, Pick<JournalFile, 'path' | 'descriptor'> {}

/** Says once a second how far a long start has come. */
function tellEachSecond(path: string, log: Log, clock: () => number): Progress {
  let toldAt = clock();
  return (read, size) => {
    const now = clock();
    if (now - toldAt < 1_000) return;
    toldAt = now;
    log('info', 'reading the storage file', { file: path, read, size });
  };
}

/** Replays, sets a torn tail aside, commits what has no commit; answers the size of the file then. */
async function recover({ path, descriptor, disk, log, clock, mend }: Recovery, accept: AcceptLine): Promise<number> {
  const found = await replay(disk, descriptor, accept, tellEachSecond(path, log, clock));
  const { problem, end, size } = found;
  if (problem?.kind === 'damaged') throw damaged(path, problem, mend);
  if (problem !== undefined) {
    const copy = await setTornTailAside(disk, { path, descriptor, from: end, to: size }, clock());
    const { line, byte, what } = problem;
    log('warn', 'a torn tail was cut off the storage file', { file: path, line, byte, bytes: size - end, what, copy });
  }
  let closing = '';
  if (end > found.committedEnd) {
    const newline = found.endsInLine ? '\n' : '';
    closing = newline + commitLine({ from: found.committedEnd, crc32: crc32(newline, found.crc32) });
    await writeAll(disk, descriptor, Buffer.from(closing, 'latin1'));
  }
  // Even where nothing was written: who wrote it may have died before its own fdatasync.
  await disk.datasync(descriptor);
  return end + closing.length;
}
