/** One connection of our own server, from its first request to its end: one request at a time (C44, C51 to C55). */
import type { Socket } from 'node:net';
import type { PetstoreError } from '../errors.js';
import { replyTo, type Pieces, type Reply } from '../reply.js';
import type { Message } from '../request.js';
import type { Resource } from '../router.js';
import { brokenOff, type Exchange } from './exchange.js';
import {
  keepAliveMs,
  lingerBytes,
  lingerMs,
  longBytes,
  parseFailure,
  replyHead,
  slicesOf,
  type Outbox,
  type ParserError,
  type UnsentBytes,
} from './wire.js';

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
  /** The request that came last; its body may still come. */
  #latest: Exchange | undefined;
  /** What ends the connection once the requests before it have their answers (C52). */
  #refusal: PetstoreError | undefined;
  /** Whether an answer that closes is on its way: nothing that comes after it is carried out. */
  #isClosing = false;
  #isHungUp = false;
  /** Whether Node has given up a head that had to wait for us; it does so once for each. */
  #isHeadLate = false;
  /**
   * When the connection was first swept after the current request was started, or the last answer left; and how many
   * bytes had come by then.
   */
  #turnedAt: number | undefined;
  #turnedBytes = 0;
  #busyAt = performance.now();
  #receivedBytes = 0;
  /** Bytes that had left when it was last seen that some did, and when the current time to read began. */
  #sent = { bytes: 0, at: this.#busyAt, windowBytes: 0, windowAt: this.#busyAt };

  readonly #onAnswer = (answer: Answer): void => {
    this.#answer = answer;
    this.#shared.outbox.put(this);
  };

  constructor(socket: Socket, shared: Shared) {
    this.#socket = socket;
    this.#shared = shared;
    // Node's own listener is gone after a CONNECT, and an error that nobody hears ends the process.
    socket.on('error', () => undefined);
    // Node ends a connection whose client has ended it by this, and at once: a client that is still sending would be
    // reset and might never read its answer (RFC 9112 section 9.6).
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
    if (this.#isHungUp || this.#isClosing || this.#refusal !== undefined) return;
    this.#latest = exchange;
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
    // RFC 9112 section 9.6: nothing is read after a request that asked for the end of the connection.
    if (error.code === 'HPE_CLOSED_CONNECTION') return;
    const isLate = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
    // What waits for the answer to the request before it is not late yet: its time runs from that answer on.
    const waits = this.#current !== undefined && (this.#latest !== this.#current || this.#latest.isComplete);
    if (isLate && waits) {
      this.#isHeadLate = this.#latest?.isComplete === true;
      return;
    }
    const isOfHttp = isLate || error.code?.startsWith('HPE_');
    if (isOfHttp && this.#socket.bytesRead > 0) this.refuse(parseFailure(error));
    // What came whole is carried out though its client has gone (C53).
    else this.#socket.destroy();
  }

  /**
   * Answers what came last with an error and hangs up. Requests before it get their own answers first (C52); one whose
   * body is still arriving is what came last, and is answered on its own path.
   */
  refuse(error: PetstoreError): void {
    if (this.#isHungUp || this.#refusal !== undefined || this.#latest?.fail(error)) return;
    this.#refusal = error;
    if (this.#current === undefined) this.#hangUpWith(error);
  }

  /** Ends the connection if no request of it is under way; one is as soon as its head begins to arrive (C48). */
  endIfIdle(): void {
    const isArriving = this.#socket.bytesRead > this.#turnedBytes;
    if (this.#current === undefined && !isArriving) this.#hangUp();
  }

  /** Ends what has waited too long; called twice a second with the milliseconds of `performance.now()`. */
  sweep(now: number): void {
    const socket = this.#socket;
    // An answer that is on its way is not idleness either: whoever reads slowly has its own time.
    const isIdle =
      this.#current === undefined && socket.writableLength === 0 && socket.bytesRead === this.#receivedBytes;
    if (!isIdle) this.#busyAt = now;
    else if (now - this.#busyAt > keepAliveMs) this.#hangUp();
    const isLate = this.#current === undefined ? this.#isHeadLate : !this.#current.isComplete;
    const lateMs = this.#current === undefined ? headMs : requestMs;
    this.#turnedAt ??= now;
    if (isLate && now - this.#turnedAt > lateMs) this.refuse(parseFailure({ code: 'ERR_HTTP_REQUEST_TIMEOUT' }));
    this.#receivedBytes = socket.bytesRead;

    const bytes = socket.bytesWritten - socket.writableLength;
    const { windowBytes, windowAt, ...last } = this.#sent;
    const hasRead = socket.writableLength === 0 || bytes !== last.bytes;
    const hasReadEnough = socket.writableLength === 0 || bytes - windowBytes >= readBytes;
    this.#sent = {
      bytes,
      at: hasRead ? now : last.at,
      windowBytes: hasReadEnough ? bytes : windowBytes,
      windowAt: hasReadEnough ? now : windowAt,
    };
    const isStalled = this.#shared.unsent.isFull && now - this.#sent.at > stalledMs;
    if (isStalled || now - this.#sent.windowAt > readMs) this.#destroy();
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
      this.#isClosing = true;
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
    if (typeof body === 'string' && bytes <= longBytes) {
      socket.write(head + body, 'latin1');
      if (socket.writableLength === 0 || socket.destroyed) {
        this.#finish();
        return;
      }
    }
    const left = (): void => {
      unsent.leave(bytes);
      this.#finish();
    };
    if (typeof body !== 'string' || bytes > longBytes) {
      const slices = slicesOf(head, body);
      const next = (): void => {
        const slice = socket.destroyed ? undefined : slices.next().value;
        if (slice === undefined) left();
        else socket.write(slice, 'latin1', next);
      };
      unsent.enter(bytes, next);
    } else {
      unsent.add(bytes);
      socket.write('', left);
    }
  }

  /** The answer has left: goes on with what waits. */
  #finish(): void {
    if (this.#isClosing) this.#hangUp();
    const exchange = this.#current;
    this.#current = undefined;
    this.#answer = undefined;
    this.#turnedAt = undefined;
    this.#turnedBytes = this.#socket.bytesRead;
    if (this.#refusal !== undefined && this.#waiting.length === 0) this.#hangUpWith(this.#refusal);
    exchange?.finish();
    const next = this.#isHungUp ? undefined : this.#waiting.shift();
    if (next !== undefined) {
      this.#shared.waiting--;
      this.#start(next);
    }
    if (this.#waiting.length === 0 && this.#socket.isPaused()) this.#socket.resume();
  }

  #hangUpWith(error: PetstoreError): void {
    if (this.#isHungUp) return;
    const reply = replyTo(error);
    this.#hangUp(replyHead(reply, true) + error.body);
    this.#shared.service.left(reply.status);
  }

  /**
   * Ends the sending side, and takes in a little of what still comes, so that closing does not reset the answer away.
   */
  #hangUp(text = ''): void {
    if (this.#isHungUp) return;
    this.#isHungUp = true;
    this.#forgetWaiting();
    const socket = this.#socket;
    let bytes = 0;
    // In place of Node's own listener: nothing more is parsed.
    socket.removeAllListeners('data').on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes >= lingerBytes) socket.destroy();
    });
    socket.resume();
    // Once all has left: whoever reads slowly has the time of an answer for what is still on its way.
    socket.end(text, 'latin1', () => {
      if (socket.destroyed) return;
      const timer = setTimeout(() => socket.destroy(), lingerMs).unref();
      socket.once('close', () => clearTimeout(timer));
    });
  }

  #forgetWaiting(): void {
    this.#shared.waiting -= this.#waiting.length;
    this.#waiting.length = 0;
  }

  #destroy(): void {
    this.#isHungUp = true;
    // They count until the turn of the event loop ends: it shall not read as many of each of a thousand connections.
    setImmediate(() => this.#forgetWaiting());
    this.#socket.destroy();
  }
}
