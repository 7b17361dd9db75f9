/** Owns a measured process: its start, what the kernel says of it, its end. Knows neither requests nor figures. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Command } from './cores.js';
import { environment } from './contestants.js';

const ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/** A process that has been started. */
export class Measured {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  #printed = '';
  #notify = (): void => undefined;
  #isOver = false;

  constructor([program, ...args]: Command) {
    this.#child = spawn(program, args, { env: environment, stdio: ['ignore', 'pipe', 'inherit'] });
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#printed += text;
      this.#notify();
    });
    this.#ended = new Promise<void>((resolve) => {
      const over = (): void => {
        this.#isOver = true;
        this.#notify();
        resolve();
      };
      this.#child.once('close', over).once('error', over);
    });
  }

  /**
   * The first line that it prints with this member, as an object.
   * @throws Error where it ends without one.
   */
  async line(member: string): Promise<Readonly<Record<string, unknown>>> {
    for (;;) {
      const text = this.#printed.split('\n').find((line) => line.startsWith('{') && line.includes(`"${member}":`));
      if (text !== undefined) return JSON.parse(text);
      if (this.#isOver) throw new Error(`${this.#child.spawnargs.join(' ')} ended, and printed only: ${this.#printed}`);
      await new Promise<void>((resolve) => (this.#notify = resolve));
    }
  }

  /** Processor time so far of all its threads, user's and kernel's, in seconds. */
  get cpuSeconds(): number {
    // proc(5): the name in brackets may hold anything; behind it utime is the 12th field and stime the 13th.
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

  /** Ends it, and waits until it is gone. */
  async end(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }

  #proc(file: string): string {
    return readFileSync(`/proc/${this.#child.pid}/${file}`, 'utf8');
  }
}
