/**
 * Owns the animals in memory: their texts by id, and where those of each status stand. Nothing here costs more with
 * more animals but by a binary search. Knows no disk and does not read the texts.
 */
import { petStatuses, type PetStatus } from '../pet.js';
import type { PetQuery, TextPage } from '../storage.js';
import { PageCache } from './page-cache.js';

/** Animals by ascending id, kept as byte strings; beside its text an animal takes some 50 bytes. */
export class Catalogue {
  readonly #texts: string[] = [];
  /** The id of the text at the same position, ascending. */
  #ids = new BigInt64Array(1024);
  #firstId = 0n;
  /** Pages that are full, so that they never change: an animal neither changes nor goes, and none comes between. */
  readonly #pages = new PageCache();
  /** The positions of each status, ascending. */
  readonly #byStatus: ReadonlyMap<PetStatus, Positions> = new Map(petStatuses.map((status) => [status, new Positions()]));

  /** How many animals it holds. */
  get size(): number {
    return this.#texts.length;
  }

  /** The greatest id, 0 where it is empty. */
  get lastId(): bigint {
    return this.#ids[this.size - 1] ?? 0n;
  }

  /** Adds an animal behind the others: `id` must be above `lastId`, `text` a string in one piece of memory. */
  add(id: bigint, status: PetStatus | undefined, text: string): void {
    const position = this.#texts.push(text) - 1;
    if (position === this.#ids.length) {
      const grown = new BigInt64Array(2 * position);
      grown.set(this.#ids);
      this.#ids = grown;
    }
    this.#ids[position] = id;
    if (position === 0) this.#firstId = id;
    if (status !== undefined) this.#byStatus.get(status)?.push(position);
  }

  /** The text of an id, or undefined. */
  get(id: bigint): string | undefined {
    // Where ids have no gap, which almost none has: one look instead of a search.
    const dense = Number(id - this.#firstId);
    if (this.#ids[dense] === id && dense < this.size) return this.#texts[dense];
    const position = this.#positionAfter(id) - 1;
    return this.#ids[position] === id ? this.#texts[position] : undefined;
  }

  /** The texts of a query by ascending id (C5). */
  page(query: PetQuery): TextPage {
    const kept = this.#pages.get(query);
    if (kept !== undefined) return kept;
    const page = this.#makePage(query);
    if (page.next !== undefined) this.#pages.keep(query, page);
    return page;
  }

  #makePage({ limit, status, after }: PetQuery): TextPage {
    const start = after === undefined ? 0 : this.#positionAfter(after);
    if (status === undefined) return this.#pageOfAll(start, limit);
    const positions = this.#byStatus.get(status);
    return positions === undefined ? { texts: [] } : this.#pageOf(positions, start, limit);
  }

  #pageOfAll(start: number, limit: number): TextPage {
    const end = start + limit;
    return this.#answer(this.#texts.slice(start, end), end - 1, end < this.size);
  }

  #pageOf(positions: Positions, start: number, limit: number): TextPage {
    const from = positions.firstAtLeast(start);
    const to = Math.min(from + limit, positions.count);
    const texts: string[] = [];
    for (let index = from; index < to; index++) texts.push(this.#texts[positions.at(index)] ?? '');
    return this.#answer(texts, positions.at(to - 1), to < positions.count);
  }

  #answer(texts: readonly string[], lastPosition: number, more: boolean): TextPage {
    const next = this.#ids[lastPosition];
    return more && next !== undefined ? { texts, next } : { texts };
  }

  /** The position of the first animal whose id is above this one. */
  #positionAfter(id: bigint): number {
    const first = this.#firstId;
    if (this.size === 0 || id < first) return 0;
    if (id >= this.lastId) return this.size;
    // Ids only grow, so none stands further behind the first than where ids without a gap would put it: try that.
    const dense = Math.min(Number(id - first), this.size - 1);
    if (this.#ids[dense] === id) return dense + 1;
    let from = 0;
    let to = dense;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((this.#ids[middle] ?? 0n) <= id) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}

/** Positions in ascending order, four bytes each. */
class Positions {
  #items = new Uint32Array(256);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  push(position: number): void {
    if (this.#count === this.#items.length) {
      const grown = new Uint32Array(2 * this.#count);
      grown.set(this.#items);
      this.#items = grown;
    }
    this.#items[this.#count++] = position;
  }

  /** The position at an index; -1 outside. */
  at(index: number): number {
    return index < this.#count ? (this.#items[index] ?? -1) : -1;
  }

  /** The index of the first position that is at least this one. */
  firstAtLeast(position: number): number {
    let from = 0;
    let to = this.#count;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (this.at(middle) < position) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}
