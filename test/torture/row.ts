/**
 * What a row of the torture is: one claim, tried for as long as its share of the budget lasts.
 * Knows no fault.
 */
import { AssertionError } from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until as untilTrue } from '../support/waiting.js';
import { randomOf, type Random } from './random.js';

/** One claim of the issue's table. */
export interface Row {
  readonly id: string;
  readonly title: string;
  /** About how many seconds the whole figure takes; shares of a smaller budget go by it. */
  readonly fullS: number;
  /** It is not done in less, so it runs first, and the others share what it leaves. */
  readonly isAlwaysFull?: true;
  /**
   * Answers the figure in a few words.
   * @throws Violation where the claim does not hold, Skip where this machine cannot try it.
   */
  readonly run: (share: Share) => Promise<string>;
}

/** The claim does not hold. */
export class Violation extends Error {}

/** This machine cannot try the claim; the message says why. */
export class Skip extends Error {}

/** Fails the row unless a condition holds. */
export function hold(condition: boolean, what: string | (() => string)): asserts condition {
  if (!condition) throw new Violation(typeof what === 'string' ? what : what());
}

/** A row's part of the budget: its time, its chance, and what must be gone when it ends. */
export class Share {
  readonly seed: number;
  readonly random: Random;
  readonly #endsAt: number;
  readonly #ends: (() => unknown)[] = [];
  #workFolder: string | undefined;
  #isOver = false;

  constructor(seconds: number, seed: number) {
    this.seed = seed;
    this.random = randomOf(seed);
    this.#endsAt = performance.now() + 1000 * seconds;
  }

  /** Whether to go on towards a full count: there is time, or nothing was done yet. */
  goOn(done: number, full: number): boolean {
    return done < full && (done === 0 || performance.now() < this.#endsAt);
  }

  /** How many seconds are left. */
  get leftS(): number {
    return Math.max(0, (this.#endsAt - performance.now()) / 1000);
  }

  /**
   * Runs at the row's end, however it ends, the last first; at once where that is past, for a row
   * that is interrupted.
   */
  onEnd(work: () => unknown): void {
    this.#ends.push(work);
    if (this.#isOver) void this.end();
  }

  /** An empty folder that is gone at the end. */
  folder(): string {
    const path = mkdtempSync(join(tmpdir(), 'petstore-torture-'));
    this.onEnd(() => rmSync(path, { recursive: true, force: true }));
    return path;
  }

  /** A folder for whatever a process leaves where it runs. */
  get workFolder(): string {
    return (this.#workFolder ??= this.folder());
  }

  /** What a work throws is only told of: the next must run too. */
  async end(): Promise<void> {
    this.#isOver = true;
    for (let work = this.#ends.pop(); work !== undefined; work = this.#ends.pop()) {
      try {
        await work();
      } catch (error) {
        process.stderr.write(`cleaning up: ${String(error)}\n`);
      }
    }
  }
}

/** `3 of 500 cycles`, or only `500 cycles` where that is all. */
export function count(done: number, full: number, what: string): string {
  return `${done < full ? `${number(done)} of ` : ''}${number(Math.max(done, full))} ${what}`;
}

/** A number as people read it. */
export function number(value: number): string {
  return value.toLocaleString('en');
}

/** Resolves as the promise does; a hang is a violation. */
export async function inTime<Value>(
  promise: Promise<Value>,
  ms: number,
  what: string | (() => string),
): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () =>
        reject(new Violation(`${typeof what === 'string' ? what : what()}: nothing in ${ms} ms`)),
      ms,
    );
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Asks again and again until the answer is true; fails after a time. */
export async function until(
  what: string,
  ms: number,
  ask: () => boolean | Promise<boolean>,
): Promise<number> {
  const startedAt = performance.now();
  await untilTrue(what, ask, ms).catch((error: unknown) => {
    throw error instanceof AssertionError ? new Violation(error.message) : error;
  });
  return performance.now() - startedAt;
}
