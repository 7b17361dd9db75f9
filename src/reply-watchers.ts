/** Owns telling plugins of each reply that left. Knows no plugin, and lets none of them do harm. */
import { messageOf } from './errors.js';
import type { Log } from './log.js';
import type { ReplyEvent } from './plugin.js';

/** Those who watch replies. */
export class ReplyWatchers {
  readonly #log: Log;
  readonly #watchers: ((event: ReplyEvent) => void)[] = [];

  constructor(log: Log) {
    this.#log = log;
  }

  /** Calls back with each reply from now on. */
  add(watcher: (event: ReplyEvent) => void): void {
    this.#watchers.push(watcher);
  }

  /** Tells of a reply to a request that came in at `startedAt`, in the milliseconds of `performance.now()`. */
  tell(method: string, status: number, startedAt: number, route?: string, keyName?: string): void {
    if (this.#watchers.length === 0) return;
    const event: ReplyEvent = {
      method,
      status,
      milliseconds: performance.now() - startedAt,
      ...(route !== undefined && { route }),
      ...(keyName !== undefined && { keyName }),
    };
    for (const watcher of this.#watchers) {
      try {
        watcher(event);
      } catch (error) {
        this.#log('error', 'a plugin failed to watch a reply', { error: messageOf(error) });
      }
    }
  }
}
