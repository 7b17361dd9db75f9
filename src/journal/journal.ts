/** Opens a journal and appends to it. */
import { constants } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { clearTimeout, setTimeout } from 'node:timers';
import { closedError } from '../engine/index.js';
import { PetstoreError, reasonOf } from '../errors.js';
import type { Log } from '../log.js';
import { checkedClock, machineClock } from '../clock.js';
import { createFile, makeFolders, nodeDisk, syncFolder, transferAll, type Disk } from './disk.js';
import { errnoOf, ignore, inUseError, unusableError } from './disk-errors.js';
import { isHeldElsewhere } from './file-lock.js';
import { batchBytes, type AcceptLine } from './lines.js';
import { replay, type OnCommit, type Replayed } from './replay.js';

/** The options of {@link openJournal}. */
export interface JournalOptions {
  /** Receives a line for each torn tail and each change of state. @defaultValue no log */
  readonly log?: Log;
  /**
   * Returns milliseconds since the epoch, for the names of torn tails and the pace of log lines.
   * @defaultValue `Date.now`
   */
  readonly clock?: () => number;
  /** The disk, which tests replace by a faulty one. @defaultValue the disk of this machine */
  readonly disk?: Disk;
  /** The hint in the error message for a damaged file. @defaultValue the command `check` */
  readonly hint?: string;
}

/** An open journal. Calls of its methods are queued. */
export interface Journal {
  /**
   * Writes lines, which are byte strings, and a commit record, and syncs the file. Resolves to the
   * milliseconds that it took.
   * @throws PetstoreError `unavailable` if the batch is not durable
   */
  append(lines: readonly string[]): Promise<number>;
  /**
   * Resolves if the next append is expected to succeed. Checks the file too, unless an append is in
   * flight.
   * @throws PetstoreError `unavailable` if the journal is not usable
   */
  checkReady(): Promise<void>;
  /** Waits for calls in flight and closes the file. May be called again. */
  close(): Promise<void>;
}

/** An open, locked file with its options. */
interface OpenFile extends Required<JournalOptions> {
  readonly path: string;
  readonly descriptor: number;
}

const nothing = () => undefined;

/**
 * Opens a journal, or creates it (F8), and passes each of its lines to `accept`. A torn tail is cut
 * off (F2).
 * @throws PetstoreError `storage_in_use` if another process has opened the file (F4)
 * @throws PetstoreError `storage_damaged` if no crash explains a bad line (F3)
 * @throws PetstoreError `storage_unusable` if the file cannot be opened, read or written (F7)
 */
export async function openJournal(
  path: string,
  options: JournalOptions,
  accept: AcceptLine,
  onCommit?: OnCommit,
): Promise<Journal> {
  const { disk = nodeDisk, log = nothing, hint = `see \`petstore check ${path}\`` } = options;
  const clock = checkedClock(options.clock ?? machineClock);
  // Before the file is opened, so that the TypeError of a wrong clock is not an error of the file.
  clock();

  let flags = constants.O_RDWR | constants.O_APPEND | disk.appendFlags | disk.lockFlags;
  let descriptor: number | undefined;
  try {
    if (!(await disk.factsAt(path).catch(ignore('ENOENT')))) {
      await makeFolders(disk, dirname(path));
      // O_NOFOLLOW, because creating through a symlink would need a sync of the target's folder.
      flags |= constants.O_CREAT | constants.O_NOFOLLOW;
    }
    descriptor = await disk.open(path, flags, 0o600);
    await disk.lock(descriptor, path);

    // At every start, because the process that created the file may have died before this sync.
    await syncFolder(disk, dirname(path));

    const file = { path, descriptor, disk, log, clock, hint };
    return journalOn(file, await recover(file, accept, onCommit));
  } catch (error) {
    if (descriptor !== undefined) await disk.close(descriptor).catch(nothing);
    throw isHeldElsewhere(error) ? inUseError(path) : unusableError(path, error);
  }
}

/** Replays a file, cuts a torn tail off and commits the last lines. Returns the file's size. */
async function recover(
  file: OpenFile,
  accept: AcceptLine,
  onCommit: OnCommit | undefined,
): Promise<number> {
  const { path, descriptor, disk, log, clock } = file;
  let loggedAt = clock();
  const found = await replay(disk, descriptor, accept, onCommit, (read, size) => {
    if (clock() - loggedAt < 1_000) return;
    loggedAt = clock();
    log('info', 'reading the storage file', { file: path, read, size });
  });

  await cutTornTail(file, found);

  const missing = Buffer.from(found.missingEnd);
  await transferAll(missing, (rest) => disk.write(descriptor, rest));

  // Also if nothing was missing, because the process that wrote it may have died before its sync.
  await disk.datasync(descriptor);
  return found.end + missing.length;
}

/**
 * Moves a torn tail, if there is one, to a file of its own (F2).
 * @throws PetstoreError `storage_damaged` if no crash explains the problem (F3)
 */
async function cutTornTail(file: OpenFile, { problem, end, tornTail }: Replayed): Promise<void> {
  if (!problem) return;

  const { path, descriptor, disk, log, hint } = file;
  const { line, byte, what } = problem;
  if (!tornTail) {
    const damage = `${path} line ${line}, byte ${byte}: ${what}; nothing was changed: ${hint}`;
    throw new PetstoreError('storage_damaged', damage);
  }

  const copy = await copyTail(file, tornTail);
  await disk.truncate(descriptor, end);
  await disk.datasync(descriptor);

  const fields = { file: path, line, byte, bytes: tornTail.length, what, copy };
  log('warn', 'a torn tail was cut off the storage file', fields);
}

