/**
 * For the command `check`: tells what a storage file holds, and saves what is sound into a new one;
 * takes no lock.
 */
import { constants } from 'node:fs';
import { crc32 } from 'node:zlib';
import {
  batchBytes,
  createFile,
  nodeDisk,
  offerLine,
  readLine,
  replay,
  unusable,
  wholeLines,
  withFile,
} from '../journal/index.js';
import { petStatuses, type PetStatus } from '../pet.js';
import { petLines } from './record-lines.js';

/** What a storage file holds. */
export type FileReport = Awaited<ReturnType<typeof checkFile>>;

/**
 * Counts what a start would serve of a file; of a damaged one, what is under a sound commit before
 * its problem. Of its `bytes`, `committedBytes` are up to the last sound commit, and a start would
 * set the last `tornBytes` aside. `sound` and `torn` start (F2), `damaged` does not (F3). The last
 * write of a server at work may look torn. @throws PetstoreError `storage_unusable` where it cannot
 * be read.
 */
export async function checkFile(path: string) {
  const zeros = petStatuses.map((status) => ({ [status]: 0 }));
  const statuses: Record<PetStatus, number> = Object.assign({}, ...zeros);
  const counts = { animals: 0, idempotencyKeys: 0, ...statuses, none: 0 };
  let committed = { ...counts };
  const accept = petLines((_id, status, _json, once) => {
    counts[status ?? 'none']++;
    counts.animals++;
    if (once) counts.idempotencyKeys++;
  });
  const onCommit = () => (committed = { ...counts });
  const found = await withFileToRead(path, (descriptor) =>
    replay(nodeDisk, descriptor, accept, onCommit),
  );
  const { problem, commits, size: bytes, committedEnd: committedBytes, tornTail } = found;
  let verdict: 'sound' | 'torn' | 'damaged' = 'sound';
  if (problem) verdict = tornTail ? 'torn' : 'damaged';
  const { animals, idempotencyKeys, ...byStatus } = verdict === 'damaged' ? committed : counts;
  const tornBytes = tornTail?.length ?? 0;
  return {
    verdict,
    problem,
    animals,
    byStatus,
    idempotencyKeys,
    commits,
    bytes,
    committedBytes,
    tornBytes,
  };
}

/** Opens a file to be read, and closes it in any case. @throws PetstoreError `storage_unusable` */
export function withFileToRead<Result>(
  path: string,
  use: (descriptor: number) => Promise<Result>,
): Promise<Result> {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const used = withFile(nodeDisk, path, constants.O_RDONLY | constants.O_NONBLOCK, use);
  return used.catch((error: unknown) => Promise.reject(unusable(path, error)));
}

/** What was saved, and what was not. */
export type SalvageReport = Awaited<ReturnType<typeof salvageFile>>;

/**
 * A line that was left out, by its number from 1: its animal's id, where that can be told, and why.
 */
export type LeftOutLine = SalvageReport['leftOut'][number];

/**
 * Writes every sound animal of a file to a new one of mode 600: those under a commit whose checksum
 * fits, and those after the last commit. Answers how many, the missing ids up to the greatest, and
 * the lines left out. @throws PetstoreError `storage_unusable` where one cannot be read, or the
 * other, which must not exist, written.
 */
export async function salvageFile(path: string, outPath: string) {
  const { batches, ...report } = await withFileToRead(path, soundPart);
  await createFile(nodeDisk, outPath, batches).catch((error: unknown) =>
    Promise.reject(unusable(outPath, error)),
  );
  return report;
}

type FoundLine = { readonly line: number; readonly animal: bigint; readonly text: string };

async function soundPart(descriptor: number) {
  const batches: Buffer[] = [];
  const missing: { from: bigint; to: bigint }[] = [];
  const leftOut: { readonly line: number; readonly animal?: bigint; readonly what: string }[] = [];
  let outSize = 0;
  let animals = 0;
  let lastId = 0n;
  const leaveOut = (lines: readonly FoundLine[], what: string) => {
    for (const { line, animal } of lines) leftOut.push({ line, animal, what });
  };
  const save = (lines: readonly FoundLine[]) => {
    const texts: string[] = [];
    for (const { line, animal, text } of lines) {
      if (animal > lastId + 1n) missing.push({ from: lastId + 1n, to: animal - 1n });
      if (animal <= lastId) leftOut.push({ line, animal, what: `after animal ${lastId}` });
      else texts.push(text);
      if (animal > lastId) lastId = animal;
    }
    animals += texts.length;
    for (let from = 0; from < texts.length; from += 1_000) {
      const batch = batchBytes(texts.slice(from, from + 1_000), outSize);
      batches.push(batch);
      outSize += batch.length;
    }
  };

  // Since the last commit, or since a line that is no animal, which may have been one.
  let batch: FoundLine[] = [];
  let sum = 0;
  // Between the last commit and such a line.
  const before: FoundLine[] = [];
  let number = 1;
  for await (const { bytes, text } of wholeLines(
    nodeDisk,
    descriptor,
    await nodeDisk.factsOf(descriptor),
  )) {
    for (let next = 0; next < text.length; ) {
      const from = next;
      const line = readLine(text, from);
      const { textFrom, once, commit, imported } = line;
      // A new one for each line: ids need not grow here.
      const accept = petLines((animal, _status, json) => {
        batch.push({
          line: once ? number + 1 : number,
          animal,
          text: text.slice(from, textFrom) + json,
        });
      });
      // The place of an import does not fit what is saved: it is left out, without being a loss.
      const what = commit || imported ? undefined : offerLine(text, line, accept);
      if (commit) {
        leaveOut(before.splice(0), 'without a commit');
        if (commit.crc32 === sum) save(batch);
        else leaveOut(batch, 'the checksum does not fit');
      } else if (what !== undefined) {
        for (const found of batch) before.push(found);
        leftOut.push({ line: number, what });
      }
      const isEnd = commit !== undefined || what !== undefined;
      if (isEnd) batch = [];
      sum = isEnd ? 0 : crc32(bytes.subarray(from, line.end), sum);
      // Without its idempotency record the line may be sound.
      next = what !== undefined && once ? textFrom : line.end;
      number += once && what === undefined ? 2 : 1;
    }
  }
  save(before);
  save(batch);
  const greatestId = leftOut.reduce(
    (greatest, { animal = 0n }) => (animal > greatest ? animal : greatest),
    lastId,
  );
  if (greatestId > lastId) missing.push({ from: lastId + 1n, to: greatestId });
  return {
    animals,
    missing,
    leftOut: leftOut.sort((one, other) => one.line - other.line),
    batches,
  };
}
