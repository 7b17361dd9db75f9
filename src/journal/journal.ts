/**
 * A journal: a file of lines that last. Opening replays it and cuts off what a crash tore (F2);
 * appending syncs each batch (F1), and fails while the disk is full (F5) or once the file is not to
 * be trusted (F6).
 */
import { constants } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { clearTimeout, setTimeout } from 'node:timers';
import { closedError } from '../engine/index.js';
import { PetstoreError, reasonOf } from '../errors.js';
import type { Log } from '../log.js';
import { checkedClock, machineClock } from '../options.js';
import {
  createFile,
  errnoOf,
  inUse,
  isHeldElsewhere,
  makeFolders,
  nodeDisk,
  syncFolder,
  transferAll,
  unless,
  unusable,
  type Disk,
} from './disk.js';
import { batchBytes, type AcceptLine } from './lines.js';
import { replay, type OnCommit, type Replayed } from './replay.js';

/** How to open a journal. */
export interface JournalOptions {
  /** Hears of a torn tail and of changes of state. @defaultValue nobody */
  readonly log?: Log;
  /**
   * Milliseconds since the epoch: names a torn tail's copy, paces the log of a long start.
   * @defaultValue `Date.now`
   */
  readonly clock?: () => number;
  /** The file functions and the lock, for tests of faults. @defaultValue this machine's */
  readonly disk?: Disk;
  /** What to do about damage. @defaultValue the command `check` */
  readonly mend?: string;
}

/** An open journal. Its methods may be called at any time: each waits for its turn. */
export interface Journal {
  /**
   * Writes and syncs byte strings, a line each, and a commit behind them; resolves to how many
   * milliseconds that took.
   * @throws PetstoreError `unavailable`
   */
  append(lines: readonly string[]): Promise<number>;
  /**
   * Resolves while appending can be expected to succeed: looks at the file too, unless an append is
   * under way.
   * @throws PetstoreError `unavailable`
   */
  checkReady(): Promise<void>;
  /** Waits for what is under way, and frees the file. Calling it again answers alike. */
  close(): Promise<void>;
}

/** A file that is open and locked, its path and what it was opened with. */
interface OpenFile extends Required<JournalOptions> {
  readonly path: string;
  readonly descriptor: number;
}

const nothing = () => undefined;

/**
 * Opens a journal, which is made where it is missing (F8), and hands each of its lines to `accept`.
 * @throws PetstoreError `storage_in_use` (F4), `storage_damaged` (F3), `storage_unusable` (F7).
 */
export async function openJournal(
  path: string,
  options: JournalOptions,
  accept: AcceptLine,
  onCommit?: OnCommit,
): Promise<Journal> {
  const { disk = nodeDisk, log = nothing, mend = `see \`petstore check ${path}\`` } = options;
  const clock = checkedClock(options.clock ?? machineClock);
  // A clock that is none is the caller's mistake, and no trouble with the file.
  clock();

  let flags = constants.O_RDWR | constants.O_APPEND | disk.appendFlags | disk.lockFlags;
  let descriptor: number | undefined;
  try {
    if (!(await disk.factsAt(path).catch(unless('ENOENT')))) {
      await makeFolders(disk, dirname(path));
      // Not at the end of a link, where another folder than this one would have to be synced.
      flags |= constants.O_CREAT | constants.O_NOFOLLOW;
    }
    descriptor = await disk.open(path, flags, 0o600);
    await disk.lock(descriptor, path);

    // At every start: the process that made the file may have died before this.
    await syncFolder(disk, dirname(path));

    const file = { path, descriptor, disk, log, clock, mend };
    return journalOn(file, await recover(file, accept, onCommit));
  } catch (error) {
    if (descriptor !== undefined) await disk.close(descriptor).catch(nothing);
    throw isHeldElsewhere(error) ? inUse(path) : unusable(path, error);
  }
}

/** Replays a file, sets a torn tail aside, commits what has no commit; answers the file's size. */
async function recover(
  file: OpenFile,
  accept: AcceptLine,
  onCommit: OnCommit | undefined,
): Promise<number> {
  const { path, descriptor, disk, log, clock } = file;
  let toldAt = clock();
  const found = await replay(disk, descriptor, accept, onCommit, (read, size) => {
    if (clock() - toldAt < 1_000) return;
    toldAt = clock();
    log('info', 'reading the storage file', { file: path, read, size });
  });

  await cutTornTail(file, found);

  const missing = Buffer.from(found.missingEnd);
  await transferAll(missing, (rest) => disk.write(descriptor, rest));

  // In any case: the process that wrote it may have died before its fdatasync.
  await disk.datasync(descriptor);
  return found.end + missing.length;
}

/**
 * Copies a torn tail, where there is one, into a file beside, and cuts it off (F2).
 * @throws PetstoreError `storage_damaged` where a problem is none of a crash (F3).
 */
async function cutTornTail(file: OpenFile, { problem, end, tornTail }: Replayed): Promise<void> {
  if (!problem) return;

  const { path, descriptor, disk, log, mend } = file;
  const { line, byte, what } = problem;
  if (!tornTail) {
    const damage = `${path} line ${line}, byte ${byte}: ${what}; nothing was changed: ${mend}`;
    throw new PetstoreError('storage_damaged', damage);
  }

  const copy = await copyTail(file, tornTail);
  await disk.truncate(descriptor, end);
  await disk.datasync(descriptor);

  const fields = { file: path, line, byte, bytes: tornTail.length, what, copy };
  log('warn', 'a torn tail was cut off the storage file', fields);
}

