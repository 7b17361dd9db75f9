/**
 * Owns the animals in memory: their texts by id, and where those of each status stand. Nothing here costs more with
 * more animals but by a binary search. Knows no disk and does not read the texts.
 */
import { petStatuses, type PetStatus } from '../pet.js';
import type { PetQuery, TextPage } from '../storage.js';
import { Cuttings } from './cuttings.js';
import { IdRuns, type Id } from './id-runs.js';
import { PageCache } from './page-cache.js';
import { maxPageBytes } from './record-set.js';

/** Animals by ascending id, kept as byte strings; beside its text an animal takes some 30 bytes, with a text of its own 60. */
export class Catalogue {
  readonly #ids = new IdRuns();
  /** The text of the id at the same position. */
  readonly #texts = new Cuttings();
  /** Pages that are full, so that they never change: an animal neither changes nor goes, and none comes between. */
  readonly #pages = new PageCache();
  /** The positions of each status, ascending. */
  readonly #byStatus: ReadonlyMap<PetStatus, Positions> = new Map(petStatuses.map((status) => [status, new Positions()]));

  /** How many animals it holds. */
  get size(): number {
    return this.#ids.count;
  }

  /** The greatest id, 0 where it is empty. */
  get lastId(): bigint {
    return this.#ids.last;
  }

  /**
   * Adds an animal behind the others: `id` must be above `lastId`. Its text is what stands in `source`, see `Cuttings`,
   * from `from` to `to`; all of it where those are left out.
   */
  add(id: Id, status: PetStatus | undefined, source: string, from = 0, to = source.length): void {
    const position = this.#ids.push(id);
    this.#texts.push(source, from, to);
    if (status !== undefined) this.#byStatus.get(status)?.push(position);
  }

  /** The text of an id, or undefined. */
  get(id: bigint): string | undefined {
    const position = this.#ids.positionOf(id);
    return position === undefined ? undefined : this.#texts.at(position);
  }

  /** The texts of a query by ascending id (C5), fewer than its limit where they are long: see {@link maxPageBytes}. */
  page(query: PetQuery): TextPage {
    const kept = this.#pages.get(query);
    if (kept !== undefined) return kept;
    const page = this.#makePage(query);
    if (page.next !== undefined) this.#pages.keep(query, page);
    return page;
  }

  #makePage({ limit, status, after }: PetQuery): TextPage {
    const start = after === undefined ? 0 : this.#ids.positionAfter(after);
    if (status === undefined) return this.#pageOfAll(start, limit);
    const positions = this.#byStatus.get(status);
    return positions === undefined ? { texts: [] } : this.#pageOf(positions, start, limit);
  }

  #pageOfAll(start: number, limit: number): TextPage {
    const end = Math.min(start + limit, this.size);
    const texts: string[] = [];
    let position = start;
    for (let bytes = 0; position < end && bytes < maxPageBytes; position++) {
      const text = this.#texts.at(position);
      bytes += text.length;
      texts.push(text);
    }
    return this.#answer(texts, position - 1, position < this.size);
  }

  #pageOf(positions: Positions, start: number, limit: number): TextPage {
    const from = positions.firstAtLeast(start);
    const to = Math.min(from + limit, positions.count);
    const texts: string[] = [];
    let index = from;
    for (let bytes = 0; index < to && bytes < maxPageBytes; index++) {
      const text = this.#texts.at(positions.at(index));
      bytes += text.length;
      texts.push(text);
    }
    return this.#answer(texts, positions.at(index - 1), index < positions.count);
  }

  #answer(texts: readonly string[], lastPosition: number, more: boolean): TextPage {
    return more ? { texts, next: this.#ids.at(lastPosition) } : { texts };
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
