/**
 * Group commit, for storages that write to something slow: what is added while one commit is under way goes together
 * into the next, and each caller gets its own result. 64 callers of a file storage's `insert` add 26,000 animals a
 * second so, one caller, who shares no commit, 950.
 */
import { PetstoreError } from '../errors.js';

/** What is committed, and how. */
export interface GroupCommitOptions<Item, Result> {
  /** Commits a batch, never two at once; answers one result an item, in order, or rejects for all. */
  readonly commit: (items: readonly Item[]) => Promise<readonly Result[]>;
  /** Is told each item that will never be committed: refused, or given up while it waited. */
  readonly abandoned: (item: Item) => void;
  /** About how many bytes an item holds while it waits; what it throws refuses that item alone. */
  readonly bytesOf: (item: Item) => number;
  /** What those who wait for a commit that hangs are told. */
  readonly hung: string;
}

/** How much may wait, and how long the oldest of it: more is refused at once (C48). */
const maxItems = 4096;
const maxBytes = 16 * 2 ** 20;
const maxAgeMs = 2000;
/** When a commit counts as hung. */
const commitTimeoutMs = 8000;
/** After so many event-loop turns the batch is committed, though each turn may have brought more. */
const maxGatherTurns = 4;

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

interface Caller<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (reason: unknown) => void;
}

/** Commits items in batches, one batch at a time. */
export class GroupCommit<Item, Result extends {}> {
  readonly #options: GroupCommitOptions<Item, Result>;
  readonly #waiting: Caller<Item, Result>[] = [];
  #waitingBytes = 0;
  #oldestAt = 0;
  #running = false;
  #hung = false;
  #closed = false;
  /** What the last caller was given: callers are answered in their order. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: GroupCommitOptions<Item, Result>) {
    this.#options = options;
  }

  /**
   * Adds an item to the next batch and resolves to its own result.
   * @throws PetstoreError `unavailable` where too much waits, a commit hangs (the item may still be committed, F10), or
   * after `close`; else whatever `bytesOf` or `commit` threw.
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
      // Not at once: what else arrives in this event-loop turn joins the same batch.
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

  /** Refuses from now on; resolves when every caller before has its answer. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#last.catch(() => undefined);
  }

  #admit(item: Item): void {
    if (this.#closed) throw new PetstoreError('unavailable', 'The storage is closed.');
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
      await this.#gather();
    } while (this.#waiting.length > 0);
    this.#running = false;
  }

  /**
   * Callers that were just answered mostly add again at once: one full batch costs hardly more than each of two halves.
   * So event-loop turns, of microseconds, go by until one brings no item.
   */
  async #gather(): Promise<void> {
    await turn();
    for (let before = -1, turns = 0; this.#waiting.length > before && turns < maxGatherTurns; turns++) {
      before = this.#waiting.length;
      await turn();
    }
  }

  async #commit(batch: readonly Caller<Item, Result>[]): Promise<void> {
    const timer = setTimeout(() => this.#giveUp(batch), commitTimeoutMs).unref();
    try {
      const results = await this.#options.commit(batch.map((caller) => caller.item));
      for (const [index, caller] of batch.entries()) {
        const result = results[index];
        if (result === undefined) throw new TypeError('commit must answer one result an item');
        caller.resolve(result);
      }
    } catch (error) {
      for (const caller of batch) caller.reject(error);
    } finally {
      clearTimeout(timer);
      this.#hung = false;
    }
  }

  /** Answers everyone while the commit goes on: a promise that is settled again, when it ends, stays as it is. */
  #giveUp(batch: readonly Caller<Item, Result>[]): void {
    this.#hung = true;
    const error = new PetstoreError('unavailable', this.#options.hung);
    const waiting = this.#takeWaiting();
    for (const { item } of waiting) this.#options.abandoned(item);
    for (const caller of [...batch, ...waiting]) caller.reject(error);
  }

  #takeWaiting(): readonly Caller<Item, Result>[] {
    this.#waitingBytes = 0;
    return this.#waiting.splice(0);
  }
}
