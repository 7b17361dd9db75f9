/**
 * One connection of the petstore's own server. It serves one request at a time (C44, C51 to C55).
 */
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setImmediate } from 'node:timers';
import { PetstoreError } from '../errors.js';
import { replyTo, type Pieces, type Reply } from '../reply.js';
import type { Message } from '../request.js';
import type { Resource } from '../router.js';
import type { Exchange } from './exchange.js';
import { headerValue, requestTimeout } from './head.js';
import {
  lingeringClose,
  lingerMs,
  resetAfter,
  takeOverSocket,
  type ConnectionHandler,
} from './node.js';
import {
  atEndOfTick,
  longBodyBytes,
  responseHead,
  responseText,
  sliceResponse,
  truncatedBody,
  type ConnectionHeaders,
  type HttpDate,
  type UnsentBytes,
} from './wire.js';

/** The reply to a request, with what the petstore found out about the request. */
export interface RoutedReply {
  readonly reply: Reply;
  /** The resource at the path; undefined if the path is unknown or the head is malformed. */
  readonly resource: Resource | undefined;
  /** The name of the API key; undefined if no key was needed or accepted. */
  readonly keyName: string | undefined;
}

/** The petstore, as the HTTP server uses it. */
export interface PetstoreService {
  /** Handles a request. Never rejects. */
  handle(message: Message): Promise<RoutedReply>;
  /** Returns the reply to a request whose body failed to arrive after the reply was made. */
  replyToLateError(error: PetstoreError, message: Message, routed: RoutedReply): Reply;
  /** Returns the reply to a request that Node's parser rejected after its headers. */
  replyToParserError(error: PetstoreError, header: Message['header']): Reply;
  /** Logs an error in this program. */
  logError(error: unknown): void;
  /** Counts and reports a response. Omit `message` if the client sent no valid HTTP. */
  reportResponse(status: number, message?: Message, routed?: RoutedReply): void;
  /** True if each connection must close after the requests that have arrived. */
  readonly isStopping: boolean;
  /** The number of resets of the storage (C71). */
  readonly resets: number;
  /** Returns the time for the header Date, in milliseconds since the epoch. It may throw. */
  now(): number;
}

/** The state that all connections share. */
export interface SharedState {
  readonly service: PetstoreService;
  readonly unsent: UnsentBytes;
  readonly date: HttpDate;
  /** The number of queued requests on all connections (C52). */
  queued: number;
}

/**
 * The limits of queued requests on one connection and on all connections (C52). A queued request
 * takes some 7 KB, and 30 µs to parse.
 */
const maxQueued = 256;
const maxQueuedInTotal = 2_048;

/** The bytes of its responses that a client must read in each `readPeriodMs` (C44). */
const minReadBytes = 65_536;
const readPeriodMs = 60_000;
/** The time for which a client may read nothing while long responses are queued (C55). */
const maxStallMs = 5_000;

/** The time for which a client may go on sending a request head during shutdown (C48). */
const stopLingerMs = 250;

/** The time limit for a head (C44). */
export const headMs = 10_000;
/** The time limit for a whole request (C44). */
const requestMs = 30_000;

const connectionLost = new PetstoreError(
  'bad_request',
  'The connection ended in the middle of the body.',
);

/** A connection, which queues requests and sends their responses. */
export class Connection implements ConnectionHandler<Exchange> {
  readonly #socket: Socket;
  readonly #shared: SharedState;
  readonly #connectionHeaders: ConnectionHeaders;

  /**
   * `idle`: no request is in flight. `busy`: a request is in flight, and others may be queued.
   * `closing`: the connection accepts no further request, but may still send responses.
   */
  #state: 'idle' | 'busy' | 'closing' = 'idle';
  /** The request in flight, until its response is sent. */
  #current: Exchange | undefined;
  /** The pipelined requests after the current one. */
  readonly #queue: Exchange[] = [];
  /** The error response that is sent last, before the connection closes (C52). */
  #lastReply: Reply | undefined;

  /** The time at which the connection opened, or a sweep first saw it idle after a response. */
  #idleSince: number | undefined = performance.now();
  /** The time at which a sweep first saw bytes of the next head. */
  #headSince: number | undefined;
  /** The time at which the limit of the current request begins; set by a sweep if undefined. */
  #requestSince: number | undefined;
  /** True if Node has reported that the next head is late. */
  #isHeadLate = false;
  /** True until the first request. */
  #isNew = true;
  /** The number of bytes that had arrived at the end of the last request. */
  #bytesAtEnd = 0;

  /** The number of bytes that the client has read, and the time at which it last read some. */
  #progress = { bytes: 0, at: performance.now() };
  /** The value of `#progress` when the client had last read `minReadBytes` more. */
  #sufficientProgress = this.#progress;