/** Writes a torn tail into a new file beside, and returns the path of that. */
async function copyTail({ path, disk, clock }: OpenFile, tail: Buffer): Promise<string> {
  const suffix = `.torn-${new Date(clock()).toISOString().replaceAll(':', '-')}`;
  // This fails where an earlier tail has that name, for it may be the only copy. A start of another
  // millisecond has another name.
  const createAt = async (copy: string) => {
    await createFile(disk, copy, [tail]);
    return copy;
  };

  const copy = await createAt(path + suffix).catch(unless('ENAMETOOLONG'));
  if (copy !== undefined) return copy;

  // The disk takes a name as long as the file's own.
  const name = Buffer.from(basename(path));
  const start = name.subarray(0, Math.max(0, name.length - suffix.length)).toString();
  // The last character may have been cut in two.
  return createAt(join(dirname(path), start.replace(/\uFFFD+$/, '') + suffix));
}

/**
 * What a journal is at a time. It is `open` at first. An append that fails makes it `full` or
 * `broken`, one that succeeds makes it `open` again; what is broken stays so until it is `closed`.
 */
type State =
  | { readonly name: 'open' }
  /** The disk was full (F5). Appends are tried; the timer `probe` tries one of nothing. */
  | { readonly name: 'full'; readonly failure: PetstoreError; readonly probe: NodeJS.Timeout }
  /** Nobody can say what the file holds (F6), or it is closed: every append fails by `failure`. */
  | { readonly name: 'broken' | 'closed'; readonly failure: PetstoreError };

/** Errors of a disk that may have room again. */
const fullDisk = ['ENOSPC', 'EDQUOT', 'EFBIG'];

/** @param end Where the last batch ends that was written and synced. */
function journalOn({ path, descriptor, disk, log }: OpenFile, end: number): Journal {
  let state: State = { name: 'open' };

  // How many appends are under way or wait for their turn.
  let appends = 0;

  // Resolves after the last use of the file: a probe and a batch must not write at once.
  let lastTurn: Promise<unknown> = Promise.resolve();

  let closing: Promise<void> | undefined;

  // Every change of state is one of these, or the closing below.
  function enter(next: State) {
    if (state.name === 'full') clearTimeout(state.probe);
    state = next;
  }

  function becomeOpen() {
    if (state.name === 'full') log('info', 'the disk has room again', { file: path });
    enter({ name: 'open' });
  }

  function becomeFull(cause: unknown): never {
    const fields = { file: path, error: reasonOf(cause) };
    if (state.name !== 'full')
      log('warn', 'the disk is full: nothing is added until there is room', fields);

    const failure = new PetstoreError('unavailable', 'The disk is full.', { cause });
    // Readiness comes back by itself so. A probe that fails makes the journal full once more.
    const probe = setTimeout(() => void append([]).catch(nothing), 1000).unref();

    enter({ name: 'full', failure, probe });
    throw failure;
  }

  function becomeBroken(cause: unknown): never {
    const message = 'the storage file is not to be trusted: nothing is added to it until a restart';
    log('error', message, { file: path, error: reasonOf(cause) });

    const reason = 'The storage file cannot be written any more.';
    const failure = new PetstoreError('unavailable', reason, { cause });
    enter({ name: 'broken', failure });
    throw failure;
  }

  /** Uses the file once those have ended who came before. */
  function inTurn<Result>(use: () => Promise<Result>) {
    const used = lastTurn.then(use);
    lastTurn = used.catch(nothing);
    return used;
  }

  function append(lines: readonly string[]) {
    appends++;
    return inTurn(() => appendNow(lines).finally(() => appends--));
  }

  async function appendNow(lines: readonly string[]) {
    if (state.name === 'broken' || state.name === 'closed') throw state.failure;

    const bytes = batchBytes(lines, end);
    await checkUntouched(end).catch(becomeBroken);

    const startedAt = performance.now();
    let grown = end;
    try {
      await transferAll(bytes, async (rest) => {
        const count = await disk.append(descriptor, rest);
        grown += count;
        return count;
      });
    } catch (error) {
      return await undo(error, grown);
    }

    await checkUntouched(grown).catch(becomeBroken);
    end = grown;
    becomeOpen();

    return performance.now() - startedAt;
  }

  /**
   * Cuts off what a failed append wrote, and throws what the journal fails by from now on.
   * @param expected The file's size if the call that failed wrote nothing.
   */
  async function undo(error: unknown, expected: number) {
    const facts = await disk.factsOf(descriptor).catch(nothing);
    // With another size it was the sync that failed, or nobody knows.
    if (facts?.size === expected && fullDisk.includes(errnoOf(error))) {
      await disk.truncate(descriptor, end).catch(becomeBroken);
      return becomeFull(error);
    }

    // A second fdatasync would report success, and the next start would serve what is in the
    // kernel's memory alone.
    await disk.truncate(descriptor, end).catch(nothing);
    return becomeBroken(error);
  }

  /**
   * This is asked before and after a batch: with another program's bytes, or its file at our path,
   * a backup would miss animals.
   */
  async function checkUntouched(expected: number) {
    const [ours, atPath] = await Promise.all([disk.factsOf(descriptor), disk.factsAt(path)]);

    if (ours.size !== expected)
      throw new Error(`another program changed its size from ${expected} to ${ours.size} bytes`);
    if (atPath.dev !== ours.dev || atPath.ino !== ours.ino)
      throw new Error('another program put another file in its place');
  }

  function checkOpen() {
    if (state.name !== 'open') throw state.failure;
  }

  return {
    append,
    checkReady: async () => {
      checkOpen();

      // The append under way checks the file too, and may be waiting for a disk that hangs.
      if (appends > 0) return;

      await inTurn(async () => {
        checkOpen();
        await checkUntouched(end).catch(becomeBroken);
      });
    },
    close: () =>
      (closing ??= inTurn(async () => {
        enter({ name: 'closed', failure: closedError() });
        await disk.close(descriptor);
      })),
  };
}
