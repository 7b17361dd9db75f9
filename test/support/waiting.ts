/**
 * Waiting for what another process, or another turn, brings about. No time limit depends on a fast
 * machine.
 */
import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import './built.js';

/** How long a client waits for anything that must come, in milliseconds. */
export const patienceMs = 30_000;

/**
 * Asks again and again until there is an answer, the less often the longer it takes; fails after
 * {@link patienceMs}, or a time of one's own.
 */
export async function until<Value>(
  what: string,
  ask: () => Value | undefined | false | Promise<Value | undefined | false>,
  withinMs = patienceMs,
): Promise<Value> {
  const since = performance.now();
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer;
    const passedMs = performance.now() - since;
    if (passedMs > withinMs) assert.fail(`waited ${withinMs} ms in vain for ${what}`);
    await wait(Math.min(Math.max(passedMs / 100, 2), 25));
  }
}

/** A promise with its end in hand. */
export function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open: () => open() };
}
