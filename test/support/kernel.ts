/** What the kernel says of a process. */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

const ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/** The memory that a process holds, or has held at most, in bytes. */
export function memoryOf(pid: number, which: 'VmRSS' | 'VmHWM' = 'VmRSS'): number {
  return 1024 * numberIn(pid, 'status', new RegExp(`^${which}:\\s+([0-9]+) kB$`, 'm'));
}

/** Processor time so far of all its threads, user's and kernel's, in seconds. */
export function cpuSecondsOf(pid: number): number {
  // proc(5): the name in brackets may hold anything; behind it utime is the 12th field and stime
  // the 13th.
  const fields = read(pid, 'stat')
    .replace(/^.*\) /s, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

/** For how many milliseconds its main thread could have run, and others did. */
export function waitedMsOf(pid: number): number {
  return numberIn(pid, `task/${pid}/schedstat`, /^[0-9]+ ([0-9]+)/) / 1e6;
}

/** How many files and sockets it has open. */
export function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** How many it may have open. */
export function descriptorLimitOf(pid: number): number {
  return numberIn(pid, 'limits', /^Max open files +([0-9]+)/m);
}

function numberIn(pid: number, file: string, pattern: RegExp): number {
  return Number(pattern.exec(read(pid, file))?.[1]);
}

function read(pid: number, file: string): string {
  return readFileSync(`/proc/${pid}/${file}`, 'latin1');
}
