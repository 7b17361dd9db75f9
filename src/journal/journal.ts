/**
 * A journal: lines that only grow, for storages in files. Opening it locks the file, replays it, sets aside what a
 * crash tore and puts all of it on the disk (F2). Lines and their commit line go out in one write with its fdatasync
 * (F1), and whatever goes wrong turns the journal full (F5) or broken (F6).
 */
import { constants } from 'node:fs';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import { PetstoreError, reasonOf, type Log } from '../errors.js';
import { closedError } from '../memory/index.js';
import { createFile, failedBy, syncFolder, unless, unusable, writeAll, type Disk, type FileFacts } from './disk.js';
import { batchBytes, commitLine, type AcceptLine } from './lines.js';
import { inUse, isHeldElsewhere, type Locking } from './lock.js';
import { replay } from './replay.js';

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
  try {
    descriptor = await openOrMake(disk, path, locking.openFlags);
    await locking.lock(descriptor, path);
    // At every start: the process that made the file may have died before this.
    await syncFolder(disk, dirname(path));
    const file = { ...options, path, descriptor };
    return new Journal(file, await recover(file, accept));
  } catch (error) {
    if (descriptor !== undefined) await disk.close(descriptor).catch(() => undefined);
    throw isHeldElsewhere(error) ? inUse(path, undefined) : unusable(path, error);
  }
}

/** Opens a file to read and to append to; makes it where missing (F8). Its name is not synced by that. */
async function openOrMake(disk: Disk, path: string, lockFlags: number): Promise<number> {
  const flags = constants.O_RDWR | constants.O_APPEND | disk.appendFlags | lockFlags;
  const there = await unless('ENOENT', disk.open(path, flags, 0));
  if (there !== undefined) return there;
  await makeFolder(disk, dirname(path));
  const made = await unless('EEXIST', disk.open(path, flags | constants.O_CREAT | constants.O_EXCL, 0o600));
  // Where another process was faster, the lock will tell which of us may have it.
  return made ?? disk.open(path, flags, 0);
}

/** Makes a folder and those above it where missing. (Node's own recursive `mkdir` never ends below /proc.) */
async function makeFolder(disk: Disk, folder: string): Promise<void> {
  if (await unless('ENOENT', disk.factsAt(folder))) return;
  await makeFolder(disk, dirname(folder));
  // Another process that starts may make the same folder.
  await unless('EEXIST', disk.makeFolder(folder, 0o700));
  // A new folder is a name in the one above it.
  await syncFolder(disk, dirname(folder));
}

/** Replays, sets a torn tail aside, commits what has no commit; answers the size of the file then. */
async function recover(file: JournalFile, accept: AcceptLine): Promise<number> {
  const { path, descriptor, disk, log, clock, mend = `see \`node dist/server.js check ${path}\`` } = file;
  let toldAt = clock();
  const found = await replay(disk, descriptor, accept, (read, size) => {
    const now = clock();
    if (now - toldAt < 1_000) return;
    toldAt = now;
    log('info', 'reading the storage file', { file: path, read, size });
  });
  const { problem, end, committedEnd, tornTail } = found;
  if (problem !== undefined) {
    const { line, byte, what } = problem;
    const message = `${path} line ${line}, byte ${byte}: ${what}; nothing was changed: ${mend}`;
    if (tornTail === undefined) throw new PetstoreError('storage_damaged', message);
    const copy = await setAside(disk, path, tornTail, clock());
    await disk.truncate(descriptor, end);
    await disk.datasync(descriptor);
    const told = { file: path, line, byte, bytes: tornTail.length, what, copy };
    log('warn', 'a torn tail was cut off the storage file', told);
  }
  let closing = '';
  if (end > committedEnd) {
    const newline = found.endsInLine ? '\n' : '';
    closing = newline + commitLine(committedEnd, crc32(newline, found.sum));
    await writeAll(disk, descriptor, Buffer.from(closing, 'latin1'));
  }
  // Even where nothing was written: who wrote it may have died before its own fdatasync.
  await disk.datasync(descriptor);
  return end + closing.length;
}

/** Writes a torn tail to `FILE.torn-TIME` and resolves, once it is on the disk, to that path. */
async function setAside(disk: Disk, path: string, tail: Buffer, sinceEpochMs: number): Promise<string> {
  const name = `${path}.torn-${new Date(sinceEpochMs).toISOString().replaceAll(':', '-')}`;
  for (let copy = name, number = 1; ; copy = `${name}-${number++}`) {
    const making = createFile(disk, copy, [tail]).then(() => copy);
    // What stands there may be the only copy of an earlier tail.
    if (await unless('EEXIST', making)) return copy;
  }
}

/** An open and locked file. */
type JournalFile = OpenJournalOptions & { readonly path: string; readonly descriptor: number };

const probeMs = 1000;
const nothing = (): void => undefined;

