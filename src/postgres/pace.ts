/**
 * Bounds the bytes of a batch, so that it arrives within the time of a statement, even on a slow
 * line. The bound is halved if a batch takes long, and doubled if a full batch is fast.
 */

/** The initial, the lowest and the highest bound, in bytes. */
const firstBytes = 2 ** 20;
const leastBytes = 2 ** 15;
const mostBytes = 2 ** 24;

/** A batch that takes more time on the line, in ms, is too large. */
const slowMs = 1_000;

/** After a full batch that takes less time on the line, in ms, the next batch may be larger. */
const fastMs = 400;

/** The bound of the next batch. */
export class BatchPace {
  #bytes = firstBytes;

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Adjusts the bound to a stored batch.
   * @param lineMs The time of the batch, without the time that the database took to carry it out,
   * because that may be the wait for other servers.
   */
  note(batchBytes: number, lineMs: number): void {
    if (lineMs > slowMs) this.#reduce(batchBytes);
    else if (lineMs < fastMs && batchBytes > this.#bytes / 2)
      this.#bytes = Math.min(2 * this.#bytes, mostBytes);
  }

  /** Adjusts the bound to a batch that was late. */
  noteLate(batchBytes: number): void {
    this.#reduce(batchBytes);
  }

  #reduce(batchBytes: number) {
    this.#bytes = Math.max(Math.min(this.#bytes, batchBytes) / 2, leastBytes);
  }
}
