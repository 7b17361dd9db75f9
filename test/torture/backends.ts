/**
 * The storages that R12 tests, with one interface. The file storage runs on a simulated disk, whose
 * calls show in which state of F5 and F6 the storage must be.
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

/** A call of the disk, and the fault that was injected into it. */
interface Call {
  readonly name: CallName;
  readonly fault: DiskFault;
}

/** A storage, and the faults of the machine under it. */
export interface Backend {
  readonly name: string;
  readonly storage: PetStorage;
  /** Closes the storage and opens it again. */
  restart(): Promise<void>;
  /**
   * Checks after an insert that its result is allowed, and that the storage is in the right state.
   */
  checkAdd(isAdded: boolean): Promise<void>;
  /**
   * Kills the process before its next call but `calls - 1`, and resolves then. Promises in flight
   * stay pending.
   */
  killAfter(calls: number): Promise<void>;
  /** Opens the storage after a kill or a power cut. */
  revive(powerCut: boolean): Promise<void>;
  /** Makes one call fail: the next one for 1, the one after it for 2, and so on. */
  failAfter(calls: number, errno: string): void;
}

export class MemoryBackend implements Backend {
  readonly name = 'memory';
  storage = memoryStorage();

  async restart(): Promise<void> {
    await this.storage.close();
    this.storage = memoryStorage();
  }

  async checkAdd(isAdded: boolean): Promise<void> {
    assert.ok(isAdded, 'the memory storage refused an add');
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
  /** Returns the fault of a call; `number` counts the calls of a process from 1. */
  fault: (call: CallName, number: number) => DiskFault;
  readonly #random: Random;
  #machine: Machine;
  #process;
  #storage: PetStorage | undefined;
  /** The state of F5 and F6 that follows from the failed calls. */
  #state: 'sound' | 'full' | 'broken' = 'sound';
  /** The calls since the last check, and the file before them. */
  #calls: Call[] = [];
  #file: Buffer | undefined;
  /**
   * True if the cache has bytes that are not on the disk, because a sync failed and the write was
   * not undone. False while opening, because the bytes of the file may have been acknowledged.
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
   * Opens the storage. Returns false if it refuses to open. It may refuse only after a failed call,
   * and must then close all descriptors.
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
      assert.ok(isUnusable, `opening rejected with ${String(error)}`);
      assert.ok(!error.message.includes('\n'), `the message has several lines: ${error.message}`);
      assert.notDeepEqual(this.#failed(), [], `refused, but no call failed: ${error.message}`);
      assert.equal(this.#process.open, 0, 'a start that failed left a descriptor open');
      return false;
    }
    assert.deepEqual(this.#failed(), [], 'opened, but a call failed');
    await this.#checkReady();
    return true;
  }

  /** Closes the storage, which may reject only if a close failed. */
  async close(): Promise<void> {
    this.#calls = [];
    const outcome = await inTime(
      this.storage.close().then(() => 'closed', String),
      'closing',
    );
    assert.ok(
      outcome === 'closed' || this.#failed().some(({ name }) => name === 'close'),
      `closing rejected with ${outcome}`,
    );
    assert.equal(this.#process.open, 0, 'a closed storage left a descriptor open');
  }

  async restart(): Promise<void> {
    await this.close();
    await this.#openAtLast();
  }

  async checkAdd(isAdded: boolean): Promise<void> {
    const [first, ...more] = this.#failed();
    if (isAdded) {
      assert.notEqual(this.#state, 'broken', 'a broken storage added a pet');
      assert.equal(first, undefined, 'added, but a call failed');
      this.#state = 'sound';
    } else if (this.#state === 'broken') {
      const touches = this.#calls.filter(({ name }) => /^(write|datasync|truncate)$/.test(name));
      assert.deepEqual(touches, [], 'a broken storage changed its file');
    } else {
      assert.ok(first !== undefined, 'refused, but no call failed');
      const isFull = first.name === 'write' && /^(ENOSPC|EDQUOT)$/.test(String(first.fault));
      this.#state = isFull && more.length === 0 ? 'full' : 'broken';
      if (this.#state === 'full')
        assert.ok(
          this.#machine.file(filePath)?.equals(this.#file ?? Buffer.alloc(0)),
          'the file was not cut to its last commit after the disk was full',
        );
    }
    await this.#checkReady();
  }

  killAfter(calls: number): Promise<void> {
    this.#killAt = this.#process.calls + calls;
    return new Promise((resolve) => (this.#killed = resolve));
  }

  async revive(powerCut: boolean): Promise<void> {
    this.#process.kill();
    // A kill between a failed sync and its undo would be a third fault, so mounts the disk anew.
    if (powerCut || this.#isStale) this.#machine = this.#machine.cutPower(this.#random);
    await this.#openAtLast();
  }

  failAfter(calls: number, errno: string): void {
    this.#failAt = this.#process.calls + calls;
    this.fault = (_call, number) => (number === this.#failAt ? errno : undefined);
  }

  /**
   * Kills the process, and returns the machine as the kill leaves it, and as some power cuts may
   * leave it. After a failed sync that was not undone, only power cuts, because the cache is wrong.
   */
  remains(): readonly Machine[] {
    this.#process.kill();
    const cuts = Array.from({ length: 3 }, () => this.#machine.cutPower(this.#random));
    return this.#isStale ? cuts : [this.#machine.clone(), ...cuts];
  }

  /** Opens the storage; if it refuses, mounts the disk anew and tries again. */
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
   * Checks that readiness matches the state. The readiness check may stat the file, and a failed
   * stat breaks the storage.
   */
  async #checkReady(): Promise<void> {
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