/** Copies a torn tail to a new file in the same folder, and returns the new path. */
async function copyTail({ path, disk, clock }: OpenFile, tail: Buffer): Promise<string> {
  const suffix = `.torn-${new Date(clock()).toISOString().replaceAll(':', '-')}`;
  // Fails if an earlier tail has that name, because it may be the only copy. The next start has
  // another name, which contains the millisecond.
  const createAt = async (copy: string) => {
    await createFile(disk, copy, [tail]);
    return copy;
  };

  const copy = await createAt(path + suffix).catch(ignore('ENAMETOOLONG'));
  if (copy !== undefined) return copy;

  // The disk accepts a name that is as long as the file's.
  const name = Buffer.from(basename(path));
  const start = name.subarray(0, Math.max(0, name.length - suffix.length)).toString();
  // The last character may have been cut in two.
  return createAt(join(dirname(path), start.replace(/\uFFFD+$/, '') + suffix));
}

/**
 * The state of a journal, `open` at first. A failed append makes it `full` or `broken`. A
 * successful append makes a full journal `open` again. A broken journal stays so until it is
 * `closed`.
 */
type State =
  | { readonly name: 'open' }
  /** The disk was full (F5). Appends are still tried. The timer `probe` appends an empty batch. */
  | { readonly name: 'full'; readonly failure: PetstoreError; readonly probe: NodeJS.Timeout }
  /** The content of the file is unknown (F6), or it is closed. Appends fail with `failure`. */
  | { readonly name: 'broken' | 'closed'; readonly failure: PetstoreError };

/** The errnos of a disk that may have room again later. */
const fullDiskErrnos = ['ENOSPC', 'EDQUOT', 'EFBIG'];

/**
 * Returns the journal of an open file.
 * @param end The offset at which the last durable batch ends.
 */
function journalOn({ path, descriptor, disk, log }: OpenFile, end: number): Journal {
  let state: State = { name: 'open' };

  // The number of appends that are queued or in flight.
  let appends = 0;

  // Resolves after the last queued use of the file, so that only one append writes at a time.
  let queue: Promise<unknown> = Promise.resolve();

  let closing: Promise<void> | undefined;

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
      log('warn', 'the disk is full; adding fails until there is room', fields);

    const failure = new PetstoreError('unavailable', 'The disk is full.', { cause });
    // An empty batch, so that the journal becomes ready without an insert. If it fails, the
    // journal is full again, with a new probe.
    const probe = setTimeout(() => void append([]).catch(nothing), 1000).unref();

    enter({ name: 'full', failure, probe });
    throw failure;
  }

  function becomeBroken(cause: unknown): never {
    const message = 'the storage file cannot be trusted; adding fails until a restart';
    log('error', message, { file: path, error: reasonOf(cause) });

    const reason = 'The storage file cannot be written any more.';
    const failure = new PetstoreError('unavailable', reason, { cause });
    enter({ name: 'broken', failure });
    throw failure;
  }

  /** Runs `use` once all earlier uses of the file have ended. */
  function enqueue<Result>(use: () => Promise<Result>) {
    const used = queue.then(use);
    queue = used.catch(nothing);
    return used;
  }

  function append(lines: readonly string[]) {
    appends++;
    return enqueue(() => appendNow(lines).finally(() => appends--));
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
   * Cuts off the bytes of a failed append.
   * @param expected The size of the file if the call that failed has written nothing.
   * @throws PetstoreError `unavailable`, with which the journal fails from now on
   */
  async function undo(error: unknown, expected: number) {
    const facts = await disk.factsOf(descriptor).catch(nothing);
    // If the size differs, the sync failed, or the reason is unknown.
    if (facts?.size === expected && fullDiskErrnos.includes(errnoOf(error))) {
      await disk.truncate(descriptor, end).catch(becomeBroken);
      return becomeFull(error);
    }

    // No second fdatasync: it would report success, although the bytes may be only in the kernel's
    // memory. The next start must not serve them.
    await disk.truncate(descriptor, end).catch(nothing);
    return becomeBroken(error);
  }

  /**
   * Checks, before and after a batch, that no other program has changed or replaced the file.
   * Otherwise a backup could miss pets.
   */
  async function checkUntouched(expected: number) {
    const [ours, atPath] = await Promise.all([disk.factsOf(descriptor), disk.factsAt(path)]);

    if (ours.size !== expected)
      throw new Error(
        `another program changed the size of the file from ${expected} to ${ours.size} bytes`,
      );
    if (atPath.dev !== ours.dev || atPath.ino !== ours.ino)
      throw new Error('another program replaced the file');
  }

  function checkOpen() {
    if (state.name !== 'open') throw state.failure;
  }

  return {
    append,
    checkReady: async () => {
      checkOpen();

      // An append in flight checks the file too, and the disk may hang.
      if (appends > 0) return;

      await enqueue(async () => {
        checkOpen();
        await checkUntouched(end).catch(becomeBroken);
      });
    },
    close: () =>
      (closing ??= enqueue(async () => {
        enter({ name: 'closed', failure: closedError() });
        await disk.close(descriptor);
      })),
  };
}
