/** Owns saving what is sound of a damaged storage file into a new one. Changes nothing of the damaged one. */
import { constants } from 'node:fs';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import { messageOf, PetstoreError } from '../errors.js';
import { batchBytes, readCommitLine } from './commit-line.js';
import { syncFolder } from './data-file.js';
import { nodeDisk, writeAll } from './disk.js';
import { readIdempotencyLine } from './idempotency-line.js';
import { petLines, type TakePet } from './pet-lines.js';
import { Piece } from './piece.js';
import { readPieces } from './pieces.js';
import { unusable } from './unusable.js';

/** What was saved, and what was not. */
export interface SalvageReport {
  readonly animals: number;
  /** Ids that are in no sound line, up to the greatest that any line has, as ranges; whether they were given nobody can tell. */
  readonly missing: readonly { readonly from: bigint; readonly to: bigint }[];
  /** Lines that were left out, by number, and why. */
  readonly leftOut: readonly { readonly line: number; readonly what: string }[];
}

/** An animal's line, and before it its idempotency record where it has one. */
interface Line {
  readonly number: number;
  readonly id: bigint;
  readonly text: string;
}

/**
 * Writes every sound animal of a file to a new one, made with mode 600: those under a commit whose checksum fits, and
 * behind the last commit, where no checksum is, those up to the first line that is no animal. A line under a checksum that doesn't fit may be altered, so it
 * is left out and named.
 * @throws PetstoreError `storage_unusable` where the one cannot be read or the other, which must not exist, not written.
 */
export async function salvageFile(path: string, outPath: string): Promise<SalvageReport> {
  const salvage = new Salvage();
  await openFor(path, constants.O_RDONLY | constants.O_NONBLOCK, async (descriptor) => {
    const facts = await nodeDisk.factsOf(descriptor);
    if (!facts.isFile()) throw new Error('it is not a regular file');
    await readPieces({ disk: nodeDisk, descriptor, from: 0, to: facts.size }, (piece, _at, last) => salvage.read(piece, last));
  });
  const { batches, leftOut, greatestId } = salvage.end();
  await openFor(outPath, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_EXCL, async (descriptor) => {
    try {
      await writeBatches(descriptor, batches);
      await syncFolder(nodeDisk, dirname(outPath));
    } catch (error) {
      // Half of it is of no use, and would stand in the way of a second try.
      await nodeDisk.remove(outPath);
      throw error;
    }
  });
  const ids = batches.flat().map(({ id }) => id);
  return { animals: ids.length, missing: gapsIn([...ids, greatestId + 1n]), leftOut };
}

async function writeBatches(descriptor: number, batches: readonly (readonly Line[])[]): Promise<void> {
  let size = 0;
  for (const batch of batches) {
    const bytes = batchBytes(
      batch.map(({ text }) => text),
      size,
    );
    await writeAll(nodeDisk, descriptor, bytes);
    size += bytes.length;
  }
  await nodeDisk.sync(descriptor);
}

class Salvage {
  readonly #batches: (readonly Line[])[] = [];
  readonly #leftOut: { line: number; what: string }[] = [];
  #number = 0;
  #lastId = 0n;
  #greatestId = 0n;
  #batch: Line[] = [];
  /** The idempotency record whose animal must come next. */
  #record: { readonly number: number; readonly text: string } | undefined;
  /** The checksum of the lines since the last commit, and of those since the last line that is no animal. */
  #crc = 0;
  #crcBehindBad = 0;
  /** How many animals of the batch stand before the first line that is none, and before the last. */
  #beforeFirstBad: number | undefined;
  #beforeLastBad = 0;

  /** Takes the whole lines of a piece; see `readPieces`. */
  read(bytes: Buffer, last: boolean): number {
    const piece = new Piece(bytes);
    let from = 0;
    while (from < bytes.length) {
      const newline = bytes.indexOf(0x0a, from);
      if (newline < 0 && !last) break;
      const to = newline < 0 ? bytes.length : newline;
      this.#number++;
      const commit = newline < 0 ? undefined : readCommitLine(bytes, from, to);
      const end = newline < 0 ? to : to + 1;
      if (commit !== undefined) this.#commit(commit.crc32);
      else if (readIdempotencyLine(bytes, from) !== undefined) this.#takeRecord(bytes.subarray(from, end));
      else this.#line(piece, from, to, end);
      from = end;
    }
    return from;
  }

