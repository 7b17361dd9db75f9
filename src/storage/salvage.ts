/** Owns saving what is sound of a damaged storage file into a new one. Changes nothing of the damaged one. */
import { constants } from 'node:fs';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import { messageOf, PetstoreError } from '../errors.js';
import { batchBytes, readCommitLine } from './commit-line.js';
import { syncFolder } from './data-file.js';
import { nodeDisk, writeAll } from './disk.js';
import { petLines } from './pet-lines.js';
import { readPieces } from './pieces.js';
import { unusable } from './unusable.js';

/** What was saved, and what was not. */
export interface SalvageReport {
  readonly animals: number;
  /** Ids that are in no sound line, below the last that is, as ranges; whether they ever were given nobody can tell. */
  readonly missing: readonly { readonly from: bigint; readonly to: bigint }[];
  /** Lines that were left out, by number, and why. */
  readonly leftOut: readonly { readonly line: number; readonly what: string }[];
}

interface Line {
  readonly number: number;
  readonly id: bigint;
  readonly text: string;
}

/**
 * Writes every sound animal of a file to a new one, made with mode 600: those under a commit whose checksum fits, and
 * behind the last commit those that a start would keep. A line under a checksum that doesn't fit may be altered, so it
 * is left out and named.
 * @throws PetstoreError `storage_unusable` where the one cannot be read or the other, which must not exist, not written.
 */
export async function salvageFile(path: string, outPath: string): Promise<SalvageReport> {
  const salvage = new Salvage();
  await openFor(path, constants.O_RDONLY | constants.O_NONBLOCK, async (descriptor) => {
    const { size } = await nodeDisk.factsOf(descriptor);
    await readPieces({ disk: nodeDisk, descriptor, from: 0, to: size }, (piece, _at, last) => salvage.read(piece, last));
  });
  const { batches, leftOut } = salvage.end();
  await openFor(outPath, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_EXCL, async (descriptor) => {
    let size = 0;
    for (const batch of batches) {
      const bytes = batchBytes(batch.map(({ text }) => text), size);
      await writeAll(nodeDisk, descriptor, bytes);
      size += bytes.length;
    }
    await nodeDisk.sync(descriptor);
    await syncFolder(nodeDisk, dirname(outPath));
  });
  const ids = batches.flat().map(({ id }) => id);
  return { animals: ids.length, missing: gapsIn(ids), leftOut };
}

class Salvage {
  readonly #batches: (readonly Line[])[] = [];
  readonly #leftOut: { line: number; what: string }[] = [];
  #number = 0;
  #lastId = 0n;
  #batch: Line[] = [];
  #crc = 0;

  /** Takes the whole lines of a piece; see `readPieces`. */
  read(piece: Buffer, last: boolean): number {
    let from = 0;
    while (from < piece.length) {
      const newline = piece.indexOf(0x0a, from);
      if (newline < 0 && !last) break;
      const to = newline < 0 ? piece.length : newline;
      this.#number++;
      const commit = newline < 0 ? undefined : readCommitLine(piece, from, to);
      if (commit === undefined) this.#line(piece, from, to, newline < 0 ? to : to + 1);
      // Only the sum counts: a line that went missing earlier has moved all offsets.
      else this.#close(commit.crc32 === this.#crc, 'its checksum does not fit');
      from = newline < 0 ? to : to + 1;
    }
    return from;
  }

  end(): { readonly batches: readonly (readonly Line[])[]; readonly leftOut: SalvageReport['leftOut'] } {
    this.#close(true, '');
    return { batches: this.#batches, leftOut: this.#leftOut };
  }

  #line(piece: Buffer, from: number, to: number, end: number): void {
    this.#crc = crc32(piece.subarray(from, end), this.#crc);
    const number = this.#number;
    try {
      petLines((id, _status, text) => this.#batch.push({ number, id, text }))(piece, from, to);
    } catch (error) {
      if (!(error instanceof PetstoreError)) throw error;
      if (/\S/.test(piece.toString('latin1', from, to))) this.#leftOut.push({ line: number, what: messageOf(error) });
    }
  }

  /** Ends a batch; what it holds is kept as far as it is sound and its ids grow. */
  #close(isSound: boolean, why: string): void {
    const kept: Line[] = [];
    for (const line of this.#batch) {
      if (!isSound) this.#leftOut.push({ line: line.number, what: `animal ${line.id} is left out: ${why}` });
      else if (line.id <= this.#lastId) this.#leftOut.push({ line: line.number, what: `animal ${line.id} stands behind animal ${this.#lastId}` });
      else {
        this.#lastId = line.id;
        kept.push(line);
      }
    }
    if (kept.length > 0) this.#batches.push(kept);
    this.#batch = [];
    this.#crc = 0;
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
