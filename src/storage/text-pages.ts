/** Owns walking through all texts that a storage keeps, in pages of a bounded size. Knows no backend, and not what they are for. */
import type { StoredText, TextPage, Texts } from '../storage.js';
import { idOfText } from './any-records.js';

/** What can be walked through. */
export type Readable = Pick<Texts<never>, 'list'>;

/** How many texts share a commit; fewer where they are long, so that about so many bytes are held, and waited for, at once. */
const pageSize = 500;
const pageBytes = 4 * 2 ** 20;
/** The first page cannot know how long they are. */
const firstPageSize = 16;

/** How long the pages are: the same texts make the same ones, whatever they are kept in, and however often it is begun again. */
export class Pace {
  limit = firstPageSize;

  /** Takes a page into account. */
  follow(texts: readonly string[]): void {
    if (texts.length === 0) return;
    const bytes = texts.reduce((sum, json) => sum + json.length, 0);
    const fitting = Math.floor((pageBytes * texts.length) / bytes);
    this.limit = Math.max(1, Math.min(2 * this.limit, pageSize, fitting));
  }
}

/** All texts above an id, a page at a time. */
export async function* pagesOf(texts: Readable, after: bigint, pace: Pace): AsyncGenerator<readonly StoredText[], undefined, undefined> {
  for (let last: bigint | undefined = after; last !== undefined; ) {
    const page: TextPage = await texts.list({ limit: pace.limit, after: last });
    pace.follow(page.texts);
    if (page.texts.length > 0) yield page.texts.map((json) => ({ id: idOfText(json), json }));
    last = page.next;
  }
  return undefined;
}

/** The greatest id, 0 where there is none, by some hundred questions at most. */
export async function lastIdOf(texts: Readable): Promise<bigint> {
  const isAny = async (after: bigint): Promise<boolean> => (await texts.list({ limit: 1, after })).texts.length > 0;
  if (!(await isAny(0n))) return 0n;
  let [low, high] = [0n, 1n];
  // Some animal is above `low`, none above `high`.
  while (high < 2n ** 62n && (await isAny(high))) [low, high] = [high, 2n * high];
  if (high >= 2n ** 62n) high = 2n ** 63n - 1n;
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    if (await isAny(middle)) low = middle;
    else high = middle;
  }
  return high;
}
