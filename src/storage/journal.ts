/**
 * Owns a journal's writing: lines and their commit line go out in one write with its fdatasync, and whatever goes wrong
 * turns it full (F5) or broken (F6). Knows no animal.
 */
import { messageOf, PetstoreError } from '../errors.js';
import type { Log } from '../log.js';
import { batchBytes } from './commit-line.js';
import { errnoOf, type Disk, type FileFacts } from './disk.js';
import type { Lock } from './lock.js';

/** An open file of which every byte is read, sound and on the disk; the journal closes it and lets go of the lock. */
export interface JournalFile {
  readonly path: string;
  readonly descriptor: number;
  /** The file's size in bytes. */
  readonly end: number;
  readonly disk: Disk;
  readonly lock: Lock;
  readonly log: Log;
}

/** `full` is tried again by itself; `broken` lasts until a restart. */
type JournalState = 'sound' | 'full' | 'broken' | 'closed';

/** What undoing the write mends, and time may mend for good. */
const fullErrnos = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

const probeMs = 1000;

const nothing = (): void => undefined;

/** Lines that only grow, written in batches. Append one batch at a time. */
export class Journal {
  readonly #file: JournalFile;
  readonly #identity: FileFacts;
  #end: number;
  #state: JournalState = 'sound';
  #reason = '';
  /** Ends with the last write under way; a probe and a batch must not write at once. */
  #turn: Promise<void> = Promise.resolve();
  /** How many appends are under way or wait for their turn. */
  #appends = 0;
  #probe: NodeJS.Timeout | undefined;

  private constructor(file: JournalFile, identity: FileFacts) {
    this.#file = file;
    this.#identity = identity;
    this.#end = file.end;
  }

  /** A journal that goes on where the file ends. */
  static async on(file: JournalFile): Promise<Journal> {
    return new Journal(file, await file.disk.factsOf(file.descriptor));
  }

  /**
   * Resolves once the lines, without their newlines, are on the disk together with their commit line (F1), to the
   * milliseconds that the disk took for its write and sync. Lines are byte strings. No lines write a commit line alone.
   * @throws PetstoreError `unavailable`: the disk is full and the write is undone, or the file is not to be trusted.
   */
  append(lines: readonly string[]): Promise<number> {
    this.#appends++;
    const written = this.#turn.then(() => this.#append(lines)).finally(() => this.#appends--);
    this.#turn = written.then(nothing, nothing);
    return written;
  }

  /**
   * Resolves while appending can be expected to succeed: looks at the file too, so that what another program did to it
   * is found before the next animal comes.
   * @throws PetstoreError `unavailable`.
   */
  async checkReady(): Promise<void> {
    if (this.#state !== 'sound') throw this.#unavailable();
    // A batch under way looks for itself; on a disk that hangs nobody may have to wait for it.
    if (this.#appends > 0) return;
    const checked = this.#turn.then(async () => {
      if (this.#state !== 'sound') throw this.#unavailable();
      await this.#orBroken(this.#checkUntouched());
    });
    this.#turn = checked.catch(() => undefined);
    await checked;
  }

  /** Takes no more lines, and lets go of the file when the write under way has ended. */
  async close(): Promise<void> {
    clearTimeout(this.#probe);
    const { disk, descriptor, lock } = this.#file;
    await this.#turn;
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#reason = 'The storage is closed.';
    clearTimeout(this.#probe);
    await lock.release();
    await disk.close(descriptor);
  }

  async #append(lines: readonly string[]): Promise<number> {
    if (this.#state === 'broken' || this.#state === 'closed') throw this.#unavailable();
    const { disk, descriptor } = this.#file;
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
    if (this.#state === 'full') this.#recover();
    return performance.now() - startedAt;
  }

  /** What a failed append makes of the journal; `from` is the file's size from before the call that failed. */
  async #undo(error: unknown, from: number): Promise<PetstoreError> {
    const { disk, descriptor } = this.#file;
    const size = await disk.factsOf(descriptor).then(
      (facts) => facts.size,
      () => undefined,
    );
    if (size !== from) {
      // Bytes were written and their sync has failed, or who knows. A second fdatasync would say that all is well, whatever
      // is on the disk. Nor may the next start read from memory, and serve, what the disk never took; a disk that does not
      // even undo this must be mounted anew.
      await disk.truncate(descriptor, this.#end).catch(() => undefined);
      return this.#fail('broken', error);
    }
    if (!fullErrnos.has(errnoOf(error) ?? '')) return this.#fail('broken', error);
    await this.#orBroken(disk.truncate(descriptor, this.#end));
    return this.#fail('full', error);
  }

  /** Our file must be the one at its path, with nothing in it but what we wrote, or a backup would miss animals. */
  async #checkUntouched(): Promise<void> {
    const { disk, path, lock } = this.#file;
    if (lock.lost()) throw new Error('another process took the file over');
    const [, atPath] = await Promise.all([this.#checkSize(this.#end), disk.factsAt(path)]);
    const same = atPath.dev === this.#identity.dev && atPath.ino === this.#identity.ino;
    if (!same) throw new Error('another program put another file in its place');
  }

  /** Before a batch and behind it: what another program writes in between makes a file that would not start again. */
  async #checkSize(expected: number): Promise<void> {
    const { disk, descriptor } = this.#file;
    const { size } = await disk.factsOf(descriptor);
    if (size !== expected) throw new Error(`another program changed its size from ${expected} to ${size} bytes`);
  }

  async #orBroken(step: Promise<void>): Promise<void> {
    try {
      await step;
    } catch (error) {
      throw this.#fail('broken', error);
    }
  }

  #fail(state: 'full' | 'broken', cause: unknown): PetstoreError {
    const { log, path } = this.#file;
    const fields = { file: path, error: messageOf(cause) };
    this.#reason = state === 'full' ? 'The disk is full.' : 'The storage file cannot be written any more.';
    if (state === 'broken') log('error', 'the storage file is not to be trusted: nothing is added to it until a restart', fields);
    else if (this.#state !== 'full') log('warn', 'the disk is full: nothing is added until there is room', fields);
    this.#state = state;
    this.#probeLater();
    return this.#unavailable(cause);
  }

  #recover(): void {
    this.#state = 'sound';
    clearTimeout(this.#probe);
    this.#file.log('info', 'the disk has room again', { file: this.#file.path });
  }

  /** While full, tries an empty commit from time to time, so that readiness comes back without anyone adding. */
  #probeLater(): void {
    clearTimeout(this.#probe);
    if (this.#state !== 'full') return;
    this.#probe = setTimeout(() => {
      // If it fails, that has armed the next probe.
      this.append([]).catch(() => undefined);
    }, probeMs).unref();
  }

  #unavailable(cause?: unknown): PetstoreError {
    return new PetstoreError('unavailable', this.#reason, cause === undefined ? {} : { cause });
  }
}
