/**
 * For the command `check`: tells what a storage file holds, and saves what is sound into a new one;
 * takes no lock.
 */
import { constants } from 'node:fs';
import {
  batchBytes,
  BatchSum,
  createFile,
  firstLineIn,
  idempotencyLine,
  nodeDisk,
  offerLine,
  readLine,
  replay,
  unusable,
  wholeLines,
  withFile,
  type Problem,
} from '../journal/index.js';
import { petStatuses, type PetStatus } from '../pet.js';
import { petLines } from './record-lines.js';

/** What a storage file holds. */
export interface FileReport {
  /** A `sound` file and a `torn` one start (F2), a `damaged` one does not (F3). */
  readonly verdict: 'sound' | 'torn' | 'damaged';
  /** The first bad line; undefined where the file is sound. */
  readonly problem: Problem | undefined;
  /** How many animals a start would serve; of a damaged file, those under a sound commit. */
  readonly animals: number;
  /** How many of these animals have each status, and none. */
  readonly byStatus: Readonly<Record<PetStatus | 'none', number>>;
  /** How many of these animals were added with an idempotency key. */
  readonly idempotencyKeys: number;
  /** How many commits there are before the problem. */
  readonly commits: number;
  /** The size of the file. */
  readonly bytes: number;
  /** How much of that is up to the last sound commit. */
  readonly committedBytes: number;
  /** How much of a torn file a start would set aside. */
  readonly tornBytes: number;
}

/**
 * Tells what a start would make of a file. The last write of a server at work may look torn.
 * @throws PetstoreError `storage_unusable` where the file cannot be read.
 */
export async function checkFile(path: string): Promise<FileReport> {
  const counts = { animals: 0, idempotencyKeys: 0, byStatus: { ...zeros(), none: 0 } };
  const copyOfCounts = () => ({ ...counts, byStatus: { ...counts.byStatus } });
  let committed = copyOfCounts();

  const accept = petLines((_id, _json, indexed, keyUse) => {
    counts.animals++;
    counts.byStatus[indexed?.status ?? 'none']++;
    if (keyUse) counts.idempotencyKeys++;
  });

  const { problem, commits, bytes, committedBytes, tornTail } = await withFileToRead(
    path,
    (descriptor) => replay(nodeDisk, descriptor, accept, () => (committed = copyOfCounts())),
  );

  const verdict = problem ? (tornTail ? 'torn' : 'damaged') : 'sound';
  return {
    verdict,
    problem,
    ...(verdict === 'damaged' ? committed : counts),
    commits,
    bytes,
    committedBytes,
    tornBytes: tornTail?.length ?? 0,
  };
}

/**
 * A count of 0 for each status. The names are computed, of which `Object.assign` knows no type:
 * that there is one for each status follows from the line alone.
 */
function zeros(): Record<PetStatus, number> {
  return Object.assign({}, ...petStatuses.map((status) => ({ [status]: 0 })));
}

/** Opens a file to be read, and closes it in any case. @throws PetstoreError `storage_unusable` */
export async function withFileToRead<Result>(
  path: string,
  use: (descriptor: number) => Promise<Result>,
): Promise<Result> {
  try {
    // Without O_NONBLOCK, opening a pipe would wait for its writer.
    return await withFile(nodeDisk, path, constants.O_RDONLY | constants.O_NONBLOCK, use);
  } catch (error) {
    throw unusable(path, error);
  }
}

/** A line that was not saved. */
export interface LeftOutLine {
  /** Its number in the file, from 1. */
  readonly line: number;
  /** The id of its animal, where that can be told. */
  readonly animal?: bigint;
  /** Why it was not saved. */
  readonly what: string;
}

/** What was saved of a file, and what was not. */
export interface SalvageReport {
  /** How many animals were saved. */
  readonly animals: number;
  /** The ids that are not among them, up to the greatest that was seen. */
  readonly missing: readonly { readonly from: bigint; readonly to: bigint }[];
  /** The lines that were not saved, in their order. */
  readonly leftOut: readonly LeftOutLine[];
}

/**
 * Writes every sound animal of a file to a new one of mode 600: those under a commit whose checksum
 * fits, and those after the last commit.
 * @throws PetstoreError `storage_unusable` where the file cannot be read, or the other, which must
 * not exist, cannot be written.
 */
