/**
 * Looks at a storage file for the command `check`, without a lock: tells what it holds and whether it would start, and
 * saves what is sound into a new one.
 */
import { constants } from 'node:fs';
import { crc32 } from 'node:zlib';
import { batchBytes, createFile, nodeDisk, offerLine, readLine, replay } from '../journal/index.js';
import { unusable, wholeLines, withFile, type ReplayProblem } from '../journal/index.js';
import type { PetStatus } from '../pet.js';
import { petLines } from './record-lines.js';

/** What a storage file holds. */
export interface FileReport {
  /** `sound` and `torn` start (F2); `damaged` does not (F3). */
  readonly verdict: 'sound' | 'torn' | 'damaged';
  /** Where and why it is not sound. */
  readonly problem?: ReplayProblem;
  /** How many animals it has before the problem. */
  readonly animals: number;
  /** The same by status; `none` for those without. */
  readonly byStatus: Readonly<Record<PetStatus | 'none', number>>;
  /** How many of them have an idempotency record, expired ones included. */
  readonly idempotencyKeys: number;
  /** How many commit lines, one a batch. */
  readonly commits: number;
  /** The file's size. */
  readonly bytes: number;
  /** How many bytes its sound commits cover and take. */
  readonly committedBytes: number;
  /** How many bytes a start would set aside. */
  readonly tornBytes: number;
}

/**
 * Reads a file to its end, or to what is wrong. The last write of a server at work may look torn.
 * @throws PetstoreError `storage_unusable` where it cannot be read.
 */
export async function checkFile(path: string): Promise<FileReport> {
  const byStatus = { available: 0, pending: 0, sold: 0, none: 0 };
  let animals = 0;
  let idempotencyKeys = 0;
  const count = petLines((_id, status, _json, once) => {
    byStatus[status ?? 'none']++;
    animals++;
    if (once) idempotencyKeys++;
  });
  const found = await reading(path, (descriptor) => replay(nodeDisk, descriptor, count));
  const { problem, commits, size: bytes, committedEnd: committedBytes } = found;
  const tornBytes = found.tornTail?.length ?? 0;
  const counts = { animals, byStatus, idempotencyKeys, commits, bytes, committedBytes, tornBytes };
  return { verdict: problem?.kind ?? 'sound', ...(problem && { problem }), ...counts };
}

/** @throws PetstoreError `storage_unusable` */
export function reading<Result>(path: string, use: (descriptor: number) => Promise<Result>): Promise<Result> {
  // A pipe of this name would be waited for.
  return orUnusable(path, withFile(nodeDisk, path, constants.O_RDONLY | constants.O_NONBLOCK, use));
}

/** What was saved, and what was not. */
export interface SalvageReport {
  /** How many the new file has. */
  readonly animals: number;
  /** Ids in no sound line, up to the greatest in any. */
  readonly missing: readonly { readonly from: bigint; readonly to: bigint }[];
  /** Lines that were left out, in order. */
  readonly leftOut: readonly LeftOutLine[];
}

/** A line that was left out. */
export interface LeftOutLine {
  /** From 1. */
  readonly line: number;
  /** Its animal's id, where that can be told. */
  readonly animal?: bigint;
  /** Why, without a full stop. */
  readonly what: string;
}

/**
 * Writes every sound animal of a file to a new one of mode 600: those under a commit whose checksum fits, wherever that
 * says that it began, and after the last commit those up to the first line that is no animal.
 * @throws PetstoreError `storage_unusable` where the one cannot be read, or the other, which must not exist, written.
 */
export async function salvageFile(path: string, outPath: string): Promise<SalvageReport> {
  const { batches, ...report } = await reading(path, survey);
  await orUnusable(outPath, createFile(nodeDisk, outPath, batches));
  return report;
}

function orUnusable<Result>(path: string, step: Promise<Result>): Promise<Result> {
  return step.catch((error: unknown) => Promise.reject(unusable(path, error)));
}

const maxBatch = 1_000;

type SoundLine = { readonly line: number; readonly animal: bigint; readonly text: string };

async function survey(descriptor: number) {
  const batches: Buffer[] = [];
  const missing: { from: bigint; to: bigint }[] = [];
  const leftOut: LeftOutLine[] = [];
  let outSize = 0;
  let animals = 0;
  let lastId = 0n;
  let greatestId = 0n;
  const missUpTo = (to: bigint) => {
    if (to > lastId) missing.push({ from: lastId + 1n, to });
  };
  const leaveOut = (lines: readonly SoundLine[], what: string) => {
    for (const { line, animal } of lines) leftOut.push({ line, animal, what });
  };
  const keep = (lines: readonly SoundLine[]) => {
    const texts: string[] = [];
    for (const { line, animal, text } of lines) {
      if (animal <= lastId) {
        leftOut.push({ line, animal, what: `after animal ${lastId}` });
        continue;
      }
      missUpTo(animal - 1n);
      lastId = animal;
      texts.push(text);
    }
    animals += texts.length;
    for (let from = 0; from < texts.length; from += maxBatch) {
      const batch = batchBytes(texts.slice(from, from + maxBatch), outSize);
      batches.push(batch);
      outSize += batch.length;
    }
  };

  // From the last commit on, and from each line that may have been one.
  let stretches: SoundLine[][] = [[]];
  let sum = 0;
  let number = 0;
  for await (const { bytes, text } of wholeLines(nodeDisk, descriptor, await nodeDisk.factsOf(descriptor))) {
    for (let next = 0; next < text.length; ) {
      const from = next;
      const line = readLine(text, from);
      const { textFrom, once, commit } = line;
      next = line.end;
      number += once ? 2 : 1;
      if (commit) {
        const last = stretches.pop() ?? [];
        leaveOut(stretches.flat(), 'without a commit');
        if (commit.crc32 === sum) keep(last);
        else leaveOut(last, 'the checksum does not fit');
        stretches = [[]];
        sum = 0;
        continue;
      }
      // For each line: whether ids grow is judged among sound ones.
      const take = petLines((animal, _status, json) => {
        if (animal > greatestId) greatestId = animal;
        stretches.at(-1)?.push({ line: number, animal, text: text.slice(from, textFrom) + json });
      });
      const what = offerLine(text, line, take);
      sum = what === undefined ? crc32(bytes.subarray(from, next), sum) : 0;
      if (what === undefined) continue;
      if (once) {
        // The line after it may be sound.
        number--;
        next = textFrom;
      }
      leftOut.push({ line: number, what });
      stretches.push([]);
    }
  }
  const [uncommitted = [], ...others] = stretches;
  keep(uncommitted);
  leaveOut(others.flat(), 'without a commit');
  missUpTo(greatestId);
  return { animals, missing, leftOut: leftOut.sort((one, other) => one.line - other.line), batches };
}
