/**
 * Cleans up after tests, in reverse order. Each cleanup runs even if another fails, so that no
 * process outlives its test.
 */

/** The context of a test, or a `CleanupScope`. */
export interface Ending {
  after(end: () => Promise<void>): void;
}

const endings = new WeakMap<Ending, (() => unknown)[]>();

/**
 * Runs `end` after the test, before the cleanups that were registered earlier. If a cleanup fails,
 * the test fails once all have run.
 */
export function atEnd(t: Ending, end: () => unknown): void {
  const known = endings.get(t);
  if (known !== undefined) {
    known.push(end);
    return;
  }
  const ends = [end];
  endings.set(t, ends);
  t.after(async () => {
    const failures: unknown[] = [];
    for (const each of ends.reverse()) {
      try {
        await each();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  });
}

/** A substitute for a test context outside of tests. `end` runs its cleanups. */
export class CleanupScope implements Ending {
  readonly #ends: (() => Promise<void>)[] = [];

  after(end: () => Promise<void>): void {
    this.#ends.push(end);
  }

  /** Returns a scope that ends with this scope, or earlier. */
  within(): CleanupScope {
    const own = new CleanupScope();
    atEnd(this, () => own.end());
    return own;
  }

  async end(): Promise<void> {
    for (const end of this.#ends.splice(0)) await end();
  }
}
