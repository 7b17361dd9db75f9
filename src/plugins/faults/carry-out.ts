/** Carries out a request with a fault. */
import type { AcceptedRequest, NextOperation, Reply } from '../../index.js';
import { unavailable } from './changes.js';
import type { Delays } from './delays.js';
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
