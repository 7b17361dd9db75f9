/** Reads a journal and tells what of it is sound, for a start and for `check`; changes nothing. */
import { crc32 } from 'node:zlib';
import { PetstoreError } from '../errors.js';
import { transferAll, type Disk } from './disk.js';
import {
  BatchSum,
  commitLine,
  commitPattern,
  firstLineIn,
  offerLine,
  readLine,
  wholeLines,
  type AcceptLine,
  type CommitRecord,
  type ImportRecord,
  type Line,
} from './lines.js';

/**
 * Is told of each sound commit, after its lines, and of the import that its batch was a part of.
 */
export type OnCommit = (imported?: ImportRecord) => void;

/** Where a line stands in a file. */
interface Place {
  /** Its number, from 1. */
  readonly line: number;
  /** Its offset. */
  readonly byte: number;
}

/** The first bad line of a file. */
export interface Problem extends Place {
  /** What is wrong with it: a sentence without its full stop. */
  readonly what: string;
}

/** What a replay found in a file. */
export interface Replayed {
  /** The size of the file, as it was when the replay began. */
  readonly bytes: number;
  /** How many commits are sound. */
  readonly commits: number;
  /** Where the last sound commit ends. */
  readonly committedBytes: number;
  /** Where the last accepted line ends: some may stand behind the last sound commit. */
  readonly end: number;
  /**
   * What is to be written at `end`: a newline if the last accepted line lacks it, and a commit for
   * the lines behind the last sound commit, if there are any.
   */
  readonly missingEnd: string;
  /** Undefined where all is sound. */
  readonly problem: Problem | undefined;
  /**
   * All from `end` on, where that is the rest of a write that a crash cut short (F2); undefined
   * where a problem is damage (F3).
   */
  readonly tornTail: Buffer | undefined;
}

/**
 * Reads an open journal up to its first bad line.
 * @param accept Takes each line that is not of the journal's own; the lines of an imported batch
 * once its commit is there, for without that all of it is torn (F11).
 * @param onRead Is told where each piece of a mebibyte or more begins, before that is replayed.
 */
export async function replay(
  disk: Disk,
  descriptor: number,
  accept: AcceptLine,
  onCommit?: OnCommit,
  onRead?: (read: number, size: number) => void,
): Promise<Replayed> {
  const facts = await disk.factsOf(descriptor);
  const { size } = facts;
  let lines = 0;
  let commits = 0;
  let committedBytes = 0;
  let end = 0;
  let sum = new BatchSum();
  // Where the next batch began when it was written, if every line break before it was one byte.
  let writtenFrom = 0;
  let problem: Problem | undefined;
  let isBlankBefore = true;
  let isSameLine = false;
  let held: HeldBatch | undefined;

  for await (const { bytes, text, at } of wholeLines(disk, descriptor, facts)) {
    onRead?.(at, size);
    const first = firstLineIn(text, at);
    let next = first;
    end = Math.max(end, first);
    // The checksum is made of many lines at once: a call for each would cost more than reading it.
    let sumFrom = 0;

    while (next < text.length) {
      const line = readLine(text, next);
      const { commit, imported } = line;
      lines += (line.keyUse ? 2 : 1) - (isSameLine ? 1 : 0);
      const place = { line: lines, byte: at + line.from };

      // What is wrong with the line.
      let what: string | undefined;
      if (commit) {
        sum.add(bytes.subarray(sumFrom, next));
        sumFrom = next;
        what = faultOfCommit(commit, [committedBytes, writtenFrom], sum);
      } else if (imported) {
        held = { imported, place, lines: [] };
        if (!sum.isEmpty || next > Math.max(sumFrom, first))
          what = 'an import that does not begin its batch';
      } else if (held) {
        held.lines.push({ line, place });
        what = offerLine(line, checkWhole);
      } else what = offerLine(line, accept);

      if (what !== undefined) problem = { ...place, what: isUtf16(text, at) ? utf16 : what };
      else if (commit && held) problem = offerHeld(held, accept);
      if (problem) break;

      // The line is sound; without its commit, one of an imported batch is not accepted yet.
      next = line.end;
      isSameLine = commit !== undefined && text[next - 1] !== '\n';
      if (commit || !held) end = at + next;
      if (commit) {
        commits++;
        committedBytes = end;
        writtenFrom = commit.from + sum.writtenLength;
        writtenFrom += commitLine(commit.from, commit.crc32).length;
        sum = new BatchSum();
        sumFrom = next;
        onCommit?.(held?.imported);
        held = undefined;
      }
    }

    sum.add(bytes.subarray(sumFrom, next));
    isBlankBefore &&= text.slice(first, problem ? problem.byte - at : next).trim() === '';
    if (problem) break;
  }

  if (held) problem ??= { ...held.place, what: 'an import without its commit' };

  const newline = (await endsLine(disk, descriptor, end)) ? '' : '\n';
  const commit = commitLine(committedBytes, crc32(newline, sum.exact));
  const missingEnd = end > committedBytes ? newline + commit : newline;
  const found = { bytes: size, commits, committedBytes, end, missingEnd, problem };

  if (!problem || size - end > maxTornBytes) return { ...found, tornTail: undefined };

  const tail = Buffer.allocUnsafe(size - end);
  await transferAll(tail, (rest) => disk.read(descriptor, rest, size - rest.length));

  const text = tail.toString('latin1', problem.byte - end);
  const isTail = isTorn(text, problem.byte, committedBytes, facts.blksize, isBlankBefore);
  return { ...found, tornTail: isTail ? tail : undefined };
}

