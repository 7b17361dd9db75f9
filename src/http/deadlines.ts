/** The time limits of one connection (C44). They do not depend on Node's timers. */
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { UnsentBytes } from './wire.js';

/** The time limit of a head. */
export const headMs = 10_000;
/** The time limit of a whole request. */
export const requestMs = 30_000;

/** A client must read this many bytes of its responses in each period. */
const minReadBytes = 65_536;
const readPeriodMs = 60_000;
/** The time for which a client may read nothing while long responses are queued (C55). */
const maxStallMs = 5_000;

/** A time limit that has passed: of a request, of an idle connection, or of reading responses. */
export type PassedLimit = 'request' | 'idle' | 'reading';

/** The time limits of one connection, to be checked twice a second. */
export class Deadlines {
  readonly #socket: Socket;
  readonly #unsent: UnsentBytes;
  readonly #keepAliveMs: number;

  /** The time at which a check first saw the idle connection; at first, its own beginning. */
  #idleSince: number | undefined = performance.now();
  /** The time at which a check first saw bytes of the next head. */
  #headSince: number | undefined;
  /** The time from which the current request has `requestMs`; that of the next check if unset. */
  #requestSince: number | undefined;
  /** True if Node has reported the next head as late. */
  #isHeadLate = false;
  /** `new` until the first request. `busy` while a request is in flight. */
  #state: 'new' | 'busy' | 'idle' = 'new';
  /** The number of bytes that had arrived at the end of the last request. */
  #bytesAtEnd = 0;

  /** The number of bytes that the client has read, and the time at which it last read some. */
  #progress = { bytes: 0, at: performance.now() };
  /** The same, at the time at which it had last read `minReadBytes` more. */
  #sufficientProgress = this.#progress;

  constructor(socket: Socket, unsent: UnsentBytes, keepAliveSeconds: number) {
    this.#socket = socket;
    this.#unsent = unsent;
    this.#keepAliveMs = 1_000 * keepAliveSeconds;
  }

  /**
   * Begins a request.
   * @param arrivedAt The time at which its head was complete; omitted if the request was queued,
   * because a client cannot send the body of a queued request.
   */
  beginRequest(arrivedAt?: number): void {
    this.#requestSince = arrivedAt === undefined ? undefined : (this.#headSince ?? arrivedAt);
    this.#headSince = undefined;
    this.#isHeadLate = false;
    this.#state = 'busy';
  }

  /**
   * Ends a request, because its response is sent.
   * @param bytesAtEnd The number of bytes that had arrived at its end, if known.
   */
  endRequest(bytesAtEnd = this.#socket.bytesRead): void {
    this.#bytesAtEnd = bytesAtEnd;
    this.#idleSince = undefined;
    this.#state = 'idle';
  }

  /**
   * Notes that Node has reported the next head as late, which it does once. While a response is due
   * the report is too early: the time limit begins with that response.
   */
  reportLateHead(): void {
    this.#isHeadLate = true;
  }

  /** The number of bytes that have arrived since the end of the last request. */
  get bytesSinceEnd(): number {
    return this.#socket.bytesRead - this.#bytesAtEnd;
  }

  /** Returns the limit that has passed, if any. `isArriving` is true for an incomplete request. */
  check(now: number, isArriving: boolean): PassedLimit | undefined {
    return this.#checkArrival(now, isArriving) ?? this.#checkReading(now);
  }

  #checkArrival(now: number, isArriving: boolean): PassedLimit | undefined {
    if (this.#state === 'busy') {
      this.#requestSince ??= now;
      return isArriving && now - this.#requestSince > requestMs ? 'request' : undefined;
    }

    this.#idleSince ??= now;
    if (this.bytesSinceEnd > 0) this.#headSince ??= now;
    // The first head has its time from the beginning of the connection on. A head of which only
    // Node knows that it has begun has it from the last response on.
    const isDue = this.#state === 'new' || this.#isHeadLate;
    const headSince = isDue ? this.#idleSince : this.#headSince;
    if (headSince === undefined)
      return now - this.#idleSince > this.#keepAliveMs ? 'idle' : undefined;
    if (now - headSince <= headMs) return undefined;
    return this.#socket.bytesRead === 0 ? 'idle' : 'request';
  }

  /** Checks if the client reads its responses too slowly. */
  #checkReading(now: number): PassedLimit | undefined {
    const { bytesWritten, writableLength } = this.#socket;
    const bytes = bytesWritten - writableLength;
    const hasReadAll = writableLength === 0;
    if (hasReadAll || bytes > this.#progress.bytes) this.#progress = { bytes, at: now };
    if (hasReadAll || bytes - this.#sufficientProgress.bytes >= minReadBytes)
      this.#sufficientProgress = this.#progress;

    const isStalled = this.#unsent.isFull && now - this.#progress.at > maxStallMs;
    const isSlow = now - this.#sufficientProgress.at > readPeriodMs;
    return isStalled || isSlow ? 'reading' : undefined;
  }
}
