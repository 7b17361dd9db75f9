/** Owns one connection from its first request to its end, also where it is no HTTP. Knows no route. */
import { ServerResponse, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { PetstoreError } from '../errors.js';
import type { Intake } from './intake.js';
import { Exchange } from './message.js';
import { MethodFailure, parseFailure, type ParserError } from './parse-failure.js';
import { Pipeline } from './pipeline.js';
import { errorReply, type Reply } from './reply.js';
import { keepAliveMs, replyText } from './wire.js';

/** What a connection needs of the petstore. */
export interface Service {
  /** Answers a request. */
  serve(exchange: Exchange): void;
  /** Hears of a reply to what never became a request. */
  refused(reply: Reply): void;
}

/** How long the client may still talk behind the last answer, so that closing does not reset it away (C51). */
const lingerMs = 1_000;
/** How long a head may take, of a method that is unknown too (C44). */
const headMs = 10_000;
/** How long a client may leave its answer unread (C44). */
const unreadMs = 60_000;

/** One socket of an HTTP server. */
export class Connection {
  readonly #socket: Socket;
  readonly #service: Service;
  readonly #pipeline: Pipeline;
  #isHungUp = false;
  #latest: Exchange | undefined;
  /** What ends the connection once every request before it has its answer (C52). */
  #ending: (() => void) | undefined;
  #method: { readonly failure: MethodFailure; readonly since: number } | undefined;
  #sentBytes = 0;
  #sentAt = performance.now();
  #readBytes = 0;
  /** When it was last seen that we did not read: the client's time for a head runs from there. */
  #pausedAt = -Infinity;
  /** Whether Node has given up a head of which we did not read the rest; it does so once for each. */
  #isHeadLate = false;
  #busyAt = performance.now();

  constructor(socket: Socket, service: Service, intake: Intake) {
    this.#socket = socket;
    this.#service = service;
    // Node's own listener is gone behind a CONNECT, and an error that nobody hears ends the process.
    socket.on('error', () => undefined);
    // Node ends a connection behind its last answer by this, and at once: a client that is still sending would be reset
    // and might never read that answer (RFC 9112 section 9.6).
    socket.destroySoon = () => this.#hangUp('');
    this.#pipeline = new Pipeline(socket, {
      intake,
      serve: (exchange) => service.serve(exchange),
      onIdle: () => this.#ending?.(),
    });
  }

  /** Takes a request; its answer waits for those before it. */
  accept(exchange: Exchange): void {
    // It came behind the last answer.
    if (!this.#socket.writable || this.#latest?.isLast === true) return;
    if (this.#latest !== undefined) this.#latest.isFollowed = true;
    this.#latest = exchange;
    this.#isHeadLate = false;
    this.#pipeline.add(exchange);
  }

  /**
   * Takes a CONNECT in: a request like any other, answered in its turn, but the last one, as Node has let go of the
   * socket by now and makes no response for it.
   */
  acceptConnect(request: IncomingMessage): void {
    this.#socket.resume();
    this.#endWith(() => setImmediate(() => this.#connect(request)));
  }

  /** Node's parser, its clock or the socket itself failed; it says so again for every packet that still comes. */
  fail(error: ParserError): void {
    // RFC 9112 section 9.6: nothing is read behind a request that asked for the end of the connection.
    if (error.code === 'HPE_CLOSED_CONNECTION') return;
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && this.#latest?.isComplete !== false && this.#waitedForUs(performance.now())) {
      this.#isHeadLate = true;
      return;
    }
    const isOfHttp = error.code?.startsWith('HPE_') || error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
    if (!isOfHttp || this.#socket.bytesRead === 0) this.#socket.destroy();
    else if (error.code === 'HPE_INVALID_METHOD') this.#failMethod(error);
    else this.refuse(parseFailure(error));
  }

  /**
   * Answers what came last with an error and hangs up. Requests before it get their own answers first (C52); one that
   * is still arriving is what came last, and is answered on its own path.
   */
  refuse(error: PetstoreError): void {
    if (this.#ending === undefined && this.#latest?.fail(error)) return;
    this.#endWith(() => this.#hangUpWith(error));
  }

  /** Ends the connection if no request of it is under way; its first is as soon as its head begins to arrive (C48). */
  endIfIdle(): void {
    const isFirstArriving = this.#latest === undefined && this.#socket.bytesRead > 0;
    if (this.#pipeline.isIdle && !isFirstArriving) this.#hangUp('');
  }

  /** Ends what has waited too long; called twice a second with the milliseconds of `performance.now()`. */
  sweep(now: number): void {
    // An answer that is on its way is not idleness either: whoever reads slowly has its own time.
    if (!this.#pipeline.isIdle || this.#socket.writableLength > 0 || this.#socket.bytesRead !== this.#readBytes) {
      this.#readBytes = this.#socket.bytesRead;
      this.#busyAt = now;
    } else if (now - this.#busyAt > keepAliveMs) this.endIfIdle();
    const isHeadDue = !this.#waitedForUs(now) && this.#isHeadLate;
    if (isHeadDue || (this.#method !== undefined && now - this.#method.since > headMs)) {
      this.refuse(parseFailure({ code: 'ERR_HTTP_REQUEST_TIMEOUT' }));
    }
    const sentBytes = this.#socket.bytesWritten - this.#socket.writableLength;
    if (sentBytes !== this.#sentBytes || this.#socket.writableLength === 0) {
      this.#sentBytes = sentBytes;
      this.#sentAt = now;
    } else if (now - this.#sentAt > unreadMs) this.#socket.destroy();
  }

  /** Whether a head that takes long may have waited for us: for requests before it whose answers are not read, for one. */
  #waitedForUs(now: number): boolean {
    if (this.#socket.isPaused()) this.#pausedAt = now;
    return now - this.#pausedAt <= headMs;
  }

  /** Node has let go of the response before it by now. */
  #connect(request: IncomingMessage): void {
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(this.#socket);
    response.once('finish', () => this.#hangUp(''));
    this.#service.serve(new Exchange(request, response, false));
  }

  #failMethod(error: ParserError): void {
    if (this.#method === undefined) {
      this.#method = { failure: new MethodFailure(), since: performance.now() };
      // Before Node's own listener, which ends the connection without a word.
      this.#socket.prependOnceListener('end', () => this.refuse(parseFailure({})));
    }
    const failure = this.#method.failure.add(error);
    if (failure !== undefined) this.refuse(failure);
  }

  #endWith(ending: () => void): void {
    if (this.#ending !== undefined) return;
    this.#ending = ending;
    if (this.#pipeline.isIdle) ending();
  }

  #hangUpWith(error: PetstoreError): void {
    const reply = errorReply(error);
    this.#hangUp(reply === undefined ? '' : replyText({ ...reply, closes: true, isKept: false }, ''));
    if (reply !== undefined) this.#service.refused(reply);
  }

  #hangUp(text: string): void {
    if (this.#isHungUp) return;
    this.#isHungUp = true;
    // Once all has left: whoever reads slowly has the time of an answer for what is still on its way.
    this.#socket.end(text, 'latin1', () => {
      if (this.#socket.destroyed) return;
      const timer = setTimeout(() => this.#socket.destroy(), lingerMs).unref();
      // Or all that ended in the last second would be kept: with connections of one request each, most of the memory.
      this.#socket.once('close', () => clearTimeout(timer));
    });
  }
}
