/** Owns saving what is sound of a damaged storage file into a new one. Changes nothing of the damaged one; `sound-lines` says what is sound. */
import { constants } from 'node:fs';
import { dirname } from 'node:path';
import { batchBytes } from './commit-line.js';
import { syncFolder } from './data-file.js';
import { nodeDisk, writeAll } from './disk.js';
import { readPieces } from './pieces.js';
import { SoundLines, type LeftOut, type SoundLine } from './sound-lines.js';
import { unusable } from './unusable.js';

/** A batch may be all of a file that a person wrote, and longer than a text can be. A server's own are about as long. */
const maxBatchBytes = 16 * 2 ** 20;

/** What was saved, and what was not. */
export interface SalvageReport {
  readonly animals: number;
  /** Ids that are in no sound line, up to the greatest that any line has, as ranges; whether they were given nobody can tell. */
  readonly missing: readonly { readonly from: bigint; readonly to: bigint }[];
  /** Lines that were left out, by number, and why. */
  readonly leftOut: readonly LeftOut[];
}

/**
 * Writes every sound animal of a file to a new one, made with mode 600: those under a commit whose checksum fits, and
 * behind the last commit, where no checksum is, those up to the first line that is no animal; see `SoundLines`. A batch is
 * written as several where it is longer than `batchBound`, in bytes.
 * @throws PetstoreError `storage_unusable` where the one cannot be read or the other, which must not exist, not written.
 */
export async function salvageFile(path: string, outPath: string, batchBound = maxBatchBytes): Promise<SalvageReport> {
  const lines = new SoundLines();
  await openFor(path, constants.O_RDONLY | constants.O_NONBLOCK, async (descriptor) => {
    const facts = await nodeDisk.factsOf(descriptor);
    if (!facts.isFile()) throw new Error('it is not a regular file');
    await readPieces({ disk: nodeDisk, descriptor, from: 0, to: facts.size }, (piece, _at, last) => lines.read(piece, last));
  });
  const { batches, leftOut, greatestId } = lines.end();
  await openFor(outPath, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_EXCL, async (descriptor) => {
    try {
      await writeBatches(descriptor, batches, batchBound);
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

async function writeBatches(descriptor: number, batches: readonly (readonly SoundLine[])[], batchBound: number): Promise<void> {
  let size = 0;
  for (const batch of batches) {
    for (const lines of partsOf(batch, batchBound)) {
      const bytes = batchBytes(lines, size);
      await writeAll(nodeDisk, descriptor, bytes);
      size += bytes.length;
    }
  }
  await nodeDisk.sync(descriptor);
}

/** The texts of a batch in parts of at most so many bytes, or of one text that is longer; an animal's record goes with it. */
function* partsOf(batch: readonly SoundLine[], batchBound: number): Generator<readonly string[], void, undefined> {
  let part: string[] = [];
  let bytes = 0;
  for (const { text } of batch) {
    if (part.length > 0 && bytes + text.length > batchBound) {
      yield part;
      part = [];
      bytes = 0;
    }
    part.push(text);
    bytes += text.length + 1;
  }
  yield part;
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
