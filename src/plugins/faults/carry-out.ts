/** Carries out requests that meet a fault, and limits the number of delayed requests. */
import { clearTimeout, setTimeout } from 'node:timers';
import {
  PetstoreError,
  type AcceptedRequest,
  type NextOperation,
  type Reply,
} from '../../index.js';
import { unavailable } from './changes.js';
import type { Fault } from './fault.js';

/** A request that meets a fault. */
export interface FaultyRequest {
  readonly fault: Fault;
  readonly request: AcceptedRequest;
  /** Runs the operation. */
  readonly next: NextOperation;
  readonly delays: Delays;
  /** Returns milliseconds since the epoch. */
  readonly clock: () => number;
}

/** Carries out a request. A fault before the operation replaces the operation. */
export function carryOut(faulty: FaultyRequest): Promise<Reply> {
  const { fault, request, next, delays, clock } = faulty;
  const { delayMs, moment, replaces } = fault;
  const isReplaced = replaces && moment === 'before';
  const operate = async () => (isReplaced ? unavailable : next());
  const change = (reply: Reply) =>
    fault.changes.reduce((changed, each) => each(changed, clock()), reply);
  if (delayMs === 0) return operate().then(change);

  const pause = () => delays.wait(delayMs, request);
  return delays.run(async () => {
    if (moment === 'within') return change(await next(pause));
    if (moment === 'before') {
      await pause();
      return change(await operate());
    }
    // The pet is stored, although the client gets an error or no response.
    const reply = await operate();
    await pause();
    return change(reply);
  });
}

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
