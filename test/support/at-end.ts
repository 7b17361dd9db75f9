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
