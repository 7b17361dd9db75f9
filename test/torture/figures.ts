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

/** How many files and sockets a process has open. */
export function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** How much memory a process holds, in MiB. */
export function residentMiB(pid: number): number {
  return Number(/^VmRSS:\s+([0-9]+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]) / 1024;
}
