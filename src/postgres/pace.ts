/**
 * Bounds the bytes of a batch, so that it arrives within the time of a statement, even on a slow
 * line. The bound is halved if a batch takes long, and doubled if a full batch is fast.
 *
 * Also determines when a second batch is sent while the first is in flight. The second batch keeps
 * the line in use while the database stores the first. But the second statement waits for the
 * commit of the first. If most of the time is spent on commits, one batch at a time is better,
 * because it has more pets for each commit.
 */
import { performance } from 'node:perf_hooks';

/** The initial, the lowest and the highest bound, in bytes. */
const firstBytes = 192 * 2 ** 10;
const leastBytes = 12 * 2 ** 10;
const mostBytes = 6 * 2 ** 20;

/** A batch that takes more time on the line, in ms, is too large. */
const slowMs = 1_000;

/** After a full batch that takes less time on the line, in ms, the next batch may be larger. */
const fastMs = 400;

/** The least waiting bytes for a second batch. */
const secondBatchBytes = 24 * 2 ** 10;

/** A batch that took more time in the database, in ms, has waited for other servers. */
const longWaitMs = 250;

/** A batch below `secondBatchBytes` that took more time on the line, in ms, had a slow commit. */
const slowCommitMs = 250;

/** After this many batches that waited for the commit before, no second batch is sent. */
const mostWaits = 4;

/** For how long, in ms, no second batch is sent. */
const singleMs = 10_000;

/** The times of a stored batch in the database, in ms by the clock of the database. */
export interface BatchTimes {
  /** The time at which the whole statement had arrived. */
  readonly receivedAt: number;
  /** The time at which it had the lock of the counter; NaN for an empty batch. */
  readonly takenAt: number;
  /** The time at which it had ended, except for its commit. */
  readonly endedAt: number;
}

/** The bounds of the next batch. All sizes are by `recordBytes`. */
export class BatchPace {
  #bytes = firstBytes;
  #singleUntil = Number.NEGATIVE_INFINITY;
  /** The number of batches in a row that waited for the commit before. */
  #waits = 0;
  /** The `endedAt` of the last batch. */
  #endedAt = Number.NaN;

  /** The most bytes of the next batch. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The least waiting bytes that are sent while another batch is in flight. */
  get overlapBytes(): number {
    return performance.now() < this.#singleUntil ? Number.POSITIVE_INFINITY : secondBatchBytes;
  }

  /**
   * Adjusts the bounds to a stored batch.
   * @param totalMs The time from sending it to its result.
   */
  note(batchBytes: number, totalMs: number, times: BatchTimes): void {
    const serverMs = times.endedAt - times.receivedAt;
    // The wait for other servers says nothing about the line.
    const lineMs = totalMs - serverMs;

    if (lineMs > slowMs) this.#reduce(batchBytes);
    else if (lineMs < fastMs && batchBytes > this.#bytes / 2)
      this.#bytes = Math.min(2 * this.#bytes, mostBytes);

    this.#waits = this.#waitedForCommit(times) ? this.#waits + 1 : 0;
    const hasSlowCommit = batchBytes < secondBatchBytes && lineMs > slowCommitMs;
    if (this.#waits >= mostWaits || hasSlowCommit || serverMs > longWaitMs) this.#sendSingly();
    this.#endedAt = times.endedAt;
  }

  /** Adjusts the bounds to a batch that was late. */
  noteLate(batchBytes: number): void {
    this.#reduce(batchBytes);
    this.#sendSingly();
  }

  /**
   * True if a batch has waited for more than half of the commit of the batch before. If both
   * batches have equally many pets, one batch with all of them would have taken less time.
   */
  #waitedForCommit({ receivedAt, takenAt, endedAt }: BatchTimes) {
    const commitMs = takenAt - this.#endedAt;
    return takenAt - receivedAt > commitMs / 2 + (endedAt - takenAt);
  }

  #sendSingly() {
    this.#waits = 0;
    this.#singleUntil = performance.now() + singleMs;
  }

  #reduce(batchBytes: number) {
    this.#bytes = Math.max(Math.min(this.#bytes, batchBytes / 2), leastBytes);
  }
}
