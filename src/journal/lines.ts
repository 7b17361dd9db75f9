/** The text of a journal: the lines of its own, and reading a file by whole lines. */
import { crc32 } from 'node:zlib';
import { maxTextBytes } from '../engine/index.js';
import { PetstoreError, reasonOf } from '../errors.js';
import { asByteString, type ByteString } from '../json.js';
import type { IdempotencyKeyUse } from '../storage.js';
import type { Disk, FileFacts } from './disk.js';

export const commitPattern =
  /\{"commit":\{"from":(0|[1-9][0-9]{0,15}),"crc32":"([0-9a-f]{8})"\}\}\n/;

/** The commit line of a batch by its offset and CRC-32, newline included. */
export function commitLine(from: number, sum: number): string {
  return `{"commit":{"from":${from},"crc32":"${sum.toString(16).padStart(8, '0')}"}}\n`;
}

/** The bytes of lines and their commit line, for a file of `from` bytes. */
export function batchBytes(lines: readonly string[], from: number): Buffer {
  const body = Buffer.from(lines.length === 0 ? '' : `${lines.join('\n')}\n`, 'latin1');
  return Buffer.concat([body, Buffer.from(commitLine(from, crc32(body)))]);
}

const idempotencyPattern =
  /^\{"idempotency":\{"key":"([0-9a-f]{64})","body":"([0-9a-f]{64})","at":(0|[1-9][0-9]{0,14})\}\}\n/;
const maxIdempotencyBytes = 192;

export function idempotencyLine({ key, body, at }: IdempotencyKeyUse): string {
  return `{"idempotency":{"key":"${key}","body":"${body}","at":${at}}}`;
}

/**
 * How many animals of a source, such as an imported file, are there with the batch that this line
 * begins (F11).
 */
export interface ImportRecord {
  /** Tells the source: a SHA-256 in 64 small hexadecimal digits. */
  readonly source: string;
  /** A whole number. */
  readonly place: number;
}

const importPattern = /^\{"import":\{"source":"([0-9a-f]{64})","place":(0|[1-9][0-9]{0,14})\}\}\n/;
const maxImportBytes = 128;

/** The first line of a batch of imported animals, which is kept whole or not at all (F11). */
export function importLine({ source, place }: ImportRecord): string {
  return `{"import":{"source":"${source}","place":${place}}}`;
}

/**
 * Reads the line at an offset; where an idempotency record stands there, that as `once` and the
 * line after it.
 */
export function readLine(text: string, from: number) {
  // One letter rules out almost every other line without a pattern.
  const record =
    text[from + 4] === 'e'
      ? idempotencyPattern.exec(text.slice(from, from + maxIdempotencyBytes))
      : null;
  const once = record
    ? { key: record[1] ?? '', body: record[2] ?? '', at: Number(record[3]) }
    : undefined;
  const match = text[from + 2] === 'c' ? commitPattern.exec(text.slice(from, from + 64)) : null;
  const commit =
    match?.index === 0 ? { from: Number(match[1]), crc32: Number(`0x${match[2]}`) } : undefined;
  const batch =
    text[from + 4] === 'p' ? importPattern.exec(text.slice(from, from + maxImportBytes)) : null;
  const imported: ImportRecord | undefined = batch
    ? { source: batch[1] ?? '', place: Number(batch[2]) }
    : undefined;
  const textFrom = from + (record?.[0].length ?? 0);
  const newline = text.indexOf('\n', textFrom);
  const textTo = newline < 0 ? text.length : newline;
  return { textFrom, textTo, end: newline < 0 ? textTo : newline + 1, once, commit, imported };
}

/** Takes a line without its newline, and the idempotency record before it. @throws PetstoreError */
export type AcceptLine = (line: ByteString, once?: IdempotencyKeyUse) => void;

/** Hands a line that is no commit to `accept` unless blank; answers what is wrong with it. */
export function offerLine(
  text: string,
  line: ReturnType<typeof readLine>,
  accept: AcceptLine,
): string | undefined {
  const { textFrom, textTo, once } = line;
  if (textTo - textFrom > maxTextBytes) return `a line of more than ${maxTextBytes} bytes`;
  // V8 makes it a view, which keeps all of `text` in memory; most of that is kept anyway.
  const part = asByteString(text.slice(textFrom, textTo));
  // As an editor may leave it.
  if (part[0] !== '{' && /^[ \t\r]*$/.test(part))
    return once && 'nothing behind an idempotency record';
  try {
    accept(part, once);
    return undefined;
  } catch (error) {
    if (!(error instanceof PetstoreError)) throw error;
    const what = reasonOf(error).replace(/\.$/, '');
    return once ? `no animal behind an idempotency record: ${what}` : what;
  }
}

/**
 * Reads an open file by whole lines, a mebibyte or more at a time: `bytes`, whose memory is used
 * again, their `text`, a byte string, and their offset `at`. An idempotency record comes with the
 * next line; over `maxTextBytes`, one is cut.
 */
export async function* wholeLines(disk: Disk, descriptor: number, facts: FileFacts) {
  const { size } = facts;
  let buffer = Buffer.allocUnsafeSlow(Math.min(2 ** 20, size + 1));
  // A file of /proc says that it is empty, and is not. One that a server has begun meanwhile says
  // its size now.
  const isRegular =
    facts.isFile() &&
    (size > 0 ||
      (await disk.read(descriptor, buffer, 0)) === 0 ||
      (await disk.factsOf(descriptor)).size > 0);
  if (!isRegular) throw Object.assign(new Error('it is not a regular file'), { code: 'EFTYPE' });
  let at = 0;
  for (let held = 0; ; ) {
    const count = await disk.read(descriptor, buffer.subarray(held, size - at), at + held);
    held += count;
    const whole = endOfWholeLines(buffer.subarray(0, held));
    const end = count === 0 || (whole === 0 && held > maxTextBytes) ? held : whole;
    if (end > 0)
      yield { bytes: buffer.subarray(0, end), text: buffer.toString('latin1', 0, end), at };
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
  return idempotencyPattern.test(bytes.toString('latin1', lastFrom, end)) ? lastFrom : end;
}
