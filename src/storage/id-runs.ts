/** Owns which id stands at which position. Ids that follow one another, as almost all do, take the room of one. */

/** An id, as a number only where that is exact: to make a bigint for each line of a file takes a fifth of the time of a start. */
export type Id = number | bigint;

/** Ascending ids, by position from 0. */
export class IdRuns {
  /** The first id of each run without a gap, and the position of that. */
  readonly #ids: bigint[] = [];
  readonly #positions: number[] = [];
  #count = 0;
  /** What the next id is if it follows the last; NaN where no number is exact. */
  #next = NaN;

  /** How many ids it holds. */
  get count(): number {
    return this.#count;
  }

  /** The greatest id, 0 where there is none. */
  get last(): bigint {
    return this.#count === 0 ? 0n : this.at(this.#count - 1);
  }

  /** Adds an id above the last; answers its position. */
  push(id: Id): number {
    const number = Number(id);
    if (number !== this.#next) this.#pushExact(BigInt(id));
    this.#next = number < Number.MAX_SAFE_INTEGER ? number + 1 : NaN;
    return this.#count++;
  }

  /** The id at a position, which must be one. */
  at(position: number): bigint {
    const run = lastAtMost(this.#positions, position);
    return (this.#ids[run] ?? 0n) + BigInt(position - (this.#positions[run] ?? 0));
  }

  /** The position of an id; undefined where it is not there. */
  positionOf(id: bigint): number | undefined {
    const position = this.positionAfter(id) - 1;
    return position >= 0 && this.at(position) === id ? position : undefined;
  }

  /** The position of the first id above this one, be that there or not; the count where none is. */
  positionAfter(id: bigint): number {
    const run = lastAtMost(this.#ids, id);
    const first = this.#ids[run];
    if (first === undefined) return 0;
    return Math.min((this.#positions[run] ?? 0) + Number(id - first) + 1, this.#positions[run + 1] ?? this.#count);
  }

  #pushExact(id: bigint): void {
    if (this.#count > 0 && id === this.last + 1n) return;
    this.#ids.push(id);
    this.#positions.push(this.#count);
  }
}

/** The index of the last of ascending items that is not above this one; -1 where all are. */
function lastAtMost<Item extends Id>(items: readonly Item[], wanted: Item): number {
  let from = 0;
  let to = items.length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    const item = items[middle];
    if (item !== undefined && item <= wanted) from = middle + 1;
    else to = middle;
  }
  return from - 1;
}
