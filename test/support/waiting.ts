/** Waiting for what another process, or another turn, brings about. No time limit depends on a fast machine. */
import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';

/** How long a client waits for anything that must come, in milliseconds. */
export const patienceMs = 30_000;

/** Asks again and again until there is an answer; fails after {@link patienceMs}, or a time of one's own. */
export async function until<Value>(
  what: string,
  ask: () => Value | undefined | false | Promise<Value | undefined | false>,
  withinMs = patienceMs,
): Promise<Value> {
  const giveUpAt = performance.now() + withinMs;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer;
    if (performance.now() > giveUpAt) assert.fail(`waited ${withinMs} ms in vain for ${what}`);
    await wait(5);
  }
}

/** A promise with its end in hand. */
export function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open: () => open() };
}
