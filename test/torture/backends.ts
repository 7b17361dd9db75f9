/**
 * The storages on which the stories of R12 are played, behind one interface. The file storage is
 * checked against the states of F5 and F6 by the calls of its disk.
 */
import assert from 'node:assert/strict';
import { fileStorage } from '../../dist/file/index.js';
import { memoryStorage } from '../../dist/memory/index.js';
import { clock } from '../support/disk.js';
import { Machine } from './machine.js';
import type { CallName, DiskFault } from './process-disk.js';
import type { Random } from './random.js';
import { inTime } from './row.js';
import { PetstoreError, type PetStorage } from '../../dist/index.js';

export const filePath = '/data/deep/pets.jsonl';

/** A call of the disk with its fault. */
interface Call {
  readonly name: CallName;
  readonly fault: DiskFault;
}

/** A storage and its machine. */
export interface Backend {
  readonly name: string;
  readonly storage: PetStorage;
  /** Closes the storage and opens it again. */
  restart(): Promise<void>;
  /** Checks, after an insert, whether that result is allowed and what follows from it. */
  holdAdd(isAdded: boolean): Promise<void>;
  /**
   * Ends the process before the call `calls` from now, and resolves then. Promises in flight stay
   * pending.
   */
  killAfter(calls: number): Promise<void>;
  /** Opens the storage after a kill or a power cut. */
  revive(powerCut: boolean): Promise<void>;
  /** Makes the call `calls` from now fail. */
  failAfter(calls: number, errno: string): void;
}

export class MemoryBackend implements Backend {
  readonly name = 'memory';
  storage = memoryStorage();

  async restart(): Promise<void> {
    await this.storage.close();
    this.storage = memoryStorage();
  }

  async holdAdd(isAdded: boolean): Promise<void> {
    assert.ok(isAdded, 'memory refuses an add');
  }

  killAfter(): Promise<void> {
    return new Promise(() => undefined);
  }

  revive(): Promise<void> {
    return this.restart();
  }

  failAfter(): void {}
}

export class FileBackend implements Backend {
  readonly name = 'file';
  /** Returns the fault of a call, counted from 1 in each process. */
  fault: (call: CallName, number: number) => DiskFault;
  readonly #random: Random;
  #machine: Machine;
  #process;
  #storage: PetStorage | undefined;
  /** The state that the failed calls have led to. */
  #state: 'sound' | 'full' | 'broken' = 'sound';
  /** The calls of this step, and the file before them. */
  #calls: Call[] = [];
  #file: Buffer | undefined;
  /**
   * True if the cache has bytes that the disk never got, because a sync failed and was not undone.
   * False while opening, because the bytes there may have been acknowledged.
   */
  #isStale = false;
  #killAt = Infinity;
  #killed: () => void = () => undefined;
  #failAt = Infinity;

  constructor(random: Random, machine = new Machine()) {
    this.#random = random;
    this.#machine = machine;
    this.#process = machine.process();
    this.fault = () => undefined;
  }

  get storage(): PetStorage {
    return this.#storage ?? assert.fail('not open');
  }

  /** The number of calls that this process has made. */
  get calls(): number {
    return this.#process.calls;
  }

