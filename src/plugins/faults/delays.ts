/** Delays requests, and limits the number of delayed requests. */
import { clearTimeout, setTimeout } from 'node:timers';
import { PetstoreError, type AcceptedRequest } from '../../index.js';

/** The maximum number of requests that are delayed at a time, about three for each connection. */
const maxDelayed = 32_768;

/** The delayed requests of one petstore. */
export class Delays {
  #count = 0;

  /**
   * Runs `work`, which delays a request, and returns its result.
   *
   * @throws PetstoreError `too_many_requests` if too many requests are delayed
   */
  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#count >= maxDelayed)
      throw new PetstoreError('too_many_requests', 'Too many requests are delayed.', {
        headers: ['Retry-After', '1'],
      });

    this.#count++;
    try {
      return await work();
    } finally {
      this.#count--;
    }
  }

  /** Waits for a time in milliseconds, or until the client abandons the request. */
  wait(delayMs: number, { onAbandoned }: AcceptedRequest): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, delayMs);
      onAbandoned(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }
}
