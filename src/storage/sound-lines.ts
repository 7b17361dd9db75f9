/** Owns which lines of a damaged file are sound, batch by batch. Knows no file but its bytes. */
import { messageOf, PetstoreError } from '../errors.js';
import { readCommitLine } from './commit-line.js';
import { readIdempotencyLine } from './idempotency-line.js';
import { crc32 } from './late-builtins.js';
import { isBlank, maxLineBytes } from './lines.js';
import { petLines, type TakePet } from './pet-lines.js';
import { Piece } from './piece.js';

/** An animal's line, and before it its idempotency record where it has one. */
export interface SoundLine {
  readonly number: number;
  readonly id: bigint;
  readonly text: string;
}

/** A line that was left out, by number from 1, and why. */
export interface LeftOut {
  readonly line: number;
  readonly what: string;
}

/** Takes a file's lines in and tells the sound ones: a line under a checksum that doesn't fit may be altered, so it is left out and named. */
export class SoundLines {
  readonly #batches: (readonly SoundLine[])[] = [];
  readonly #leftOut: LeftOut[] = [];
  #number = 0;
  #lastId = 0n;
  #greatestId = 0n;
  #batch: SoundLine[] = [];
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

  /** Ends the file: the batches that are sound, and the greatest id that any line had. To be asked for once. */
  end(): { readonly batches: readonly (readonly SoundLine[])[]; readonly leftOut: readonly LeftOut[]; readonly greatestId: bigint } {
    this.#leaveOutRecord();
    const kept = this.#beforeFirstBad ?? this.#batch.length;
    this.#leaveOut(this.#batch.slice(kept), 'it stands behind a line that is no animal, without a commit');
    this.#keep(this.#batch.slice(0, kept));
    return { batches: this.#batches, leftOut: this.#leftOut, greatestId: this.#greatestId };
  }

  #line(piece: Piece, from: number, to: number, end: number): void {
    this.#sum(piece.bytes.subarray(from, end));
    const number = this.#number;
    if (to - from > maxLineBytes) {
      this.#leaveOutRecord();
      this.#bad(number, `a line of more than ${maxLineBytes} bytes`);
      return;
    }
    const before = this.#record?.text ?? '';
    try {
      const keep: TakePet = (id, _status, _once, source, textFrom, textTo) =>
        this.#batch.push({ number, id: BigInt(id), text: before + source.slice(textFrom, textTo) });
      petLines(keep)(piece, from, to);
      this.#record = undefined;
    } catch (error) {
      if (!(error instanceof PetstoreError)) throw error;
      this.#leaveOutRecord();
      if (!isBlank(piece.bytes, from, to)) this.#bad(number, messageOf(error));
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

  #leaveOut(lines: readonly SoundLine[], why: string): void {
    for (const { number, id } of lines) {
      this.#leftOut.push({ line: number, what: `animal ${id} is left out: ${why}` });
      if (id > this.#greatestId) this.#greatestId = id;
    }
  }

  /** Keeps those whose ids grow. */
  #keep(lines: readonly SoundLine[]): void {
    const kept: SoundLine[] = [];
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
