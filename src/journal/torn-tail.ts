/** Tells a torn tail, which a crash leaves of a batch, from damage. */
import { commitPattern } from './lines.js';

/** The size of the longest torn tail in bytes: no write of a server is longer (F2). */
export const maxTornBytes = 256 * 2 ** 20;

/** A file from its first bad line on. */
interface FileEnd {
  /** The file's content from the first bad line on, as a byte string. */
  readonly text: string;
  /** The offset of the bad line. */
  readonly from: number;
  /** The offset of the batch that the bad line belongs to. */
  readonly batchFrom: number;
  /** The size of a block of the file system in bytes. */
  readonly blockBytes: number;
  /** True if only white space precedes the bad line. */
  readonly isBlankBefore: boolean;
}

/**
 * True if a crash explains the end of a file. A crash damages only the last batch: either its end
 * is missing, or some of its blocks were not written. Anything else was acknowledged and must stay.
 */
export function isTornTail(end: FileEnd): boolean {
  const commit = commitPattern.exec(end.text);
  const isUnfinished = commit === null || (endsWithCommit(end, commit) && lacksBlock(end));
  return isUnfinished && (!end.isBlankBefore || isFirstWrite(end));
}

/**
 * True if the commit record of the last batch ends the file. The block of its newline may not have
 * been written: such a block reads as zeros.
 */
function endsWithCommit({ text, batchFrom }: FileEnd, commit: RegExpExecArray): boolean {
  const [line, from] = commit;
  return Number(from) === batchFrom && /^\0*$/.test(text.slice(commit.index + line.length));
}

/** Returns the bad line, up to its newline or its first zero. */
function badLineOf({ text }: FileEnd): string {
  return text.split(/[\n\0]/, 1)[0] ?? '';
}

/**
 * True if a block was not written, so that it reads as zeros: from the start of the batch or of a
 * block up to the end of that block or of the file.
 */
function lacksBlock(end: FileEnd): boolean {
  const { text, from, batchFrom, blockBytes } = end;
  const { length } = badLineOf(end);
  const zerosFrom = from + length;
  const bytesBefore = zerosFrom % blockBytes;
  const zeros = text.slice(length, length + blockBytes - bytesBefore);
  return (zerosFrom === batchFrom || bytesBefore === 0) && /^\0+$/.test(zeros);
}

/** The possible starts of the first write to a file. */
const firstIds = Array.from('123456789', (digit) => `{"id":${digit}`);
const starts = [
  '{"commit":{"from":',
  '{"idempotency":{"key":"',
  '{"import":{"source":"',
  ...firstIds,
];

/** Matches two lines without a newline between them, which no JSON text contains. */
const joinedLines = /\}\s*\{"[a-z]+":|,\{"commit":/;

/** Matches a JSON object with text after it. */
const objectAndMore = /^\{([^"{}]|"([^"\\]|\\.)*"|\{[^{}]*\})*\}./;

/**
 * True if a file of nothing but a torn tail can be the torn first write of a petstore. Otherwise it
 * may be a file of another program, which a start must not empty. The first line of a torn first
 * write begins like a line of a petstore, is cut short, and does not contain a second line.
 */
function isFirstWrite(end: FileEnd): boolean {
  const line = badLineOf(end);
  const hasStart =
    line === ''
      ? lacksBlock(end)
      : starts.some((start) => start.startsWith(end.text.slice(0, start.length)));
  const isCut = end.text[line.length] !== '\n';
  // The pattern gets a part of the line, because a long text would exhaust V8's stack.
  const isOneLine = !joinedLines.test(line) && !objectAndMore.test(line.slice(0, 65_536));
  return hasStart && isCut && isOneLine;
}
