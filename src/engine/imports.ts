/** The progress of imports (F11). */
import type { ImportSource } from '../storage.js';

/** Returns how many pets, from the start of a source, were imported before. */
export function importedStart(
  { digest, startDigests }: ImportSource,
  places: ReadonlyMap<string, number>,
): number {
  let start = places.get(digest) ?? 0;
  const digests = startDigests?.(new Set(places.values())) ?? new Map<number, string>();
  for (const [count, known] of digests)
    if (places.get(known) === count) start = Math.max(start, count);
  return start;
}
