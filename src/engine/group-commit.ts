/**
 * Group commit: what is added during one commit goes into the next. 64 callers add 26,000 a second
 * so, one 950.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { PetstoreError, reasonOf } from '../errors.js';
import { guarded, type Log } from '../log.js';
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
/** How many event-loop turns may bring more. */
const maxGatherTurns = 4;
const turn = () => new Promise((resolve) => setImmediate(resolve));

export function groupCommit<Item, Result extends {}>(options: GroupCommitOptions<Item, Result>) {
  type Caller = {
    item: Item;
    resolve: (result: Result) => void;
    reject: (reason: unknown) => void;
  };
  const waiting: Caller[] = [];
  let waitingBytes = 0;
  let oldestAt = 0;
  let isRunning = false;
  let isHung = false;
  let isClosed = false;
  // What the last caller gets, after all others.
  let last: Promise<unknown> = Promise.resolve();

  function admit(item: Item): void {
    if (isClosed) throw closedError();
    if (isHung) throw new PetstoreError('unavailable', options.hung);
    const bytes = options.bytesOf(item);
    const now = performance.now();
    if (waiting.length === 0) oldestAt = now;
    else if (
      waiting.length >= maxItems ||
      waitingBytes + bytes > maxBytes ||
      now - oldestAt > maxAgeMs
    )
      throw new PetstoreError('unavailable', 'Too much is waiting to be stored.');
    waitingBytes += bytes;
  }

  async function run(): Promise<void> {
    do {
      await commit(takeWaiting());
      await turn();
      // Callers just answered mostly add again, and a full batch costs hardly more than a half.
      for (let before = -1, turns = 0; waiting.length > before && turns < maxGatherTurns; turns++) {
        before = waiting.length;
        await turn();
      }
    } while (waiting.length > 0);
    isRunning = false;
  }

  async function commit(batch: readonly Caller[]): Promise<void> {
    const timer = setTimeout(() => giveUp(batch), commitTimeoutMs).unref();
    try {
      const results = await options.commit(batch.map(({ item }) => item));
      for (const [index, { resolve }] of batch.entries()) {
        const result = results[index];
        if (result === undefined) throw new TypeError('commit must answer one result an item');
        resolve(result);
      }
    } catch (error) {
      for (const { reject } of batch) reject(error);
    } finally {
      clearTimeout(timer);
      isHung = false;
    }
  }

  /** Answers everyone while the commit goes on. */
  function giveUp(batch: readonly Caller[]): void {
    isHung = true;
    const error = new PetstoreError('unavailable', options.hung);
    const refused = takeWaiting();
    for (const { item } of refused) options.abandoned(item);
    for (const { reject } of [...batch, ...refused]) reject(error);
  }

  function takeWaiting(): readonly Caller[] {
    waitingBytes = 0;
    return waiting.splice(0);
  }

  return {
    /**
     * Adds an item to the next batch. @throws PetstoreError `unavailable` (C48, F10); what
     * `bytesOf` or `commit` throws
     */
    add: (item: Item): Promise<Result> => {
      try {
        admit(item);
      } catch (error) {
        options.abandoned(item);
        return Promise.reject(error);
      }
      if (!isRunning) {
        isRunning = true;
        // What else arrives in this event-loop turn joins the batch.
        setImmediate(() => void run());
      }
      const result = new Promise<Result>((resolve, reject) =>
        waiting.push({ item, resolve, reject }),
      );
      last = result;
      return result;
    },
    get waiting() {
      return waiting.length;
    },
    get hung() {
      return isHung;
    },
    /** Refuses from now on; resolves when all before are answered. */
    close: async (): Promise<void> => {
      isClosed = true;
      await last.catch(() => undefined);
    },
  };
}

/**
 * Who is called back after each commit of a storage; `tell` never throws, for the records are kept.
 */
export function commitWatchers(log: Log = () => undefined) {
  const watchers: ((commit: Commit) => void)[] = [];
  const failed = (error: unknown) =>
    log('error', 'a watcher of commits failed', { error: reasonOf(error) });
  return {
    add: (watcher: (commit: Commit) => void) => void watchers.push(watcher),
    tell: (commit: Commit): void =>
      watchers.forEach((watch) => void guarded(() => watch(commit), failed)),
  };
}

/** A new one each time: its stack shows who uses a closed storage. */
export function closedError(): PetstoreError {
  return new PetstoreError('unavailable', 'The storage is closed.');
}

/** Waits until a disk or a database is closed, but for no more than a second, as it may hang. */
export async function untilClosed(closing: Promise<void>): Promise<void> {
  await Promise.race([closing, wait(1000, undefined, { ref: false })]);
}
