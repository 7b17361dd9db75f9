/**
 * The storages that stories are played on, behind one face: opened, ended, killed, cut off, and let
 * fail. That of a file is held to the states of F5 and F6 by what its disk did.
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

/** A call of the disk and what happened to it. */
interface Call {
  readonly name: CallName;
  readonly fault: DiskFault;
}

/** A storage and the machine that it lives on. */
export interface Backend {
  readonly name: string;
  readonly storage: PetStorage;
  /** Closes and opens again. */
  restart(): Promise<void>;
  /** An add has just been acknowledged or refused: holds whether that may be, and what it leads to. */
  holdAdd(isAdded: boolean): Promise<void>;
  /**
   * Ends the process before its call `calls` from now, and resolves then; what waits for it waits
   * forever.
   */
  killAfter(calls: number): Promise<void>;
  /** Opens what a kill left, or a power cut. */
  revive(powerCut: boolean): Promise<void>;
  /** Lets the call `calls` from now fail. */
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
  /** What happens to a call, counted from 1 in each process. */
  fault: (call: CallName, number: number) => DiskFault;
  readonly #random: Random;
  #machine: Machine;
  #process;
  #storage: PetStorage | undefined;
  /** What became of it by the calls that failed. */
  #state: 'sound' | 'full' | 'broken' = 'sound';
  /** The calls of this step, and the file before them. */
  #calls: Call[] = [];
  #file: Buffer | undefined;
  /**
   * Whether memory holds what the disk never took, because a sync failed and was not undone: while
   * opening nothing is, as what stands there may have been acknowledged.
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

  /** How many calls this process has made. */
  get calls(): number {
    return this.#process.calls;
  }

  /**
   * Whether it opens; it may refuse only for a call that failed, and then lets go of everything.
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

  /** Lets go of everything; only a close that fails may be told of. */
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
    // A kill between a failed sync and its undoing is three faults at once: there the disk is
    // mounted anew.
    if (powerCut || this.#isStale) this.#machine = this.#machine.cutPower(this.#random);
    await this.#openAtLast();
  }

  failAfter(calls: number, errno: string): void {
    this.#failAt = this.#process.calls + calls;
    this.fault = (_call, number) => (number === this.#failAt ? errno : undefined);
  }

  /**
   * What a kill now leaves, and some power cuts; a file system that neither syncs nor undoes serves
   * again only once it is mounted anew, without its memory.
   */
  remains(): readonly Machine[] {
    this.#process.kill();
    const cuts = Array.from({ length: 3 }, () => this.#machine.cutPower(this.#random));
    return this.#isStale ? cuts : [this.#machine.clone(), ...cuts];
  }

  /** Where a start refuses, the operator mounts the disk anew and starts again. */
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

  /** A write that takes nothing is a failure too. */
  #failed(): readonly Call[] {
    return this.#calls.filter(
      ({ name, fault }) => typeof fault === 'string' || (name === 'write' && fault === 0),
    );
  }

  /** Readiness tells the state; it may look at the file, and what it cannot see it does not trust. */
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
