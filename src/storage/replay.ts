/** Owns reading a journal from its beginning and telling what of it is sound. Changes nothing, knows no animal. */
import { messageOf, PetstoreError } from '../errors.js';
import type { InsertOnce } from '../storage.js';
import { readCommitLine, type CommitLine } from './commit-line.js';
import { explainedByCrash } from './damage.js';
import type { Disk } from './disk.js';
import { readIdempotencyLine } from './idempotency-line.js';
import { crc32 } from './late-builtins.js';
import { isBlank, lineEnd, maxLineBytes } from './lines.js';
import { Piece } from './piece.js';
import { readPieces } from './pieces.js';

/**
 * Takes one line of a piece, its newline not included, before the bytes are used again, and the idempotency record before it.
 * @throws PetstoreError with what is wrong with the line.
 */
export type AcceptLine = (piece: Piece, from: number, to: number, once?: InsertOnce) => void;

/** Why a journal is not sound all through. */
export interface ReplayProblem {
  /** `torn`: the rest of a write that a crash cut short (F2). `damaged`: what no crash explains (F3). */
  readonly kind: 'torn' | 'damaged';
  /** Counted from 1. */
  readonly line: number;
  /** The offset of the line's first byte. */
  readonly byte: number;
  /** A sentence without its full stop. */
  readonly what: string;
}

/** What a journal holds. Offsets and sizes are in bytes. */
export interface Replay {
  readonly size: number;
  readonly commits: number;
  /** Where the last sound commit line ends. */
  readonly committedEnd: number;
  /** Where the accepted lines end: all of the file unless there is a problem. */
  readonly end: number;
  /** The CRC-32 of what was accepted behind the last commit. */
  readonly crc32: number;
  /** Whether the last accepted line has no newline behind it. */
  readonly endsInLine: boolean;
  readonly problem?: ReplayProblem;
}

/** Hears between two pieces how many of the file's bytes have been read. */
export type Progress = (read: number, size: number) => void;

/** Reads an open journal, handing each line that is neither commit nor record to `accept` as it passes. */
export async function replay(disk: Disk, descriptor: number, accept: AcceptLine, onProgress?: Progress): Promise<Replay> {
  const facts = await disk.factsOf(descriptor);
  if (!facts.isFile()) throw new Error('it is not a regular file');
  const { size, blksize } = facts;
  const reading = new Reading(accept);
  await readPieces({ disk, descriptor, from: 0, to: size }, (piece, at, last) => {
    onProgress?.(at, size);
    return reading.read(piece, at, last);
  });
  const { commits, committedEnd, end, crc, endsInLine, hasOurs, problem } = reading;
  const found = { size, commits, committedEnd, end, crc32: crc, endsInLine };
  if (problem === undefined) return found;
  const rest = { disk, descriptor, from: problem.byte, to: size };
  const torn = await explainedByCrash(rest, { batchFrom: committedEnd, blockBytes: blksize, isAllThereIs: !hasOurs });
  return { ...found, problem: { kind: torn ? 'torn' : 'damaged', ...problem } };
}

class Reading {
  readonly #accept: AcceptLine;
  #lines = 0;
  commits = 0;
  committedEnd = 0;
  end = 0;
  crc = 0;
  endsInLine = false;
  /** Whether anything but blank lines has been read. */
  hasOurs = false;
  problem: Omit<ReplayProblem, 'kind'> | undefined;

  constructor(accept: AcceptLine) {
    this.#accept = accept;
  }

  /** Takes every whole line of a piece, and the unfinished one at the end of the file; see `readPieces`. */
  read(bytes: Buffer, at: number, last: boolean): number | undefined {
    const piece = new Piece(bytes);
    let from = 0;
    let sumFrom = 0;
    while (from < bytes.length) {
      // A record and the line behind it are read as one, so that neither is ever kept or cut without the other.
      const record = readIdempotencyLine(bytes, from);
      const lineFrom = record?.end ?? from;
      const to = lineEnd(bytes, lineFrom, last);
      if (to === undefined) break;
      const hasNewline = to < bytes.length;
      this.#lines += record === undefined ? 1 : 2;
      const commit = hasNewline ? readCommitLine(bytes, from, to) : undefined;
      if (record !== undefined || commit !== undefined) this.hasOurs = true;
      if (commit !== undefined) this.#sum(bytes, sumFrom, from);
      const what = commit === undefined ? this.#lineProblem(piece, lineFrom, to, record?.once) : this.#commitProblem(commit);
      if (what !== undefined) {
        this.problem = { line: this.#lines, byte: at + lineFrom, what };
        if (commit === undefined) this.#sum(bytes, sumFrom, from);
        return undefined;
      }
      this.endsInLine = !hasNewline;
      from = hasNewline ? to + 1 : to;
      this.end = at + from;
      if (commit !== undefined) {
        this.commits++;
        this.committedEnd = this.end;
        this.crc = 0;
        sumFrom = from;
      }
    }
    this.#sum(bytes, sumFrom, from);
    return from;
  }

  #lineProblem(piece: Piece, from: number, to: number, once: InsertOnce | undefined): string | undefined {
    if (to - from > maxLineBytes) return `a line of more than ${maxLineBytes} bytes`;
    if (isBlank(piece.bytes, from, to)) return once && 'nothing behind an idempotency record';
    try {
      this.#accept(piece, from, to, once);
      this.hasOurs = true;
      return undefined;
    } catch (error) {
      if (!(error instanceof PetstoreError)) throw error;
      const what = messageOf(error).replace(/\.$/, '');
      return once === undefined ? what : `no animal behind an idempotency record: ${what}`;
    }
  }

  #commitProblem(commit: CommitLine): string | undefined {
    if (commit.from !== this.committedEnd) {
      return `a commit from byte ${commit.from}, where the commit before it ends at byte ${this.committedEnd}`;
    }
    return commit.crc32 === this.crc ? undefined : 'a commit whose checksum does not fit the lines before it';
  }

  /** Adds to the checksum in long stretches: a call for each line would cost more than reading it. */
  #sum(bytes: Buffer, from: number, to: number): void {
    this.crc = crc32(bytes.subarray(from, to), this.crc);
  }
}
