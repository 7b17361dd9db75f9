/** A row of the torture: a claim that is tried for its share of the budget. */
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
  /** The seconds that the full figure takes; a smaller budget is divided by it. */
  readonly fullS: number;
  /** True if a smaller budget does not shorten the row, so that it runs first. */
  readonly isAlwaysFull?: true;
  /**
   * Returns the figure in a few words.
   * @throws AssertionError if the claim does not hold
   * @throws Skip if this machine cannot try it
   */
  readonly run: (share: Share) => Promise<string>;
}

/** Thrown if this machine cannot try a claim; the message is the reason. */
export class Skip extends Error {}

/** @throws Skip with the names of missing programs */
export function needPrograms(...programs: readonly string[]): void {
  const missing = programs.filter(
    (program) => spawnSync('sh', ['-c', 'command -v "$1"', 'sh', program]).status !== 0,
  );
  if (missing.length > 0) throw new Skip(`needs ${missing.join(', ')}`);
}

/** A row's part of the budget: its time, its random numbers, and what is cleaned up at its end. */
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

  /** True if there is time left, or nothing was done yet. */
  goOn(done: number, full: number): boolean {
    return done < full && (done === 0 || this.leftS > 0);
  }

  /** The seconds that are left. */
  get leftS(): number {
    return Math.max(0, (this.#endsAt - performance.now()) / 1000);
  }

  /** A folder for files that a process leaves. */
  get workFolder(): string {
    return (this.#workFolder ??= folder(this));
  }
}

/** Returns `3 of 500 cycles`, or `500 cycles` if all were done. */
export function count(done: number, full: number, what: string): string {
  return `${done < full ? `${whole(done)} of ` : ''}${whole(Math.max(done, full))} ${what}`;
}

/** Returns milliseconds as seconds. */
export function seconds(ms: number): string {
  return (ms / 1000).toFixed(1);
}

/** Resolves as the promise does, and fails if that takes too long. */
export async function inTime<Value>(
  promise: Promise<Value>,
  what: string,
  ms = 10_000,
): Promise<Value> {
  const over = new AbortController();
  const late = wait(ms, undefined, { signal: over.signal }).then(() =>
    assert.fail(`${what}: nothing in ${ms} ms`),
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
