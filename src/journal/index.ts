/**
 * A journal: opening replays it and cuts off what a crash tore (F2); appending fails full (F5) or
 * broken (F6).
 */
import { constants } from 'node:fs';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import { closedError } from '../engine/index.js';
import { PetstoreError, reasonOf } from '../errors.js';
import type { Log } from '../log.js';
import { checkedClock } from '../options.js';
import {
  createFile,
  errnoOf,
  nodeDisk,
  syncFolder,
  transferAll,
  undefinedAt,
  unusable,
  type Disk,
} from './disk.js';
import { batchBytes, commitLine, type AcceptLine } from './lines.js';
import { inUse, isHeldElsewhere } from './lock.js';
import { replay, type OnCommit } from './replay.js';

export {
  appendingOn,
  appendInSteps,
  createFile,
  nodeDisk,
  syncFolder,
  unusable,
  withFile,
} from './disk.js';
export type { Disk, FileFacts } from './disk.js';
export {
  batchBytes,
  idempotencyLine,
  importLine,
  offerLine,
  readLine,
  wholeLines,
} from './lines.js';
export type { AcceptLine } from './lines.js';
export { isHeldElsewhere, lockingOn } from './lock.js';
export { replay, type OnCommit } from './replay.js';

/** How to open a journal. */
export interface JournalOptions {
  /** Is told of a torn tail and of changes of state. @defaultValue nobody */
  readonly log?: Log;
  /**
   * Milliseconds since the epoch: names a torn tail's copy, paces a start's log. @defaultValue
   * `Date.now`
   */
  readonly clock?: () => number;
  /** The file functions and the lock, for tests of faults. @defaultValue this machine's */
  readonly disk?: Disk;
  /** What to do about damage. @defaultValue the command `check` */
  readonly mend?: string;
}

const nothing = (): void => undefined;

type Opening = JournalOptions & Required<Pick<JournalOptions, 'disk' | 'log' | 'clock'>>;

/**
 * Opens one, made where missing (F8); hands each line to `accept`. @throws PetstoreError
 * `storage_…` (F3, F4, F7)
 */
export async function openJournal(
  path: string,
  options: JournalOptions,
  accept: AcceptLine,
  onCommit?: OnCommit,
) {
  const { disk = nodeDisk, log = nothing } = options;
  const clock = checkedClock(options.clock ?? Date.now);
  // The caller's mistake, and no trouble with the file.
  clock();
  const folder = dirname(path);
  let flags = constants.O_RDWR | constants.O_APPEND | disk.appendFlags | disk.lockFlags;
  let descriptor: number | undefined;
  try {
    if (!(await undefinedAt('ENOENT', disk.factsAt(path)))) {
      await makeFolder(disk, folder);
      // Not at the end of a link, where another folder than this one would have to be synced.
      flags |= constants.O_CREAT | constants.O_NOFOLLOW;
    }
    descriptor = await disk.open(path, flags, 0o600);
    await disk.lock(descriptor, path);
    // At every start: the process that made the file may have died before this.
    await syncFolder(disk, folder);
    const end = await recover(path, descriptor, { ...options, disk, log, clock }, accept, onCommit);
    return journalOn(path, descriptor, disk, log, end);
  } catch (error) {
    if (descriptor !== undefined) await disk.close(descriptor).catch(nothing);
    throw isHeldElsewhere(error) ? inUse(path) : unusable(path, error);
  }
}

/**
 * Makes a folder and those above it where they are missing, each of mode 700, their names on the
 * medium. (Node's recursive `mkdir` never ends below /proc.)
 */
export async function makeFolder(disk: Disk, folder: string): Promise<void> {
  // A drive of Windows may be missing.
  if (folder === dirname(folder) || (await undefinedAt('ENOENT', disk.factsAt(folder)))) return;
  await makeFolder(disk, dirname(folder));
  // Another process that starts may make the same one.
  await undefinedAt('EEXIST', disk.makeFolder(folder, 0o700));
  await syncFolder(disk, dirname(folder));
}

/** Replays, sets a torn tail aside, commits what is uncommitted; answers the file's size. */
async function recover(
  path: string,
  descriptor: number,
  options: Opening,
  accept: AcceptLine,
  onCommit: OnCommit | undefined,
) {
  const { disk, log, clock, mend = `see \`petstore check ${path}\`` } = options;
  let toldAt = clock();
  const found = await replay(disk, descriptor, accept, onCommit, (read, size) => {
    if (clock() - toldAt < 1_000) return;
    toldAt = clock();
    log('info', 'reading the storage file', { file: path, read, size });
  });
  const { problem, end, committedEnd, sum, lacksNewline, tornTail } = found;
  if (problem) {
    const { line, byte, what } = problem;
    const where = `${path} line ${line}, byte ${byte}: ${what}`;
    if (!tornTail)
      throw new PetstoreError('storage_damaged', `${where}; nothing was changed: ${mend}`);
    const copy = `${path}.torn-${new Date(clock()).toISOString().replaceAll(':', '-')}`;
    // Where an earlier tail has that name this fails, for it may be the only copy; a moment later
    // it has another.
    await createFile(disk, copy, [tornTail]);
    await disk.truncate(descriptor, end);
    await disk.datasync(descriptor);
    const bytes = tornTail.length;
    log('warn', 'a torn tail was cut off the storage file', {
      file: path,
      line,
      byte,
      bytes,
      what,
      copy,
    });
  }
  let commit = '';
  if (end > committedEnd) {
    const newline = lacksNewline ? '\n' : '';
    commit = newline + commitLine(committedEnd, crc32(newline, sum));
    await transferAll(Buffer.from(commit, 'latin1'), (rest) => disk.write(descriptor, rest));
  }
  // In any case: the process that wrote it may have died before its fdatasync.
  await disk.datasync(descriptor);
  return end + commit.length;
}

