/**
 * One connection of our own server, from its first request to its end: one request at a time (C44,
 * C51 to C55).
 */
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setImmediate } from 'node:timers';
import { PetstoreError } from '../errors.js';
import { replyTo, type Pieces, type Reply } from '../reply.js';
import type { Message } from '../request.js';
import type { Resource } from '../router.js';
import type { Exchange } from './exchange.js';
import { headerOf, requestTooLate } from './head.js';
import { breakOff, linger, lingerMs, takeOverSocket, type Receiver } from './node.js';
import {
  atEndOfTurn,
  beginningOf,
  longBytes,
  replyHead,
  replyText,
  slicesOf,
  type HeadEnds,
  type HttpDate,
  type UnsentBytes,
} from './wire.js';

/** What a request comes to, and what is known of it by then. */
export interface Answer {
  /** What is sent. */
  reply: Reply;
  /** What stands at the path; undefined where there is nothing, or the head was no HTTP. */
  resource: Resource | undefined;
  /** The name of the API key; undefined where none was needed or accepted. */
  keyName: string | undefined;
}

/** What http needs of the petstore. */
export interface Service {
  /** Answers a request; never rejects. */
  answer(message: Message): Promise<Answer>;
  /** The reply to a request that failed after its answer was made. */
  failed(error: PetstoreError, message: Message, answer: Answer): Reply;
  /** Returns the reply to a request that the parser refuses, though its headers were read. */
  refusal(error: PetstoreError, header: Message['header']): Reply;
  /** Hears of a fault of ours that is nobody's answer. */
  fault(error: unknown): void;
  /** Hears of each reply once it is decided; without a message, of one to what was no HTTP. */
  replied(status: number, message?: Message, answer?: Answer): void;
  /** Whether connections end after the answers to what has come. */
  readonly isStopping: boolean;
  /** How many times the storage was reset (C71). */
  readonly resets: number;
  /** The petstore's time, in milliseconds since the epoch, for the header Date. It may throw. */
  now(): number;
}

/** What all connections share. */
export interface Shared {
  /** The petstore. */
  readonly service: Service;
  /** What they have still to send (C55). */
  readonly unsent: UnsentBytes;
  /** The header Date of their responses. */
  readonly date: HttpDate;
  /** How many requests wait on all connections (C52). */
  waiting: number;
}

/**
 * How many requests may wait at most, on one connection and on all (C52): each takes some 7 KB, and
 * 30 us to be read.
 */
const maxWaiting = 256;
const maxWaitingInAll = 2_048;

/** A client must read so many bytes of its answers in so many milliseconds (C44). */
const readBytes = 65_536;
const readMs = 60_000;
/** A client may read nothing for so long while others wait for room (C55). */
const stalledMs = 5_000;

/** How long a client may go on sending its request head once the server stops (C48). */
const stopLingerMs = 250;

/**
 * How long a head may take (C44): by Node's clock, and by ours once we read again after a wait.
 */
export const headMs = 10_000;
/** How long a whole request may take, by the same two clocks. */
export const requestMs = 30_000;

const brokenOff = new PetstoreError(
  'bad_request',
  'The connection ended in the middle of the body.',
);

/** A connection: what Node says of it comes in, and answers go out. */
export class Connection implements Receiver<Exchange> {
  readonly #socket: Socket;
  readonly #shared: Shared;
  readonly #headEnds: HeadEnds;

  /**
   * `idle`: no request is under way. `answering`: one is, and others may wait. `over`: no further
   * request is taken, though answers may still be owed.
   */
  #state: 'idle' | 'answering' | 'over' = 'idle';
  /** The request under way, until its answer has left. */
  #current: Exchange | undefined;
  /** The requests behind it, in their order. */
  readonly #waiting: Exchange[] = [];
  /** The answer that ends the connection once the requests before it have theirs (C52). */
  #refusal: Reply | undefined;

  /** When a sweep first saw the present phase: this request under way, or none. */
  #phaseSince: number | undefined;
  /**
   * Whether Node has reported the next head as late. Node reports a late head only once. While an
   * answer is owed that is too early: the 10 s of the head run from that answer on.
   */
  #isHeadLate = false;
  /** How many bytes had come when the connection last became idle. */
  #idleFromBytes = 0;

  /** How many bytes the client had read as it last read any, and when. */
  #progress = { bytes: 0, at: performance.now() };
  /** The same as it had last read `readBytes` more. */
  #enoughProgress = this.#progress;

