/** One connection of our own server, from its first request to its end: one request at a time (C44, C51 to C55). */
import type { Socket } from 'node:net';
import type { PetstoreError } from '../errors.js';
import { replyTo, type Pieces, type Reply } from '../reply.js';
import type { Message } from '../request.js';
import type { Resource } from '../router.js';
import { brokenOff, type Exchange } from './exchange.js';
import { keepAliveMs, linger, longBytes, parseFailure, replyHead, slicesOf } from './wire.js';
import type { Outbox, ParserError, UnsentBytes } from './wire.js';

/** What a request comes to, and what is known of it by then. */
export interface Answer {
  readonly reply: Reply;
  /** What it asked for; undefined where there is nothing. */
  readonly resource: Resource | undefined;
  readonly keyName: string | undefined;
}

/** What http needs of the petstore. */
export interface Service {
  /** Answers a request; never rejects. */
  answer(message: Message): Promise<Answer>;
  /** The reply to a request that failed after it was answered, with all that its route and plugins add. */
  failed(error: PetstoreError, message: Message, answer: Answer): Reply;
  /** Hears of each reply that leaves; of one to what was no HTTP, without a request. */
  left(status: number, message?: Message, answer?: Answer): void;
  /** Whether connections end after the answers to what has come. */
  readonly isStopping: boolean;
}

/** What all connections of a petstore share. */
export interface Shared {
  readonly service: Service;
  readonly outbox: Outbox;
  readonly unsent: UnsentBytes;
  /** How many requests wait for the one before them, on all connections. */
  waiting: number;
}

/**
 * Most requests that may wait for the one before them, on one connection and on all together (C52): more than honest
 * clients send in one packet. Each takes some 7 KB, and 30 us to be read: a turn of the event loop must not take long.
 */
const maxWaiting = 256;
const maxWaitingInAll = 2_048;
/** How many bytes of an answer a client must read in how long (C44). */
const readBytes = 65_536;
const readMs = 60_000;
/** How long a client may read nothing while others wait to be answered (C55). */
const stalledMs = 5_000;
/** How long a head and a whole request may take from when we read again, where they had to wait for us (C44). */
const headMs = 10_000;
const requestMs = 30_000;

/** One socket of an HTTP server. */
export class Connection {
  readonly #socket: Socket;
  readonly #shared: Shared;
  /** The request that is being answered, until its answer has left. */
  #current: Exchange | undefined;
  #answer: Answer | undefined;
  readonly #waiting: Exchange[] = [];
  /** Whether no further request is carried out: an answer that closes is on its way, or the end itself. */
  #isOver = false;
  /** What the connection ends with, once the requests before it have their answers (C52). */
  #refusal: PetstoreError | undefined;
  /** Whether Node has given up a head that had to wait for us; it does so once for each. */
  #isHeadLate = false;
  /** When it was first swept after its last turn, from answering to waiting or back, or after bytes that ended a wait. */
  #turnedAt: number | undefined;
  /** How many bytes had come when the last answer left, and when it was swept last. */
  #turnedBytes = 0;
  #sweptBytes = 0;
  /** Bytes that had left when it was last seen that some did, and when the current time to read began. */
  readonly #sent: { bytes: number; at: number; windowBytes: number; windowAt: number };

