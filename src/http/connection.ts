/**
 * One connection of our own server, from its first request to its end: one request at a time (C44,
 * C51 to C55).
 */
import type { Socket } from 'node:net';
import { PetstoreError } from '../errors.js';
import { replyTo, type Pieces, type Reply } from '../reply.js';
import type { Message } from '../request.js';
import type { Resource } from '../router.js';
import type { Exchange } from './exchange.js';
import {
  keepAliveMs,
  linger,
  longBytes,
  parseFailure,
  requestTooLate,
  type ParserError,
  replyHead,
  replyText,
  slicesOf,
  type Outbox,
  type UnsentBytes,
} from './wire.js';

/** What a request comes to, and what is known of it by then. */
export interface Answer {
  reply: Reply;
  resource: Resource | undefined;
  keyName: string | undefined;
}

/** What http needs of the petstore. */
export interface Service {
  /** Answers a request; never rejects. */
  answer(message: Message): Promise<Answer>;
  /** The reply to a request that failed after its answer was made. */
  failed(error: PetstoreError, message: Message, answer: Answer): Reply;
  /** Hears of a fault of ours that is nobody's answer. */
  fault(error: unknown): void;
  /** Hears of each reply once it is decided; without a request, of one to what was no HTTP. */
  replied(status: number, message?: Message, answer?: Answer): void;
  /** Whether connections end after the answers to what has come. */
  readonly isStopping: boolean;
}

/** What all connections share. */
export interface Shared {
  readonly service: Service;
  readonly outbox: Outbox;
  readonly unsent: UnsentBytes;
  waiting: number;
}

/**
 * Most requests that may wait, on one connection and on all (C52): each takes some 7 KB, and 30 us
 * to be read.
 */
const maxWaiting = 256;
const maxWaitingInAll = 2_048;
/**
 * How much of an answer a client must read in how long (C44), and how long none of it while others
 * wait (C55).
 */
const readBytes = 65_536;
const readMs = 60_000;
const stalledMs = 5_000;
/**
 * How long a head and a whole request may take (C44): by Node's clock, by ours once we read again
 * after a wait.
 */
export const headMs = 10_000;
export const requestMs = 30_000;

export class Connection {
  readonly #socket: Socket;
  readonly #shared: Shared;
  #current: Exchange | undefined;
  readonly #waiting: Exchange[] = [];
  /** Whether no further request is taken. */
  #isOver = false;
  /** The answer that ends the connection once the requests before it have theirs (C52). */
  #refusal: Reply | undefined;
  /**
   * Whether Node has called a head late, as it does only once, that may be on its way while an
   * answer is awaited.
   */
  #isHeadLate = false;
  /** When its phase, a request under way or none, was first seen by a sweep. */
  #phaseAt: number | undefined;
  /** How many bytes had come when it last became idle. */
  #idleFromBytes = 0;
  /**
   * How many the client had read, and when, at its last progress and at its last of `readBytes`.
   */
  #read = { bytes: 0, at: performance.now() };
  #readEnough = this.#read;

