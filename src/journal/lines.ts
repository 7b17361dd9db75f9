/** The lines of a journal: its own records, and the lines of its users. */
import { crc32 } from 'node:zlib';
import { maxTextBytes } from '../engine/index.js';
import { PetstoreError, reasonOf } from '../errors.js';
import { asByteString, type ByteString } from '../json.js';
import type { IdempotencyKeyUse } from '../storage.js';

/** The content of a commit record, the line that ends a batch. */
export interface CommitRecord {
  /** The offset of the batch in its file, in bytes. */
  readonly from: number;
  /** The CRC-32 of the batch's lines. */
  readonly crc32: number;
}

/**
 * Matches a commit record, anywhere in a text. Its newline is optional, because an editor or a copy
 * tool may have dropped the last newline of the file (F13).
 */
export const commitPattern =
  /\{"commit":\{"from":(0|[1-9]\d{0,15}),"crc32":"([\da-f]{8})"\}\}[ \t\r]*\n?/;

/** Returns the commit record of a batch, with its newline. */
export function commitLine(from: number, sum: number): string {
  return `{"commit":{"from":${from},"crc32":"${sum.toString(16).padStart(8, '0')}"}}\n`;
}

/** Returns the bytes of a batch, its commit record included, for a file of `from` bytes. */
export function batchBytes(lines: readonly string[], from: number): Buffer {
  const body = Buffer.from(lines.length === 0 ? '' : `${lines.join('\n')}\n`, 'latin1');
  return Buffer.concat([body, Buffer.from(commitLine(from, crc32(body)))]);
}

/** Matches an idempotency record with its newline, at the start of a text. */
export const idempotencyPattern =
  /^\{"idempotency":\{"key":"([\da-f]{64})","body":"([\da-f]{64})","at":(0|[1-9]\d{0,14})\}\}\r?\n/;

/** Returns the idempotency record of the line that follows, without a newline. */
export function idempotencyLine({ key, body, at }: IdempotencyKeyUse): string {
  return `{"idempotency":{"key":"${key}","body":"${body}","at":${at}}}`;
}

/** The content of an import record, the line that begins an imported batch (F11). */
export interface ImportRecord {
  /** Identifies the source, such as a file: its SHA-256 in 64 lowercase hexadecimal digits. */
  readonly source: string;
  /** The number of pets of the source that the file has, those of this batch included. */
  readonly place: number;
}

const importPattern = /^\{"import":\{"source":"([\da-f]{64})","place":(0|[1-9]\d{0,14})\}\}\r?\n/;

/** Returns an import record, without a newline. */
export function importLine({ source, place }: ImportRecord): string {
  return `{"import":{"source":"${source}","place":${place}}}`;
}

/** The length of the longest record of the journal, in bytes. */
const maxOwnBytes = 192;

/** A record of the journal, of one of three kinds; all are undefined if a line is not a record. */
interface OwnRecord {
  readonly keyUse?: IdempotencyKeyUse | undefined;
  readonly commit?: CommitRecord | undefined;
  readonly imported?: ImportRecord | undefined;
}

/** Reads the journal's record at the start of a text, and its length with the newline. */
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
  return noOwnRecord;
}

const noOwnRecord = { length: 0 };

/** A line of a journal, together with the idempotency record on the line before it, if any. */
export interface Line extends OwnRecord {
  /** The line without its line break; empty for a record of the journal. */
  readonly text: ByteString;
  /** The offset of `text` in the chunk, after the idempotency record. */
  readonly from: number;
  /** The offset of the next line, or of the rest of the line after a commit record (F13). */
  readonly end: number;
}

/** Reads the line at an offset of a text of whole lines. */
export function readLine(text: string, at: number): Line {
  // Most lines are `{"id":…`. The quote at index 4 tells these from the journal's own records,
  // whose names have more than two letters. `startsWith` costs 33 ns, 5 % of a start.
  const isUsersLine = text[at + 4] === '"';
  const own = isUsersLine ? noOwnRecord : readOwn(text.slice(at, at + maxOwnBytes));
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
    // V8 makes a view, which keeps the whole chunk in memory. Most of a chunk is kept anyway.
    text: asByteString(text.slice(from, textTo)),
    from,
    end: newline < 0 ? to : to + 1,
  };
}

/**
 * Takes a line without its newline, and the idempotency record on the line before it.
 * @throws PetstoreError if the line is not valid
 */
export type AcceptLine = (line: ByteString, keyUse?: IdempotencyKeyUse) => void;

/**
 * Passes a line that is not a record of the journal to `accept`, unless it is blank. Returns what
 * is wrong with the line, without a full stop, or undefined.
 */
export function offerLine({ text, keyUse }: Line, accept: AcceptLine): string | undefined {
  if (text.length > maxTextBytes) return `a line of more than ${maxTextBytes} bytes`;

  // An editor may leave blank lines.
  if (text[0] !== '{' && /^[ \t\r]*$/.test(text))
    return keyUse && 'no line after an idempotency record';

  try {
    accept(text, keyUse);
    return undefined;
  } catch (error) {
    if (!(error instanceof PetstoreError)) throw error;

    const fault = reasonOf(error).replace(/\.$/, '');
    return keyUse ? `an invalid line after an idempotency record: ${fault}` : fault;
  }
}
