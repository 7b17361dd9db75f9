/**
 * Bounds the bytes of a batch, so that it arrives within the time of a statement, even on a slow
 * line. The bound is halved if a batch takes long, and doubled if a full batch is fast.
 *
 * Also determines when a second batch is sent while the first is in flight. It keeps the line in
 * use while the database stores the first. Its statement waits for the commit of the first, which
 * costs a little if batches are small, and would cause timeouts if commits take long.
 */

/** The initial, the lowest and the highest bound, in bytes. */
const firstBytes = 2 ** 20;
const leastBytes = 2 ** 15;
const mostBytes = 2 ** 24;

/** A batch that takes more time on the line, in ms, is too large. */
const slowMs = 1_000;

/** After a full batch that takes less time on the line, in ms, the next batch may be larger. */
const fastMs = 400;

/** The bytes that must wait for a second batch: about 20 kB on the line. */
const secondBatchBytes = 2 ** 16;

/**
 * No second batch is sent after a batch that took more time in the database, in ms, or after a
 * small batch that took more time on the line: then commits take long.
 */
const busyMs = 250;

/** The bounds of the next batch. All sizes are by `heldBytes`. */
export class BatchPace {
  #bytes = firstBytes;
  #isBusy = false;

  /** The most bytes of the next batch. */
  get bytes(): number {
    return this.#bytes;
  }

  /** How many bytes must wait, so that they are sent while another batch is in flight. */
  get overlapBytes(): number {
    return this.#isBusy ? Number.POSITIVE_INFINITY : secondBatchBytes;
  }

  /**
   * Adjusts the bound to a stored batch.
   * @param serverMs The time that the database took to carry it out, in which it may have waited
   * for other servers.
   * @param lineMs The rest of its time.
   */
  note(batchBytes: number, lineMs: number, serverMs: number): void {
    const isSmall = batchBytes < secondBatchBytes;
    this.#isBusy = serverMs > busyMs || (isSmall && lineMs > busyMs);

    if (lineMs > slowMs) this.#reduce(batchBytes);
    else if (lineMs < fastMs && batchBytes > this.#bytes / 2)
      this.#bytes = Math.min(2 * this.#bytes, mostBytes);
  }

  /** Adjusts the bound to a batch that was late. */
  noteLate(batchBytes: number): void {
    this.#isBusy = true;
    this.#reduce(batchBytes);
  }

  #reduce(batchBytes: number) {
    this.#bytes = Math.max(Math.min(this.#bytes, batchBytes) / 2, leastBytes);
  }
}
