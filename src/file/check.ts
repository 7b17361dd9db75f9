/**
 * Looks at a storage file for the command `check`: tells what it holds and whether it would start, and saves what is
 * sound into a new one. The file stays as it is, and no lock is taken.
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
  type ReplayProblem,
} from '../journal/index.js';
import type { PetStatus } from '../pet.js';
import { petLines } from './record-lines.js';

/** What a storage file holds. */
export interface FileReport {
  /** `sound` and `torn` start (F2); `damaged` does not (F3). */
  readonly verdict: 'sound' | 'torn' | 'damaged';
  /** Where and why it is not sound. */
  readonly problem?: ReplayProblem;
  /** How many animals stand before the problem, if any. */
  readonly animals: number;
  /** The same by status, `none` for those without. */
  readonly byStatus: Readonly<Record<PetStatus | 'none', number>>;
  /** How many of them have an idempotency record, expired ones included. */
  readonly idempotencyKeys: number;
  /** How many commit lines, one for each batch. */
  readonly commits: number;
  /** The size of the file. */
  readonly bytes: number;
  /** How many bytes sound commits cover, themselves included. */
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
    if (once !== undefined) idempotencyKeys++;
  });
  const found = await reading(path, (descriptor) => replay(nodeDisk, descriptor, count));
  const { problem, commits, size: bytes, committedEnd: committedBytes, end } = found;
  const verdict: FileReport['verdict'] = problem?.kind ?? 'sound';
  const tornBytes = verdict === 'torn' ? bytes - end : 0;
  const counts = { animals, byStatus, idempotencyKeys, commits, bytes, committedBytes, tornBytes };
  return { verdict, ...(problem && { problem }), ...counts };
}

/** Opens a file to read it. @throws PetstoreError `storage_unusable` */
export function reading<Result>(path: string, use: (descriptor: number) => Promise<Result>): Promise<Result> {
  // Without O_NONBLOCK a pipe of this name would be waited for.
  return orUnusable(path, withFile(nodeDisk, path, constants.O_RDONLY | constants.O_NONBLOCK, use));
}

/** What was saved, and what was not. */
export interface SalvageReport {
  /** How many the new file has. */
  readonly animals: number;
  /** Ids that are in no sound line, up to the greatest in any line. */
  readonly missing: readonly { readonly from: bigint; readonly to: bigint }[];
  /** Lines that were left out, in their order, and why. */
  readonly leftOut: readonly LeftOutLine[];
}

/** A line that was left out. */
export interface LeftOutLine {
  /** From 1. */
  readonly line: number;
  /** The id of its animal; absent where it has none that can be told. */
  readonly animal?: bigint;
  /** Why, as a sentence without its full stop. */
  readonly what: string;
}

/**
 * Writes every sound animal of a file to a new one, made with mode 600: those under a commit whose checksum fits,
 * wherever that says that it began, and after the last commit those up to the first line that is no animal.
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

/** How many animals share a commit in the new file: what follows no commit may be more than a text can hold. */
const maxBatch = 1_000;

/** An animal's line, after its idempotency record. */
type SoundLine = { readonly line: number; readonly animal: bigint; readonly text: string };

/** Tells the sound animals of an open file, in batches, from the rest. */
async function survey(descriptor: number): Promise<SalvageReport & { readonly batches: readonly Buffer[] }> {
  const facts = await nodeDisk.factsOf(descriptor);
  if (!facts.isFile()) throw new Error('it is not a regular file');
  const batches: Buffer[] = [];
  const missing: { from: bigint; to: bigint }[] = [];
  const leftOut: LeftOutLine[] = [];
  let outSize = 0;
  let animals = 0;
  let lastId = 0n;
  let greatestId = 0n;
  const leaveOut = (lines: readonly SoundLine[], what: string): void => {
    for (const { line, animal } of lines) leftOut.push({ line, animal, what });
  };
  const keep = (lines: readonly SoundLine[]): void => {
    const texts: string[] = [];
    for (const line of lines) {
      const { animal, text } = line;
      if (animal <= lastId) leaveOut([line], `after animal ${lastId}`);
      else texts.push(text);
      if (animal > lastId + 1n) missing.push({ from: lastId + 1n, to: animal - 1n });
      if (animal > lastId) lastId = animal;
    }
    animals += texts.length;
    for (let from = 0; from < texts.length; from += maxBatch) {
      const batch = batchBytes(texts.slice(from, from + maxBatch), outSize);
      batches.push(batch);
      outSize += batch.length;
    }
  };

  // What follows the last commit, and then each line that is no animal, which may have been a commit once.
  let stretches: SoundLine[][] = [[]];
  let sum = 0;
  let number = 0;
  for await (const { bytes, text } of wholeLines(nodeDisk, descriptor, facts.size)) {
    for (let next = 0; next < text.length; ) {
      const from = next;
      const line = readLine(text, from);
      const { textFrom, once, commit } = line;
      next = line.end;
      number += once === undefined ? 1 : 2;
      if (commit !== undefined) {
        const last = stretches.pop() ?? [];
        leaveOut(stretches.flat(), 'without a commit');
        if (commit.crc32 === sum) keep(last);
        else leaveOut(last, 'the checksum does not fit');
        stretches = [[]];
        sum = 0;
        continue;
      }
      // Each line by itself: whether ids grow is judged when it is known which lines are sound.
      const take = petLines((animal, _status, json) => {
        if (animal > greatestId) greatestId = animal;
        stretches.at(-1)?.push({ line: number, animal, text: text.slice(from, textFrom) + json });
      });
      const what = offerLine(text, line, take);
      sum = what === undefined ? crc32(bytes.subarray(from, next), sum) : 0;
      if (what === undefined) continue;
      if (once !== undefined) {
        // Without the line after it, which may be sound.
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
  if (greatestId > lastId) missing.push({ from: lastId + 1n, to: greatestId });
  return { animals, missing, leftOut: leftOut.sort((one, other) => one.line - other.line), batches };
}
