/** Reads a journal and tells what of it is sound, for a start and for `check`; changes nothing. */
import { crc32 } from 'node:zlib';
import type { Disk } from './disk.js';
import { commitPattern, offerLine, readLine, wholeLines, type AcceptLine } from './lines.js';

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

/**
 * Reads an open journal, handing each line that is neither commit nor record to `accept`. Answers where the last sound
 * commit and the accepted lines end, the CRC-32 of what is between, and what follows, where it is torn.
 * @param onProgress Is told each mebibyte how many of the file's bytes are read.
 */
export async function replay(
  disk: Disk,
  descriptor: number,
  accept: AcceptLine,
  onProgress?: (read: number, size: number) => void,
) {
  const facts = await disk.factsOf(descriptor);
  const { size, blksize } = facts;
  let lines = 0;
  let commits = 0;
  let committedEnd = 0;
  let end = 0;
  let sum = 0;
  let endsInLine = false;
  let problem: Omit<ReplayProblem, 'kind'> | undefined;
  let isNothingBefore = true;
  for await (const { bytes, text, at } of wholeLines(disk, descriptor, facts)) {
    onProgress?.(at, size);
    let next = 0;
    // In long stretches: a call for each line would cost more than reading it.
    let sumFrom = 0;
    while (next < text.length) {
      const line = readLine(text, next);
      const { once, commit, textFrom } = line;
      lines += once ? 2 : 1;
      let what: string | undefined;
      if (!commit) what = offerLine(text, line, accept);
      else {
        sum = crc32(bytes.subarray(sumFrom, next), sum);
        sumFrom = next;
        if (commit.from !== committedEnd)
          what = `a commit from byte ${commit.from}, where the commit before it ends at byte ${committedEnd}`;
        else if (commit.crc32 !== sum) what = 'a commit whose checksum does not fit the lines before it';
      }
      if (what !== undefined) {
        problem = { line: lines, byte: at + textFrom, what };
        break;
      }
      next = line.end;
      end = at + next;
      endsInLine = line.textTo === next;
      if (commit) {
        commits++;
        committedEnd = end;
        sum = 0;
        sumFrom = next;
      }
    }
    sum = crc32(bytes.subarray(sumFrom, next), sum);
    isNothingBefore &&= text.slice(0, problem ? problem.byte - at : next).trim() === '';
    if (problem) break;
  }
  let tornTail: Buffer | undefined;
  if (problem && size - end <= maxTornBytes) {
    const tail = await readRange(disk, descriptor, end, size);
    const rest = tail.toString('latin1', problem.byte - end);
    if (explainedByCrash(rest, problem.byte, committedEnd, blksize, isNothingBefore)) tornTail = tail;
  }
  const kind: ReplayProblem['kind'] = tornTail ? 'torn' : 'damaged';
  return { size, commits, committedEnd, end, sum, endsInLine, problem: problem && { kind, ...problem }, tornTail };
}

const maxTornBytes = 256 * 2 ** 20;

async function readRange(disk: Disk, descriptor: number, from: number, to: number) {
  const bytes = Buffer.allocUnsafe(to - from);
  for (let read = 0; read < bytes.length; ) {
    const count = await disk.read(descriptor, bytes.subarray(read), from + read);
    if (count === 0) throw new Error('the file became shorter while it was read');
    read += count;
  }
  return bytes;
}

/**
 * Whether a crash explains the rest of a file from its first bad line on, at `from`. A crash cuts the last batch only:
 * its commit line is missing or broken, so that none stands in the rest; or the disk wrote its blocks in another order,
 * and the commit line stands at the very end, after a missing block, which reads as zeros. Whatever else stands here
 * was acknowledged once and must not be cut.
 */
function explainedByCrash(rest: string, from: number, batchFrom: number, blockBytes: number, isNothingBefore: boolean) {
  const firstLine = rest.split('\n', 1)[0] ?? '';
  const firstZero = firstLine.indexOf('\0');
  // From where a block or the batch begins, to the end of that block or of the file.
  const gapFrom = from + firstZero;
  const gapTo = firstZero + blockBytes - (gapFrom % blockBytes);
  const hasGap =
    firstZero >= 0 &&
    (gapFrom === batchFrom || gapFrom % blockBytes === 0) &&
    /^\0*$/.test(rest.slice(firstZero, gapTo));
  if (isNothingBefore) {
    // A file of something else begins otherwise, or with a whole line that is no animal.
    const isBegunByUs = heads.some((head) => head.startsWith(rest.slice(0, head.length)));
    if (!isBegunByUs && !(hasGap && firstZero === 0)) return false;
    if ((firstLine.length < rest.length && firstZero < 0) || goesOnAfterObject(firstLine)) return false;
  }
  const commit = commitPattern.exec(rest);
  if (commit === null) return true;
  return hasGap && commit.index + commit[0].length === rest.length && Number(commit[1]) === batchFrom;
}

/** What our first write begins with. */
const ids = Array.from('123456789', (digit) => `{"id":${digit}`);
const heads = ['{"commit":{"from":', '{"idempotency":{"key":"', ...ids];

/** Whether a line goes on after its object, and not with a missing block: somebody took the newlines out. */
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
