/** Reads a journal up to its first bad line, for a start and for `check`. Changes nothing. */
import { crc32 } from 'node:zlib';
import { PetstoreError } from '../errors.js';
import { BatchSum } from './batch-sum.js';
import { transferAll, type Disk } from './disk.js';
import { firstLineOffset, lineChunks, type LineChunk } from './line-chunks.js';
import {
  commitLine,
  offerLine,
  readLine,
  type AcceptLine,
  type CommitRecord,
  type ImportRecord,
  type Line,
} from './lines.js';
import { isTornTail, maxTornBytes } from './torn-tail.js';

/** Called after the lines of each sound commit, with the import that its batch is a part of. */
export type OnCommit = (imported?: ImportRecord) => void;

/** The position of a line in a file. */
interface LinePosition {
  /** The number of the line, from 1. */
  readonly line: number;
  /** The offset of the line in bytes. */
  readonly byte: number;
}

/** The first bad line of a file. */
export interface Problem extends LinePosition {
  /** The fault of the line in words, without a full stop. */
  readonly what: string;
}

/** The result of a replay. */
export interface Replayed {
  /** The size of the file when the replay began. */
  readonly bytes: number;
  /** The number of sound commits. */
  readonly commits: number;
  /** The offset at which the last sound commit ends. */
  readonly committedBytes: number;
  /** The offset at which the last accepted line ends. The last lines may lack a commit. */
  readonly end: number;
  /**
   * The bytes to append at `end`: a newline if the last accepted line lacks it, and a commit record
   * if the last lines lack it.
   */
  readonly missingEnd: string;
  /** Undefined if the whole file is sound. */
  readonly problem: Problem | undefined;
  /**
   * The bytes from `end` on, if they are the rest of a write that a crash cut short (F2). Undefined
   * if the problem is damage (F3).
   */
  readonly tornTail: Buffer | undefined;
}

/**
 * Reads an open journal up to its first bad line.
 * @param accept Takes each line that is not a record of the journal. Lines of an imported batch are
 * passed on with its commit record, because without that the whole batch is torn (F11).
 * @param onRead Called before each chunk with its offset and the size of the file.
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
  const file = new Replay(accept, onCommit);

  for await (const chunk of lineChunks(disk, descriptor, facts)) {
    onRead?.(chunk.at, size);
    if (!file.read(chunk)) break;
  }

  const { commits, committedBytes, end, sum, problem, isBlankBefore } = file.result();
  const newline = (await endsLine(disk, descriptor, end)) ? '' : '\n';
  const commit = commitLine(committedBytes, crc32(newline, sum));
  const missingEnd = end > committedBytes ? newline + commit : newline;
  const found = { bytes: size, commits, committedBytes, end, missingEnd, problem };

  if (!problem || size - end > maxTornBytes) return { ...found, tornTail: undefined };

  const tail = Buffer.allocUnsafe(size - end);
  await transferAll(tail, (rest) => disk.read(descriptor, rest, size - rest.length));

  const isTorn = isTornTail({
    text: tail.toString('latin1', problem.byte - end),
    from: problem.byte,
    batchFrom: committedBytes,
    blockBytes: facts.blksize,
    isBlankBefore,
  });
  return { ...found, tornTail: isTorn ? tail : undefined };
}

/** True if the line before an offset has its newline, or if there is no line before it. */
async function endsLine(disk: Disk, descriptor: number, offset: number): Promise<boolean> {
  if (offset === 0) return true;

  const last = Buffer.alloc(1);
  await transferAll(last, (rest) => disk.read(descriptor, rest, offset - 1));
  return last.toString() === '\n';
}

/** An imported batch whose commit record was not read yet. */
interface PendingImport {
  readonly imported: ImportRecord;
  readonly position: LinePosition;
  readonly lines: { readonly line: Line; readonly position: LinePosition }[];
}

/** The state of a replay, which reads a file chunk by chunk. */
class Replay {
  readonly #accept: AcceptLine;
  readonly #onCommit: OnCommit | undefined;

  /** The number of lines that were read. */
  #lines = 0;
  /** True if the next line follows a commit record that lacks its newline (F13). */
  #continuesLine = false;
  /** True if all lines so far are blank. */
  #isBlank = true;

  #commits = 0;
  /** The offset at which the last sound commit ends, where the present batch begins. */
  #committedBytes = 0;
  /** The offset of the current batch when it was written, with line breaks of one byte. */
  #writtenFrom = 0;
  /** The offset at which the last accepted line ends. */
  #end = 0;

  /** The checksums of the present batch. */
  #sum = new BatchSum();
  /** The present batch, if it is imported. */
  #import: PendingImport | undefined;
  #problem: Problem | undefined;