/** An open journal; takes one batch at a time. */
function journalOn(path: string, descriptor: number, disk: Disk, log: Log, sizeAtStart: number) {
  let end = sizeAtStart;
  let failure: PetstoreError | undefined;
  // Whether the failure may pass; any other lasts until a restart.
  let isFull = false;
  // Resolves after the last use of the file: a probe and a batch must not write at once.
  let turn: Promise<void> = Promise.resolve();
  let appends = 0;
  let probe: NodeJS.Timeout | undefined;
  let closing: Promise<void> | undefined;

  function inTurn<Result>(use: () => Promise<Result>): Promise<Result> {
    const used = turn.then(use);
    turn = used.then(nothing, nothing);
    return used;
  }

  /**
   * Writes and syncs byte strings, a line each; answers the milliseconds of it. @throws
   * PetstoreError `unavailable`
   */
  function append(lines: readonly string[]): Promise<number> {
    appends++;
    return inTurn(() => appendNow(lines).finally(() => appends--));
  }

  async function appendNow(lines: readonly string[]): Promise<number> {
    if (failure && !isFull) throw failure;
    const bytes = batchBytes(lines, end);
    await orBroken(checkUntouched(end));
    const startedAt = performance.now();
    let grown = end;
    try {
      await transferAll(bytes, async (rest) => {
        const count = await disk.append(descriptor, rest);
        grown += count;
        return count;
      });
    } catch (error) {
      throw await undo(error, grown);
    }
    await orBroken(checkUntouched(grown));
    end = grown;
    if (isFull) {
      isFull = false;
      failure = undefined;
      clearTimeout(probe);
      log('info', 'the disk has room again', { file: path });
    }
    return performance.now() - startedAt;
  }

  /**
   * Cuts off what a failed append wrote; `expected` is the file's size if the call that failed
   * wrote nothing.
   */
  async function undo(error: unknown, expected: number): Promise<PetstoreError> {
    const { size } = await disk.factsOf(descriptor).catch(() => ({ size: undefined }));
    // With another size it was the sync that failed, or nobody knows.
    if (size === expected && ['ENOSPC', 'EDQUOT', 'EFBIG'].includes(errnoOf(error))) {
      await orBroken(disk.truncate(descriptor, end));
      return fail(error, true);
    }
    // A second fdatasync would report success, and the next start would serve what is in the
    // kernel's memory alone.
    await disk.truncate(descriptor, end).catch(nothing);
    return fail(error);
  }

  /**
   * Before and after a batch: with another program's bytes, or its file at our path, a backup would
   * miss animals.
   */
  async function checkUntouched(expected: number): Promise<void> {
    const [ours, atPath] = await Promise.all([disk.factsOf(descriptor), disk.factsAt(path)]);
    if (ours.size !== expected)
      throw new Error(`another program changed its size from ${expected} to ${ours.size} bytes`);
    if (atPath.dev !== ours.dev || atPath.ino !== ours.ino)
      throw new Error('another program put another file in its place');
  }

  function orBroken(step: Promise<unknown>): Promise<unknown> {
    return step.catch((error: unknown) => Promise.reject(fail(error)));
  }

  function fail(cause: unknown, mayPass = false): PetstoreError {
    const fields = { file: path, error: reasonOf(cause) };
    clearTimeout(probe);
    if (!mayPass) {
      log(
        'error',
        'the storage file is not to be trusted: nothing is added to it until a restart',
        fields,
      );
    } else {
      if (!isFull) log('warn', 'the disk is full: nothing is added until there is room', fields);
      // An empty commit in a second, for readiness to come back by itself. If it fails, that arms
      // the next.
      probe = setTimeout(() => void append([]).catch(nothing), 1000).unref();
    }
    isFull = mayPass;
    const reason = isFull ? 'The disk is full.' : 'The storage file cannot be written any more.';
    return (failure = new PetstoreError('unavailable', reason, { cause }));
  }

  return {
    append,
    /** Looks at the file too. @throws PetstoreError `unavailable` */
    checkReady: async (): Promise<void> => {
      if (failure) throw failure;
      // The append under way checks the file too, and may be waiting for a disk that hangs.
      if (appends > 0) return;
      await inTurn(async () => {
        if (failure) throw failure;
        await orBroken(checkUntouched(end));
      });
    },
    close: (): Promise<void> => {
      closing ??= inTurn(async () => {
        failure = closedError();
        isFull = false;
        clearTimeout(probe);
        await disk.close(descriptor);
      });
      return closing;
    },
  };
}
