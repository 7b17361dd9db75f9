/** Writes the sound pets of a storage file to a new file, for the command `check --salvage`. */
import {
  batchBytes,
  BatchSum,
  createFile,
  firstLineOffset,
  idempotencyLine,
  lineChunks,
  nodeDisk,
  offerLine,
  readLine,
  unusableError,
} from '../journal/index.js';
import { withReadOnlyFile } from './read-only.js';
import { petLines } from './record-lines.js';

/** A line that was not saved. */
export interface LeftOutLine {
  /** The number of the line in the file, from 1. */
  readonly line: number;
  /** The id of the pet, if it can be read. */
  readonly animal?: bigint;
  /** The reason why the line was not saved. */
  readonly what: string;
}

/** The result of a salvage. */
export interface SalvageReport {
  /** The number of pets that were saved. */
  readonly animals: number;
  /** The ranges of ids that were not saved, up to the greatest id in the file. */
  readonly missing: readonly { readonly from: bigint; readonly to: bigint }[];
  /** The lines that were not saved, by ascending number. */
  readonly leftOut: readonly LeftOutLine[];
}

/**
 * Writes every sound pet of a file to a new file of mode 600: all pets of batches whose checksum
 * fits, and the valid pets after the last commit.
 * @throws PetstoreError `storage_unusable` if the file cannot be read, or if the new file exists or
 * cannot be written
 */
export async function salvageFile(path: string, outPath: string): Promise<SalvageReport> {
  const { batches, ...report } = await withReadOnlyFile(path, readSound);

  try {
    await createFile(nodeDisk, outPath, batches);
  } catch (error) {
    throw unusableError(outPath, error);
  }

  return report;
}

/** Reads an open file, and returns its sound pets as batches of a new file. */
async function readSound(descriptor: number) {
  const salvage = new Salvage();
  const facts = await nodeDisk.factsOf(descriptor);
  for await (const { bytes, text, at } of lineChunks(nodeDisk, descriptor, facts))
    salvage.read(bytes, text, firstLineOffset(text, at));
  return salvage.result();
}

/** A pet of a file. */
interface FoundPet {
  /** The number of the pet's line in the file. */
  readonly line: number;
  readonly id: bigint;
  /** The pet's line, after its idempotency record if it has one. */
  readonly text: string;
}

/**
 * The state of a salvage. Pets are saved or left out by batches. A bad line ends the present batch
 * too, because it may have been a commit record.
 */
class Salvage {
  /** The number of the next line. */
  #line = 1;
  /** True if the next line follows a commit record that lacks its newline. */
  #continuesLine = false;
  /** The pets since the last commit record or bad line, and their checksums. */
  #batch: FoundPet[] = [];
  #sum = new BatchSum();
  /** The pets between the last commit record and the last bad line. */
  #beforeBadLine: FoundPet[] = [];

  readonly #batches: Buffer[] = [];
  #outBytes = 0;
  #saved = 0;
  #lastId = 0n;
  readonly #missing: { from: bigint; to: bigint }[] = [];
  readonly #leftOut: LeftOutLine[] = [];

  /** Reads the lines of a chunk, the first of which begins at the offset `first`. */
  read(bytes: Buffer, text: string, first: number): void {
    this.#sum.add(bytes.subarray(0, first));
    for (let next = first; next < text.length; ) {
      const line = readLine(text, next);
      const { commit, imported, keyUse } = line;
      if (this.#continuesLine) this.#line--;
      this.#continuesLine = commit !== undefined && text[line.end - 1] !== '\n';

      // Makes a new reader for each line, because ids need not ascend here.
      const accept = petLines((id, json) => {
        const record = keyUse ? `${idempotencyLine(keyUse)}\n` : '';
        this.#batch.push({ line: this.#line + (keyUse ? 1 : 0), id, text: record + json });
      });
      // An import record is dropped, because its place does not fit what is saved.
      const fault = commit || imported ? undefined : offerLine(line, accept);

      if (commit) this.#endBatch(this.#sum.fits(commit));
      else if (fault !== undefined) this.#skipLine(fault);
      else this.#sum.add(bytes.subarray(next, line.end));

      // After a fault of a line with an idempotency record, the line is read again without it.
      const isReadAgain = fault !== undefined && keyUse !== undefined;
      next = isReadAgain ? line.from : line.end;
      this.#line += keyUse && !isReadAgain ? 2 : 1;
    }
  }

  /** Ends a batch at its commit record. `fits` is true if its checksum is right. */
  #endBatch(fits: boolean): void {
    this.#leaveOut(this.#beforeBadLine, 'without a commit');
    this.#beforeBadLine = [];
    if (fits) this.#save(this.#batch);
    else this.#leaveOut(this.#batch, 'the checksum does not fit');
    this.#beginBatch();
  }

  /** Reports a bad line as not saved, and ends the batch before it. */
  #skipLine(what: string): void {
    this.#leftOut.push({ line: this.#line, what });
    for (const pet of this.#batch) this.#beforeBadLine.push(pet);
    this.#beginBatch();
  }

  #beginBatch(): void {
    this.#batch = [];
    this.#sum = new BatchSum();
  }

  #leaveOut(pets: readonly FoundPet[], what: string): void {
    for (const { line, id } of pets) this.#leftOut.push({ line, animal: id, what });
  }

  /** Saves pets in batches of a thousand, except those whose id does not ascend. */
  #save(pets: readonly FoundPet[]): void {
    const texts: string[] = [];
    for (const { line, id, text } of pets) {
      if (id <= this.#lastId)
        this.#leftOut.push({ line, animal: id, what: `after pet ${this.#lastId}` });
      else {
        this.#advanceTo(id);
        texts.push(text);
      }
    }
    this.#saved += texts.length;

    for (let from = 0; from < texts.length; from += 1_000) {
      const batch = batchBytes(texts.slice(from, from + 1_000), this.#outBytes);
      this.#batches.push(batch);
      this.#outBytes += batch.length;
    }
  }

  /** Notes the ids between the last id and this one as missing. */
  #advanceTo(id: bigint): void {
    if (id > this.#lastId + 1n) this.#missing.push({ from: this.#lastId + 1n, to: id - 1n });
    this.#lastId = id;
  }

  /** Saves the pets after the last commit record and returns the report. */
  result() {
    this.#save(this.#beforeBadLine);
    this.#save(this.#batch);

    const leftOut = this.#leftOut.sort((one, other) => one.line - other.line);
    const greatest = leftOut.reduce(
      (id, { animal = 0n }) => (animal > id ? animal : id),
      this.#lastId,
    );
    this.#advanceTo(greatest + 1n);
    return { animals: this.#saved, missing: this.#missing, leftOut, batches: this.#batches };
  }
}
