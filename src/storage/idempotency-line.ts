/** Owns the text of an idempotency record, the line before its animal's that tells by which key that was added. Knows no file. */
import type { InsertOnce } from '../storage.js';

const standing = /^\{"idempotency":\{"key":"[0-9a-f]{64}","body":"[0-9a-f]{64}","at":(0|[1-9][0-9]{0,14})\}\}\n/;
/** No record is longer, its newline included. */
const maxBytes = 192;
/** Where the digests stand in a record, and how long each is. */
const keyAt = '{"idempotency":{"key":"'.length;
const digestBytes = 64;
const bodyAt = keyAt + digestBytes + '","body":"'.length;

/** A record's line, without its newline; pure ASCII. */
export function idempotencyLine({ key, body, at }: InsertOnce): string {
  return `{"idempotency":{"key":"${key}","body":"${body}","at":${at}}}`;
}

/** The record whose line begins at an offset, in exactly the text that we write, and where the next line begins; or undefined. */
export function readIdempotencyLine(bytes: Buffer, from: number): { readonly once: InsertOnce; readonly end: number } | undefined {
  // Its fifth byte tells every animal's line apart, at no cost.
  if (bytes[from + 4] !== 0x65) return undefined;
  const [line, at] = standing.exec(bytes.toString('latin1', from, from + maxBytes)) ?? [];
  if (line === undefined) return undefined;
  // From the bytes again: a part of a text keeps all of it in memory.
  const digest = (offset: number): string => bytes.toString('latin1', from + offset, from + offset + digestBytes);
  return { once: { key: digest(keyAt), body: digest(bodyAt), at: Number(at) }, end: from + line.length };
}
