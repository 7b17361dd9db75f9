/** What many measurements come to, and what other work on this machine makes of them. */
import { waitedMsOf } from '../support/kernel.js';

/** The value below which this part of all lies, from 0 to 1; NaN of none. */
export function quantileOf(values: readonly number[], part: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? Number.NaN;
}

/**
 * Two of the values between which the median of all that could be measured lies, by so many
 * standard deviations of chance and whatever the shape of the noise, as each value is above it or
 * below it as a coin falls; of too few, infinities.
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

/** Bytes as whole MiB. */
export function mebibytes(bytes: number): number {
  return Math.round(bytes / 2 ** 20);
}

/**
 * By how much other work on this machine has stretched the time of this process and another since,
 * each by its main thread.
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
