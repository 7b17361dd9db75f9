/** Owns how many requests may start before the event loop comes round. Knows no request. */

/** Some 5 ms of work, for which nothing else is heard: neither a commit that ended nor a new connection. */
const startsATurn = 256;
/** How many connections are taken first, at some 50 us each. */
const acceptsFirst = 64;

/** Who waits to start requests. */
export interface Starter {
  /** Starts what waits, each with `take`, and joins again with what is left. */
  start(): void;
}

/**
 * Lets so many requests start, then the event loop come round, then those who joined meanwhile. Without it 1,000
 * connections with 32 requests each are one turn of a second, and an animal is acknowledged three turns later.
 */
export class Intake {
  #left = startsATurn;
  #starters: Starter[] = [];
  #hasAccepted = false;
  #putOff = 0;

  /** Hears of a new connection. */
  accepted(): void {
    this.#hasAccepted = true;
  }

  /** Whether one more request may start now; whoever hears false joins. */
  take(): boolean {
    if (this.#left === 0) return false;
    this.#left--;
    if (this.#left === 0) setImmediate(this.#refill);
    return true;
  }

  /** Is called in a later turn. */
  join(starter: Starter): void {
    this.#starters.push(starter);
  }

  /**
   * Leaves either nothing to take or nobody who waits. Takes from both ends in turn: who waited longest gets an answer,
   * and who came last gets it in time. From one end, under a load that lasts, all would wait until they are refused.
   */
  readonly #refill = (): void => {
    // Where one connection came, more may wait, and libuv takes only one a turn: it must be a short one.
    if (this.#hasAccepted && this.#putOff < acceptsFirst) {
      this.#hasAccepted = false;
      this.#putOff++;
      setImmediate(this.#refill);
      return;
    }
    this.#putOff = 0;
    this.#left = startsATurn;
    const starters = this.#starters;
    this.#starters = [];
    for (let called = 0; starters.length > 0 && this.#left > 0; called++) {
      const next = called % 2 === 0 ? starters.shift() : starters.pop();
      next?.start();
    }
    this.#starters.unshift(...starters);
  };
}