export async function salvageFile(path: string, outPath: string): Promise<SalvageReport> {
  const { batches, ...report } = await withFileToRead(path, readSound);

  try {
    await createFile(nodeDisk, outPath, batches);
  } catch (error) {
    throw unusable(outPath, error);
  }

  return report;
}

/** An animal of a file. */
interface FoundAnimal {
  /** The number of its line. */
  readonly line: number;
  /** Its id. */
  readonly animal: bigint;
  /** Its line, the idempotency record before it included. */
  readonly text: string;
}

/**
 * Reads what is sound of a file, as batches for another one. A stretch of animals, which is saved
 * or left out as a whole, is what stands between two commits. A line that is no animal ends it too,
 * for that may have been a commit.
 */
async function readSound(descriptor: number) {
  const batches: Buffer[] = [];
  const missing: { from: bigint; to: bigint }[] = [];
  const leftOut: LeftOutLine[] = [];
  let outBytes = 0;
  let animals = 0;
  let lastId = 0n;

  /** What lies between two ids that were saved is missing. */
  function advanceTo(id: bigint) {
    if (id > lastId + 1n) missing.push({ from: lastId + 1n, to: id - 1n });
    lastId = id;
  }

  /** Saves a stretch, in batches of a thousand, but for animals whose id does not grow. */
  function save(stretch: readonly FoundAnimal[]) {
    const texts: string[] = [];
    for (const { line, animal, text } of stretch) {
      if (animal <= lastId) leftOut.push({ line, animal, what: `after animal ${lastId}` });
      else {
        advanceTo(animal);
        texts.push(text);
      }
    }
    animals += texts.length;

    for (let from = 0; from < texts.length; from += 1_000) {
      const batch = batchBytes(texts.slice(from, from + 1_000), outBytes);
      batches.push(batch);
      outBytes += batch.length;
    }
  }

  function leaveOut(stretch: readonly FoundAnimal[], what: string) {
    for (const { line, animal } of stretch) leftOut.push({ line, animal, what });
  }

  let number = 1;
  let stretch: FoundAnimal[] = [];
  let sum = new BatchSum();
  let isSameLine = false;
  // The animals between the last commit and a line that was no animal.
  let before: FoundAnimal[] = [];

  const facts = await nodeDisk.factsOf(descriptor);
  for await (const { bytes, text, at } of wholeLines(nodeDisk, descriptor, facts)) {
    const first = firstLineIn(text, at);
    sum.add(bytes.subarray(0, first));
    for (let next = first; next < text.length; ) {
      const line = readLine(text, next);
      const { commit, imported, keyUse } = line;
      if (isSameLine) number--;
      isSameLine = commit !== undefined && text[line.end - 1] !== '\n';

      // A new reader for each line: ids need not grow here.
      const accept = petLines((animal, json) => {
        const record = keyUse ? `${idempotencyLine(keyUse)}\n` : '';
        stretch.push({ line: keyUse ? number + 1 : number, animal, text: record + json });
      });
      // The place of an import does not fit what is saved: it is left out, without being a loss.
      const what = commit || imported ? undefined : offerLine(line, accept);

      if (commit) {
        leaveOut(before, 'without a commit');
        before = [];
        if (sum.fits(commit)) save(stretch);
        else leaveOut(stretch, 'the checksum does not fit');
        stretch = [];
        sum = new BatchSum();
      } else if (what !== undefined) {
        leftOut.push({ line: number, what });
        for (const found of stretch) before.push(found);
        stretch = [];
        sum = new BatchSum();
      } else sum.add(bytes.subarray(next, line.end));

      // Without its idempotency record a line may be sound.
      next = what !== undefined && keyUse ? line.from : line.end;
      number += what === undefined && keyUse ? 2 : 1;
    }
  }

  // Behind the last commit whatever is whole is sound.
  save(before);
  save(stretch);

  leftOut.sort((one, other) => one.line - other.line);
  advanceTo(leftOut.reduce((id, { animal = 0n }) => (animal > id ? animal : id), lastId) + 1n);
  return { animals, missing, leftOut, batches };
}