  readonly #onAnswer = (answer: Answer): void => {
    this.#answer = answer;
    this.#shared.outbox.put(this);
  };

  constructor(socket: Socket, shared: Shared) {
    this.#socket = socket;
    this.#shared = shared;
    const now = performance.now();
    this.#sent = { bytes: 0, at: now, windowBytes: 0, windowAt: now };
    // Node's own listener is gone after a CONNECT, and an error that nobody hears ends the process.
    socket.on('error', () => undefined);
    // By this Node ends a connection whose client has ended it, and at once: one that is still sending would be reset.
    socket.destroySoon = () => this.#hangUp();
    // Node reads on whenever it lets go of a request.
    socket.on('resume', () => {
      if (this.#waiting.length > 0) socket.pause();
    });
    // Of a body, no more will come; requests that came whole are carried out all the same (C53).
    socket.once('close', () => this.#latest?.fail(brokenOff()));
  }

  /** Takes a request; it waits for the answer to the one before it, and meanwhile the socket is not read. */
  accept(exchange: Exchange): void {
    if (this.#isOver) return;
    this.#isHeadLate = false;
    if (this.#current === undefined) this.#start(exchange);
    else {
      this.#waiting.push(exchange);
      this.#shared.waiting++;
      this.#socket.pause();
      if (this.#waiting.length > maxWaiting || this.#shared.waiting > maxWaitingInAll) this.#destroy();
    }
  }

  /** Node's parser, its clock or the socket itself failed; it says so again for every packet that still comes. */
  fail(error: ParserError): void {
    const isLate = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
    if (isLate && this.#current?.complete === true) {
      // What waits for an answer before it is not late yet: its time runs from that answer on.
      this.#isHeadLate = this.#latest?.complete === true;
    } else if (this.#socket.bytesRead > 0 && (isLate || error.code?.startsWith('HPE_'))) {
      this.refuse(parseFailure(error));
    } else this.#socket.destroy();
  }

  /**
   * Answers what came last with an error and hangs up. Requests before it get their own answers first (C52); one whose
   * body is still arriving is what came last, and is answered on its own path.
   */
  refuse(error: PetstoreError): void {
    if (this.#isOver || this.#latest?.fail(error)) return;
    this.#isOver = true;
    this.#refusal = error;
    if (this.#current === undefined) this.#hangUp();
  }

  /** Ends the connection if no request of it is under way; one is as soon as its head begins to arrive (C48). */
  endIfIdle(): void {
    if (this.#current === undefined && this.#socket.bytesRead === this.#turnedBytes) this.#hangUp();
  }

  /** Ends what has waited too long; called twice a second with the milliseconds of `performance.now()`. */
  sweep(now: number): void {
    const { bytesRead, bytesWritten, writableLength } = this.#socket;
    const exchange = this.#current;
    const isIdle = exchange === undefined && !this.#isHeadLate;
    if (this.#turnedAt === undefined || (isIdle && bytesRead !== this.#sweptBytes)) this.#turnedAt = now;
    this.#sweptBytes = bytesRead;
    const ms = now - this.#turnedAt;
    const isLate = exchange === undefined ? this.#isHeadLate && ms > headMs : !exchange.complete && ms > requestMs;
    if (isLate) this.refuse(parseFailure({ code: 'ERR_HTTP_REQUEST_TIMEOUT' }));
    if (isIdle && ms > keepAliveMs) this.#hangUp();

    const sent = this.#sent;
    const bytes = bytesWritten - writableLength;
    if (writableLength === 0 || bytes !== sent.bytes) sent.at = now;
    sent.bytes = bytes;
    if (writableLength === 0 || bytes - sent.windowBytes >= readBytes) {
      sent.windowBytes = bytes;
      sent.windowAt = now;
    }
    const isStalled = this.#shared.unsent.isFull && now - sent.at > stalledMs;
    if (isStalled || now - sent.windowAt > readMs) this.#destroy();
  }

  /** The request that came last and has no answer yet; its body may still come. */
  get #latest(): Exchange | undefined {
    return this.#waiting.at(-1) ?? this.#current;
  }

  #start(exchange: Exchange): void {
    this.#current = exchange;
    this.#turnedAt = undefined;
    void this.#shared.service.answer(exchange).then(this.#onAnswer);
  }

  /**
   * Writes the reply, and hangs up where the reply, the client or an unread body asks for that, or the server stops.
   */
  send(): void {
    const exchange = this.#current;
    const answer = this.#answer;
    if (exchange === undefined || answer === undefined) return;
    const { service } = this.#shared;
    const { failure } = exchange;
    // A request that has failed meanwhile gets that as its answer, which it may be already, with headers of plugins.
    const reply =
      failure === undefined || failure.body === answer.reply.body
        ? answer.reply
        : service.failed(failure, exchange, answer);
    const isLast = service.isStopping && this.#waiting.length === 0;
    const closes = reply.closes === true || !exchange.keepsAlive || isLast;
    const head = replyHead(reply, closes);
    exchange.answered(reply.status);
    // Nothing after an answer that closes is carried out (RFC 9112 section 9.6).
    if (closes) {
      this.#isOver = true;
      this.#refusal = undefined;
      this.#forgetWaiting();
    }
    this.#write(head, exchange.method === 'HEAD' ? '' : (reply.body ?? ''));
    service.left(reply.status, exchange, answer);
  }

  /** Writes a whole answer, a long one in slices within the bound of C55; finishes once the socket has taken all. */
  #write(head: string, body: string | Pieces): void {
    const { unsent } = this.#shared;
    const socket = this.#socket;
    const bytes = head.length + body.length;
    const isShort = typeof body === 'string' && bytes <= longBytes;
    if (isShort) {
      socket.write(head + body, 'latin1');
      if (socket.writableLength === 0 || socket.destroyed) {
        this.#finish();
        return;
      }
    }
    // After a short one, an empty slice says when it has left.
    const slices = isShort ? [''].values() : slicesOf(head, body);
    const next = (): void => {
      const slice = socket.destroyed ? undefined : slices.next().value;
      if (slice !== undefined) {
        socket.write(slice, 'latin1', next);
        return;
      }
      unsent.leave(bytes);
      this.#finish();
    };
    if (!isShort) unsent.enter(bytes, next);
    else {
      unsent.add(bytes);
      next();
    }
  }

  /** The answer has left: goes on with what waits. */
  #finish(): void {
    const exchange = this.#current;
    this.#current = undefined;
    this.#answer = undefined;
    this.#turnedAt = undefined;
    this.#turnedBytes = this.#socket.bytesRead;
    if (this.#isOver && this.#waiting.length === 0) this.#hangUp();
    exchange?.finish();
    const next = this.#waiting.shift();
    if (next !== undefined) {
      this.#shared.waiting--;
      this.#start(next);
    }
    if (this.#waiting.length === 0 && this.#socket.isPaused()) this.#socket.resume();
  }

  /** Ends the connection, with the answer to what was refused where something was. */
  #hangUp(): void {
    if (!this.#socket.writable) return;
    this.#isOver = true;
    this.#forgetWaiting();
    if (this.#refusal === undefined) {
      linger(this.#socket);
      return;
    }
    const reply = replyTo(this.#refusal);
    linger(this.#socket, replyHead(reply, true) + this.#refusal.body);
    this.#shared.service.left(reply.status);
  }

  /** They count until the turn of the event loop ends: it shall not read as many of each of a thousand connections. */
  #forgetWaiting(): void {
    const { length } = this.#waiting.splice(0);
    if (length > 0) setImmediate(() => (this.#shared.waiting -= length));
  }

  #destroy(): void {
    this.#isOver = true;
    this.#forgetWaiting();
    this.#socket.destroy();
  }
}
