/**
 * Turns replies into bytes for the connections of the petstore's own server, and limits the memory
 * of unsent responses.
 */
import { STATUS_CODES } from 'node:http';
import { setImmediate } from 'node:timers';
import { machineClock } from '../clock.js';
import { SharedResponse, type Pieces, type Reply } from '../reply.js';

/**
 * The first lines of the heads of JSON responses, by status. The cache makes `GET /v1/pets/{id}` up
 * to 25 % faster (`make bench PARTS=before`).
 */
const jsonHeadStarts: string[] = [];

/** Returns the headers of every response (C47) and the Content-Type. */
function fixedHeaders(reply: Reply): string[] {
  const { body, contentType = 'application/json', cacheControl = 'no-store' } = reply;
  const all = ['X-Content-Type-Options', 'nosniff', 'Cache-Control', cacheControl];
  if (body !== undefined) all.push('Content-Type', contentType);
  return all;
}

/** Returns the value of Content-Length; undefined if the response has no such header. */
function contentLength({ status, body }: Reply): number | undefined {
  // RFC 9110 section 8.6: a 204 has no Content-Length, and a 304 would need that of the 200.
  return body?.length ?? (status === 204 || status === 304 ? undefined : 0);
}

/** Returns the status line and the fixed headers. */
function headStart(reply: Reply): string {
  const { status } = reply;
  const line = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n`;
  return flatten(line + headerLines(fixedHeaders(reply)));
}

/** Returns the lines of headers, given as alternating names and values. */
function headerLines(headers: readonly string[]): string {
  let lines = '';
  for (let i = 0; i < headers.length; i += 2) lines += `${headers[i]}: ${headers[i + 1]}\r\n`;
  return lines;
}

/**
 * Returns the head of a response.
 * @param end The last lines of the head, from {@link ConnectionHeaders}.
 */
export function responseHead(reply: Reply, end: string): string {
  const { status, headers, body, contentType, cacheControl } = reply;
  const isUsual = body !== undefined && contentType === undefined && cacheControl === undefined;
  const start = isUsual ? (jsonHeadStarts[status] ??= headStart(reply)) : headStart(reply);

  const lines = start + headerLines(headers);
  const length = contentLength(reply);
  return length === undefined ? lines + end : `${lines}Content-Length: ${length}\r\n${end}`;
}

/**
 * Returns all headers of a reply, alternating names and values, for `handler` and `fetch`. Date and
 * Connection are left to the host.
 */
export function allHeaders(reply: Reply): string[] {
  const list = fixedHeaders(reply);
  for (const text of reply.headers) list.push(text);
  const length = contentLength(reply);
  if (length !== undefined) list.push('Content-Length', String(length));
  return list;
}

/**
 * The text of each shared response as it was last sent, with the end of its head, which contains
 * the date. The cache makes a list of 100 pets 8 % faster (`make bench PARTS=before`).
 */
const sharedTexts = new WeakMap<SharedResponse, { end: string; text: string }>();

/**
 * Returns a response as one text.
 * @param body The body of the reply; empty for HEAD.
 * @param end The last lines of the head, from {@link ConnectionHeaders}.
 */
export function responseText(reply: Reply, body: string, end: string): string {
  if (body === '' || !(reply instanceof SharedResponse)) return responseHead(reply, end) + body;

  const cached = sharedTexts.get(reply);
  if (cached?.end === end) return cached.text;
  const text = flatten(responseHead(reply, end) + body);
  sharedTexts.set(reply, { end, text });
  return text;
}

/** The clock of the header Date. */
export interface Clock {
  /** Returns milliseconds since the epoch. If it throws, the machine's clock is used. */
  now(): number;
}

/** The value of the header Date (RFC 9110 section 5.6.7), formatted once a second. */
export class HttpDate {
  readonly #clock: Clock;
  #second = -1;
  #value = '';

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get value(): string {
    const second = Math.floor(this.#milliseconds() / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#value = new Date(1000 * second).toUTCString();
    }
    return this.#value;
  }

  #milliseconds(): number {
    try {
      return this.#clock.now();
    } catch {
      return machineClock();
    }
  }
}

/** Returns the value of the header Date for a reply, by its clock or by that of the port. */
export function dateOf({ clock }: { readonly clock?: Clock }, ofPort: HttpDate): string {
  return clock === undefined ? ofPort.value : new HttpDate(clock).value;
}

/** The last lines of every head of a port: Date, Connection, Keep-Alive and the empty line. */
export class ConnectionHeaders {
  /** The time for which a connection may be idle before the server closes it (C44). */
  readonly keepAliveSeconds: number;
  readonly #date: HttpDate;
  /** The date that the two texts below contain. */
  #dateValue = '';
  #keepAliveLines = '';
  #closeLines = '';

  constructor(date: HttpDate, keepAliveSeconds: number) {
    this.#date = date;
    this.keepAliveSeconds = keepAliveSeconds;
  }

  /**
   * Returns the last lines of a head.
   * @param closes True if the connection closes after the response.
   * @param clock The clock of the store, if that differs from the clock of the port (C88).
   */
  lines(closes: boolean, clock?: Clock): string {
    if (clock !== undefined) return this.#linesOf(new HttpDate(clock).value, closes);
    const { value } = this.#date;
    if (value !== this.#dateValue) this.#update(value);
    return closes ? this.#closeLines : this.#keepAliveLines;
  }

  #update(date: string): void {
    this.#dateValue = date;
    this.#keepAliveLines = this.#linesOf(date, false);
    this.#closeLines = this.#linesOf(date, true);
  }

  #linesOf(date: string, closes: boolean): string {
    const connection = closes
      ? 'Connection: close'
      : `Connection: keep-alive\r\nKeep-Alive: timeout=${this.keepAliveSeconds}`;
    return flatten(`Date: ${date}\r\n${connection}\r\n\r\n`);
  }
}

/** Returns the first half of a body, at most `longBodyBytes` (C62). */
export function truncatedBody({ body }: Reply): string {
  if (body === undefined) return '';

  const length = Math.min(body.length >> 1, longBodyBytes);
  // The parts are not joined first, because a long body may have 100 MiB.
  let beginning = '';
  for (const part of typeof body === 'string' ? [body] : body.parts) {
    if (beginning.length >= length) break;
    beginning += part.slice(0, length - beginning.length);
  }
  return beginning;
}

/**
 * Returns the same text as one flat string. V8 stores a concatenation as a tree and walks the tree
 * for each write (0.2 µs).
 */
function flatten(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}

/** A body over this size is written to the socket in slices. */
export const longBodyBytes = 65_536;
const sliceBytes = 16_384;

/** Yields a head and a body in slices of `sliceBytes`, each made when it is needed. */
export function* sliceResponse(head: string, body: string | Pieces): Generator<string, undefined> {
  let rest = head;
  for (const part of typeof body === 'string' ? [body] : body.parts) {
    let at = 0;
    while (rest.length + part.length - at >= sliceBytes) {
      const end = at + sliceBytes - rest.length;
      yield rest + part.slice(at, end);
      rest = '';
      at = end;
    }
    rest += part.slice(at);
  }
  if (rest !== '') yield rest;
}

/** The callbacks for the end of this event loop tick. */
const endOfTick: (() => void)[] = [];

/**
 * Sends a response at the end of this event loop tick, together with the others of the tick. With
 * 64 connections that is 1.7 times as fast (`make bench PARTS=speed`).
 * @param send Must not throw, because the responses after it would not be sent.
 */
export function atEndOfTick(send: () => void): void {
  if (endOfTick.push(send) > 1) return;
  setImmediate(() => {
    for (const each of endOfTick.splice(0)) each();
  });
}

/** The limit for the unsent bytes of all long responses (C55). */
const maxUnsentBytes = 64 * 2 ** 20;

/** The bytes that no socket has taken yet, and the queue of long responses (C55). */
export class UnsentBytes {
  #bytes = 0;
  readonly #queue: { readonly bytes: number; readonly start: () => void }[] = [];

  /**
   * Calls `start` once the response fits below the limit, and counts its bytes from then on. A
   * response that exceeds the limit by itself starts when no other bytes are unsent.
   */
  enqueue(bytes: number, start: () => void): void {
    this.#queue.push({ bytes, start });
    this.#startNext();
  }

  /** Counts bytes of a short response that the socket did not take at once. */
  add(bytes: number): void {
    this.#bytes += bytes;
  }

  /** Stops counting bytes, because they were sent or their connection is closed. */
  remove(bytes: number): void {
    this.#bytes -= bytes;
    this.#startNext();
  }

  /** Starts the responses that fit, in the order of the queue. */
  #startNext(): void {
    let started = 0;
    for (const { bytes, start } of this.#queue) {
      if (this.#bytes > 0 && this.#bytes + bytes > maxUnsentBytes) break;
      this.#bytes += bytes;
      started++;
      // If the client is gone, `start` calls `remove`, which calls this method again. A synchronous
      // call would recurse too deep for thousands of such clients.
      void Promise.resolve().then(start);
    }
    if (started > 0) this.#queue.splice(0, started);
  }

  /** True if the limit is reached. Connections that read nothing are then closed. */
  get isFull(): boolean {
    return this.#queue.length > 0 || this.#bytes > maxUnsentBytes;
  }
}
