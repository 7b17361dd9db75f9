/**
 * A file storage at work on a machine whose calls fail; after each step it must be in the state
 * that F5 and F6 name.
 */
import { type PetStorage, PetstoreError } from '../../dist/index.js';
import { fileStorage } from '../../dist/file/index.js';
import { clock } from '../support/disk.js';
import { keyedText, onceOf, petText } from './files.js';
import type { Machine } from './machine.js';
import type { CallName, Fault, Process } from './process.js';
import { hold } from './row.js';

/** What the first failed call of a step makes of the storage. */
type State = 'sound' | 'full' | 'broken';

/** A call and what happened to it. */
interface Call {
  readonly name: CallName;
  readonly fault: Fault;
}

const fullErrnos: readonly Fault[] = ['ENOSPC', 'EDQUOT'];

/** One life of a storage, from opening to closing. */
export class Session {
  readonly process: Process;
  /**
   * What must be there from now on, as texts by ascending id, behind its idempotency record where
   * it has one.
   */
  readonly acknowledged: string[];
  /** What was refused; it may be there after a restart (F10). */
  readonly refused: string[] = [];
  #machine: Machine;
  #path: string;
  #calls: Call[] = [];
  #state: State = 'sound';
  #storage: PetStorage | undefined;
  #named = 0;
  #isStale = false;

  constructor(
    machine: Machine,
    path: string,
    before: readonly string[],
    fault: (call: CallName, number: number) => Fault,
  ) {
    this.#machine = machine;
    this.#path = path;
    this.acknowledged = [...before];
    this.process = machine.process();
    this.process.fault = (name, number) => {
      const happens = fault(name, number);
      this.#calls.push({ name, fault: happens });
      // While opening nothing is undone: what stands there may have been acknowledged.
      if (
        typeof happens === 'string' &&
        (name === 'truncate' || (name === 'datasync' && this.#storage === undefined))
      )
        this.#isStale = true;
      return happens;
    };
  }

  /**
   * Whether memory holds what the disk never took, because a sync failed at the start, or one later
   * and then its undoing too.
   */
  get isStale(): boolean {
    return this.#isStale;
  }

  /**
   * Whether it opened; it may refuse only for a call that failed, and then lets go of everything.
   */
  async open(): Promise<boolean> {
    this.#calls = [];
    try {
      this.#storage = await fileStorage(this.#path, { disk: this.process.disk, clock });
    } catch (error) {
      hold(
        error instanceof PetstoreError && error.code === 'storage_unusable',
        `opening rejects with ${String(error)}`,
      );
      hold(!error.message.includes('\n'), `a refusal of several lines: ${error.message}`);
      hold(this.#failed().length > 0, `refused though no call failed: ${error.message}`);
      hold(this.process.open === 0, 'a refused start keeps a descriptor');
      return false;
    }
    hold(this.#failed().length === 0, () => `opens though ${this.#failed()[0]?.name} failed`);
    await this.#checkReads();
    return true;
  }

  /** Adds so many at once, which is one batch; every other one by an idempotency key. */
  async add(many: number): Promise<void> {
    this.#calls = [];
    const before = this.#state;
    const file = this.#machine.file(this.#path);
    const storage = this.#storage;
    const names = Array.from({ length: many }, () => `added ${++this.#named}`);
    const firstId = this.acknowledged.length + 1;
    const outcomes = await Promise.allSettled(
      names.map((name, index) => addOne(storage, firstId + index, name)),
    );
    const texts = names.map((name, index) =>
      (isKeyed(name) ? keyedText : petText)(firstId + index, name),
    );
    const isAdded = outcomes.every(({ status }) => status === 'fulfilled');
    if (isAdded) {
      hold(before !== 'broken', 'a broken storage adds');
      hold(this.#failed().length === 0, () => `added though ${this.#failed()[0]?.name} failed`);
      this.acknowledged.push(...texts);
      this.#state = 'sound';
    } else {
      for (const outcome of outcomes) {
        const code =
          outcome.status === 'rejected' && outcome.reason instanceof PetstoreError
            ? outcome.reason.code
            : outcome.status;
        hold(code === 'unavailable', `of a failed batch an add ends with ${code}`);
      }
      this.refused.push(...texts);
      this.#state = this.#stateAfter(before);
      const touches = this.#calls.some(
        ({ name }) => name === 'write' || name === 'datasync' || name === 'truncate',
      );
      hold(before !== 'broken' || !touches, 'a broken storage touches its file');
      hold(
        this.#state !== 'full' ||
          file?.equals(this.#machine.file(this.#path) ?? Buffer.alloc(0)) === true,
        'a full disk is not undone to the last commit',
      );
    }
    await this.#checkReads();
  }

  /** Lets go of everything; only a close that fails may be told of. */
  async close(): Promise<void> {
    this.#calls = [];
    const outcome = await Promise.resolve(this.#storage?.close()).then(() => 'closed', String);
    hold(
      outcome === 'closed' || this.#failed().some(({ name }) => name === 'close'),
      `closing rejects with ${outcome}`,
    );
    hold(this.process.open === 0, 'a closed storage keeps a descriptor');
  }

  /** A write that takes nothing is a failure too. */
  #failed(): readonly Call[] {
    return this.#calls.filter(
      ({ name, fault }) => typeof fault === 'string' || (name === 'write' && fault === 0),
    );
  }

  #stateAfter(before: State): State {
    const [first, ...more] = this.#failed();
    if (before === 'broken') return 'broken';
    hold(first !== undefined, 'refused though no call failed');
    return first.name === 'write' && fullErrnos.includes(first.fault) && more.length === 0
      ? 'full'
      : 'broken';
  }

  /** Readers see exactly what was acknowledged, whatever the state; readiness tells the state. */
  async #checkReads(): Promise<void> {
    const storage = this.#storage;
    const { texts = [] } = (await storage?.texts?.list({ limit: 1000 })) ?? {};
    const shown = texts.map((text) => Buffer.from(text, 'latin1').toString());
    const acknowledged = this.acknowledged.map((text) => text.slice(text.indexOf('\n') + 1));
    hold(
      shown.join('\n') === acknowledged.join('\n'),
      () => `readers see ${shown.length} of ${this.acknowledged.length} animals`,
    );
    this.#calls = [];
    const isReady = await Promise.resolve(storage?.ready?.()).then(
      () => true,
      () => false,
    );
    // Readiness may look at the file, and what it cannot see it does not trust.
    if (this.#state === 'sound' && this.#failed().length > 0) this.#state = 'broken';
    hold(isReady === (this.#state === 'sound'), `ready is ${isReady} while ${this.#state}`);
  }
}

function isKeyed(name: string): boolean {
  return /[13579]$/.test(name);
}

async function addOne(storage: PetStorage | undefined, id: number, name: string): Promise<unknown> {
  const { status } = JSON.parse(petText(id, name));
  const draft = { name, categoryId: 5n, ...(status && { status }) };
  return isKeyed(name)
    ? storage?.texts?.insertOnce?.(draft, onceOf(name))
    : storage?.texts?.insert(draft);
}