  constructor(accept: AcceptLine, onCommit: OnCommit | undefined) {
    this.#accept = accept;
    this.#onCommit = onCommit;
  }

  /** Reads a chunk up to its first bad line. Returns false if there is one. */
  read({ bytes, text, at }: LineChunk): boolean {
    const first = firstLineOffset(text, at);
    this.#end = Math.max(this.#end, first);
    let next = first;
    // Many lines at once: a call of the checksum for each would cost more than to read the line.
    let sumFrom = 0;

    while (next < text.length) {
      const line = readLine(text, next);
      const { keyUse, commit, imported } = line;
      if (!this.#continuesLine) this.#lines++;
      if (keyUse) this.#lines++;
      const position = { line: this.#lines, byte: at + line.from };

      if (commit || imported) {
        this.#sum.add(bytes.subarray(sumFrom, next));
        sumFrom = commit ? line.end : next;
      }
      if (commit) this.#commit(commit, position, at + line.end);
      else if (imported) this.#beginImport(imported, position);
      else this.#record(line, position);
      if (this.#problem) break;

      next = line.end;
      this.#continuesLine = commit !== undefined && text[next - 1] !== '\n';
      // Lines of an import are accepted with their commit.
      if (!this.#import) this.#end = at + next;
    }

    const problem = this.#problem;
    this.#sum.add(bytes.subarray(sumFrom, next));
    this.#isBlank &&= text.slice(first, problem ? problem.byte - at : next).trim() === '';
    if (!problem) return true;

    if (isUtf16(text, at)) this.#problem = { ...problem, what: utf16 };
    return false;
  }

  /** Reads a line that is not a record of the journal. */
  #record(line: Line, position: LinePosition): void {
    if (this.#import) this.#import.lines.push({ line, position });
    this.#check(position, offerLine(line, this.#import ? checkWhole : this.#accept));
  }

  /** Begins an imported batch. */
  #beginImport(imported: ImportRecord, position: LinePosition): void {
    if (!this.#sum.isEmpty) this.#check(position, 'an import that does not begin its batch');
    this.#import = { imported, position, lines: [] };
  }

  /** Ends a batch at the offset `end`. */
  #commit(commit: CommitRecord, position: LinePosition, end: number): void {
    this.#check(position, this.#faultOf(commit));
    for (const { line, position: at } of this.#import?.lines ?? []) {
      if (this.#problem) return;
      this.#check(at, offerLine(line, this.#accept));
    }
    if (this.#problem) return;

    this.#commits++;
    this.#committedBytes = end;
    this.#writtenFrom =
      commit.from + this.#sum.writtenLength + commitLine(commit.from, commit.crc32).length;
    this.#onCommit?.(this.#import?.imported);
    this.#import = undefined;
    this.#sum = new BatchSum();
  }

  /** Describes the fault of a commit record; undefined if it is sound. */
  #faultOf(commit: CommitRecord): string | undefined {
    const end = this.#committedBytes;
    if (commit.from !== end && commit.from !== this.#writtenFrom)
      return `a commit from byte ${commit.from}, where the commit before it ends at byte ${end}`;
    if (!this.#sum.fits(commit)) return 'a commit whose checksum does not fit the lines before it';
    return undefined;
  }

  /** Notes the fault of a line, if it has one. */
  #check(position: LinePosition, what: string | undefined): void {
    if (what !== undefined) this.#problem = { ...position, what };
  }

  /** Returns the result. To be called after the last chunk. */
  result() {
    if (this.#import)
      this.#check(
        this.#import.position,
        this.#problem ? undefined : 'an import without its commit',
      );

    return {
      commits: this.#commits,
      committedBytes: this.#committedBytes,
      end: this.#end,
      /** The CRC-32 of the lines after the last sound commit. */
      sum: this.#sum.exact,
      problem: this.#problem,
      /** True if only white space precedes the problem. */
      isBlankBefore: this.#isBlank,
    };
  }
}

/** Accepts any line that a crash has not cut short or filled with zeros. */
const checkWhole: AcceptLine = (line) => {
  if (!/^\{[\x20-\xff]*\}$/.test(line))
    throw new PetstoreError('invalid_json', 'The line is incomplete.');
};

const utf16 = 'UTF-16, where UTF-8 must be; `iconv -f UTF-16 -t UTF-8` converts it';

/** True if the chunk of a file that begins at `at` has the byte order mark of UTF-16. */
function isUtf16(text: string, at: number): boolean {
  return at === 0 && /^(?:\xff\xfe|\xfe\xff)/.test(text);
}