/** No write of ours is longer (F2). */
const maxTornBytes = 256 * 2 ** 20;

/** The lines of an imported batch, which wait for its commit, and where it begins. */
interface HeldBatch {
  readonly imported: ImportRecord;
  readonly place: Place;
  readonly lines: { readonly line: Line; readonly place: Place }[];
}

/** What a crash leaves of a line is not whole, or holds zeros. @throws PetstoreError */
const checkWhole: AcceptLine = (line) => {
  if (!/^\{[\x20-\xff]*\}$/.test(line))
    throw new PetstoreError('invalid_json', 'The line is not whole.');
};

/** Offers the lines of a batch whose commit is there, up to the first bad one, which it answers. */
function offerHeld({ lines }: HeldBatch, accept: AcceptLine): Problem | undefined {
  for (const { line, place } of lines) {
    const what = offerLine(line, accept);
    if (what !== undefined) return { ...place, what };
  }
  return undefined;
}

const utf16 = 'UTF-16, where UTF-8 must be; `iconv -f UTF-16 -t UTF-8` converts it';

/** True if the piece of a file that begins at `at` has the byte order mark of UTF-16. */
function isUtf16(text: string, at: number): boolean {
  return at === 0 && /^(?:\xff\xfe|\xfe\xff)/.test(text);
}

/** True if a file has no byte before an offset, or a newline. */
async function endsLine(disk: Disk, descriptor: number, offset: number): Promise<boolean> {
  if (offset === 0) return true;

  const last = Buffer.alloc(1);
  await transferAll(last, (rest) => disk.read(descriptor, rest, offset - 1));
  return last.toString() === '\n';
}

/**
 * Returns what is wrong with a commit, if anything.
 * @param froms Where its batch begins, and where it began when it was written (F13).
 */
function faultOfCommit(
  commit: CommitRecord,
  froms: readonly [now: number, written: number],
  sum: BatchSum,
): string | undefined {
  if (!froms.includes(commit.from))
    return `a commit from byte ${commit.from}, where the commit before it ends at byte ${froms[0]}`;
  return sum.fits(commit) ? undefined : 'a commit whose checksum does not fit the lines before it';
}

/** What our first write begins with. */
const ids = Array.from('123456789', (digit) => `{"id":${digit}`);
const heads = ['{"commit":{"from":', '{"idempotency":{"key":"', '{"import":{"source":"', ...ids];

/** Two lines of ours in one; no JSON text has that, be it cut short. */
const joined = /\}\s*\{"[a-z]+":|,\{"commit":/;

/** Anything after a line's object; for a long text V8 would have no stack left. */
const goesOn = /^\{([^"{}]|"([^"\\]|\\.)*"|\{[^{}]*\})*\}./;

/**
 * Whether a crash explains a file from its first bad line on, which is `text`. A crash damages the
 * last batch only, in one of two ways; anything else was acknowledged and must not be cut.
 * @param from The offset of that line.
 * @param batchFrom The offset of its batch.
 * @param blockBytes The size of a block of the file system.
 * @param isBlankBefore Whether nothing but white space stands before that line.
 */
function isTorn(
  text: string,
  from: number,
  batchFrom: number,
  blockBytes: number,
  isBlankBefore: boolean,
): boolean {
  const [start = ''] = text.split(/[\n\0]/, 1);
  const commit = commitPattern.exec(text);

  /** The end of the batch is missing, so that no whole commit line is left. */
  function lacksEnd() {
    return commit === null;
  }

  /**
   * The commit line of the batch ends the file, but a block before it was not written yet. The
   * block of its newline may not have been written either.
   */
  function lacksBlock() {
    if (commit === null || Number(commit[1]) !== batchFrom) return false;
    return /^\0*$/.test(text.slice(commit.index + commit[0].length)) && isBlockUnwritten();
  }

  /**
   * A block that was not written reads as zeros: here from where the batch or a block begins to
   * where that block or the file ends.
   */
  function isBlockUnwritten() {
    const zerosFrom = from + start.length;
    const bytesBefore = zerosFrom % blockBytes;
    const zeros = text.slice(start.length, start.length + blockBytes - bytesBefore);
    return (zerosFrom === batchFrom || bytesBefore === 0) && /^\0+$/.test(zeros);
  }

  /**
   * A file of nothing else may be one of something else. Our first write begins like `{"id":3,"na`,
   * or is no longer than `{"i`, its first line is not whole, and it has no lines of ours without
   * newlines (`{"id":1,…}{"id":2,…`).
   */
  function isFirstWrite() {
    const isOurs =
      start === ''
        ? isBlockUnwritten()
        : heads.some((head) => head.startsWith(text.slice(0, head.length)));
    const isCut = text[start.length] !== '\n';
    return isOurs && isCut && !joined.test(start) && !goesOn.test(start.slice(0, 65_536));
  }

  return (!isBlankBefore || isFirstWrite()) && (lacksEnd() || lacksBlock());
}