  constructor(socket: Socket, shared: Shared) {
    this.#socket = socket;
    this.#shared = shared;
    // Node's own listener is gone after a CONNECT.
    socket.on('error', () => undefined);
    // Called by Node's `resOnFinish` after the last answer to a client that has ended its side: it
    // ends as others do.
    socket.destroySoon = () => this.#hangUp();
    // Node's `readStart` does that whenever a request has come whole.
    socket.on('resume', () => {
      if (this.#waiting.length > 0) socket.pause();
    });
    // No more of its body will come; requests that came whole are carried out all the same (C53).
    const brokenOff = () =>
      new PetstoreError('bad_request', 'The connection ended in the middle of the body.');
    socket.once('close', () => this.#latest?.fail(brokenOff()));
  }

  /**
   * Takes a request; while it waits for the answer to the one before it, the socket is not read.
   */
  accept(exchange: Exchange): void {
    if (this.#isOver) return;
    if (this.#current === undefined) return void this.#start(exchange);
    this.#waiting.push(exchange);
    this.#shared.waiting++;
    this.#socket.pause();
    if (this.#waiting.length <= maxWaiting && this.#shared.waiting <= maxWaitingInAll) return;
    this.#isOver = true;
    this.#forgetWaiting();
    this.#socket.destroy();
  }

  /**
   * Node's parser, its clock or the socket failed; said again for every packet that still comes.
   */
  fail(error: ParserError): void {
    const isLate = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
    const isHttp = isLate || error.code?.startsWith('HPE_') === true;
    // What waits for an answer is not late yet: its time runs from that answer on.
    if (isLate && this.#current?.complete === true) this.#isHeadLate = true;
    else if (isHttp && this.#socket.bytesRead > 0) this.refuse(parseFailure(error));
    else this.#socket.destroy();
  }

  /**
   * Ends the connection with an error: the answer to what came last, which may be a request whose
   * body still comes.
   */
  refuse(error: PetstoreError): void {
    if (this.#isOver || this.#latest?.fail(error)) return;
    this.#isOver = true;
    this.#refusal = replyTo(error);
    if (this.#current === undefined) this.#hangUp();
  }

  /**
   * Ends the connection unless a request is under way; one is as soon as its head begins to arrive
   * (C48).
   */
  endIfIdle(): void {
    if (this.#current === undefined && this.#socket.bytesRead === this.#idleFromBytes)
      this.#hangUp();
  }

  /** Ends what has waited too long; called twice a second. */
  sweep(now: number): void {
    const exchange = this.#current;
    const { bytesRead, bytesWritten, writableLength } = this.#socket;
    this.#phaseAt ??= now;
    const ms = now - this.#phaseAt;
    const isLate =
      exchange === undefined
        ? this.#isHeadLate && ms > headMs
        : !exchange.complete && ms > requestMs;
    if (isLate) this.refuse(requestTooLate);
    // A head that begins to arrive at the last moment has its time too.
    const isArriving = bytesRead > this.#idleFromBytes;
    if (exchange === undefined && ms > keepAliveMs + (isArriving ? headMs : 0)) this.#hangUp();

    const bytes = bytesWritten - writableLength;
    if (writableLength === 0 || bytes > this.#read.bytes) this.#read = { bytes, at: now };
    if (writableLength === 0 || bytes - this.#readEnough.bytes >= readBytes)
      this.#readEnough = this.#read;
    const isStalled = this.#shared.unsent.isFull && now - this.#read.at > stalledMs;
    if (isStalled || now - this.#readEnough.at > readMs) this.#socket.destroy();
  }

  /** The last that came of those without an answer: its body may still come. */
  get #latest(): Exchange | undefined {
    return this.#waiting.at(-1) ?? this.#current;
  }

  #start(exchange: Exchange): void {
    this.#current = exchange;
    this.#phaseAt = undefined;
    this.#isHeadLate = false;
    const { service, outbox } = this.#shared;
    const failed = (error: unknown) => {
      service.fault(error);
      this.#socket.destroy();
    };
    void service
      .answer(exchange)
      .then((answer) => outbox.put({ send: () => this.#send(exchange, answer), failed }));
  }

  /**
   * Writes the reply. The connection ends by that, by the client's wish, an unread body, or a
   * server that stops.
   */
  #send(exchange: Exchange, answer: Answer): void {
    const { service } = this.#shared;
    const { failure, response } = exchange;
    const isTold = failure === undefined || failure.body === answer.reply.body;
    const reply = isTold ? answer.reply : service.failed(failure, exchange, answer);
    const isLast = service.isStopping && this.#waiting.length === 0;
    const closes = reply.endsConnection === true || !exchange.keepsAlive || isLast;
    exchange.discard();
    if (response !== undefined) response.statusCode = reply.status;
    // Nothing after an answer that closes is carried out (RFC 9112 section 9.6).
    if (closes) {
      this.#isOver = true;
      this.#refusal = undefined;
      this.#forgetWaiting();
    }
    this.#write(reply, exchange.method === 'HEAD' ? '' : (reply.body ?? ''), closes);
    service.replied(reply.status, exchange, answer);
  }

  /**
   * Writes an answer, a long one in slices within the bound of C55; finishes once the socket has
   * taken all.
   */
  #write(reply: Reply, body: string | Pieces, closes: boolean): void {
    const { unsent } = this.#shared;
    const socket = this.#socket;
    if (typeof body === 'string' && body.length <= longBytes) {
      const text = replyText(reply, body, closes);
      socket.write(text, 'latin1');
      if (socket.writableLength === 0 || socket.destroyed) return void this.#finish(0);
      unsent.add(text.length);
      // Node calls back once all before it has left.
      socket.write('', () => this.#finish(text.length));
      return;
    }
    const head = replyHead(reply, closes);
    const bytes = head.length + body.length;
    const slices = slicesOf(head, body);
    const next = (): void => {
      const slice = socket.destroyed ? undefined : slices.next().value;
      if (slice === undefined) this.#finish(bytes);
      else socket.write(slice, 'latin1', next);
    };
    unsent.enter(bytes, next);
  }

  /** The answer has left, of which so many bytes had not at once. */
  #finish(unsentBytes: number): void {
    if (unsentBytes > 0) this.#shared.unsent.leave(unsentBytes);
    const exchange = this.#current;
    this.#current = undefined;
    this.#phaseAt = undefined;
    this.#idleFromBytes = this.#socket.bytesRead;
    if (this.#isOver && this.#waiting.length === 0) this.#hangUp();
    exchange?.finish();
    const next = this.#waiting.shift();
    if (next !== undefined) {
      this.#shared.waiting--;
      this.#start(next);
    }
    if (this.#waiting.length === 0 && this.#socket.isPaused()) this.#socket.resume();
  }

  #hangUp(): void {
    if (!this.#socket.writable) return;
    this.#isOver = true;
    this.#forgetWaiting();
    const refusal = this.#refusal;
    linger(this.#socket, refusal === undefined ? '' : replyHead(refusal, true) + refusal.body);
    if (refusal !== undefined) this.#shared.service.replied(refusal.status);
  }

  /**
   * They count until this turn of the event loop ends: it must not read as many of each of a
   * thousand connections.
   */
  #forgetWaiting(): void {
    const { length } = this.#waiting.splice(0);
    if (length > 0) setImmediate(() => (this.#shared.waiting -= length));
  }
}
