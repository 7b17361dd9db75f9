/** Mocked timeouts, which reach what imports `setTimeout` from `node:timers` too. */
import { syncBuiltinESMExports } from 'node:module';
import type { TestContext } from 'node:test';
import promises from 'node:timers/promises';

/** Mocks `setTimeout` for a test, but not that of promises; `reset` brings the real one back. */
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
