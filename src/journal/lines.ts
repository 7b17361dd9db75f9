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

/**
 * A commit line, wherever it stands in a text. It proves its batch without a newline too, because
 * an editor or a copy tool may have dropped the last newline of the file (F13).
 */
export const commitPattern =
  /\{"commit":\{"from":(0|[1-9]\d{0,15}),"crc32":"([\da-f]{8})"\}\}[ \t\r]*\n?/;

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
  /^\{"idempotency":\{"key":"([\da-f]{64})","body":"([\da-f]{64})","at":(0|[1-9]\d{0,14})\}\}\r?\n/;

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

const importPattern = /^\{"import":\{"source":"([\da-f]{64})","place":(0|[1-9]\d{0,14})\}\}\r?\n/;

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

/** Reads the record of the journal's own that begins a text, and its length with its newline. */
function readOwn(text: string): OwnRecord & { readonly length: number } {
  const [keyLine = '', key, body, at] = idempotencyPattern.exec(text) ?? [];
  if (key && body) return { keyUse: { key, body, at: Number(at) }, length: keyLine.length };

  const commit = commitPattern.exec(text);
  if (commit?.index === 0)
    return {
      commit: { from: Number(commit[1]), crc32: Number(`0x${commit[2]}`) },
      length: commit[0].length,
    };

  const [importedLine = '', source, place] = importPattern.exec(text) ?? [];
  if (source) return { imported: { source, place: Number(place) }, length: importedLine.length };
  return { length: 0 };
}

/** A line of a journal, with the idempotency record on the line before it, where there is one. */
export interface Line extends OwnRecord {
  /** Its text without the line break; empty if it is a record of the journal's own. */
  readonly text: ByteString;
  /** The offset of its first byte, behind its idempotency record, in the text it was read from. */
  readonly from: number;
  /** The offset of the next line. It is on the same line if a commit lacks its newline (F13). */
  readonly end: number;
}

const noOwnRecord = { length: 0 };

/** Reads the line at an offset of a text, which holds whole lines. */
export function readLine(text: string, at: number): Line {
  // The line of an animal, `{"id":…`, is told by one letter: a million need no pattern here.
  const isAnimal = text[at + 4] === '"';
  const own = isAnimal ? noOwnRecord : readOwn(text.slice(at, at + maxOwnBytes));
  const { keyUse, commit, imported, length }: ReturnType<typeof readOwn> = own;
  if (commit || imported)
    return { keyUse, commit, imported, text: asByteString(''), from: at, end: at + length };

  const from = at + length;
  const newline = text.indexOf('\n', from);
  const to = newline < 0 ? text.length : newline;
  const textTo = to > from && text.charCodeAt(to - 1) === 0x0d ? to - 1 : to;

  return {
    keyUse,
    commit,
    imported,
    // V8 makes it a view, which keeps all of the piece in memory; most of that is kept anyway.
    text: asByteString(text.slice(from, textTo)),
    from,
    end: newline < 0 ? to : to + 1,
  };
}

/** A byte order mark, which Windows editors write in front of a file. */
const byteOrderMark = '\xef\xbb\xbf';

/** Returns the offset of the first line in the piece of a file that begins at `at`. */
export function firstLineIn(text: string, at: number): number {
  return at === 0 && text.startsWith(byteOrderMark) ? byteOrderMark.length : 0;
}

/**
 * The checksum of a batch of lines. A commit fits the bytes as they are in the file, or as they
 * were written: without a byte order mark in front, and with LF for each CR LF (F13).
 */
export class BatchSum {
  #exact = 0;
  #written = 0;
  #length = 0;
  #writtenLength = 0;

  /** The CRC-32 of the bytes as they are in the file. */
  get exact(): number {
    return this.#exact;
  }

  /** True if no bytes were added. */
  get isEmpty(): boolean {
    return this.#length === 0;
  }

  /** How many bytes the batch had when it was written. */
  get writtenLength(): number {
    return this.#writtenLength;
  }

  /** Adds whole lines. */
  add(bytes: Buffer): void {
    if (bytes.length === 0) return;

    const written = asWritten(bytes, this.isEmpty);
    const isSame = written === bytes && this.#written === this.#exact;
    this.#exact = crc32(bytes, this.#exact);
    // The second checksum is computed only in a file that something else has changed.
    this.#written = isSame ? this.#exact : crc32(written, this.#written);
    this.#length += bytes.length;
    this.#writtenLength += written.length;
  }

  /** True if the checksum of a commit is that of the lines. */
  fits({ crc32: sum }: CommitRecord): boolean {
    return sum === this.#exact || sum === this.#written;
  }
}

/** Returns bytes without a byte order mark in front and without the CR of each CR LF. */
function asWritten(bytes: Buffer, isStart: boolean): Buffer {
  const hasMark = isStart && bytes.toString('latin1', 0, 3) === byteOrderMark;
  const hasReturns = bytes.includes('\r\n');
  if (!hasMark && !hasReturns) return bytes;

  const text = bytes.toString('latin1', hasMark ? byteOrderMark.length : 0);
  return Buffer.from(text.replaceAll('\r\n', '\n'), 'latin1');
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
  const line = bytes.toString('latin1', lastFrom, end);
  return idempotencyPattern.test(line.slice(firstLineIn(line, lastFrom))) ? lastFrom : end;
}
