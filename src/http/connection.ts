/**
 * One connection of the petstore's own server. It serves one request at a time (C44, C51 to C55).
 */
import type { Socket } from 'node:net';
import { setImmediate } from 'node:timers';
import { PetstoreError } from '../errors.js';
import { replyTo, type Pieces, type Reply } from '../reply.js';
import type { SentReply } from '../plugin.js';
import type { Message } from '../request.js';
import type { Resource } from '../router.js';
import { Deadlines } from './deadlines.js';
import { dribble } from './dribble.js';
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
  type Clock,
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
  /** The clock of the header Date; omitted if it is that of the port. */
  readonly clock?: Clock;
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
  /** Logs a warning about this Node. */
  logWarning(message: string, fields: Readonly<Record<string, unknown>>): void;
  /** Counts and reports a response. Omit `message` if the client sent no valid HTTP. */
  reportResponse(reply: SentReply, message?: Message, routed?: RoutedReply): void;
  /** True if anything hears `reportEnd`, so that a host's response is listened to. */
  readonly watchesEnds: boolean;
  /** Reports the end of a response. */
  reportEnd(reply: SentReply, isWhole: boolean, message: Message, routed: RoutedReply): void;
  /** Calls back when a wait for a request becomes pointless. */
  onAbandoned(message: Message, callback: () => void): void;
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
export const maxQueued = 256;
export const maxQueuedInTotal = 2_048;

/** The time for which a client may go on sending a request head during shutdown (C48). */
export const stopLingerMs = 250;

const connectionLost = new PetstoreError(
  'bad_request',
  'The connection ended in the middle of the body.',
);

/** A connection, as its port uses it. */
export interface PortConnection {
  /** Checks all time limits. To be called twice a second. */
  sweep(now: number): void;
  /**
   * Closes the connection if no request is in flight (C48).
   * @param error The response if part of a head has arrived.
   */
  closeIfIdle(error: PetstoreError): void;
  /**
   * Closes the connection with an error. The error becomes the response to the latest request if
   * that is still arriving. Otherwise the error is sent after all other responses.
   */
  closeWithError(error: PetstoreError): void;
  /** The number of requests whose response is not sent completely. */
  readonly requestsInFlight: number;
}

/** A connection, which queues requests and sends their responses. */
export class Connection implements ConnectionHandler<Exchange>, PortConnection {
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
  /** The response to the current request, while its end is to be reported. */
  #sending: { readonly reply: Reply; readonly routed: RoutedReply } | undefined;
  /** The pipelined requests after the current one. */
  readonly #queue: Exchange[] = [];
  /** The error response that is sent last, before the connection closes (C52). */
  #lastReply: Reply | undefined;

  readonly #deadlines: Deadlines;

  constructor(socket: Socket, shared: SharedState, connectionHeaders: ConnectionHeaders) {
    this.#socket = socket;
    this.#shared = shared;
    this.#connectionHeaders = connectionHeaders;
    const { keepAliveSeconds } = connectionHeaders;
    this.#deadlines = new Deadlines(socket, shared.unsent, keepAliveSeconds);
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
      return void this.#start(exchange, exchange.startedAt);
    }

    this.#queue.push(exchange);
    this.#shared.queued++;
    this.#socket.pause();
    if (this.#queue.length <= maxQueued && this.#shared.queued <= maxQueuedInTotal) return;

    this.#stopAccepting();
    this.#socket.destroy();
  }

