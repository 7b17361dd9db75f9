/** The delays of faults. */
import { clearTimeout, setTimeout } from 'node:timers';
import { PetstoreError, type AcceptedRequest } from '../../index.js';

/** How many requests may be delayed at the same time: three for each connection of a port. */
const maxDelayed = 32_768;

/** The delayed requests of one petstore. */
export class Delays {
  #count = 0;

  /**
   * Runs `work`, which waits; counts it until it has ended.
   * @throws PetstoreError `too_many_requests` if too many others wait.
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

  /** Waits for a time in milliseconds, or until the request is abandoned. */
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
