/**
 * Deletes expired idempotency keys (C57) in small batches.
 *
 * Each server tries now and then, but only the server that holds the lease deletes keys. Batches
 * are short and take at most a twentieth of the time, so that they hardly delay adds.
 */
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { clearTimeout, setTimeout } from 'node:timers';
import { reasonOf } from '../errors.js';
import type { Log } from '../log.js';
import { causeOf, stateOf } from './connections.js';
import type { Database } from './schema.js';

/** The most keys of one batch. */
const maxKeys = 200;

/** The pause after a full batch, in multiples of the time that the batch took. */
const pauseFactor = 20;

/** The shortest and the longest pause between two batches, in ms. */
const minPauseMs = 20;
const maxPauseMs = 10_000;

/** The pause in ms after a missing privilege, because that failure renews all sessions. */
const deniedPauseMs = 600_000;

/** A timer that deletes the expired keys of one database. */
export interface KeySweeper {
  /** Notes the time of a request, by the clock that also times the uses of keys. */
  readonly noteTime: (at: number) => void;

  /** Ends the sweeper, and waits for the batch in flight. */
  close(): Promise<void>;
}

/**
 * Starts to delete the expired keys of a database.
 * @param now The time of the database in milliseconds since the epoch. It is used until the first
 * call of `noteTime`.
 */
export function keySweeper(database: Database, now: number, log: Log): KeySweeper {
  const serverId = randomUUID();
  /** The time at which `performance.now()` was 0. */
  let startOfTime = now - performance.now();
  /** Keys that were used before this time are deleted already. */
  let deletedUntil = 0n;
  let hasWarned = false;

  let isClosed = false;
  let timer: NodeJS.Timeout | undefined;
  let sweeping: Promise<void> | undefined;

  function sweepAfter(pauseMs: number) {
    if (!isClosed) timer = setTimeout(() => (sweeping = sweep().then(sweepAfter)), pauseMs).unref();
  }

  /** Deletes a batch of keys and returns the pause before the next one, in ms. */
  async function sweep() {
    const startedAt = performance.now();
    const time = Math.floor(startOfTime + startedAt);

    try {
      const values = [serverId, time, deletedUntil, maxKeys];
      // Not prepared, because a plan for a small table would read the whole table later.
      const [row] = await database.write(database.sql.deleteExpiredKeys, values, {
        isPrepared: false,
      });
      const isFull = Number(row?.['deleted']) === maxKeys;
      deletedUntil = isFull ? BigInt(row?.['sent_at'] ?? 0) : 0n;
      if (isFull) return pauseAfter(performance.now() - startedAt);
    } catch (error) {
      // All other failures may go away, and adding reports them.
      if (stateOf(error) === '42501') {
        warn(error);
        return deniedPauseMs;
      }
    }
    return maxPauseMs;
  }

  function warn(error: unknown) {
    if (!hasWarned)
      log(
        'warn',
        'expired idempotency keys are not deleted; ' +
          'GRANT DELETE ON petstore_idempotency TO the user of the servers',
        { error: reasonOf(causeOf(error)) },
      );
    hasWarned = true;
  }

  sweepAfter(maxPauseMs);

  return {
    noteTime: (at) => {
      startOfTime = at - performance.now();
    },
    close: async () => {
      isClosed = true;
      clearTimeout(timer);
      await sweeping;
    },
  };
}

/** Returns the pause after a full batch that took `tookMs`. */
function pauseAfter(tookMs: number) {
  return Math.min(Math.max(pauseFactor * tookMs, minPauseMs), maxPauseMs);
}
