/** The text of a journal: the lines of its own, and reading a file by whole lines. */
import { crc32 } from 'node:zlib';
import { maxTextBytes } from '../engine/index.js';
import { PetstoreError, reasonOf } from '../errors.js';
import { asByteString, type ByteString } from '../json.js';
import type { IdempotencyKeyUse } from '../storage.js';
import type { Disk, FileFacts } from './disk.js';

/** What a commit line says of the batch that it ends. */
export interface CommitRecord {
  /** The offset of the batch in its file. */
  readonly from: number;
  /** The CRC-32 of its lines. */
  readonly crc32: number;
}

/** A commit line, wherever it stands in a text. */
export const commitPattern = /\{"commit":\{"from":(0|[1-9]\d{0,15}),"crc32":"([\da-f]{8})"\}\}\n/;

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
  /^\{"idempotency":\{"key":"([\da-f]{64})","body":"([\da-f]{64})","at":(0|[1-9]\d{0,14})\}\}\n/;

/** The idempotency record of the animal whose line follows. */
export function idempotencyLine({ key, body, at }: IdempotencyKeyUse): string {
  return `{"idempotency":{"key":"${key}","body":"${body}","at":${at}}}`;
}

/**
 * How many animals of a source, such as an imported file, are there with the batch that this record
 * begins (F11).
 */
export interface ImportRecord {
  /** Tells the source: a SHA-256 in 64 small hexadecimal digits. */
  readonly source: string;
  /** A whole number. */
  readonly place: number;
}

const importPattern = /^\{"import":\{"source":"([\da-f]{64})","place":(0|[1-9]\d{0,14})\}\}\n/;

/** The first line of a batch of imported animals, which is kept whole or not at all (F11). */
export function importLine({ source, place }: ImportRecord): string {
  return `{"import":{"source":"${source}","place":${place}}}`;
}

/** No line of a journal's own is longer. */
const maxOwnBytes = 192;

/** What a line of the journal's own says: one of these; none where it is another line. */
interface OwnRecord {
  /** Which use of an idempotency key the animal of the next line is. */
  readonly keyUse?: IdempotencyKeyUse | undefined;
  /** Which batch it ends. */
  readonly commit?: CommitRecord | undefined;
  /** Which imported batch it begins. */
  readonly imported?: ImportRecord | undefined;
}

/** Reads what begins with a line. */
function readOwn(line: string): OwnRecord {
  const [, key, body, at] = idempotencyPattern.exec(line) ?? [];
  if (key && body) return { keyUse: { key, body, at: Number(at) } };

  const commit = commitPattern.exec(line);
  if (commit?.index === 0)
    return { commit: { from: Number(commit[1]), crc32: Number(`0x${commit[2]}`) } };

  const [, source, place] = importPattern.exec(line) ?? [];
  return source ? { imported: { source, place: Number(place) } } : {};
}

/** A line of a journal, with the idempotency record on the line before it, where there is one. */
export interface Line extends OwnRecord {
  /** Itself, without its newline. */
  readonly text: ByteString;
  /** Where it begins in the text that it was read from, behind its idempotency record. */
  readonly from: number;
  /** Where the next line begins. */
  readonly end: number;
}

/** Reads the line at an offset of a text, which holds whole lines. */
export function readLine(text: string, at: number): Line {
  // The line of an animal, `{"id":…`, is told by one letter: a million need no pattern here.
  const isAnimal = text[at + 4] === '"';
  const own: OwnRecord = isAnimal ? {} : readOwn(text.slice(at, at + maxOwnBytes));
  const { keyUse, commit, imported } = own;

  const from = keyUse ? text.indexOf('\n', at) + 1 : at;
  const newline = text.indexOf('\n', from);
  const to = newline < 0 ? text.length : newline;

  return {
    keyUse,
    commit,
    imported,
    // V8 makes it a view, which keeps all of the piece in memory; most of that is kept anyway.
    text: asByteString(text.slice(from, to)),
    from,
    end: newline < 0 ? to : to + 1,
  };
}

/**
 * Takes a line without its newline, and the idempotency record before it.
 * @throws PetstoreError for a line that is none.
 */
export type AcceptLine = (line: ByteString, keyUse?: IdempotencyKeyUse) => void;

/**
 * Hands a line that is not of the journal's own to `accept`, unless it is blank. Answers what is
 * wrong with it: a sentence without its full stop, or undefined.
 */
export function offerLine({ text, keyUse }: Line, accept: AcceptLine): string | undefined {
  if (text.length > maxTextBytes) return `a line of more than ${maxTextBytes} bytes`;

  // An editor may leave blank lines.
  if (text[0] !== '{' && /^[ \t\r]*$/.test(text))
    return keyUse && 'nothing behind an idempotency record';

  try {
    accept(text, keyUse);
    return undefined;
  } catch (error) {
    if (!(error instanceof PetstoreError)) throw error;

    const what = reasonOf(error).replace(/\.$/, '');
    return keyUse ? `no animal behind an idempotency record: ${what}` : what;
  }
}

/**
 * Reads an open file in pieces of a mebibyte or more, each of whole lines: its `bytes`, whose
 * memory is used again for the next, the same as a byte string, `text`, and its offset, `at`. An
 * idempotency record comes with the next line. A line that is longer than `maxTextBytes` is cut.
 */
export async function* wholeLines(disk: Disk, descriptor: number, facts: FileFacts) {
  if (!(await isRegular(disk, descriptor, facts)))
    throw Object.assign(new Error('it is not a regular file'), { code: 'EFTYPE' });

  const { size } = facts;
  let buffer = Buffer.allocUnsafeSlow(Math.min(2 ** 20, size + 1));
  let at = 0;
  let held = 0;
  let count: number;
  do {
    count = await disk.read(descriptor, buffer.subarray(held, size - at), at + held);
    held += count;

    const whole = endOfWholeLines(buffer.subarray(0, held));
    const end = count === 0 || (whole === 0 && held > maxTextBytes) ? held : whole;
    if (end > 0)
      yield { bytes: buffer.subarray(0, end), text: buffer.toString('latin1', 0, end), at };

    buffer.copyWithin(0, end, held);
    held -= end;
    at += end;
    if (held === buffer.length) buffer = Buffer.concat([buffer], 2 * held);
  } while (count > 0);
}

/**
 * Whether a file is a regular one. A file of /proc is not, and says that it is empty though it can
 * be read; one that a server has begun since `facts` were asked for says its size now.
 */
async function isRegular(disk: Disk, descriptor: number, facts: FileFacts): Promise<boolean> {
  return (
    facts.isFile() &&
    (facts.size > 0 ||
      (await disk.read(descriptor, Buffer.alloc(1), 0)) === 0 ||
      (await disk.factsOf(descriptor)).size > 0)
  );
}

/** Where the last whole line ends that is no idempotency record, which belongs to the next one. */
function endOfWholeLines(bytes: Buffer): number {
  const end = bytes.lastIndexOf(0x0a) + 1;
  const lastFrom = end < 2 ? 0 : bytes.lastIndexOf(0x0a, end - 2) + 1;
  return idempotencyPattern.test(bytes.toString('latin1', lastFrom, end)) ? lastFrom : end;
}