  constructor(socket: Socket, shared: SharedState, connectionHeaders: ConnectionHeaders) {
    this.#socket = socket;
    this.#shared = shared;
    this.#connectionHeaders = connectionHeaders;
    takeOverSocket(socket, this);

    // A client that is gone looks the same as a client that closed only its sending side.
    socket.once('end', () => this.#current?.reportGone());
    socket.once('close', () => {
      // Only an incomplete request fails. Complete requests are still carried out (C53).
      this.#latest?.fail(connectionLost);
      this.#current?.reportGone();
    });
  }

  /** Starts a request, or queues it. While requests are queued, the socket is not read. */
  accept(exchange: Exchange): void {
    if (this.#state === 'closing') return;
    exchange.resetsBefore = this.#shared.service.resets;
    if (this.#state === 'idle') {
      this.#state = 'busy';
      return void this.#start(exchange, this.#headSince ?? exchange.startedAt);
    }

    this.#queue.push(exchange);
    this.#shared.queued++;
    this.#socket.pause();
    if (this.#queue.length <= maxQueued && this.#shared.queued <= maxQueuedInTotal) return;

    this.#stopAccepting();
    this.#socket.destroy();
  }

  fail(error: PetstoreError | undefined, rawHeaders?: readonly string[]): void {
    // `#sweepRequests` checks the time limits.
    if (error === requestTimeout) this.#isHeadLate = true;
    else if (error === undefined || this.#socket.bytesRead === 0) this.#socket.destroy();
    else this.closeWithError(error, rawHeaders);
  }

  get isQueueEmpty(): boolean {
    return this.#queue.length === 0;
  }

  /** The number of requests whose response is not sent completely. */
  get requestsInFlight(): number {
    return (this.#current === undefined ? 0 : 1) + this.#queue.length;
  }

  hasReceivedOnly(packet: Buffer): boolean {
    const bytes = this.#socket.bytesRead - this.#bytesAtEnd;
    return this.#state === 'idle' && bytes === packet.length;
  }

  /**
   * Closes the connection with an error. The error becomes the response to the latest request if
   * that is still arriving. Otherwise the error is sent after all other responses.
   */
  closeWithError(error: PetstoreError, rawHeaders?: readonly string[]): void {
    if (this.#state === 'closing') return;
    const latest = this.#latest;
    if (latest?.isArriving) return void latest.fail(error);

    this.#state = 'closing';
    this.#lastReply =
      rawHeaders === undefined
        ? replyTo(error)
        : this.#shared.service.replyToParserError(error, (name) => headerValue(rawHeaders, name));
    if (this.#current === undefined) this.#close();
  }

  /**
   * Closes the connection if no request is in flight (C48).
   * @param error The response if part of a head has arrived.
   */
  closeIfIdle(error: PetstoreError): void {
    if (this.#state !== 'idle') return;
    if (this.#isHeadArriving) this.#lastReply = replyTo(error);
    this.#close(stopLingerMs);
  }

  /** Checks all time limits. To be called twice a second. */
  sweep(now: number): void {
    this.#sweepRequests(now);
    this.#sweepReading(now);
  }

  /**
   * Closes the connection if a head or a request takes too long to arrive, or if none arrives. The
   * limits do not depend on Node's timers.
   */
  #sweepRequests(now: number): void {
    if (this.#current !== undefined) {
      this.#requestSince ??= now;
      const isLate = !this.#current.readableEnded && now - this.#requestSince > requestMs;
      if (isLate) this.closeWithError(requestTimeout);
      return;
    }

    this.#idleSince ??= now;
    if (this.#isHeadArriving) this.#headSince ??= now;
    // The limit of the first head begins when the connection opens. A head in the last packet of
    // the previous request, which only Node reports, has its limit from the response on.
    const beginsIdle = this.#isNew || this.#isHeadLate;
    const headSince = beginsIdle ? this.#idleSince : this.#headSince;
    const keepAliveMs = 1_000 * this.#connectionHeaders.keepAliveSeconds;
    if (headSince === undefined) {
      if (now - this.#idleSince > keepAliveMs) this.#close();
    } else if (now - headSince > headMs) {
      if (this.#socket.bytesRead === 0) this.#socket.destroy();
      else this.closeWithError(requestTimeout);
    }
  }

  /** True if bytes have arrived since the end of the last request. */
  get #isHeadArriving(): boolean {
    return this.#socket.bytesRead > this.#bytesAtEnd;
  }

  /** Destroys the connection if the client reads its responses too slowly. */
  #sweepReading(now: number): void {
    const { bytesWritten, writableLength } = this.#socket;
    const bytes = bytesWritten - writableLength;
    const hasReadAll = writableLength === 0;
    if (hasReadAll || bytes > this.#progress.bytes) this.#progress = { bytes, at: now };
    if (hasReadAll || bytes - this.#sufficientProgress.bytes >= minReadBytes)
      this.#sufficientProgress = this.#progress;

    const isStalled = this.#shared.unsent.isFull && now - this.#progress.at > maxStallMs;
    if (isStalled || now - this.#sufficientProgress.at > readPeriodMs) this.#socket.destroy();
  }

  /** The latest request without a response. Only its body can be incomplete. */
  get #latest(): Exchange | undefined {
    return this.#queue.at(-1) ?? this.#current;
  }

  /**
   * Handles a request.
   * @param since The time at which its limit begins. Undefined for a queued request, whose limit
   * begins with the next sweep, because the server did not read its body before.
   */
  #start(exchange: Exchange, since?: number): void {
    this.#current = exchange;
    this.#requestSince = since;
    this.#headSince = undefined;
    this.#isHeadLate = false;
    this.#isNew = false;

    const { service } = this.#shared;
    void service.handle(exchange).then((routed) =>
      atEndOfTick(() => {
        try {
          this.#send(exchange, routed);
        } catch (error) {
          service.logError(error);
          this.#socket.destroy();
        }
      }),
    );
  }

  /**
   * Sends the response to the current request. The connection closes after it if the reply says so,
   * if the client wants that, if the body is incomplete, or during shutdown.
   */
  #send(exchange: Exchange, routed: RoutedReply): void {
    const { service } = this.#shared;
    const { failure, response } = exchange;
    const reply =
      failure === undefined ? routed.reply : service.replyToLateError(failure, exchange, routed);
    if (reply.cut !== undefined) {
      this.#cut(exchange, routed, reply);
      return;
    }

    const isLast = service.isStopping && this.isQueueEmpty;
    const closes = reply.endsConnection === true || !exchange.keepsAlive || isLast;

    exchange.discardBody();
    if (response !== undefined) response.statusCode = reply.status;
    // Requests after a response that closes are ignored (RFC 9112 section 9.6).
    if (closes) {
      this.#stopAccepting();
      this.#lastReply = undefined;
    }
    this.#write(reply, exchange.method === 'HEAD' ? '' : (reply.body ?? ''), closes);
    service.reportResponse(reply.status, exchange, routed);
  }

  /** Breaks the connection in place of a complete response (C62), and drops the queue. */
  #cut(exchange: Exchange, routed: RoutedReply, reply: Reply): void {
    const { service } = this.#shared;
    exchange.discardBody();
    this.#stopAccepting();
    const body = exchange.method === 'HEAD' ? '' : truncatedBody(reply);
    const head = responseHead(reply, this.#connectionHeaders.lines(false));
    resetAfter(this.#socket, reply.cut === 'truncate' ? head + body : '');
    service.reportResponse(reply.status, exchange, routed);
  }

  /** Writes a response, a long one in slices. Finishes the request once the socket took it all. */
  #write(reply: Reply, body: string | Pieces, closes: boolean): void {
    const { unsent } = this.#shared;
    const socket = this.#socket;
    const headEnd = this.#connectionHeaders.lines(closes);
    if (typeof body === 'string' && body.length <= longBodyBytes) {
      const text = responseText(reply, body, headEnd);
      socket.write(text, 'latin1');
      if (socket.writableLength === 0 || socket.destroyed) return void this.#finish(0);

      unsent.add(text.length);
      // Node calls back once everything that was written before is sent.
      socket.write('', () => this.#finish(text.length));
      return;
    }

    const head = responseHead(reply, headEnd);
    const bytes = head.length + body.length;
    const slices = sliceResponse(head, body);
    const writeNext = (): void => {
      const slice = socket.destroyed ? undefined : slices.next().value;
      if (slice === undefined) this.#finish(bytes);
      else socket.write(slice, 'latin1', writeNext);
    };
    unsent.enqueue(bytes, writeNext);
  }

  /**
   * Finishes the current request, whose response is sent, and starts the next one.
   * @param unsentBytes The bytes of its response that are counted as unsent.
   */
  #finish(unsentBytes: number): void {
    this.#shared.unsent.remove(unsentBytes);
    if (this.#state === 'closing' && this.isQueueEmpty) this.#close();
    const { resetsBefore = 0, bytesAtEnd = this.#socket.bytesRead } = this.#current ?? {};
    this.#current?.finishResponse();
    this.#current = undefined;
    this.#idleSince = undefined;
    this.#bytesAtEnd = bytesAtEnd;

    const next = this.#queue.shift();
    if (next !== undefined) {
      this.#shared.queued--;
      // A request queued after one that reset the storage counts as later than the reset.
      next.resetsBefore = Math.max(next.resetsBefore, resetsBefore);
      this.#start(next);
    } else if (this.#state === 'busy') this.#state = 'idle';
    if (this.isQueueEmpty && this.#socket.isPaused()) this.#socket.resume();
  }

  /** Sends the last reply, if any, and closes the connection within `ms`. */
  #close(ms = lingerMs): void {
    if (!this.#socket.writable) return;

    this.#stopAccepting();
    const reply = this.#lastReply;
    const head =
      reply === undefined ? '' : responseHead(reply, this.#connectionHeaders.lines(true));
    lingeringClose(this.#socket, head + (reply?.body ?? ''), ms);
    if (reply !== undefined) this.#shared.service.reportResponse(reply.status);
  }

  /**
   * Stops accepting requests and drops the queue. The shared counter is lowered on the next tick,
   * so that one tick cannot read a full queue from each of a thousand connections.
   */
  #stopAccepting(): void {
    this.#state = 'closing';
    const { length } = this.#queue.splice(0);
    if (length > 0) setImmediate(() => (this.#shared.queued -= length));
  }
}
