/** The check behind `/readyz`. */
import { performance } from 'node:perf_hooks';

/** The time in ms for which a result is reused. */
const verdictMs = 1_000;

/**
 * Returns a function that runs `check` for all calls that arrive while it runs, and for a second
 * afterwards (C77).
 */
export function sharedCheck(check: () => Promise<void>): () => Promise<void> {
  let verdict: Promise<void> | undefined;
  let endedAt = Number.POSITIVE_INFINITY;

  return () => {
    if (verdict === undefined || performance.now() - endedAt >= verdictMs) {
      endedAt = Number.POSITIVE_INFINITY;
      verdict = check().finally(() => (endedAt = performance.now()));
    }
    return verdict;
  };
}
