/** Mocks timeouts, also for modules that import `setTimeout` from `node:timers`. */
import { syncBuiltinESMExports } from 'node:module';
import type { TestContext } from 'node:test';
import promises from 'node:timers/promises';

/**
 * Mocks `setTimeout`, except that of `node:timers/promises`, until `reset` or the end of a test.
 */
export function mockTimeouts(t: TestContext): {
  readonly tick: (milliseconds: number) => void;
  readonly reset: () => void;
} {
  const real = Object.getOwnPropertyDescriptor(promises, 'setTimeout');
  t.mock.timers.enable({ apis: ['setTimeout'] });
  if (real) Object.defineProperty(promises, 'setTimeout', real);
  syncBuiltinESMExports();

  const reset = (): void => {
    t.mock.timers.reset();
    syncBuiltinESMExports();
  };
  t.after(reset);
  return { tick: (milliseconds) => t.mock.timers.tick(milliseconds), reset };
}
