/**
 * Serves a connection by `createServer(handler)` alone, without any undocumented behaviour of Node
 * (C79). It is slower than `Connection`.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { clearTimeout, setImmediate, setTimeout } from 'node:timers';
import type { PetstoreError } from '../errors.js';
import { replyTo, type Reply } from '../reply.js';
import type { Message } from '../request.js';
import { readAll, readArrived } from './body.js';
import {
  maxQueued,
  maxQueuedInTotal,
  stopLingerMs,
  type PortConnection,
  type RoutedReply,
  type SharedState,
} from './connection.js';
import { connectionsOf, type ConnectionEvent } from './open-connections.js';
import { Deadlines } from './deadlines.js';
import { GuestResponse } from './guest-response.js';
import { headerValue, parseHead, requestTimeout, wantsClose, type Head } from './head.js';
import {
  headersOfUnknownMethod,
  lingerMs,
  resetAfter,
  toPetstoreError,
  type ClientError,
} from './node.js';
import { dateOf, responseHead, truncatedBody, type ConnectionHeaders } from './wire.js';

/** A request of Node's server. */
class DocumentedRequest implements Message {
  readonly source: IncomingMessage;
  /** The response; undefined for CONNECT and Upgrade, for which Node makes none. */
  readonly response: ServerResponse | undefined;
  readonly method: string;
  readonly target: string;
  readonly startedAt = performance.now();
  resetsBefore: number;
  /**
   * The error for which the rest of the body will never arrive. It becomes the response, unless
   * `readBody` has thrown it.
   */
  failure: PetstoreError | undefined;
  /** The number of bytes that had arrived on the connection at the end of this request. */
  bytesAtEnd: number | undefined;

  /** Sends `100 Continue`; does nothing if the client does not wait for it. */
  readonly #sendContinue: () => void;
  #onGone: (() => void) | undefined;
  #isDiscarded = false;
  #rejectBody = (_error: PetstoreError): void => undefined;

  constructor(
    source: IncomingMessage,
    response: ServerResponse | undefined,
    resetsBefore: number,
    sendContinue: () => void,
  ) {
    this.source = source;
    this.response = response;
    this.method = source.method ?? '';
    this.target = source.url ?? '';
    this.resetsBefore = resetsBefore;
    this.#sendContinue = sendContinue;
    // A client that leaves may become an error, which would end the process without a listener.
    source.on('error', () => undefined);
  }

  get clientAddress(): string | undefined {
    return this.source.socket.remoteAddress;
  }

  /** True if the body is incomplete and still needed. Only then can the request fail. */
  get isArriving(): boolean {
    return !this.source.complete && !this.#isDiscarded;
  }

  readHead(): Head {
    return parseHead(this.source);
  }

  header(name: string): string | undefined {
    return headerValue(this.source.rawHeaders, name);
  }

  onGone(callback: () => void): void {
    this.#onGone = callback;
    const { socket } = this.source;
    if (socket.destroyed || socket.readableEnded) callback();
  }

  /** Reports that the client is gone, or has closed its side of the connection. */
  reportGone(): void {
    this.#onGone?.();
  }