  fail(error: PetstoreError | undefined, rawHeaders?: readonly string[]): void {
    if (error === requestTimeout) this.#deadlines.reportLateHead();
    else if (error === undefined || this.#socket.bytesRead === 0) this.#socket.destroy();
    else this.closeWithError(error, rawHeaders);
  }

  get isQueueEmpty(): boolean {
    return this.#queue.length === 0;
  }

  get requestsInFlight(): number {
    return (this.#current === undefined ? 0 : 1) + this.#queue.length;
  }

  hasReceivedOnly(packet: Buffer): boolean {
    return this.#state === 'idle' && this.#deadlines.bytesSinceEnd === packet.length;
  }

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

  closeIfIdle(error: PetstoreError): void {
    if (this.#state !== 'idle') return;
    if (this.#deadlines.bytesSinceEnd > 0) this.#lastReply = replyTo(error);
    this.#close(stopLingerMs);
  }

  sweep(now: number): void {
    const limit = this.#deadlines.check(now, this.#current?.readableEnded === false);
    if (limit === 'request') this.closeWithError(requestTimeout);
    else if (limit === 'idle') this.#close();
    else if (limit === 'reading') this.#socket.destroy();
  }

  /** The latest request without a response. Only its body can be incomplete. */
  get #latest(): Exchange | undefined {
    return this.#queue.at(-1) ?? this.#current;
  }

  #start(exchange: Exchange, arrivedAt?: number): void {
    this.#current = exchange;
    this.#deadlines.beginRequest(arrivedAt);

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
    service.reportResponse(
      this.#socket.destroyed ? { ...reply, cut: 'client' } : reply,
      exchange,
      routed,
    );
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
    const body = exchange.method === 'HEAD' ? '' : (reply.body ?? '');
    if (service.watchesEnds || reply.dribbleMs !== undefined) this.#sending = { reply, routed };
    const headEnd = this.#connectionHeaders.lines(closes, routed.clock);
    if (reply.dribbleMs === undefined || body === '') this.#write(reply, body, headEnd);
    else this.#dribble(exchange, reply, String(body), headEnd);
  }

  /** Breaks the connection in place of a complete response (C62), and drops the queue. */
  #cut(exchange: Exchange, routed: RoutedReply, reply: Reply): void {
    const { service } = this.#shared;
    exchange.discardBody();
    this.#stopAccepting();
    const body = exchange.method === 'HEAD' ? '' : truncatedBody(reply);
    const head = responseHead(reply, this.#connectionHeaders.lines(false, routed.clock));
    if (reply.cut === 'end') lingeringClose(this.#socket, head + body, lingerMs);
    else resetAfter(this.#socket, reply.cut === 'truncate' ? head + body : '');
    service.reportEnd(reply, false, exchange, routed);
  }

  /** Writes a response whose body takes a time on purpose (C84). */
  #dribble(exchange: Exchange, reply: Reply, body: string, headEnd: string): void {
    const { unsent, service } = this.#shared;
    const socket = this.#socket;
    socket.write(responseHead(reply, headEnd), 'latin1');
    const sender = {
      write: (part: string) => void socket.write(part, 'latin1'),
      end: () => void socket.write('', () => this.#finish(body.length)),
    };
    unsent.enqueue(body.length, () =>
      service.onAbandoned(exchange, dribble(body, reply.dribbleMs ?? 0, sender)),
    );
  }

  /** Writes a response, a long one in slices. Finishes the request once the socket took it all. */
  #write(reply: Reply, body: string | Pieces, headEnd: string): void {
    const { unsent } = this.#shared;
    const socket = this.#socket;
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
    const { resetsBefore = 0, bytesAtEnd } = this.#current ?? {};
    this.#current?.finishResponse();
    this.#reportEnd();
    this.#current = undefined;
    this.#deadlines.endRequest(bytesAtEnd);

    const next = this.#queue.shift();
    if (next !== undefined) {
      this.#shared.queued--;
      // A request queued after one that reset the storage counts as later than the reset.
      next.resetsBefore = Math.max(next.resetsBefore, resetsBefore);
      this.#start(next);
    } else if (this.#state === 'busy') this.#state = 'idle';
    if (this.isQueueEmpty && this.#socket.isPaused()) this.#socket.resume();
  }

  /** Reports the end of the current response. */
  #reportEnd(): void {
    if (this.#current === undefined || this.#sending === undefined) return;
    const { reply, routed } = this.#sending;
    this.#sending = undefined;
    this.#shared.service.reportEnd(reply, !this.#socket.destroyed, this.#current, routed);
  }

  /** Sends the last reply, if any, and closes the connection within `ms`. */
  #close(ms = lingerMs): void {
    if (!this.#socket.writable) return;

    this.#stopAccepting();
    const reply = this.#lastReply;
    const head =
      reply === undefined ? '' : responseHead(reply, this.#connectionHeaders.lines(true));
    lingeringClose(this.#socket, head + (reply?.body ?? ''), ms);
    if (reply !== undefined) this.#shared.service.reportResponse(reply);
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
