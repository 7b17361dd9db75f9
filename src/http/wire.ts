/**
 * What is written to our own connections: heads, with the lines that say whether the connection
 * goes on; bodies, long ones slice by slice; and the room that all long answers share.
 */
import { STATUS_CODES } from 'node:http';
import { setImmediate } from 'node:timers';
import { machineClock } from '../options.js';
import { SharedResponse, type Pieces, type Reply } from '../reply.js';

/**
 * The first lines of most heads, those of JSON, by their status: an animal is up to 25 % faster by
 * keeping them (`make bench PARTS=before`).
 */
const starts: string[] = [];

/** The headers of every reply (C47), and the type of its body. */
function fixedHeaders(reply: Reply): readonly string[] {
  const { body, contentType = 'application/json', cacheControl = 'no-store' } = reply;
  const all = ['X-Content-Type-Options', 'nosniff', 'Cache-Control', cacheControl];
  return body === undefined ? all : [...all, 'Content-Type', contentType];
}

/** The length of the body for the header Content-Length; undefined if no length is sent. */
function lengthOf({ status, body }: Reply): number | undefined {
  // Of these without a body no length is said (RFC 9110 section 8.6).
  return body?.length ?? (status === 204 || status === 304 ? undefined : 0);
}

/** The status line and the fixed headers. */
function startOf(reply: Reply): string {
  const { status } = reply;
  const line = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n`;
  return flat(line + linesOf(fixedHeaders(reply)));
}

/** The lines of headers: names and values, alternating. */
function linesOf(headers: readonly string[]): string {
  let lines = '';
  for (let i = 0; i < headers.length; i += 2) lines += `${headers[i]}: ${headers[i + 1]}\r\n`;
  return lines;
}

/** The whole head of an answer, which ends so (see {@link HeadEnds}). */
export function replyHead(reply: Reply, end: string): string {
  const { status, headers, body, contentType, cacheControl } = reply;
  const isUsual = body !== undefined && contentType === undefined && cacheControl === undefined;
  const start = isUsual ? (starts[status] ??= startOf(reply)) : startOf(reply);

  const lines = start + linesOf(headers);
  const length = lengthOf(reply);
  return length === undefined ? lines + end : `${lines}Content-Length: ${length}\r\n${end}`;
}

/**
 * Returns all headers of a reply, as names and values that alternate, for servers and platforms
 * that write them on their own. Those of the connection are left to them.
 */
export function headerList(reply: Reply): readonly string[] {
  const length = lengthOf(reply);
  const list = [...fixedHeaders(reply), ...reply.headers];
  if (length !== undefined) list.push('Content-Length', String(length));
  return list;
}

/**
 * The texts of shared responses as they were last sent, and the ends of their heads, which have a
 * date: a list of 100 is 8 % faster (`make bench PARTS=before`).
 */
const sent = new WeakMap<SharedResponse, { end: string; text: string }>();

/**
 * The whole text of a response. That of a shared response is kept.
 *
 * @param body - The body of the reply, or empty for HEAD.
 */
export function replyText(reply: Reply, body: string, end: string): string {
  if (body === '' || !(reply instanceof SharedResponse)) return replyHead(reply, end) + body;

  const kept = sent.get(reply);
  if (kept?.end === end) return kept.text;
  const text = flat(replyHead(reply, end) + body);
  sent.set(reply, { end, text });
  return text;
}

/** The clock of the header Date. */
interface Clock {
  /** Returns milliseconds since the epoch. If it throws, the machine's clock counts. */
  now(): number;
}

/** The value of the header Date (RFC 9110 section 5.6.7), which is made once a second. */
export class HttpDate {
  readonly #clock: Clock;
  #second = -1;
  #text = '';

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The date of the present second. */
  get text(): string {
    const second = Math.floor(this.#milliseconds() / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#text = new Date(1000 * second).toUTCString();
    }
    return this.#text;
  }

  #milliseconds(): number {
    try {
      return this.#clock.now();
    } catch {
      return machineClock();
    }
  }
}

/** The last lines of the heads of one port: the date, and whether the connection goes on. */
export class HeadEnds {
  /** How long a connection may be idle before the server closes it (C44). */
  readonly keepAliveSeconds: number;
  readonly #date: HttpDate;
  #madeFor = '';
  #keepsAlive = '';
  #closes = '';

  constructor(date: HttpDate, keepAliveSeconds: number) {
    this.#date = date;
    this.keepAliveSeconds = keepAliveSeconds;
  }

  /** The last lines of a head after which the connection closes, or goes on. */
  of(closes: boolean): string {
    const { text } = this.#date;
    if (text !== this.#madeFor) this.#makeFor(text);
    return closes ? this.#closes : this.#keepsAlive;
  }

  #makeFor(date: string): void {
    this.#madeFor = date;
    const keepAlive = `Keep-Alive: timeout=${this.keepAliveSeconds}`;
    this.#keepsAlive = flat(`Date: ${date}\r\nConnection: keep-alive\r\n${keepAlive}\r\n\r\n`);
    this.#closes = flat(`Date: ${date}\r\nConnection: close\r\n\r\n`);
  }
}

/** Returns the first half of a body, or of a long body its first `longBytes` (C62). */
export function beginningOf({ body }: Reply): string {
  if (body === undefined) return '';

  const length = Math.min(body.length >> 1, longBytes);
  // A long body is not joined: it may be some 100 MiB.
  let beginning = '';
  for (const part of typeof body === 'string' ? [body] : body.parts) {
    if (beginning.length >= length) break;
    beginning += part.slice(0, length - beginning.length);
  }
  return beginning;
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
  for (const part of typeof body === 'string' ? [body] : body.parts) {
    rest += part;
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
      void Promise.resolve().then(start);
    }
    if (started > 0) this.#waiting.splice(0, started);
  }

  /** Whether there is no more room: then connections that read nothing are ended. */
  get isFull(): boolean {
    return this.#waiting.length > 0 || this.#bytes > maxBytes;
  }
}
