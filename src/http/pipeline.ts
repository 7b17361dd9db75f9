/** Owns the order of one connection's requests: which of them wait, which are under way, when no more are read. Knows no reply. */
import type { Socket } from 'node:net';
import type { Intake, Starter } from './intake.js';
import type { Exchange } from './message.js';

/** Most requests of one connection under way; what comes behind them waits (C52). */
const maxUnderWay = 32;
/** RFC 9110 section 9.2.1. */
const safeMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);
/** How long requests may wait for the server to come to them before they are refused (C48). */
const overdueMs = 500;

/** What a pipeline needs of its connection. */
export interface PipelineOptions {
  readonly intake: Intake;
  /** Answers a request. */
  readonly serve: (exchange: Exchange) => void;
  /** Hears each time that every request so far has its answer. */
  readonly onIdle: () => void;
}

/** The requests of one socket. */
export class Pipeline implements Starter {
  readonly #socket: Socket;
  readonly #options: PipelineOptions;
  readonly #waiting: Exchange[] = [];
  /** The one that was started last. */
  #latest: Exchange | undefined;
  /** Since when the intake lets it wait. */
  #joinedAt: number | undefined;
  #underWay = 0;
  /** Whether a request under way may change what others read. */
  #isChanging = false;
  #isPaused = false;
  #isServing = false;
  #isGone = false;

  constructor(socket: Socket, options: PipelineOptions) {
    this.#socket = socket;
    this.#options = options;
    // All before the one that waits are complete.
    socket.once('close', () => {
      this.#isGone = true;
      this.#goOn();
    });
    socket.on('drain', () => this.#goOn());
    // Node reads on whenever it lets go of a request's body.
    socket.on('resume', () => {
      if (this.#isPaused) socket.pause();
    });
  }

  /** Takes a request; its answer waits for those before it. */
  add(exchange: Exchange): void {
    this.#waiting.push(exchange);
    this.#goOn();
  }

  /** Starts what waited in the intake. */
  start(): void {
    const isOverdue = this.#joinedAt !== undefined && performance.now() - this.#joinedAt > overdueMs;
    this.#joinedAt = undefined;
    if (isOverdue) for (const exchange of this.#waiting) exchange.isOverdue = true;
    this.#goOn();
  }

  /** Whether every request so far has its answer. */
  get isIdle(): boolean {
    return this.#underWay === 0 && this.#waiting.length === 0;
  }

  /** Starts what may, unless the intake will call; reads no further than it may. */
  #goOn(): void {
    if (this.#joinedAt === undefined) this.#startWaiting();
    this.#pauseWhereFull();
  }

  #startWaiting(): void {
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      if (!this.#options.intake.take()) {
        this.#joinedAt = performance.now();
        this.#options.intake.join(this);
        break;
      }
      this.#waiting.shift();
      this.#latest = next;
      this.#underWay++;
      if (!safeMethods.has(next.method)) this.#isChanging = true;
      next.onSent(this.#onSent);
      next.onDecided(this.#onDecided);
      this.#isServing = true;
      this.#options.serve(next);
      this.#isServing = false;
    }
  }

  /** Which one may start, if any. Behind a last answer nothing is a request: nobody could tell where it begins (RFC 9112 section 9.6). */
  #next(): Exchange | undefined {
    if (this.#latest?.isLast === true) this.#waiting.length = 0;
    const next = this.#waiting[0];
    return next !== undefined && this.#mayStart(next) ? next : undefined;
  }

  #pauseWhereFull(): void {
    const isFull = this.#waiting.length >= maxUnderWay;
    if (isFull === this.#isPaused) return;
    this.#isPaused = isFull;
    if (isFull) this.#socket.pause();
    else this.#socket.resume();
  }

  /**
   * A client that does not read its answers gets no more of them made, which would all be kept for it (C52). RFC 9112
   * section 9.3.2: what only reads must see what the requests before it changed. Section 9.6: what stands behind a last
   * answer is not carried out, so that none starts before it is known whether the one before it gets that.
   */
  #mayStart({ method }: Exchange): boolean {
    if (this.#latest !== undefined && this.#latest.isLast === undefined) return false;
    if (this.#isGone) return true;
    return this.#underWay < maxUnderWay && !this.#socket.writableNeedDrain && !(this.#isChanging && safeMethods.has(method));
  }

  readonly #onDecided = (): void => {
    // Else the one that is being served would be overtaken.
    if (!this.#isServing && this.#waiting.length > 0) this.#goOn();
  };

  readonly #onSent = (): void => {
    this.#underWay--;
    if (this.#underWay === 0) this.#isChanging = false;
    this.#goOn();
    if (this.isIdle) this.#options.onIdle();
  };
}
