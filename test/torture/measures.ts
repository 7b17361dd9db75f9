/** Statistics of measurements, and the effect of other work on this machine. */
import { waitedMsOf } from '../support/kernel.js';

/**
 * Returns the value below which this part of all values lies, from 0 to 1; NaN if there are none.
 */
export function quantileOf(values: readonly number[], part: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? Number.NaN;
}

/**
 * Returns the two values between which the true median lies, by so many standard deviations,
 * whatever the shape of the noise: each value is above or below the median like a coin toss.
 * Returns infinities for too few values.
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
 * Returns a function for the factor by which other work on this machine has slowed this process and
 * another since now, each by its main thread.
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
