/** How replies go out on our own connections, how these end, and what a failed parse means. */
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { PetstoreError } from '../errors.js';
import type { Pieces, Reply } from '../reply.js';
import { headersTooLarge } from './head.js';

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

/** The date (RFC 9110 section 6.6.1), made once a second, and how the connection goes on. */
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

/** In one piece: V8 keeps concatenated text as a tree, and walks it for each write (0.2 us). */
function flat(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}

/** Over so many bytes a body is long: a slice of it is handed to the socket at a time. */
export const longBytes = 65_536;
const sliceBytes = 16_384;

/** A head and a body as texts of at most 16 KiB, made as they are asked for. */
export function* slicesOf(head: string, body: string | Pieces): Generator<string, undefined> {
  let rest = head;
  for (const part of typeof body === 'string' ? [body] : body.parts) {
    rest += part;
    for (; rest.length >= sliceBytes; rest = rest.slice(sliceBytes))
      yield rest.slice(0, sliceBytes);
  }
  if (rest !== '') yield rest;
}

/**
 * An answer that is to be sent. What `send` throws is given to its own `failed`, and harms no other
 * answer.
 */
interface Sender {
  send(): void;
  failed(error: unknown): void;
}

/**
 * Sends at the end of an event-loop turn: 1.7 times as fast with 64 connections (`make bench
 * PARTS=speed`).
 */
export class Outbox {
  readonly #ready: Sender[] = [];

  /** Has it send at the end of this turn. */
  put(sender: Sender): void {
    if (this.#ready.push(sender) > 1) return;
    setImmediate(() => {
      for (const each of this.#ready.splice(0)) {
        try {
          each.send();
        } catch (error) {
          each.failed(error);
        }
      }
    });
  }
}

/** Most bytes of long answers that may be on their way to clients (C55). */
const maxBytes = 64 * 2 ** 20;

/** The bytes that all connections have still to send (C55). */
export class UnsentBytes {
  #bytes = 0;
  readonly #waiting: { readonly bytes: number; readonly start: () => void }[] = [];

  /**
   * Starts a long answer, later, once there is room for it; one alone may be longer than the bound.
   */
  enter(bytes: number, start: () => void): void {
    this.#waiting.push({ bytes, start });
    this.leave(0);
  }

  add(bytes: number): void {
    this.#bytes += bytes;
  }

  leave(bytes: number): void {
    this.#bytes -= bytes;
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (this.#bytes > 0 && this.#bytes + next.bytes > maxBytes) break;
      this.#waiting.shift();
      this.#bytes += next.bytes;
      // One whose client has gone leaves as it starts: here, thousands of them would be a recursion
      // too deep.
      queueMicrotask(next.start);
    }
  }

  /** Whether answers wait for room: then connections that read nothing are ended. */
  get isFull(): boolean {
    return this.#waiting.length > 0 || this.#bytes > maxBytes;
  }
}

/** How much a client may still send after its last answer, and for how long (C51). */
const lingerBytes = 65_536;
export const lingerMs = 1_000;

/**
 * Ends the sending side, and takes in some of what still comes: a reset loses the answer (RFC 9112
 * section 9.6).
 */
export function linger(socket: Socket, text: string): void {
  let bytes = 0;
  // In place of Node's listener: nothing more is parsed.
  socket.removeAllListeners('data').on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes >= lingerBytes) socket.destroy();
  });
  socket.resume();
  // Once all has left: whoever reads slowly has the time of an answer.
  socket.end(text, 'latin1', () => {
    if (socket.destroyed) return;
    const timer = setTimeout(() => socket.destroy(), lingerMs).unref();
    socket.once('close', () => clearTimeout(timer));
  });
}

/**
 * What is read of Node's `clientError`: the parser's words, the last bytes, and how far into them
 * it got.
 */
export type ParserError = Partial<{
  code: string;
  reason: string;
  rawPacket: Buffer;
  bytesParsed: number;
}>;

export const requestTooLate = new PetstoreError(
  'request_timeout',
  'The request did not arrive in time.',
);

/**
 * A request line from within its method, a token (RFC 9110 section 5.6.2), or from the space after
 * it.
 */
const requestLine =
  /(?:(?<=[!#$%&'*+.^_`|~\w-]) |[!#$%&'*+.^_`|~\w-]+ )[\x21-\x7e]+ HTTP\/1\.[01]\r\n/y;

/** The error for the client where Node's parser or clock gave a request up (C18, C42 to C44). */
export function parseFailure({
  code,
  reason = 'malformed',
  rawPacket,
  bytesParsed = 0,
}: ParserError): PetstoreError {
  if (code === 'HPE_HEADER_OVERFLOW') return headersTooLarge;
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return requestTooLate;
  // The parser knows the methods of RTSP, and refuses them at the version. Of others, a line in
  // pieces is garbage.
  const isRtsp = reason === 'Invalid method for HTTP/x.x request';
  requestLine.lastIndex = bytesParsed;
  if (
    isRtsp ||
    (code === 'HPE_INVALID_METHOD' && requestLine.test(rawPacket?.toString('latin1') ?? ''))
  )
    return new PetstoreError('not_implemented', 'This method is not known here.');
  return new PetstoreError('bad_request', `This is no valid HTTP/1.1: ${reason}.`);
}
