/** Owns pages that can be answered again: which are kept, and how many. Knows not what makes a page. */
import type { PetStatus } from '../pet.js';
import type { PetQuery, TextPage } from '../storage.js';

/** How many pages are kept, and how many bytes of texts each may have: 8 MiB in all, and twice as much again for their replies. */
const maxPages = 512;
const maxPageBytes = 2 ** 14;

/** Pages of one status and limit, by the id that they come behind; undefined where one was asked for once. */
type PagesAfter = Map<bigint | undefined, TextPage | undefined>;

/** Pages that never change. A map in a map: one text made of a query's parts costs six times as much to look up. */
export class PageCache {
  readonly #byStatus = new Map<PetStatus | undefined, Map<number, PagesAfter>>();
  #count = 0;

  /** The page that was kept of a query, or undefined. */
  get({ limit, after, status }: PetQuery): TextPage | undefined {
    return this.#byStatus.get(status)?.get(limit)?.get(after);
  }

  /**
   * Keeps the page of a query that has none yet, unless it is a large one, from the second time on: whoever walks through
   * all of them asks once for each, and to keep what nobody asks for again costs more than to make it.
   */
  keep({ limit, after, status }: PetQuery, page: TextPage): void {
    if (bytesOf(page) > maxPageBytes) return;
    if (this.#count === maxPages) {
      this.#byStatus.clear();
      this.#count = 0;
    }
    const byLimit = getOrInsert(this.#byStatus, status, () => new Map<number, PagesAfter>());
    const pages = getOrInsert(byLimit, limit, (): PagesAfter => new Map());
    const isAskedAgain = pages.has(after);
    if (!isAskedAgain) this.#count++;
    pages.set(after, isAskedAgain ? page : undefined);
  }
}

function bytesOf({ texts }: TextPage): number {
  return texts.reduce((bytes, text) => bytes + text.length, 0);
}

function getOrInsert<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  const value = map.get(key) ?? make();
  map.set(key, value);
  return value;
}
