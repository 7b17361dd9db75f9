/**
 * Owns what a test leaves to be ended: last begun, first ended, each though another fails, so that
 * no process outlives its test.
 */

/** A test's context, or what a property's run has in its place. */
export interface Ending {
  after(end: () => Promise<void>): void;
}

const endings = new WeakMap<Ending, (() => unknown)[]>();

/**
 * Runs this behind the test, before what was handed in earlier; a failure of one fails the test
 * once all have run.
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

/** What a test's context is to work outside of a test: it ends what was begun for it when told to. */
export class Stretch implements Ending {
  readonly #ends: (() => Promise<void>)[] = [];

  after(end: () => Promise<void>): void {
    this.#ends.push(end);
  }

  /** A stretch within this one, which ends with it at the latest. */
  within(): Stretch {
    const own = new Stretch();
    atEnd(this, () => own.end());
    return own;
  }

  async end(): Promise<void> {
    for (const end of this.#ends.splice(0)) await end();
  }
}
