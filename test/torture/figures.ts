/** What many measurements come to, and what the kernel says of a process. */
import { readdirSync, readFileSync } from 'node:fs';

/** The value below which this part of all lies, from 0 to 1; NaN of none. */
export function quantileOf(values: readonly number[], part: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? Number.NaN;
}

export function medianOf(values: readonly number[]): number {
  return quantileOf(values, 0.5);
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

/** How many files and sockets a process has open. */
export function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** How much memory a process holds, in MiB. */
export function residentMiB(pid: number): number {
  return (
    Number(/^VmRSS:\s+([0-9]+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]) / 1024
  );
}

/**
 * By how much other work on this machine has stretched the time of some processes since, each by
 * its main thread.
 */
export function stretchSince(pids: readonly number[]): () => number {
  const since = performance.now();
  const before = pids.map(waitedMs);
  return () => {
    const ms = performance.now() - since;
    const factors = pids.map(
      (pid, index) => ms / Math.max(1, ms - (waitedMs(pid) - (before[index] ?? 0))),
    );
    return Math.max(1, ...factors);
  };
}

/**
 * For how many milliseconds of its life the main thread of a process could have run, and others
 * did.
 */
export function waitedMs(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'latin1').split(' ')[1]) / 1e6;
}

/** How many files and sockets we may have open ourselves. */
export function descriptorLimit(): number {
  return Number(
    /^Max open files +([0-9]+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1],
  );
}
