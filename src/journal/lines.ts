/** The text of a journal: the lines that it adds to those it is given; and reading a file by its whole lines. */
import { crc32 } from 'node:zlib';
import { PetstoreError, reasonOf } from '../errors.js';
import { maxTextBytes } from '../memory/index.js';
import type { InsertOnce } from '../storage.js';
import type { Disk } from './disk.js';

/** A commit line, of at most 64 bytes, in exactly our text. */
export const commitPattern = /\{"commit":\{"from":(0|[1-9][0-9]{0,15}),"crc32":"([0-9a-f]{8})"\}\}\n/;

/** The commit line of a batch, newline included: the offset where it began and the CRC-32 of its bytes. */
export function commitLine(from: number, sum: number): string {
  return `{"commit":{"from":${from},"crc32":"${sum.toString(16).padStart(8, '0')}"}}\n`;
}

/** The bytes of lines followed by their commit line, for a file that is `from` bytes long. */
export function batchBytes(lines: readonly string[], from: number): Buffer {
  const body = Buffer.from(lines.length === 0 ? '' : `${lines.join('\n')}\n`, 'latin1');
  return Buffer.concat([body, Buffer.from(commitLine(from, crc32(body)))]);
}

/** A record's line, of at most 192 bytes, in exactly our text. */
const recordPattern =
  /^\{"idempotency":\{"key":"([0-9a-f]{64})","body":"([0-9a-f]{64})","at":(0|[1-9][0-9]{0,14})\}\}\n/;
const maxRecordBytes = 192;

/** The line of an idempotency record, without its newline. */
export function idempotencyLine({ key, body, at }: InsertOnce): string {
  return `{"idempotency":{"key":"${key}","body":"${body}","at":${at}}}`;
}

/** A line by offsets in its text; one with an idempotency record before it, so that both are kept or both are cut. */
interface Line {
  /** Where it begins, after the record. */
  readonly textFrom: number;
  /** Where it ends, without its newline. */
  readonly textTo: number;
  /** Where the next line begins. */
  readonly end: number;
  readonly once: InsertOnce | undefined;
  /** What it says, where it is a commit line. */
  readonly commit: { readonly from: number; readonly crc32: number } | undefined;
}

/** The line that begins at an offset, or whose record does. */
export function readLine(text: string, from: number): Line {
  // One letter tells almost every animal's line apart, at no cost.
  const record = text[from + 4] === 'e' ? recordPattern.exec(text.slice(from, from + maxRecordBytes)) : null;
  const once = record ? { key: record[1] ?? '', body: record[2] ?? '', at: Number(record[3]) } : undefined;
  const match = text[from + 2] === 'c' ? commitPattern.exec(text.slice(from, from + 64)) : null;
  const commit =
    match?.index === 0 ? { from: Number(match[1]), crc32: Number.parseInt(match[2] ?? '', 16) } : undefined;
  const textFrom = from + (record?.[0].length ?? 0);
  const newline = text.indexOf('\n', textFrom);
  const textTo = newline < 0 ? text.length : newline;
  return { textFrom, textTo, end: newline < 0 ? textTo : newline + 1, once, commit };
}

/** Takes a line, a byte string without its newline, and the record before it. @throws PetstoreError for a wrong one */
export type AcceptLine = (line: string, once?: InsertOnce) => void;

/** Hands a line that is no commit to `accept` unless it is blank; answers what is wrong with it. */
export function offerLine(text: string, { textFrom, textTo, once }: Line, accept: AcceptLine): string | undefined {
  if (textTo - textFrom > maxTextBytes) return `a line of more than ${maxTextBytes} bytes`;
  // A part of a text takes 32 bytes of memory, and keeps all of it there: most of it is animals, which are kept.
  const line = text.slice(textFrom, textTo);
  // As an editor may leave it between or after what a person wrote.
  if (line[0] !== '{' && /^[ \t\r]*$/.test(line)) return once && 'nothing behind an idempotency record';
  try {
    accept(line, once);
    return undefined;
  } catch (error) {
    if (!(error instanceof PetstoreError)) throw error;
    const what = reasonOf(error).replace(/\.$/, '');
    return once === undefined ? what : `no animal behind an idempotency record: ${what}`;
  }
}

/**
 * An open file by its whole lines, a mebibyte at a time and more for a longer line: as bytes, whose memory is used
 * again, and as a byte string, with their offset. A record comes together with the line after it. Only the end of the
 * file and a line over `maxTextBytes` are cut: a file of something else must not fill the memory.
 */
export async function* wholeLines(disk: Disk, descriptor: number, size: number) {
  let buffer = Buffer.allocUnsafeSlow(Math.min(2 ** 20, size + 1));
  let at = 0;
  for (let held = 0; ; ) {
    const count = await disk.read(descriptor, buffer.subarray(held, size - at), at + held);
    held += count;
    const whole = endOfWholeLines(buffer.subarray(0, held));
    const end = count === 0 || (whole === 0 && held > maxTextBytes) ? held : whole;
    if (end > 0) yield { bytes: buffer.subarray(0, end), text: buffer.toString('latin1', 0, end), at };
    if (count === 0) return;
    buffer.copyWithin(0, end, held);
    held -= end;
    at += end;
    if (held === buffer.length) buffer = Buffer.concat([buffer], 2 * held);
  }
}

function endOfWholeLines(bytes: Buffer): number {
  const end = bytes.lastIndexOf(0x0a) + 1;
  const lastFrom = end < 2 ? 0 : bytes.lastIndexOf(0x0a, end - 2) + 1;
  const isRecord = end - lastFrom <= maxRecordBytes && recordPattern.test(bytes.toString('latin1', lastFrom, end));
  return isRecord ? lastFrom : end;
}
