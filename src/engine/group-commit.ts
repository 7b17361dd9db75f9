/**
 * Group commit: the items that arrive during one commit form the batch of the next commit.
 *
 * The first item starts a run. The run waits for the end of the event loop tick, so that other
 * items of the tick join the batch, and commits the batch. Each caller gets the result of its item;
 * if the commit fails, all of them get the error. Then the run waits a few ticks, as long as each
 * brings more items, because most callers add again at once. It commits the next batch, and ends if
 * no item waits. If a commit takes too long, its callers and all that wait are rejected, and no
 * item is accepted until that commit has ended.
 *
 * With the option `overlap`, a second run may commit a batch while that of the first is in flight.
 */
import { performance } from 'node:perf_hooks';
import { clearTimeout, setTimeout } from 'node:timers';
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises';
import { PetstoreError, reasonOf } from '../errors.js';
import { callSafely, type Log } from '../log.js';
import type { Commit } from '../storage.js';

/** The functions that a group commit calls. */
export interface GroupCommitOptions<Item, Result> {
  /**
   * Commits a batch. Resolves to one result per item, in order. One commit is in flight at a time,
   * or two with `overlap`.
   */
  readonly commit: (items: readonly Item[]) => Promise<readonly Result[]>;
  /** Called with each item that will not be committed. */
  readonly abandoned: (item: Item) => void;
  /** Returns the approximate size of an item in bytes. If it throws, only the item is rejected. */
  readonly bytesOf: (item: Item) => number;
  /**
   * Returns the most bytes of the next batch, by `bytesOf`. A batch has at least one item.
   * @defaultValue no limit
   */
  readonly batchBytes?: () => number;
  /** Permits two commits at a time. @defaultValue one commit at a time */
  readonly overlap?: Overlap<Item>;
  /** The message of the error if a commit takes too long. */
  readonly hung: string;
}

/** The conditions of a second commit while the first is in flight. */
export interface Overlap<Item> {
  /** True if an item may be committed after a later one. Any other item prevents overlaps. */
  readonly inAnyOrder: (item: Item) => boolean;
  /** Returns the least bytes, by `bytesOf`, that must wait for the second commit. */
  readonly leastBytes: () => number;
}

/** A group commit. */
export interface GroupCommit<Item, Result> {
  /**
   * Adds an item to the next batch.
   * @throws PetstoreError `unavailable` (C48, F10), or the error of `bytesOf` or `commit`
   */
  add(item: Item): Promise<Result>;
  /** The number of items that wait for the next commit. */
  readonly waiting: number;
  /** True if a commit in flight takes too long. */
  readonly hung: boolean;
  /** Rejects further items. Resolves once all earlier items have their results. */
  close(): Promise<void>;
}

/** The largest number and size of waiting items (C48). */
const maxItems = 4096;
const maxBytes = 32 * 2 ** 20;

/** The age of the oldest waiting item at which new items are refused (C48). */
const maxAgeMs = 2000;

/** The time after which the callers of a commit are rejected, and also callers that wait (C48). */
const timeoutMs = 8000;

/** The number of event loop ticks in which more items may join the next batch. */
const maxGatherTicks = 4;

