/** Waits for other processes and ticks, with time limits that a slow machine can keep. */
import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import './built.js';

/** The default time limit in milliseconds for anything that must happen. */
export const patienceMs = 30_000;

/**
 * Calls `poll` until it returns a value other than undefined or false, and returns the value. Fails
 * after `withinMs`. The interval grows with the time.
 */
export async function until<Value>(
  what: string,
  poll: () => Value | undefined | false | Promise<Value | undefined | false>,
  withinMs = patienceMs,
): Promise<Value> {
  const since = performance.now();
  for (;;) {
    const value = await poll();
    if (value !== undefined && value !== false) return value;
    const passedMs = performance.now() - since;
    if (passedMs > withinMs) assert.fail(`waited ${withinMs} ms for ${what}`);
    await wait(Math.min(Math.max(passedMs / 100, 2), 25));
  }
}

/** Returns a promise and the function that resolves it. */
export function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open: () => open() };
}