  async readBody(maxBytes: number): Promise<string> {
    const { failure } = this;
    if (failure === undefined) {
      this.#sendContinue();
      const { source } = this;
      const arrived = readArrived(source, maxBytes, source.headers['content-length']);
      if (arrived !== undefined) return arrived;
      const failed = new Promise<never>((_resolve, reject) => (this.#rejectBody = reject));
      const body = await Promise.race([readAll(source, maxBytes), failed]);
      this.noteEnd();
      return body;
    }
    this.failure = undefined;
    throw failure;
  }

  /** Fails the request with an error if it is still arriving. */
  fail(error: PetstoreError): void {
    if (!this.isArriving) return;
    this.failure = error;
    this.discardBody();
    this.#rejectBody(error);
  }

  /** Notes the end of the request, if it is complete. */
  noteEnd(): void {
    if (this.source.complete) this.bytesAtEnd ??= this.source.socket.bytesRead;
  }

  /** Ignores the rest of the body. */
  discardBody(): void {
    this.#isDiscarded = true;
  }

  /** True if no request can follow on the connection, or the client wants none. */
  get isLast(): boolean {
    const { httpVersion, headers } = this.source;
    if (this.response === undefined || headers.upgrade !== undefined) return true;
    return wantsClose(httpVersion, headers.connection);
  }
}

/** A connection. It serves one request at a time, like `Connection`. */
export class DocumentedConnection implements PortConnection {
  readonly #socket: Socket;
  readonly #shared: SharedState;
  readonly #connectionHeaders: ConnectionHeaders;
  readonly #deadlines: Deadlines;

  /** `closing`: no further request is accepted, but responses may still be due. */
  #state: 'open' | 'closing' = 'open';
  /** The request in flight, until its response is sent. */
  #current: DocumentedRequest | undefined;
  /** The pipelined requests after the current one. */
  readonly #queue: DocumentedRequest[] = [];
  /** The response that is sent last, before the connection closes. */
  #lastReply: Reply | undefined;

  constructor(socket: Socket, shared: SharedState, connectionHeaders: ConnectionHeaders) {
    this.#socket = socket;
    this.#shared = shared;
    this.#connectionHeaders = connectionHeaders;
    const { keepAliveSeconds } = connectionHeaders;
    this.#deadlines = new Deadlines(socket, shared.unsent, keepAliveSeconds);
    // After CONNECT, Node has no listener of its own, and an error would end the process.
    socket.on('error', () => undefined);
    // A client that is gone looks the same as a client that closed only its sending side.
    for (const event of ['end', 'close']) socket.once(event, () => this.#current?.reportGone());
  }

  /**
   * Starts a request, or queues it.
   * @param response Omitted for CONNECT and Upgrade.
   * @param sendContinue Sends `100 Continue`.
   */
  accept(
    source: IncomingMessage,
    response?: ServerResponse,
    sendContinue = (): void => undefined,
  ): void {
    if (this.#state === 'closing') return;
    const { service } = this.#shared;
    const request = new DocumentedRequest(source, response, service.resets, sendContinue);
    // Node completes a request without a body after this event.
    setImmediate(() => request.noteEnd());
    if (this.#current === undefined) return void this.#start(request, request.startedAt);

    this.#queue.push(request);
    this.#shared.queued++;
    if (this.#queue.length <= maxQueued && this.#shared.queued <= maxQueuedInTotal) return;

    this.#stopAccepting();
    this.#socket.destroy();
  }

  /** Handles an error of the event 'clientError'. Node may repeat it. */
  fail(error: PetstoreError | undefined, rawHeaders?: readonly string[]): void {
    if (error === requestTimeout && this.#latest?.isArriving !== true)
      this.#deadlines.reportLateHead();
    else if (error === undefined || this.#socket.bytesRead === 0) this.#socket.destroy();
    else this.closeWithError(error, rawHeaders);
  }

  get requestsInFlight(): number {
    return (this.#current === undefined ? 0 : 1) + this.#queue.length;
  }

  closeWithError(error: PetstoreError, rawHeaders?: readonly string[]): void {
    if (this.#state === 'closing') return;
    const latest = this.#latest;
    if (latest?.isArriving === true) return void latest.fail(error);

    this.#state = 'closing';
    this.#lastReply =
      rawHeaders === undefined
        ? replyTo(error)
        : this.#shared.service.replyToParserError(error, (name) => headerValue(rawHeaders, name));
    if (this.#current === undefined) this.#close();
  }

  closeIfIdle(error: PetstoreError): void {
    if (this.#state === 'closing' || this.#current !== undefined) return;
    if (this.#deadlines.bytesSinceEnd > 0) this.#lastReply = replyTo(error);
    this.#close(stopLingerMs);
  }

  sweep(now: number): void {
    const limit = this.#deadlines.check(now, this.#current?.isArriving === true);
    if (limit === 'request') this.closeWithError(requestTimeout);
    else if (limit === 'idle') this.#close();
    else if (limit === 'reading') this.#socket.destroy();
  }

  /** The latest request without a response. Only its body can be incomplete. */
  get #latest(): DocumentedRequest | undefined {
    return this.#queue.at(-1) ?? this.#current;
  }

  #start(request: DocumentedRequest, arrivedAt?: number): void {
    this.#current = request;
    this.#deadlines.beginRequest(arrivedAt);

    const { service } = this.#shared;
    void service.handle(request).then((routed) =>
      setImmediate(() => {
        try {
          this.#send(request, routed);
        } catch (error) {
          service.logError(error);
          this.#socket.destroy();
        }
      }),
    );
  }

  /** Sends the response to the current request. */
  #send(request: DocumentedRequest, routed: RoutedReply): void {
    const { service, date } = this.#shared;
    const { failure, response } = request;
    const reply =
      failure === undefined ? routed.reply : service.replyToLateError(failure, request, routed);
    const isLast = service.isStopping && this.#queue.length === 0;
    const closes = reply.endsConnection === true || request.isLast || isLast;
    const isGone = this.#socket.destroyed;
    service.reportResponse(isGone ? { ...reply, cut: 'client' } : reply, request, routed);

    if (closes || request.isArriving || reply.cut !== undefined) {
      this.#stopAccepting();
      this.#lastReply = undefined;
    }
    request.discardBody();
    if (reply.cut !== undefined) {
      this.#cut(request, reply, routed);
      return void service.reportEnd(reply, false, request, routed);
    }
    if (response === undefined) {
      this.#current = undefined;
      this.#endWith(reply, lingerMs);
      return void service.reportEnd(reply, !isGone, request, routed);
    }

    const log = (error: unknown) => service.logError(error);
    const guest = new GuestResponse({ request: request.source, response, next: undefined, log });
    const onAbandoned = (callback: () => void) => service.onAbandoned(request, callback);
    guest.send(reply, { date: dateOf(routed, date), closes, onAbandoned });

    // Node also finishes a response whose socket is closed. Listeners before `send` would slow it.
    let isWhole = response.writableFinished && !this.#socket.destroyed;
    if (service.watchesEnds) response.once('finish', () => (isWhole = !this.#socket.destroyed));
    const finish = (): void => {
      service.reportEnd(reply, isWhole, request, routed);
      this.#finish(request);
    };
    if (response.closed) finish();
    else response.once('close', finish);
  }

  /** Breaks the connection in place of a complete response (C62). */
  #cut(request: DocumentedRequest, reply: Reply, { clock }: RoutedReply): void {
    const body = request.method === 'HEAD' ? '' : truncatedBody(reply);
    const head = responseHead(reply, this.#connectionHeaders.lines(false, clock));
    if (reply.cut === 'end') this.#endWithText(head + body, lingerMs);
    else resetAfter(this.#socket, reply.cut === 'truncate' ? head + body : '');
  }

  /** Finishes the current request, whose response is sent, and starts the next one. */
  #finish({ resetsBefore, bytesAtEnd }: DocumentedRequest): void {
    this.#current = undefined;
    this.#deadlines.endRequest(bytesAtEnd);

    const next = this.#queue.shift();
    if (next === undefined) {
      if (this.#state === 'closing') this.#close();
      return;
    }
    this.#shared.queued--;
    // A request queued after one that reset the storage counts as later than the reset.
    next.resetsBefore = Math.max(next.resetsBefore, resetsBefore);
    this.#start(next);
  }

  /** Sends the last reply, if any, and closes the connection within `ms`. */
  #close(ms = lingerMs): void {
    this.#stopAccepting();
    const reply = this.#lastReply;
    if (!this.#socket.writable) return;
    this.#endWith(reply, ms);
    if (reply !== undefined) this.#shared.service.reportResponse(reply);
  }

  /** Closes the sending side after a reply, and the connection within `ms`. */
  #endWith(reply: Reply | undefined, ms: number): void {
    const head =
      reply === undefined ? '' : responseHead(reply, this.#connectionHeaders.lines(true));
    this.#endWithText(head + (reply?.body ?? ''), ms);
  }

  #endWithText(text: string, ms: number): void {
    const socket = this.#socket;
    // After CONNECT, Node does not read the socket.
    socket.resume();
    socket.end(text, 'latin1', () => {
      if (socket.destroyed) return;
      const timer = setTimeout(() => socket.destroy(), ms).unref();
      socket.once('close', () => clearTimeout(timer));
    });
  }

  /** Stops accepting requests and drops the queue. */
  #stopAccepting(): void {
    this.#state = 'closing';
    this.#shared.queued -= this.#queue.splice(0).length;
  }
}

/** Serves the connections of a server by its documented events. */
export function serveDocumented(
  server: Server,
  event: ConnectionEvent,
  shared: SharedState,
  headers: ConnectionHeaders,
): ReadonlyMap<Socket, DocumentedConnection> {
  const connections = connectionsOf(
    server,
    event,
    (socket) => new DocumentedConnection(socket, shared, headers),
  );
  const of = ({ socket }: IncomingMessage) => connections.get(socket);
  const accept = (request: IncomingMessage, response: ServerResponse) =>
    of(request)?.accept(request, response);
  server.on('request', accept);
  server.on('checkExpectation', accept);
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) =>
    of(request)?.accept(request, response, () => response.writeContinue()),
  );
  const acceptTunnel = (request: IncomingMessage) => of(request)?.accept(request);
  server.on('connect', acceptTunnel);
  // Before Node 24, a listener would turn each request with an Upgrade header into this event.
  if (Number.parseInt(process.versions.node, 10) >= 24) server.on('upgrade', acceptTunnel);

  server.on('clientError', (error: ClientError, socket: Socket) => {
    const connection = connections.get(socket);
    if (connection === undefined) socket.destroy();
    else connection.fail(toPetstoreError(error, socket), headersOfUnknownMethod(error));
  });
  return connections;
}
