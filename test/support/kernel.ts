/** Reads figures about a process from `/proc`. */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

const ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/**
 * Returns the resident memory of a process in bytes: the present (VmRSS) or the largest (VmHWM).
 */
export function memoryOf(pid: number, which: 'VmRSS' | 'VmHWM' = 'VmRSS'): number {
  return 1024 * numberIn(pid, 'status', new RegExp(`^${which}:\\s+([0-9]+) kB$`, 'm'));
}

/** Returns the processor time of all threads so far, user and system, in seconds. */
export function cpuSecondsOf(pid: number): number {
  // proc(5): the process name in brackets may contain anything. After it, utime is the 12th field
  // and stime the 13th.
  const fields = read(pid, 'stat')
    .replace(/^.*\) /s, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

/** Returns the milliseconds for which the main thread waited for a processor. */
export function waitedMsOf(pid: number): number {
  return numberIn(pid, `task/${pid}/schedstat`, /^[0-9]+ ([0-9]+)/) / 1e6;
}

/** Returns the number of open files and sockets. */
export function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** Returns the limit of open files and sockets. */
export function descriptorLimitOf(pid: number): number {
  return numberIn(pid, 'limits', /^Max open files +([0-9]+)/m);
}

function numberIn(pid: number, file: string, pattern: RegExp): number {
  return Number(pattern.exec(read(pid, file))?.[1]);
}

function read(pid: number, file: string): string {
  return readFileSync(`/proc/${pid}/${file}`, 'latin1');
}
