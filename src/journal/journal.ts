/**
 * A journal, lines that only grow, for storages in files. Opening locks the file, replays it, sets aside what a crash
 * tore and syncs the rest (F2); whatever goes wrong with appending (F1) turns it full (F5) or broken (F6).
 */
import { constants } from 'node:fs';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import { PetstoreError, reasonOf, type Log } from '../errors.js';
import { closedError } from '../memory/index.js';
import { createFile, errnoOf, syncFolder, transferAll, unless, unusable, type Disk, type FileFacts } from './disk.js';
import { batchBytes, commitLine, type AcceptLine } from './lines.js';
import { inUse, isHeldElsewhere, type lockingOn } from './lock.js';
import { replay } from './replay.js';

export interface OpenJournalOptions {
  readonly disk: Disk;
  readonly locking: ReturnType<typeof lockingOn>;
  readonly log: Log;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  /** What to do about damage. @defaultValue the command `check` */
  readonly mend?: string;
}

/**
 * Opens a journal, making it where missing, and hands each of its lines to `accept`.
 * @throws PetstoreError `storage_unusable` (F7), `storage_in_use` (F4), `storage_damaged` (F3)
 */
export async function openJournal(path: string, options: OpenJournalOptions, accept: AcceptLine): Promise<Journal> {
  const { disk, locking } = options;
  const folder = dirname(path);
  let flags = constants.O_RDWR | constants.O_APPEND | disk.appendFlags | locking.openFlags;
  let descriptor: number | undefined;
  try {
    if (!(await unless('ENOENT', disk.factsAt(path)))) {
      await makeFolder(disk, folder);
      // Not at the end of a link, where another folder than this one would have to be synced (F8).
      flags |= constants.O_CREAT | constants.O_NOFOLLOW;
    }
    descriptor = await disk.open(path, flags, 0o600);
    await locking.lock(descriptor, path);
    // At every start: the process that made the file may have died before this.
    await syncFolder(disk, folder);
    const file = { ...options, path, descriptor };
    return new Journal(file, await recover(file, accept));
  } catch (error) {
    if (descriptor !== undefined) await disk.close(descriptor).catch(nothing);
    throw isHeldElsewhere(error) ? inUse(path) : unusable(path, error);
  }
}

/** Makes a folder and those above it: Node's recursive `mkdir` never ends below /proc. */
async function makeFolder(disk: Disk, folder: string): Promise<void> {
  // A drive of Windows may be missing.
  if (folder === dirname(folder) || (await unless('ENOENT', disk.factsAt(folder)))) return;
  await makeFolder(disk, dirname(folder));
  // Another process that starts may make the same one.
  await unless('EEXIST', disk.makeFolder(folder, 0o700));
  await syncFolder(disk, dirname(folder));
}

/** Replays, sets a torn tail aside, commits what is uncommitted; answers the file's size. */
async function recover(file: JournalFile, accept: AcceptLine): Promise<number> {
  const { path, descriptor, disk, log, clock, mend = `see \`node dist/server.js check ${path}\`` } = file;
  const found = await replay(disk, descriptor, accept);
  const { problem, end, committedEnd, tornTail } = found;
  if (problem) {
    const { line, byte, what } = problem;
    const where = `${path} line ${line}, byte ${byte}: ${what}`;
    if (!tornTail) throw new PetstoreError('storage_damaged', `${where}; nothing was changed: ${mend}`);
    const bytes = tornTail.length;
    const copy = `${path}.torn-${new Date(clock()).toISOString().replaceAll(':', '-')}`;
    // Where an earlier tail has that name this fails, for it may be the only copy; a moment later it has another.
    await createFile(disk, copy, [tornTail]);
    await disk.truncate(descriptor, end);
    await disk.datasync(descriptor);
    log('warn', 'a torn tail was cut off the storage file', { file: path, line, byte, bytes, what, copy });
  }
  let commit = '';
  if (end > committedEnd) {
    const newline = found.lacksNewline ? '\n' : '';
    commit = newline + commitLine(committedEnd, crc32(newline, found.sum));
    await transferAll(Buffer.from(commit, 'latin1'), (rest) => disk.write(descriptor, rest));
  }
  // In any case: the process that wrote it may have died before its fdatasync.
  await disk.datasync(descriptor);
  return end + commit.length;
}

type JournalFile = OpenJournalOptions & { readonly path: string; readonly descriptor: number };

const probeMs = 1000;
const nothing = (): void => undefined;

/** An open journal; takes one batch at a time. */
export class Journal {
  readonly #file: JournalFile;
  #end: number;
  #failure: PetstoreError | undefined;
  /** Whether the failure may pass; any other lasts until a restart. */
  #isFull = false;
  /** Resolves after the last use of the file: a probe and a batch must not write at once. */
  #turn: Promise<void> = Promise.resolve();
  #appends = 0;
  #probe: NodeJS.Timeout | undefined;
  #closing: Promise<void> | undefined;

