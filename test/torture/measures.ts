/** Computes statistics, and the slowdown by other work on this machine. */
import { waitedMsOf } from '../support/kernel.js';

/** Returns a quantile of the values, such as 0.99; NaN for an empty list. */
export function quantileOf(values: readonly number[], part: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? Number.NaN;
}

/**
 * Returns a confidence interval of the median, by a number of standard deviations. It assumes no
 * distribution: each value is above or below the median with equal chance. Returns infinities for
 * too few values.
 */
export function medianRangeOf(
  values: readonly number[],
  deviations: number,
): readonly [low: number, high: number] {
  const sorted = Float64Array.from(values).sort();
  const margin = Math.ceil((deviations * Math.sqrt(sorted.length)) / 2);
  const middle = (sorted.length - 1) / 2;
  return [
    sorted[Math.floor(middle) - margin] ?? -Infinity,
    sorted[Math.ceil(middle) + margin] ?? Infinity,
  ];
}

/** Returns bytes as whole MiB. */
export function mebibytes(bytes: number): number {
  return Math.round(bytes / 2 ** 20);
}

/**
 * Returns a function that computes the factor by which other work on this machine has slowed the
 * main thread of a process, or of this one if that is more, since the call.
 */
export function stretchSince(pid: number): () => number {
  const since = performance.now();
  const before = [pid, process.pid].map((each) => ({ each, waitedMs: waitedMsOf(each) }));
  return () => {
    const ms = performance.now() - since;
    const factors = before.map(
      ({ each, waitedMs }) => ms / Math.max(1, ms - (waitedMsOf(each) - waitedMs)),
    );
    return Math.max(1, ...factors);
  };
}
