/** Reads a journal from its beginning and tells what of it is sound, for a start and for `check`; changes nothing. */
import { crc32 } from 'node:zlib';
import type { Disk } from './disk.js';
import { findCommitLine, offerLine, readLine, wholeLines, type AcceptLine, type Lines } from './lines.js';

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
  /** The CRC-32 of what was accepted after the last commit. */
  readonly crc32: number;
  /** Whether the last accepted line has no newline. */
  readonly endsInLine: boolean;
  readonly problem?: ReplayProblem;
  /** What follows the accepted lines, where that is torn. */
  readonly tornTail?: Buffer;
}

/** Is told between two mebibytes how many of the file's bytes have been read. */
export type Progress = (read: number, size: number) => void;

/** Reads an open journal, handing each line that is neither commit nor record to `accept` as it passes. */
export async function replay(
  disk: Disk,
  descriptor: number,
  accept: AcceptLine,
  onProgress?: Progress,
): Promise<Replay> {
  const facts = await disk.factsOf(descriptor);
  if (!facts.isFile()) throw new Error('it is not a regular file');
  const { size, blksize } = facts;
  let lines = 0;
  let commits = 0;
  let committedEnd = 0;
  let end = 0;
  let sum = 0;
  let endsInLine = false;
  /** Whether anything but blank lines has been read. */
  let hasOurs = false;
  let problem: Omit<ReplayProblem, 'kind'> | undefined;
  const acceptOurs: AcceptLine = (line, once) => {
    accept(line, once);
    hasOurs = true;
  };
  /** Answers whether to go on. */
  const read = ({ bytes, text, at }: Lines): boolean => {
    let sumFrom = 0;
    // In long stretches: a call for each line would cost more than reading it.
    const sumTo = (to: number): void => {
      sum = crc32(bytes.subarray(sumFrom, to), sum);
      sumFrom = to;
    };
    for (let next = 0; next < text.length; ) {
      const line = readLine(text, next);
      const { from, once, commit } = line;
      lines += once === undefined ? 1 : 2;
      if (once !== undefined || commit !== undefined) hasOurs = true;
      if (commit !== undefined) sumTo(from);
      const what = commit === undefined ? offerLine(text, line, acceptOurs) : commitProblem(commit, committedEnd, sum);
      if (what !== undefined) {
        sumTo(from);
        problem = { line: lines, byte: at + line.textFrom, what };
        return false;
      }
      next = line.end;
      end = at + next;
      endsInLine = line.textTo === next;
      if (commit !== undefined) {
        commits++;
        committedEnd = end;
        sum = 0;
        sumFrom = next;
      }
    }
    sumTo(bytes.length);
    return true;
  };
  for await (const piece of wholeLines(disk, descriptor, size)) {
    onProgress?.(piece.at, size);
    if (!read(piece)) break;
  }
  const found = { size, commits, committedEnd, end, crc32: sum, endsInLine };
  if (problem === undefined) return found;
  const tail = size - end > maxTornBytes ? undefined : await readRange(disk, descriptor, end, size);
  const scene = { from: problem.byte, batchFrom: committedEnd, blockBytes: blksize, isAllThereIs: !hasOurs };
  if (tail === undefined || !explainedByCrash(tail.toString('latin1', problem.byte - end), scene))
    return { ...found, problem: { kind: 'damaged', ...problem } };
  return { ...found, problem: { kind: 'torn', ...problem }, tornTail: tail };
}

function commitProblem(
  commit: { readonly from: number; readonly crc32: number },
  committedEnd: number,
  sum: number,
): string | undefined {
  if (commit.from !== committedEnd)
    return `a commit from byte ${commit.from}, where the commit before it ends at byte ${committedEnd}`;
  return commit.crc32 === sum ? undefined : 'a commit whose checksum does not fit the lines before it';
}

/** More than any write of ours takes: a batch of 16 MiB of drafts, of the longest texts. */
const maxTornBytes = 256 * 2 ** 20;

async function readRange(disk: Disk, descriptor: number, from: number, to: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafe(to - from);
  for (let read = 0; read < bytes.length; ) {
    const count = await disk.read(descriptor, bytes.subarray(read), from + read);
    if (count === 0) throw new Error('the file became shorter while it was read');
    read += count;
  }
  return bytes;
}

/** Where a journal is no longer sound. Offsets and sizes are in bytes. */
interface CrashScene {
  /** Where the first bad line begins. */
  readonly from: number;
  /** Where the unfinished batch began. */
  readonly batchFrom: number;
  /** The size of the disk's blocks. */
  readonly blockBytes: number;
  /** Whether nothing of ours stands before: no commit, no record, no animal. */
  readonly isAllThereIs: boolean;
}

/**
 * Whether a crash explains the rest of a file from the beginning of its first bad line.
 *
 * A crash cuts the last batch only. Mostly its commit line is then missing or broken, so none stands in the rest. The
 * disk may also write a batch's blocks in any order: then that batch's own commit line stands at the very end and a
 * block before it is missing, which reads as zeros. Whatever else stands here was acknowledged once, so it must not be
 * cut.
 */
function explainedByCrash(rest: string, scene: CrashScene): boolean {
  const { from, batchFrom, blockBytes, isAllThereIs } = scene;
  const firstLine = rest.split('\n', 1)[0] ?? '';
  const firstZero = firstLine.indexOf('\0');
  // Zeros begin where a block or the batch does, and go on to the end of that block, or of the file.
  const gapFrom = from + firstZero;
  const gapTo = firstZero + blockBytes - (gapFrom % blockBytes);
  const hasGap =
    firstZero >= 0 &&
    (gapFrom === batchFrom || gapFrom % blockBytes === 0) &&
    /^\0*$/.test(rest.slice(firstZero, gapTo));
  if (isAllThereIs) {
    // Somebody named a file of something else: it begins otherwise, or with a whole line that is no animal.
    const isBegunByUs = heads.some((head) => head.startsWith(rest.slice(0, head.length)));
    if (!isBegunByUs && !(hasGap && firstZero === 0)) return false;
    if ((firstLine.length < rest.length && firstZero < 0) || goesOnAfterObject(firstLine)) return false;
  }
  const commit = findCommitLine(rest);
  return commit === undefined || (hasGap && commit.end === rest.length && commit.from === batchFrom);
}

/** What our first write begins with, whichever it is. */
const heads = [
  '{"commit":{"from":',
  '{"idempotency":{"key":"',
  ...Array.from('123456789', (digit) => `{"id":${digit}`),
] as const;

/**
 * Whether a line goes on after its whole object, and not with a missing block. No write of ours is cut like that: it is
 * where somebody ended lines otherwise, or took the newlines out, and all that was acknowledged stands in this line.
 */
function goesOnAfterObject(line: string): boolean {
  let depth = 0;
  let isInString = false;
  for (const { 0: sign, index } of line.matchAll(/\\.|["{}\0]/g)) {
    if (sign === '\0') return false;
    if (sign === '"') isInString = !isInString;
    else if (isInString) continue;
    else if (sign === '{') depth++;
    else if (sign === '}' && --depth === 0) return index + 1 < line.length && line[index + 1] !== '\0';
  }
  return false;
}