  constructor(file: JournalFile, end: number) {
    this.#file = file;
    this.#end = end;
  }

  /** Writes and syncs byte strings, a line each; answers the milliseconds of it. @throws PetstoreError `unavailable` */
  append(lines: readonly string[]): Promise<number> {
    this.#appends++;
    return this.#inTurn(() => this.#append(lines).finally(() => this.#appends--));
  }

  /** Looks at the file too. @throws PetstoreError `unavailable` */
  async checkReady(): Promise<void> {
    if (this.#failure) throw this.#failure;
    // The append under way checks the file too, and may be waiting for a disk that hangs.
    if (this.#appends > 0) return;
    await this.#inTurn(async () => {
      if (this.#failure) throw this.#failure;
      await this.#orBroken(this.#checkUntouched());
    });
  }

  close(): Promise<void> {
    this.#closing ??= this.#inTurn(async () => {
      this.#failure = closedError();
      this.#isFull = false;
      clearTimeout(this.#probe);
      await this.#file.disk.close(this.#file.descriptor);
    });
    return this.#closing;
  }

  #inTurn<Result>(use: () => Promise<Result>): Promise<Result> {
    const used = this.#turn.then(use);
    this.#turn = used.then(nothing, nothing);
    return used;
  }

  async #append(lines: readonly string[]): Promise<number> {
    if (this.#failure && !this.#isFull) throw this.#failure;
    const { disk, descriptor, path, log } = this.#file;
    const bytes = batchBytes(lines, this.#end);
    await this.#orBroken(this.#checkUntouched());
    const startedAt = performance.now();
    let end = this.#end;
    const writing = transferAll(bytes, async (rest) => {
      const count = await disk.append(descriptor, rest);
      end += count;
      return count;
    });
    await writing.catch(async (error: unknown) => {
      throw await this.#undo(error, end);
    });
    await this.#orBroken(this.#checkSize(end));
    this.#end = end;
    if (this.#isFull) {
      this.#isFull = false;
      this.#failure = undefined;
      clearTimeout(this.#probe);
      log('info', 'the disk has room again', { file: path });
    }
    return performance.now() - startedAt;
  }

  /** Cuts off what a failed append wrote; `expected` is the file's size if the call that failed wrote nothing. */
  async #undo(error: unknown, expected: number): Promise<PetstoreError> {
    const { disk, descriptor } = this.#file;
    const { size } = await disk.factsOf(descriptor).catch(() => ({ size: undefined }));
    if (size !== expected) {
      // It was the sync that failed, or nobody knows. A second fdatasync would report success, and the next start would
      // serve what is in the kernel's memory alone.
      await disk.truncate(descriptor, this.#end).catch(nothing);
      return this.#fail(error);
    }
    // Only these may pass by themselves.
    if (!['ENOSPC', 'EDQUOT', 'EFBIG'].includes(errnoOf(error))) return this.#fail(error);
    await this.#orBroken(disk.truncate(descriptor, this.#end));
    return this.#fail(error, true);
  }

  /** Our file must stand at its path, as we wrote it, or a backup would miss animals. */
  async #checkUntouched(): Promise<void> {
    const { disk, path } = this.#file;
    const [ours, atPath] = await Promise.all([this.#checkSize(this.#end), disk.factsAt(path)]);
    if (atPath.dev !== ours.dev || atPath.ino !== ours.ino)
      throw new Error('another program put another file in its place');
  }

  /** Before and after a batch: with another program's bytes in between the file would not start again. */
  async #checkSize(expected: number): Promise<FileFacts> {
    const facts = await this.#file.disk.factsOf(this.#file.descriptor);
    if (facts.size === expected) return facts;
    throw new Error(`another program changed its size from ${expected} to ${facts.size} bytes`);
  }

  #orBroken(step: Promise<unknown>): Promise<unknown> {
    return step.catch((error: unknown) => Promise.reject(this.#fail(error)));
  }

  #fail(cause: unknown, isFull = false): PetstoreError {
    const { log, path } = this.#file;
    const fields = { file: path, error: reasonOf(cause) };
    clearTimeout(this.#probe);
    if (!isFull) {
      log('error', 'the storage file is not to be trusted: nothing is added to it until a restart', fields);
    } else {
      if (!this.#isFull) log('warn', 'the disk is full: nothing is added until there is room', fields);
      // An empty commit, for readiness to come back by itself. If it fails, that arms the next.
      this.#probe = setTimeout(() => void this.append([]).catch(nothing), probeMs).unref();
    }
    this.#isFull = isFull;
    const reason = isFull ? 'The disk is full.' : 'The storage file cannot be written any more.';
    return (this.#failure = new PetstoreError('unavailable', reason, { cause }));
  }
}
