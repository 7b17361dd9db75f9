/**
 * Looks at a storage file for the command `check`: tells what it holds and whether a start would succeed, and saves
 * what is sound of a damaged one into a new one. The file stays as it is, and no lock is taken.
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
  writeAll,
  type ReplayProblem,
} from '../journal/index.js';
import type { PetStatus } from '../pet.js';
import { petLines } from './record-lines.js';

/** What a storage file holds. */
export interface FileReport {
  /** `sound` and `torn` start; a start sets a torn tail aside. `damaged` does not (F3). */
  readonly verdict: 'sound' | 'torn' | 'damaged';
  /** Where and why it is not sound. */
  readonly problem?: ReplayProblem;
  /** How many animals stand before the problem; all of them where there is none. */
  readonly animals: number;
  /** The same by status, `none` for those without. */
  readonly byStatus: Readonly<Record<PetStatus | 'none', number>>;
  /** How many of them have an idempotency record, expired ones included. */
  readonly idempotencyKeys: number;
  /** How many commit lines, one after each batch that went to the disk together. */
  readonly commits: number;
  /** The size of the file. */
  readonly bytes: number;
  /** How many bytes, from the beginning, are covered by a sound commit; those commits included. */
  readonly committedBytes: number;
  /** How many bytes a start would set aside. */
  readonly tornBytes: number;
}

/**
 * Reads a storage file to its end, or to what is wrong. A server may be at work on it: its last write may then look
 * torn.
 * @throws PetstoreError `storage_unusable` where the file cannot be read.
 */
export async function checkFile(path: string): Promise<FileReport> {
  return reading(path, async (descriptor) => {
    const byStatus = { available: 0, pending: 0, sold: 0, none: 0 };
    let idempotencyKeys = 0;
    const count = petLines((_id, status, _json, once) => {
      byStatus[status ?? 'none']++;
      if (once !== undefined) idempotencyKeys++;
    });
    const { problem, commits, size, committedEnd, end } = await replay(nodeDisk, descriptor, count);
    return {
      verdict: problem?.kind ?? 'sound',
      ...(problem && { problem }),
      animals: byStatus.available + byStatus.pending + byStatus.sold + byStatus.none,
      byStatus,
      idempotencyKeys,
      commits,
      bytes: size,
      committedBytes: committedEnd,
      tornBytes: problem?.kind === 'torn' ? size - end : 0,
    };
  });
}

/** Opens a file to read it. @throws PetstoreError `storage_unusable` */
async function reading<Result>(path: string, use: (descriptor: number) => Promise<Result>): Promise<Result> {
  try {
    // Without O_NONBLOCK a pipe of this name would be waited for.
    return await withFile(nodeDisk, path, constants.O_RDONLY | constants.O_NONBLOCK, use);
  } catch (error) {
    throw unusable(path, error);
  }
}

/** What was saved, and what was not. */
export interface SalvageReport {
  /** How many the new file has. */
  readonly animals: number;
  /** Ids that are in no sound line, up to the greatest that any line has; whether they were ever given is unknown. */
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
 * Writes every sound animal of a file to a new one, made with mode 600: those under a commit whose checksum fits, and
 * after the last commit, where no checksum is, those up to the first line that is no animal. Only the checksum of a
 * commit line counts: a line that is gone has moved the offset.
 * @throws PetstoreError `storage_unusable` where the one cannot be read, or the other, which must not exist, not
 * written.
 */
export async function salvageFile(path: string, outPath: string): Promise<SalvageReport> {
  const { stretches, leftOut } = await reading(path, survey);
  const lastCommit = stretches.findLastIndex(({ commit }) => commit !== undefined);
  const batches: (readonly SoundLine[])[] = [];
  const ids: bigint[] = [];
  let lastId = 0n;
  let greatestId = 0n;
  for (const [index, { lines, commit }] of stretches.entries()) {
    const isSound = commit === 'fits' || index === lastCommit + 1;
    const unsound = isSound ? undefined : commit === undefined ? 'without a commit' : 'the checksum does not fit';
    const kept = lines.filter(({ number, id }) => {
      if (id > greatestId) greatestId = id;
      const why = unsound ?? (id <= lastId ? `after animal ${lastId}` : undefined);
      if (why !== undefined) leftOut.push({ line: number, animal: id, what: why });
      else ids.push((lastId = id));
      return why === undefined;
    });
    for (let from = 0; from < kept.length; from += maxBatch) batches.push(kept.slice(from, from + maxBatch));
  }
  try {
    await createFile(nodeDisk, outPath, async (descriptor) => {
      let size = 0;
      for (const batch of batches) {
        const bytes = batchBytes(
          batch.map(({ text }) => text),
          size,
        );
        await writeAll(nodeDisk, descriptor, bytes);
        size += bytes.length;
      }
    });
  } catch (error) {
    throw unusable(outPath, error);
  }
  return {
    animals: ids.length,
    missing: gapsIn([...ids, greatestId + 1n]),
    leftOut: leftOut.sort((one, other) => one.line - other.line),
  };
}

/** How many animals share a commit in the new file: what follows no commit may be more than one text can hold. */
const maxBatch = 1_000;

/** An animal's line, and before it its idempotency record where it has one. */
interface SoundLine {
  readonly number: number;
  readonly id: bigint;
  readonly text: string;
}

/** Animals up to a commit, to a line that is no animal, which may have been a commit once, or to the end. */
interface Stretch {
  readonly lines: readonly SoundLine[];
  /** Whether the checksum of the commit fits; undefined where none ends it. */
  readonly commit: 'fits' | 'differs' | undefined;
}

/** All that is in an open file: its stretches, and the lines that are no animals. */
async function survey(
  descriptor: number,
): Promise<{ readonly stretches: readonly Stretch[]; readonly leftOut: LeftOutLine[] }> {
  const facts = await nodeDisk.factsOf(descriptor);
  if (!facts.isFile()) throw new Error('it is not a regular file');
  const stretches: Stretch[] = [];
  const leftOut: LeftOutLine[] = [];
  let lines: SoundLine[] = [];
  let sum = 0;
  let number = 0;
  const endStretch = (commit: Stretch['commit']): void => {
    stretches.push({ lines, commit });
    lines = [];
    sum = 0;
  };
  for await (const { bytes, text } of wholeLines(nodeDisk, descriptor, facts.size)) {
    for (let next = 0; next < text.length; ) {
      const line = readLine(text, next);
      const { from, textFrom, end, once, commit } = line;
      next = end;
      number += once === undefined ? 1 : 2;
      if (commit !== undefined) {
        endStretch(commit.crc32 === sum ? 'fits' : 'differs');
        continue;
      }
      const record = text.slice(from, textFrom);
      // Each line by itself: whether ids grow is judged when it is known which lines are sound.
      const take = petLines((id, _status, json) => lines.push({ number, id, text: record + json }));
      const what = offerLine(text, line, take);
      if (what === undefined) {
        sum = crc32(bytes.subarray(from, end), sum);
        continue;
      }
      if (once !== undefined) {
        // Without the line after it, which may be sound.
        number--;
        next = textFrom;
      }
      leftOut.push({ line: number, what });
      endStretch(undefined);
    }
  }
  endStretch(undefined);
  return { stretches, leftOut };
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
