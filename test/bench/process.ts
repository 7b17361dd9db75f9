/**
 * A measured process: what the kernel says of it, and its end. Knows neither requests nor figures.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { StartedProcess } from '../support/process.js';
import type { Command } from './cores.js';
import { environment } from './contestants.js';

const ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/** A process that has been started. */
export class Measured extends StartedProcess {
  constructor([program, ...args]: Command) {
    super(program, args, { cwd: process.cwd(), env: environment });
  }

  /**
   * The first line that it prints with this member, as an object.
   * @throws Error where it ends without one.
   */
  async line(member: string): Promise<Readonly<Record<string, unknown>>> {
    const text = await this.found((line) =>
      line.startsWith('{') && line.includes(`"${member}":`) ? line : undefined,
    );
    if (text === undefined)
      throw new Error(`${this.child.spawnargs.join(' ')} ended, and printed only: ${this.output}`);
    return JSON.parse(text);
  }

  /** Processor time so far of all its threads, user's and kernel's, in seconds. */
  get cpuSeconds(): number {
    // proc(5): the name in brackets may hold anything; after it utime is the 12th field and stime
    // the 13th.
    const fields = this.#proc('stat')
      .replace(/^.*\) /s, '')
      .split(' ');
    return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
  }

  /** Resident memory, in bytes. */
  get residentBytes(): number {
    return 1024 * Number(/^VmRSS:\s+([0-9]+) kB$/m.exec(this.#proc('status'))?.[1]);
  }

  /** The most that its resident memory ever was, in bytes. */
  get peakBytes(): number {
    return 1024 * Number(/^VmHWM:\s+([0-9]+) kB$/m.exec(this.#proc('status'))?.[1]);
  }

  #proc(file: string): string {
    return readFileSync(`/proc/${this.pid}/${file}`, 'utf8');
  }
}