  constructor(socket: Socket, shared: Shared, headEnds: HeadEnds) {
    this.#socket = socket;
    this.#shared = shared;
    this.#headEnds = headEnds;
    takeOverSocket(socket, this);

    // A client that is gone cannot be told from one that only closed its sending side.
    socket.once('end', () => this.#current?.leave());
    socket.once('close', () => {
      // No more of its body will come; requests that came whole are carried out all the same (C53).
      this.#latest?.fail(brokenOff);
      this.#current?.leave();
    });
  }

  /**
   * Takes a request. While it waits for the answer to the one before it, the socket is not read.
   */
  accept(exchange: Exchange): void {
    if (this.#state === 'over') return;
    exchange.resetsBefore = this.#shared.service.resets;
    if (this.#state === 'idle') {
      this.#state = 'answering';
      return void this.#start(exchange);
    }

    this.#waiting.push(exchange);
    this.#shared.waiting++;
    this.#socket.pause();
    if (this.#waiting.length <= maxWaiting && this.#shared.waiting <= maxWaitingInAll) return;

    this.#takeNoMore();
    this.#socket.destroy();
  }

  /** Ends the connection where Node can read no further request, with an error if it is HTTP. */
  fail(error: PetstoreError | undefined, rawHeaders?: readonly string[]): void {
    // A head that waits for the answer to a whole request is not late yet.
    if (error === requestTooLate && this.#current?.complete === true) this.#isHeadLate = true;
    else if (error === undefined || this.#socket.bytesRead === 0) this.#socket.destroy();
    else this.refuse(error, rawHeaders);
  }

  /** Whether no request waits for the one under way. */
  get isCaughtUp(): boolean {
    return this.#waiting.length === 0;
  }

  /** How many requests have not got their whole response. */
  get requestsInFlight(): number {
    return (this.#current === undefined ? 0 : 1) + this.#waiting.length;
  }

  /** True if no request is in flight, and nothing but this packet came after the last one. */
  hasOnly(packet: Buffer): boolean {
    const bytes = this.#socket.bytesRead - this.#idleFromBytes;
    return this.#state === 'idle' && bytes === packet.length;
  }

  /**
   * Ends the connection with an error. It is the answer to the latest request if that is still
   * arriving, else one more answer behind all others.
   */
  refuse(error: PetstoreError, rawHeaders?: readonly string[]): void {
    if (this.#state === 'over') return;
    const latest = this.#latest;
    if (latest?.isArriving) return void latest.fail(error);

    this.#state = 'over';
    this.#refusal =
      rawHeaders === undefined
        ? replyTo(error)
        : this.#shared.service.refusal(error, (name) => headerOf(rawHeaders, name));
    if (this.#current === undefined) this.#hangUp();
  }

  /**
   * Ends the connection unless a whole request head has come (C48).
   *
   * @param error - The response to a head of which a part has come.
   */
  endWithoutRequest(error: PetstoreError): void {
    if (this.#state !== 'idle') return;
    if (this.#isHeadArriving) this.#refusal = replyTo(error);
    this.#hangUp(stopLingerMs);
  }

  /** Ends what has waited too long; called twice a second. */
  sweep(now: number): void {
    this.#sweepRequests(now);
    this.#sweepReading(now);
  }

  /** Ends the connection where a request takes too long to arrive, or none comes. */
  #sweepRequests(now: number): void {
    this.#phaseSince ??= now;
    const ms = now - this.#phaseSince;
    if (this.#current !== undefined) {
      if (!this.#current.complete && ms > requestMs) this.refuse(requestTooLate);
      return;
    }

    if (this.#isHeadLate && ms > headMs) this.refuse(requestTooLate);
    // A head that begins to arrive at the last moment has its time too.
    const keepAliveMs = 1_000 * this.#headEnds.keepAliveSeconds;
    if (ms > keepAliveMs + (this.#isHeadArriving ? headMs : 0)) this.#hangUp();
  }

  /** True if something has come since the connection became idle. */
  get #isHeadArriving(): boolean {
    return this.#socket.bytesRead > this.#idleFromBytes;
  }

  /** Ends the connection where the client reads too little of its answers. */
  #sweepReading(now: number): void {
    const { bytesWritten, writableLength } = this.#socket;
    const bytes = bytesWritten - writableLength;
    const hasAll = writableLength === 0;
    if (hasAll || bytes > this.#progress.bytes) this.#progress = { bytes, at: now };
    if (hasAll || bytes - this.#enoughProgress.bytes >= readBytes)
      this.#enoughProgress = this.#progress;

    const isStalled = this.#shared.unsent.isFull && now - this.#progress.at > stalledMs;
    if (isStalled || now - this.#enoughProgress.at > readMs) this.#socket.destroy();
  }

  /** The request that came last, if it has no answer yet: its body may still come. */
  get #latest(): Exchange | undefined {
    return this.#waiting.at(-1) ?? this.#current;
  }

  /** Has a request answered, and its answer sent. */
  #start(exchange: Exchange): void {
    this.#current = exchange;
    this.#phaseSince = undefined;
    this.#isHeadLate = false;

    const { service } = this.#shared;
    void service.answer(exchange).then((answer) =>
      atEndOfTurn(() => {
        try {
          this.#send(exchange, answer);
        } catch (error) {
          service.fault(error);
          this.#socket.destroy();
        }
      }),
    );
  }

  /**
   * Sends the answer to the request under way. The connection ends behind it by the reply, the
   * client's wish, a body that has not come whole, or a server that stops.
   */
  #send(exchange: Exchange, answer: Answer): void {
    const { service } = this.#shared;
    const { failure, response } = exchange;
    const reply = failure === undefined ? answer.reply : service.failed(failure, exchange, answer);
    if (reply.cut !== undefined) {
      this.#cut(exchange, answer, reply);
      return;
    }

    const isLast = service.isStopping && this.isCaughtUp;
    const closes = reply.endsConnection === true || !exchange.keepsAlive || isLast;

    exchange.discard();
    if (response !== undefined) response.statusCode = reply.status;
    // Nothing after an answer that closes is carried out (RFC 9112 section 9.6).
    if (closes) {
      this.#takeNoMore();
      this.#refusal = undefined;
    }
    this.#write(reply, exchange.method === 'HEAD' ? '' : (reply.body ?? ''), closes);
    service.replied(reply.status, exchange, answer);
  }

  /** Breaks the connection in place of a whole answer; what waits on it is not carried out. */
  #cut(exchange: Exchange, answer: Answer, reply: Reply): void {
    const { service } = this.#shared;
    exchange.discard();
    this.#takeNoMore();
    const body = exchange.method === 'HEAD' ? '' : beginningOf(reply);
    const sent = reply.cut === 'truncate' ? replyHead(reply, this.#headEnds.of(false)) + body : '';
    breakOff(this.#socket, sent);
    service.replied(reply.status, exchange, answer);
  }

  /** Writes an answer, a long one slice by slice; goes on once the socket has taken all of it. */
  #write(reply: Reply, body: string | Pieces, closes: boolean): void {
    const { unsent } = this.#shared;
    const socket = this.#socket;
    if (typeof body === 'string' && body.length <= longBytes) {
      const text = replyText(reply, body, this.#headEnds.of(closes));
      socket.write(text, 'latin1');
      if (socket.writableLength === 0 || socket.destroyed) return void this.#finish(0);

      unsent.add(text.length);
      // Node calls back once all that was written before has left.
      socket.write('', () => this.#finish(text.length));
      return;
    }

    const head = replyHead(reply, this.#headEnds.of(closes));
    const bytes = head.length + body.length;
    const slices = slicesOf(head, body);
    const next = (): void => {
      const slice = socket.destroyed ? undefined : slices.next().value;
      if (slice === undefined) this.#finish(bytes);
      else socket.write(slice, 'latin1', next);
    };
    unsent.enter(bytes, next);
  }

  /**
   * Goes on once the answer under way has left.
   *
   * @param unsentBytes - How many of its bytes are counted as unsent.
   */
  #finish(unsentBytes: number): void {
    this.#shared.unsent.leave(unsentBytes);
    if (this.#state === 'over' && this.isCaughtUp) this.#hangUp();
    const { resetsBefore = 0 } = this.#current ?? {};
    this.#current?.finish();
    this.#current = undefined;
    this.#phaseSince = undefined;
    this.#idleFromBytes = this.#socket.bytesRead;

    const next = this.#waiting.shift();
    if (next !== undefined) {
      this.#shared.waiting--;
      // What waits behind a reset comes after it, although it was there before.
      next.resetsBefore = Math.max(next.resetsBefore, resetsBefore);
      this.#start(next);
    } else if (this.#state === 'answering') this.#state = 'idle';
    if (this.isCaughtUp && this.#socket.isPaused()) this.#socket.resume();
  }

  /** Ends the sending side, with the refusal if there is one, and the connection within `ms`. */
  #hangUp(ms = lingerMs): void {
    if (!this.#socket.writable) return;

    this.#takeNoMore();
    const refusal = this.#refusal;
    const head = refusal === undefined ? '' : replyHead(refusal, this.#headEnds.of(true));
    linger(this.#socket, head + (refusal?.body ?? ''), ms);
    if (refusal !== undefined) this.#shared.service.replied(refusal.status);
  }

  /**
   * Takes no further request, and forgets those that wait. They count until this turn of the event
   * loop ends: it must not read as many of each of a thousand connections.
   */
  #takeNoMore(): void {
    this.#state = 'over';
    const { length } = this.#waiting.splice(0);
    if (length > 0) setImmediate(() => (this.#shared.waiting -= length));
  }
}