/** Creates a group commit. */
export function groupCommit<Item, Result extends {}>(
  options: GroupCommitOptions<Item, Result>,
): GroupCommit<Item, Result> {
  type Caller = {
    readonly item: Item;
    readonly bytes: number;
    readonly since: number;
    readonly resolve: (result: Result) => void;
    readonly reject: (reason: unknown) => void;
  };

  // The callers that wait for the next commit.
  const waiting: Caller[] = [];
  let waitingBytes = 0;

  // The number of runs.
  let runs = 0;
  // The number of runs whose commit is in flight.
  let committing = 0;
  // The number of runs whose commit takes too long.
  let hanging = 0;
  // The number of items that are not yet committed and must not be committed after later ones.
  let ordered = 0;
  // After `close`, the runs still commit the items that were accepted before.
  let isClosed = false;
  // The functions that resolve the calls of `close`.
  const closing: (() => void)[] = [];

  /** Returns how many bytes must wait for a second commit. */
  function overlapBytes() {
    const { overlap } = options;
    return overlap === undefined || ordered > 0 ? Number.POSITIVE_INFINITY : overlap.leastBytes();
  }

  /** Returns the size of an item. @throws PetstoreError `unavailable` if it cannot be accepted */
  function admit(item: Item, now: number) {
    if (isClosed) throw closedError();
    if (hanging > 0) throw new PetstoreError('unavailable', options.hung);

    const bytes = options.bytesOf(item);
    const oldest = waiting[0];
    if (
      oldest !== undefined &&
      (waiting.length >= maxItems ||
        waitingBytes + bytes > maxBytes ||
        now - oldest.since > maxAgeMs)
    )
      throw queueFull();
    return bytes;
  }

  function add(item: Item) {
    const since = performance.now();
    let bytes: number;
    try {
      bytes = admit(item, since);
    } catch (error) {
      options.abandoned(item);
      return Promise.reject(error);
    }

    waitingBytes += bytes;
    ordered += orderedIn(item);
    const result = new Promise<Result>((resolve, reject) =>
      waiting.push({ item, bytes, since, resolve, reject }),
    );
    startRun();
    return result;
  }

  /** Returns 1 if an item must not be committed after later ones, else 0. */
  function orderedIn(item: Item) {
    return options.overlap?.inAnyOrder(item) === false ? 1 : 0;
  }

  /** Removes the items of the next batch from those that wait. */
  function takeBatch() {
    // If a third is enough for a commit, the first run takes a third and the second run the rest.
    // Commits of equal sizes would end together, and then nothing is in flight for a moment.
    const third = waitingBytes / 3;
    const share = committing === 0 && third >= overlapBytes() ? third : waitingBytes;
    const most = Math.min(share, options.batchBytes?.() ?? share);
    let bytes = 0;
    const end = waiting.findIndex((caller, index) => {
      if (index > 0 && bytes + caller.bytes > most) return true;
      bytes += caller.bytes;
      return false;
    });
    waitingBytes -= bytes;
    return waiting.splice(0, end < 0 ? waiting.length : end);
  }

  /** Starts the first run, or a second one if enough bytes wait. */
  function startRun() {
    if (runs === 0 || (runs === 1 && committing === 1 && waitingBytes >= overlapBytes()))
      void run();
  }

  /** Removes the first `count` callers from those that wait. Their items are not committed. */
  function abandon(count: number) {
    const callers = waiting.splice(0, count);
    for (const { item, bytes } of callers) {
      waitingBytes -= bytes;
      ordered -= orderedIn(item);
      options.abandoned(item);
    }
    return callers;
  }

  /** Rejects the callers that have waited too long, as behind many others on a slow line. */
  function rejectOverdue() {
    const since = performance.now() - timeoutMs;
    const inTime = waiting.findIndex((caller) => caller.since > since);
    const overdue = abandon(inTime < 0 ? waiting.length : inTime);
    for (const { reject } of overdue) reject(queueFull());
  }

  /** True if another commit may begin now. */
  function mayCommit() {
    rejectOverdue();
    return waiting.length > 0 && (committing === 0 || waitingBytes >= overlapBytes());
  }

  async function run() {
    runs++;
    // Other items of this event loop tick join the batch.
    await nextTurn();
    while (mayCommit()) {
      const batch = takeBatch();
      committing++;
      startRun();
      await commit(batch);
      committing--;
      for (const { item } of batch) ordered -= orderedIn(item);

      await nextTurn();
      await gather();
    }
    runs--;
    endClosing();
  }

  /**
   * Waits while each event loop tick brings more items, because most callers add again once they
   * have their results, and a full batch costs hardly more than half of one.
   */
  async function gather() {
    let hasGrown = true;
    for (let turns = 0; hasGrown && turns < maxGatherTicks; turns++) {
      const before = waiting.length;
      await nextTurn();
      hasGrown = waiting.length > before;
    }
  }

  async function commit(batch: readonly Caller[]) {
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      giveUp(batch);
    }, timeoutMs).unref();
    try {
      const results = await options.commit(batch.map(({ item }) => item));
      for (const [index, { resolve }] of batch.entries()) {
        const result = results[index];
        if (result === undefined) throw new TypeError('commit must return one result per item');
        resolve(result);
      }
    } catch (error) {
      for (const { reject } of batch) reject(error);
    } finally {
      clearTimeout(timer);
      if (isLate) hanging--;
    }
  }

  /** Rejects the callers of a batch and all that wait, although the commit is still in flight. */
  function giveUp(batch: readonly Caller[]) {
    hanging++;
    const error = new PetstoreError('unavailable', options.hung);
    for (const { reject } of [...batch, ...abandon(waiting.length)]) reject(error);
    endClosing();
  }

  /** Resolves the calls of `close` if no result is outstanding. */
  function endClosing() {
    if (runs === hanging) for (const resolve of closing.splice(0)) resolve();
  }

  return {
    add,
    get waiting() {
      return waiting.length;
    },
    get hung() {
      return hanging > 0;
    },
    close: async () => {
      isClosed = true;
      await new Promise<void>((resolve) => {
        closing.push(resolve);
        endClosing();
      });
    },
  };
}

/** The watchers of commits. `tell` never throws, because the records are stored already. */
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

function queueFull() {
  return new PetstoreError('unavailable', 'Too much is waiting to be stored.');
}

/** Returns a new error, because its stack shows the caller that uses a closed storage. */
export function closedError(): PetstoreError {
  return new PetstoreError('unavailable', 'The storage is closed.');
}

/** Waits until a disk or a database is closed, for at most a second because it may hang. */
export async function untilClosed(closing: Promise<void>): Promise<void> {
  await Promise.race([closing, wait(1000, undefined, { ref: false })]);
}