/** An open journal. Append one batch at a time. */
export class Journal {
  readonly #file: JournalFile;
  #end: number;
  /** Why nothing can be appended. */
  #failure: PetstoreError | undefined;
  /** A full disk is tried again by itself; any other failure lasts until a restart. */
  #isFull = false;
  /** Ends with the last use of the file under way; a probe and a batch must not write at once. */
  #turn: Promise<void> = Promise.resolve();
  #appends = 0;
  #probe: NodeJS.Timeout | undefined;
  #closing: Promise<void> | undefined;

  constructor(file: JournalFile, end: number) {
    this.#file = file;
    this.#end = end;
  }

  /**
   * Resolves once the lines, byte strings without newlines, are on the disk together with their commit line (F1), to
   * the milliseconds that the disk took for it. @throws PetstoreError `unavailable` (F5, F6)
   */
  append(lines: readonly string[]): Promise<number> {
    this.#appends++;
    return this.#inTurn(() => this.#append(lines).finally(() => this.#appends--));
  }

  /** Looks at the file, too, for what another program did to it. @throws PetstoreError `unavailable` */
  async checkReady(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    // A batch under way checks the file itself, and may hang with its disk: readiness does not wait for it.
    if (this.#appends > 0) return;
    await this.#inTurn(async () => {
      if (this.#failure !== undefined) throw this.#failure;
      await this.#orBroken(this.#checkUntouched());
    });
  }

  /** Lets go of the file when the write under way has ended. */
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
    if (this.#failure !== undefined && !this.#isFull) throw this.#failure;
    const { disk, descriptor, path, log } = this.#file;
    const bytes = batchBytes(lines, this.#end);
    await this.#orBroken(this.#checkUntouched());
    const startedAt = performance.now();
    // One call, unless the disk takes only a part.
    for (let appended = 0; appended < bytes.length; ) {
      try {
        const count = await disk.append(descriptor, bytes.subarray(appended));
        if (count === 0) throw new Error('the disk takes no more bytes and does not say why');
        appended += count;
      } catch (error) {
        throw await this.#undo(error, this.#end + appended);
      }
    }
    await this.#orBroken(this.#checkSize(this.#end + bytes.length));
    this.#end += bytes.length;
    if (this.#isFull) {
      this.#isFull = false;
      this.#failure = undefined;
      clearTimeout(this.#probe);
      log('info', 'the disk has room again', { file: path });
    }
    return performance.now() - startedAt;
  }

  /** What a failed append makes of the journal; `from` is the file's size before the call that failed. */
  async #undo(error: unknown, from: number): Promise<PetstoreError> {
    const { disk, descriptor } = this.#file;
    const { size } = await disk.factsOf(descriptor).catch(() => ({ size: undefined }));
    if (size !== from) {
      // Bytes were written and their sync has failed, or who knows. A second fdatasync would say that all is well. Nor
      // may the next start read from memory, and serve, what the disk never took.
      await disk.truncate(descriptor, this.#end).catch(() => undefined);
      return this.#fail('broken', error);
    }
    // What undoing the write mends, and time may mend for good.
    if (!failedBy(error, 'ENOSPC', 'EDQUOT', 'EFBIG')) return this.#fail('broken', error);
    await this.#orBroken(disk.truncate(descriptor, this.#end));
    return this.#fail('full', error);
  }

  /** Our file must be the one at its path, with only what we wrote in it, or a backup would miss animals. */
  async #checkUntouched(): Promise<void> {
    const { disk, path } = this.#file;
    const [ours, atPath] = await Promise.all([this.#checkSize(this.#end), disk.factsAt(path)]);
    const isOurs = atPath.dev === ours.dev && atPath.ino === ours.ino;
    if (!isOurs) throw new Error('another program put another file in its place');
  }

  /** Before a batch and after it: what another program writes in between makes a file that would not start again. */
  async #checkSize(expected: number): Promise<FileFacts> {
    const facts = await this.#file.disk.factsOf(this.#file.descriptor);
    if (facts.size === expected) return facts;
    throw new Error(`another program changed its size from ${expected} to ${facts.size} bytes`);
  }

  #orBroken(step: Promise<unknown>): Promise<unknown> {
    return step.catch((error: unknown) => Promise.reject(this.#fail('broken', error)));
  }

  #fail(state: 'full' | 'broken', cause: unknown): PetstoreError {
    const { log, path } = this.#file;
    const fields = { file: path, error: reasonOf(cause) };
    clearTimeout(this.#probe);
    if (state === 'broken') {
      log('error', 'the storage file is not to be trusted: nothing is added to it until a restart', fields);
    } else {
      if (!this.#isFull) log('warn', 'the disk is full: nothing is added until there is room', fields);
      // An empty commit, so that readiness comes back without anyone adding; if it fails, that arms the next.
      this.#probe = setTimeout(() => void this.append([]).catch(nothing), probeMs).unref();
    }
    this.#isFull = state === 'full';
    const reason = this.#isFull ? 'The disk is full.' : 'The storage file cannot be written any more.';
    this.#failure = new PetstoreError('unavailable', reason, { cause });
    return this.#failure;
  }
}
