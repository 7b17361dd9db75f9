/**
 * Group commit: what is added during one commit goes into the next. 64 callers add 26,000 a second
 * so, one 950.
 *
 * An item that is let in waits with its caller, and the first one begins a run. The run lets the
 * event-loop turn end, so that what else arrives in it joins the batch; then it commits all that
 * waits as one batch, and answers each caller by the item's own result, or all of them by the error
 * of the commit. Others wait meanwhile. Those who were just answered mostly add again, so the run
 * lets a few turns pass, for as long as each brings more, and commits the next batch; it ends when
 * nothing waits. Where a commit takes too long everyone is refused, the callers of its batch and
 * those who wait, while it goes on; until it ends no item is let in.
 */
import { performance } from 'node:perf_hooks';
import { clearTimeout, setTimeout } from 'node:timers';
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises';
import { PetstoreError, reasonOf } from '../errors.js';
import { callSafely, type Log } from '../log.js';
import type { Commit } from '../storage.js';

/** What a group commit is made of. */
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

/** A group commit at work. */
export interface GroupCommit<Item, Result> {
  /**
   * Adds an item to the next batch.
   * @throws PetstoreError `unavailable` (C48, F10); what `bytesOf` or `commit` throws.
   */
  add(item: Item): Promise<Result>;
  /** How many items wait for the next commit. */
  readonly waiting: number;
  /** Whether the commit under way takes too long. */
  readonly hung: boolean;
  /** Refuses from now on; resolves when all before are answered. */
  close(): Promise<void>;
}

/** How much may wait, and how long the oldest of it (C48). */
const maxItems = 4096;
const maxBytes = 16 * 2 ** 20;
const maxAgeMs = 2000;

/** How long a commit may take before its callers are refused. */
const commitTimeoutMs = 8000;

/** How many event-loop turns may bring more for the next batch. */
const maxGatherTurns = 4;

/** A group commit that nothing was added to yet. */
export function groupCommit<Item, Result extends {}>(
  options: GroupCommitOptions<Item, Result>,
): GroupCommit<Item, Result> {
  type Caller = {
    readonly item: Item;
    readonly resolve: (result: Result) => void;
    readonly reject: (reason: unknown) => void;
  };

  // Those who wait for the next commit.
  const waiting: Caller[] = [];
  let waitingBytes = 0;
  let oldestAt = 0;

  // A run goes on from the first item until nothing waits, and hangs while its commit is too long.
  let state: 'idle' | 'running' | 'hung' = 'idle';
  // A run that goes on commits what was let in before.
  let isClosed = false;
  // What the last caller gets, after all others.
  let lastResult: Promise<Result> | undefined;

  /** Counts an item. @throws PetstoreError `unavailable` where it cannot be let in */
  function admit(item: Item) {
    if (isClosed) throw closedError();
    if (state === 'hung') throw new PetstoreError('unavailable', options.hung);

    const bytes = options.bytesOf(item);
    const now = performance.now();
    if (waiting.length === 0) {
      waitingBytes = 0;
      oldestAt = now;
    } else if (
      waiting.length >= maxItems ||
      waitingBytes + bytes > maxBytes ||
      now - oldestAt > maxAgeMs
    )
      throw new PetstoreError('unavailable', 'Too much is waiting to be stored.');

    waitingBytes += bytes;
  }

  function add(item: Item) {
    try {
      admit(item);
    } catch (error) {
      options.abandoned(item);
      return Promise.reject(error);
    }

    lastResult = new Promise((resolve, reject) => waiting.push({ item, resolve, reject }));
    if (state === 'idle') void run();
    return lastResult;
  }

  async function run() {
    state = 'running';
    // What else arrives in this event-loop turn joins the batch.
    await nextTurn();
    do {
      await commit(waiting.splice(0));

      await nextTurn();
      await gather();
    } while (waiting.length > 0);
    state = 'idle';
  }

  /**
   * Waits while each turn of the event loop brings more items, because most callers add again once
   * they have their result, and a full batch costs hardly more than half of one.
   */
  async function gather() {
    let hasGrown = true;
    for (let turns = 0; hasGrown && turns < maxGatherTurns; turns++) {
      const before = waiting.length;
      await nextTurn();
      hasGrown = waiting.length > before;
    }
  }

  async function commit(batch: readonly Caller[]) {
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
      state = 'running';
    }
  }

  /** Refuses everyone, while the commit goes on. */
  function giveUp(batch: readonly Caller[]) {
    state = 'hung';
    const error = new PetstoreError('unavailable', options.hung);
    const refused = waiting.splice(0);

    for (const { item } of refused) options.abandoned(item);
    for (const { reject } of [...batch, ...refused]) reject(error);
  }

  return {
    add,
    get waiting() {
      return waiting.length;
    },
    get hung() {
      return state === 'hung';
    },
    close: async () => {
      isClosed = true;
      await lastResult?.catch(() => undefined);
    },
  };
}

/**
 * Who is called back after each commit of a storage; `tell` never throws, for the records are kept.
 */
export function commitWatchers(log: Log = () => undefined) {
  const watchers: ((commit: Commit) => void)[] = [];
  return {
    add: (watcher: (commit: Commit) => void): void => void watchers.push(watcher),
    tell: (commit: Commit): void => {
      for (const watch of watchers)
        void callSafely(
          () => watch(commit),
          (error) => log('error', 'a watcher of commits failed', { error: reasonOf(error) }),
        );
    },
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
