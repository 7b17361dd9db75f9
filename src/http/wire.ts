/** How replies go out on our own connections, and how these end. */
import { STATUS_CODES } from 'node:http';
import type { Pieces, Reply } from '../reply.js';

/** How long a connection may be idle before it is closed, in milliseconds (C44). */
export const keepAliveMs = 72_000;

/**
 * By status, those of most replies: an animal is up to 25 % faster by keeping them (`make bench
 * PARTS=before`).
 */
const starts: string[] = [];
const common = 'X-Content-Type-Options: nosniff\r\nCache-Control: ';
const startOf = (status: number, cacheControl = 'no-store') =>
  flat(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${common}${cacheControl}\r\n`);
const bodyLines = (contentType = 'application/json') =>
  flat(`Content-Type: ${contentType}\r\nContent-Length: `);
const jsonLines = bodyLines();

/**
 * The status line, what every answer carries (C47), and all other headers but those of the
 * connection.
 */
function headLines({ status, headers, body, contentType, cacheControl }: Reply): string {
  let lines =
    cacheControl === undefined
      ? (starts[status] ??= startOf(status))
      : startOf(status, cacheControl);
  for (let i = 0; i < headers.length; i += 2) lines += `${headers[i]}: ${headers[i + 1]}\r\n`;
  if (body !== undefined)
    lines += `${contentType === undefined ? jsonLines : bodyLines(contentType)}${body.length}\r\n`;
  // Of these no length is said (RFC 9110 section 8.6).
  else if (status !== 204 && status !== 304) lines += 'Content-Length: 0\r\n';
  return lines;
}

/** The names and values of these headers, in pairs, for servers and platforms that are not ours. */
export function headersOf(reply: Reply): string[][] {
  const lines = headLines(reply).split('\r\n').slice(1, -1);
  return lines.map((line) => line.split(/: (.*)/, 2));
}

export function replyHead(reply: Reply, closes: boolean): string {
  return headLines(reply) + endLines(closes);
}

/**
 * Of replies that are sent again, as a cached page is: a list of 100 is 8 % faster (`make bench
 * PARTS=before`).
 */
const keptTexts = new WeakMap<Reply, { readonly end: string; readonly text: string }>();
const sentOnce = { end: '', text: '' };

export function replyText(reply: Reply, body: string, closes: boolean): string {
  if (body.length < 1_024) return replyHead(reply, closes) + body;
  const end = endLines(closes);
  const kept = keptTexts.get(reply);
  if (kept?.end === end) return kept.text;
  const text = headLines(reply) + end + body;
  keptTexts.set(reply, kept === undefined ? sentOnce : { end, text: flat(text) });
  return text;
}

let second = 0;
let keepAliveEnd = '';
let closeEnd = '';

/**
 * The last lines of a head: the date (RFC 9110 section 6.6.1), made once a second, and whether the
 * connection goes on.
 */
function endLines(closes: boolean): string {
  const now = Math.floor(Date.now() / 1000);
  if (now !== second) {
    second = now;
    const date = `Date: ${new Date(second * 1000).toUTCString()}\r\n`;
    keepAliveEnd = flat(
      `${date}Connection: keep-alive\r\nKeep-Alive: timeout=${keepAliveMs / 1000}\r\n\r\n`,
    );
    closeEnd = flat(`${date}Connection: close\r\n\r\n`);
  }
  return closes ? closeEnd : keepAliveEnd;
}

/**
 * The same text in one piece. V8 keeps concatenated text as a tree, and walks that for each write
 * (0.2 us).
 */
function flat(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}

/** A body over so many bytes is long: it is handed to the socket slice by slice. */
export const longBytes = 65_536;
const sliceBytes = 16_384;

/** A head and a body as texts of at most `sliceBytes`, each made as it is asked for. */
export function* slicesOf(head: string, body: string | Pieces): Generator<string, undefined> {
  let rest = head;
  for (const text of typeof body === 'string' ? [body] : body.texts) {
    rest += text;
    for (; rest.length >= sliceBytes; rest = rest.slice(sliceBytes))
      yield rest.slice(0, sliceBytes);
  }
  if (rest !== '') yield rest;
}

/** What sends the answers that are ready in this turn of the event loop. */
const ready: (() => void)[] = [];

/**
 * Sends an answer at the end of this turn of the event loop: 1.7 times as fast with 64 connections
 * (`make bench PARTS=speed`).
 *
 * @param send - Throws nothing: the answers behind it would not be sent.
 */
export function atEndOfTurn(send: () => void): void {
  if (ready.push(send) > 1) return;
  setImmediate(() => {
    for (const each of ready.splice(0)) each();
  });
}

/** How many bytes of long answers may be on their way to clients at most (C55). */
const maxBytes = 64 * 2 ** 20;

/** The bytes that all connections have still to send, and the long answers that wait (C55). */
export class UnsentBytes {
  #bytes = 0;
  readonly #waiting: { readonly bytes: number; readonly start: () => void }[] = [];

  /** Starts a long answer once there is room for it; one alone may be longer than the bound. */
  enter(bytes: number, start: () => void): void {
    this.#waiting.push({ bytes, start });
    this.#startWhatFits();
  }

  /** Counts bytes that the socket has not taken at once. */
  add(bytes: number): void {
    this.#bytes += bytes;
  }

  /** Counts bytes that have left, or never will. */
  leave(bytes: number): void {
    this.#bytes -= bytes;
    this.#startWhatFits();
  }

  /** Starts the long answers for which there is room now, in their order. */
  #startWhatFits(): void {
    let started = 0;
    for (const { bytes, start } of this.#waiting) {
      if (this.#bytes > 0 && this.#bytes + bytes > maxBytes) break;
      this.#bytes += bytes;
      started++;
      // An answer whose client has gone leaves as it starts. If it were started here, thousands of
      // them would be a recursion too deep.
      queueMicrotask(start);
    }
    this.#waiting.splice(0, started);
  }

  /** Whether there is no more room: then connections that read nothing are ended. */
  get isFull(): boolean {
    return this.#waiting.length > 0 || this.#bytes > maxBytes;
  }
}
