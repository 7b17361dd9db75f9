/**
 * What a row of the torture is: one claim, tried for as long as its share of the budget lasts.
 * Knows no fault.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { setTimeout as wait } from 'node:timers/promises';
import { whole } from '../bench/report.js';
import { Stretch } from '../support/at-end.js';
import { folder } from '../support/process.js';
import { randomOf, type Random } from './random.js';

/** One claim of the issue's table. */
export interface TortureRow {
  readonly id: string;
  readonly title: string;
  /** About how many seconds the whole figure takes; shares of a smaller budget go by it. */
  readonly fullS: number;
  /** It is not done in less, so it runs first, and the others share what it leaves. */
  readonly isAlwaysFull?: true;
  /**
   * Answers the figure in a few words.
   * @throws AssertionError where the claim does not hold, Skip where this machine cannot try it.
   */
  readonly run: (share: Share) => Promise<string>;
}

/** This machine cannot try the claim; the message says why. */
export class Skip extends Error {}

/** @throws Skip that names the program that is missing. */
export function needPrograms(...programs: readonly string[]): void {
  const missing = programs.filter(
    (program) => spawnSync('sh', ['-c', 'command -v "$1"', 'sh', program]).status !== 0,
  );
  if (missing.length > 0) throw new Skip(`needs ${missing.join(', ')}`);
}

/** A row's part of the budget: its time, its chance, and what must be gone when it ends. */
export class Share extends Stretch {
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

  /** Whether to go on towards a full count: there is time, or nothing was done yet. */
  goOn(done: number, full: number): boolean {
    return done < full && (done === 0 || this.leftS > 0);
  }

  /** How many seconds are left. */
  get leftS(): number {
    return Math.max(0, (this.#endsAt - performance.now()) / 1000);
  }

  /** A folder for whatever a process leaves where it runs. */
  get workFolder(): string {
    return (this.#workFolder ??= folder(this));
  }
}

/** `3 of 500 cycles`, or only `500 cycles` where that is all. */
export function count(done: number, full: number, what: string): string {
  return `${done < full ? `${whole(done)} of ` : ''}${whole(Math.max(done, full))} ${what}`;
}

/** Milliseconds as seconds. */
export function seconds(ms: number): string {
  return (ms / 1000).toFixed(1);
}

/** Resolves as the promise does; a hang is a failure. */
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

/** So many that work at the same time; answers what came of each. */
export function atOnce<Value>(many: number, work: () => Promise<Value>): Promise<readonly Value[]> {
  return Promise.all(Array.from({ length: many }, work));
}
