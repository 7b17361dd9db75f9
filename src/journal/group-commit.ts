/**
 * Group commit, for slow storages: what is added during one commit goes together into the next, and each caller gets
 * its own result. 64 callers of a file storage's `insert` add 26,000 animals a second so, one 950.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { PetstoreError, reasonOf, type Log } from '../errors.js';
import { closedError } from '../memory/index.js';
import type { Commit } from '../storage.js';

export interface GroupCommitOptions<Item, Result> {
  /** Commits one batch at a time; answers one result an item, in order, or rejects for all. */
  readonly commit: (items: readonly Item[]) => Promise<readonly Result[]>;
  /** Is told each item that will never be committed. */
  readonly abandoned: (item: Item) => void;
  /** About how many bytes an item holds; what it throws refuses that item alone. */
  readonly bytesOf: (item: Item) => number;
  /** The message where a commit hangs. */
  readonly hung: string;
}

/** How much may wait, and how long the oldest of it (C48). */
const maxItems = 4096;
const maxBytes = 16 * 2 ** 20;
const maxAgeMs = 2000;
const commitTimeoutMs = 8000;
const closeTimeoutMs = 1000;
/** How many event-loop turns may bring more. */
const maxGatherTurns = 4;

const turn = () => new Promise((resolve) => setImmediate(resolve));

type Caller<Item, Result> = {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (reason: unknown) => void;
};

export class GroupCommit<Item, Result extends {}> {
  readonly #options: GroupCommitOptions<Item, Result>;
  readonly #waiting: Caller<Item, Result>[] = [];
  #waitingBytes = 0;
  #oldestAt = 0;
  #running = false;
  #hung = false;
  #closed = false;
  /** What the last caller gets, after all others. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: GroupCommitOptions<Item, Result>) {
    this.#options = options;
  }

  /**
   * Adds an item to the next batch and resolves to its result.
   * @throws PetstoreError `unavailable` where too much waits, a commit hangs (F10), or after `close`; else whatever
   * `bytesOf` or `commit` threw.
   */
  add(item: Item): Promise<Result> {
    try {
      this.#admit(item);
    } catch (error) {
      this.#options.abandoned(item);
      return Promise.reject(error);
    }
    if (!this.#running) {
      this.#running = true;
      // What else arrives in this event-loop turn joins the batch.
      setImmediate(() => void this.#run());
    }
    const result = new Promise<Result>((resolve, reject) => this.#waiting.push({ item, resolve, reject }));
    this.#last = result;
    return result;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  get hung(): boolean {
    return this.#hung;
  }

  /** Refuses from now on; resolves when all before are answered. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#last.catch(() => undefined);
  }

  #admit(item: Item): void {
    if (this.#closed) throw closedError();
    if (this.#hung) throw new PetstoreError('unavailable', this.#options.hung);
    const bytes = this.#options.bytesOf(item);
    const count = this.#waiting.length;
    const now = performance.now();
    if (count === 0) this.#oldestAt = now;
    else if (count >= maxItems || this.#waitingBytes + bytes > maxBytes || now - this.#oldestAt > maxAgeMs)
      throw new PetstoreError('unavailable', 'Too much is waiting to be stored.');
    this.#waitingBytes += bytes;
  }

  async #run(): Promise<void> {
    do {
      await this.#commit(this.#takeWaiting());
      await turn();
      // Callers just answered mostly add again, and a full batch costs hardly more than a half.
      for (let before = -1, turns = 0; this.#waiting.length > before && turns < maxGatherTurns; turns++) {
        before = this.#waiting.length;
        await turn();
      }
    } while (this.#waiting.length > 0);
    this.#running = false;
  }

  async #commit(batch: readonly Caller<Item, Result>[]): Promise<void> {
    const timer = setTimeout(() => this.#giveUp(batch), commitTimeoutMs).unref();
    try {
      const results = await this.#options.commit(batch.map(({ item }) => item));
      for (const [index, { resolve }] of batch.entries()) {
        const result = results[index];
        if (result === undefined) throw new TypeError('commit must answer one result an item');
        resolve(result);
      }
    } catch (error) {
      for (const { reject } of batch) reject(error);
    } finally {
      clearTimeout(timer);
      this.#hung = false;
    }
  }

  /** Answers everyone while the commit goes on. */
  #giveUp(batch: readonly Caller<Item, Result>[]): void {
    this.#hung = true;
    const error = new PetstoreError('unavailable', this.#options.hung);
    const waiting = this.#takeWaiting();
    for (const { item } of waiting) this.#options.abandoned(item);
    for (const { reject } of [...batch, ...waiting]) reject(error);
  }

  #takeWaiting() {
    this.#waitingBytes = 0;
    return this.#waiting.splice(0);
  }
}

/** Who is called back after each commit of a storage; `tell` never throws, for the records are kept. */
export function commitWatchers(log: Log) {
  const watchers: ((commit: Commit) => void)[] = [];
  const tell = (commit: Commit): void => {
    for (const watch of watchers) {
      try {
        watch(commit);
      } catch (error) {
        log('error', 'a watcher of commits failed', { error: reasonOf(error) });
      }
    }
  };
  return { add: (watcher: (commit: Commit) => void) => void watchers.push(watcher), tell };
}

/** Waits until a disk or a database is closed, but not for one that hangs. */
export async function untilClosed(closing: Promise<void>): Promise<void> {
  await Promise.race([closing, wait(closeTimeoutMs, undefined, { ref: false })]);
}
