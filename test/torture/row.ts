/** A row of the torture: a claim that is tested for a share of the time. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { setTimeout as wait } from 'node:timers/promises';
import { whole } from '../bench/report.js';
import { CleanupScope } from '../support/at-end.js';
import { folder } from '../support/process.js';
import { randomOf, type Random } from './random.js';

export interface TortureRow {
  readonly id: string;
  readonly title: string;
  /** The seconds that the whole row takes. A smaller budget is divided in proportion to it. */
  readonly fullS: number;
  /** True if the row cannot be shortened. Such rows run first. */
  readonly isAlwaysFull?: true;
  /**
   * Returns the figure for the table, of at most 250 characters.
   * @throws AssertionError if the claim is not true
   * @throws Skip if this machine cannot test it
   */
  readonly run: (share: Share) => Promise<string>;
}

/** Thrown if this machine cannot test a claim; the message is the reason. */
export class Skip extends Error {}

/** @throws Skip with the names of missing programs */
export function needPrograms(...programs: readonly string[]): void {
  const missing = programs.filter(
    (program) => spawnSync('sh', ['-c', 'command -v "$1"', 'sh', program]).status !== 0,
  );
  if (missing.length > 0) throw new Skip(`needs ${missing.join(', ')}`);
}

/** The resources of a row: its time, its random numbers, and its cleanups. */
export class Share extends CleanupScope {
  readonly seed: number;
  readonly random: Random;
  readonly #endsAt: number;
  #workFolder: string | undefined;

  constructor(seconds: number, seed: number) {
    super();
    this.seed = seed;
    this.random = randomOf(seed);
    this.#endsAt = performance.now() + 1000 * seconds;
  }

  /** True if some of `full` is left to do, and there is time or nothing has been done yet. */
  goOn(done: number, full: number): boolean {
    return done < full && (done === 0 || this.leftS > 0);
  }

  /** The seconds that are left. */
  get leftS(): number {
    return Math.max(0, (this.#endsAt - performance.now()) / 1000);
  }

  /** The working folder of the row's processes. */
  get workFolder(): string {
    return (this.#workFolder ??= folder(this));
  }
}

/** Returns `3 of 500 cycles`, or `500 cycles` if all were done. */
export function count(done: number, full: number, what: string): string {
  return `${done < full ? `${whole(done)} of ` : ''}${whole(Math.max(done, full))} ${what}`;
}

/** Prints details that are too long for the figure of a row, as a line of their own. */
export function printDetails(id: string, details: string): void {
  process.stdout.write(`${id}: ${details}\n`);
}

/** Formats milliseconds as seconds. */
export function seconds(ms: number): string {
  return (ms / 1000).toFixed(1);
}

/** Returns the result of a promise. @throws AssertionError if it takes longer than `ms` */
export async function inTime<Value>(
  promise: Promise<Value>,
  what: string,
  ms = 10_000,
): Promise<Value> {
  const over = new AbortController();
  const late = wait(ms, undefined, { signal: over.signal }).then(() =>
    assert.fail(`${what} took longer than ${ms} ms`),
  );
  try {
    return await Promise.race([promise, late]);
  } finally {
    over.abort();
  }
}

/** Runs `work` `many` times at once and returns the results. */
export function atOnce<Value>(many: number, work: () => Promise<Value>): Promise<readonly Value[]> {
  return Promise.all(Array.from({ length: many }, work));
}