  /**
   * Opens the storage. Returns false if it refuses, which it may only after a failed call, and then
   * it must close everything.
   */
  async open(): Promise<boolean> {
    const left = this.#failAt - this.#process.calls;
    this.#failAt = left > 0 ? left : Infinity;
    this.#killAt = Infinity;
    this.#state = 'sound';
    this.#isStale = false;
    this.#process = this.#machine.process();
    this.#process.fault = (name, number) => this.#meet(name, number);
    this.#calls = [];
    try {
      const opening = fileStorage(filePath, { disk: this.#process.disk, clock });
      this.#storage = await inTime(opening, 'opening');
    } catch (error) {
      const isUnusable = error instanceof PetstoreError && error.code === 'storage_unusable';
      assert.ok(isUnusable, `opening rejects with ${String(error)}`);
      assert.ok(!error.message.includes('\n'), `a refusal of several lines: ${error.message}`);
      assert.notDeepEqual(this.#failed(), [], `refused though no call failed: ${error.message}`);
      assert.equal(this.#process.open, 0, 'a refused start keeps a descriptor');
      return false;
    }
    assert.deepEqual(this.#failed(), [], 'opens though a call failed');
    await this.#holdReady();
    return true;
  }

  /** Closes everything. May reject only if a close failed. */
  async close(): Promise<void> {
    this.#calls = [];
    const outcome = await inTime(
      this.storage.close().then(() => 'closed', String),
      'closing',
    );
    assert.ok(
      outcome === 'closed' || this.#failed().some(({ name }) => name === 'close'),
      `closing rejects with ${outcome}`,
    );
    assert.equal(this.#process.open, 0, 'a closed storage keeps a descriptor');
  }

  async restart(): Promise<void> {
    await this.close();
    await this.#openAtLast();
  }

  async holdAdd(isAdded: boolean): Promise<void> {
    const [first, ...more] = this.#failed();
    if (isAdded) {
      assert.notEqual(this.#state, 'broken', 'a broken storage adds');
      assert.equal(first, undefined, 'added though a call failed');
      this.#state = 'sound';
    } else if (this.#state === 'broken') {
      const touches = this.#calls.filter(({ name }) => /^(write|datasync|truncate)$/.test(name));
      assert.deepEqual(touches, [], 'a broken storage touches its file');
    } else {
      assert.ok(first !== undefined, 'refused though no call failed');
      const isFull = first.name === 'write' && /^(ENOSPC|EDQUOT)$/.test(String(first.fault));
      this.#state = isFull && more.length === 0 ? 'full' : 'broken';
      if (this.#state === 'full')
        assert.ok(
          this.#machine.file(filePath)?.equals(this.#file ?? Buffer.alloc(0)),
          'a full disk is not undone to the last commit',
        );
    }
    await this.#holdReady();
  }

  killAfter(calls: number): Promise<void> {
    this.#killAt = this.#process.calls + calls;
    return new Promise((resolve) => (this.#killed = resolve));
  }

  async revive(powerCut: boolean): Promise<void> {
    this.#process.kill();
    // A kill between a failed sync and its undo would be three faults at once, so that the disk is
    // mounted anew.
    if (powerCut || this.#isStale) this.#machine = this.#machine.cutPower(this.#random);
    await this.#openAtLast();
  }

  failAfter(calls: number, errno: string): void {
    this.#failAt = this.#process.calls + calls;
    this.fault = (_call, number) => (number === this.#failAt ? errno : undefined);
  }

  /**
   * Returns what a kill leaves now, and what some power cuts leave. A file system that neither
   * syncs nor undoes has to be mounted anew, without its cache.
   */
  remains(): readonly Machine[] {
    this.#process.kill();
    const cuts = Array.from({ length: 3 }, () => this.#machine.cutPower(this.#random));
    return this.#isStale ? cuts : [this.#machine.clone(), ...cuts];
  }

  /** If a start refuses, mounts the disk anew and starts again. */
  async #openAtLast(): Promise<void> {
    while (!(await this.open())) this.#machine = this.#machine.cutPower(this.#random);
  }

  #meet(name: CallName, number: number): DiskFault {
    if (number >= this.#killAt) {
      this.#process.kill();
      this.#killed();
      return undefined;
    }
    const fault = this.fault(name, number);
    if (name === 'truncate') this.#isStale = typeof fault === 'string';
    if (name === 'datasync' && typeof fault === 'string') this.#isStale = true;
    this.#calls.push({ name, fault });
    return fault;
  }

  /** Returns the failed calls. A write of no bytes is a failure too. */
  #failed(): readonly Call[] {
    return this.#calls.filter(
      ({ name, fault }) => typeof fault === 'string' || (name === 'write' && fault === 0),
    );
  }

  /**
   * Checks that readiness shows the state. It may stat the file, and a failed stat makes it
   * unready.
   */
  async #holdReady(): Promise<void> {
    this.#calls = [];
    const isReady = await Promise.resolve(this.storage.ready?.()).then(
      () => true,
      () => false,
    );
    if (this.#state === 'sound' && this.#failed().length > 0) this.#state = 'broken';
    assert.equal(isReady, this.#state === 'sound', `ready is ${isReady} while ${this.#state}`);
    this.#calls = [];
    this.#file = this.#machine.file(filePath);
  }
}