  end(): { readonly batches: readonly (readonly Line[])[]; readonly leftOut: SalvageReport['leftOut']; readonly greatestId: bigint } {
    this.#leaveOutRecord();
    const kept = this.#beforeFirstBad ?? this.#batch.length;
    this.#leaveOut(this.#batch.slice(kept), 'it stands behind a line that is no animal, without a commit');
    this.#keep(this.#batch.slice(0, kept));
    return { batches: this.#batches, leftOut: this.#leftOut, greatestId: this.#greatestId };
  }

  #line(piece: Piece, from: number, to: number, end: number): void {
    this.#sum(piece.bytes.subarray(from, end));
    const number = this.#number;
    const before = this.#record?.text ?? '';
    try {
      const keep: TakePet = (id, _status, _once, source, textFrom, textTo) =>
        this.#batch.push({ number, id: BigInt(id), text: before + source.slice(textFrom, textTo) });
      petLines(keep)(piece, from, to);
      this.#record = undefined;
    } catch (error) {
      if (!(error instanceof PetstoreError)) throw error;
      this.#leaveOutRecord();
      if (/\S/.test(piece.bytes.toString('latin1', from, to))) this.#bad(number, messageOf(error));
    }
  }

  #takeRecord(bytes: Buffer): void {
    this.#leaveOutRecord();
    this.#sum(bytes);
    this.#record = { number: this.#number, text: bytes.toString('latin1') };
  }

  /** Leaves out a record whose animal did not come. */
  #leaveOutRecord(): void {
    if (this.#record !== undefined) this.#bad(this.#record.number, 'an idempotency record without its animal');
    this.#record = undefined;
  }

  #sum(bytes: Buffer): void {
    this.#crc = crc32(bytes, this.#crc);
    this.#crcBehindBad = crc32(bytes, this.#crcBehindBad);
  }

  /** Leaves out a line that is no animal. */
  #bad(line: number, what: string): void {
    this.#leftOut.push({ line, what });
    this.#beforeFirstBad ??= this.#batch.length;
    this.#beforeLastBad = this.#batch.length;
    this.#crcBehindBad = 0;
  }

  /** Ends a batch. Only the checksum counts, not the offset: a line that is gone has moved all behind it. */
  #commit(sum: number): void {
    this.#leaveOutRecord();
    // What is no animal may have been a commit line, and all behind it is another batch.
    const from = sum === this.#crc ? 0 : sum === this.#crcBehindBad ? this.#beforeLastBad : this.#batch.length;
    this.#leaveOut(this.#batch.slice(0, from), 'its checksum does not fit');
    this.#keep(this.#batch.slice(from));
    this.#batch = [];
    this.#crc = 0;
    this.#crcBehindBad = 0;
    this.#beforeFirstBad = undefined;
    this.#beforeLastBad = 0;
  }

  #leaveOut(lines: readonly Line[], why: string): void {
    for (const { number, id } of lines) {
      this.#leftOut.push({ line: number, what: `animal ${id} is left out: ${why}` });
      if (id > this.#greatestId) this.#greatestId = id;
    }
  }

  /** Keeps those whose ids grow. */
  #keep(lines: readonly Line[]): void {
    const kept: Line[] = [];
    for (const line of lines) {
      if (line.id <= this.#lastId) {
        this.#leaveOut([line], `it stands behind animal ${this.#lastId}`);
        continue;
      }
      this.#lastId = line.id;
      kept.push(line);
    }
    if (this.#lastId > this.#greatestId) this.#greatestId = this.#lastId;
    if (kept.length > 0) this.#batches.push(kept);
  }
}

function gapsIn(ids: readonly bigint[]): SalvageReport['missing'] {
  let expected = 1n;
  const gaps: { from: bigint; to: bigint }[] = [];
  for (const id of ids) {
    if (id > expected) gaps.push({ from: expected, to: id - 1n });
    expected = id + 1n;
  }
  return gaps;
}

async function openFor(path: string, flags: number, use: (descriptor: number) => Promise<void>): Promise<void> {
  let descriptor: number | undefined;
  try {
    descriptor = await nodeDisk.open(path, flags, 0o600);
    await use(descriptor);
  } catch (error) {
    throw unusable(path, error);
  } finally {
    if (descriptor !== undefined) await nodeDisk.close(descriptor);
  }
}
