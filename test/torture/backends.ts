/**
 * The storages that the model test runs on, behind one face: opened, ended, killed, cut off, and
 * let fail.
 */
import { fileStorage } from '../../dist/file/index.js';
import { memoryStorage } from '../../dist/memory/index.js';
import { clock } from '../support/disk.js';
import { Machine } from './machine.js';
import type { Process } from './process.js';
import type { Random } from './random.js';
import { hold, inTime } from './row.js';
import type { PetStorage } from '../../dist/index.js';

const path = '/data/pets.jsonl';
const hangMs = 10_000;

/** A storage and the machine that it lives on. */
export interface Backend {
  readonly name: string;
  readonly storage: PetStorage;
  /** Whether an add may be refused: something failed since it was opened. */
  readonly isTroubled: boolean;
  /** Closes and opens again. */
  restart(): Promise<void>;
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
  readonly isTroubled = false;
  storage = memoryStorage();

  async restart(): Promise<void> {
    await this.storage.close();
    this.storage = memoryStorage();
  }

  killAfter(): Promise<void> {
    return new Promise(() => undefined);
  }

  async revive(): Promise<void> {
    await this.restart();
  }

  failAfter(): void {}
}

export class FileBackend implements Backend {
  readonly name = 'file';
  readonly #random: Random;
  #machine: Machine;
  #process: Process;
  #storage: PetStorage | undefined;
  #killAt = Infinity;
  #killed: () => void = () => undefined;
  #failAt = Infinity;
  #errno = '';
  #failed = false;
  /**
   * Whether memory holds what the disk never took, because a sync failed and was not undone yet.
   */
  #isStale = false;

  private constructor(random: Random) {
    this.#random = random;
    this.#machine = new Machine();
    this.#process = this.#machine.process();
  }

  static async open(random: Random): Promise<FileBackend> {
    const backend = new FileBackend(random);
    await backend.#open();
    return backend;
  }

  get storage(): PetStorage {
    if (this.#storage === undefined) throw new Error('not open');
    return this.#storage;
  }

  get isTroubled(): boolean {
    return this.#failed;
  }

  async restart(): Promise<void> {
    const outcome = await inTime(
      this.storage.close().then(() => 'closed', String),
      hangMs,
      'closing',
    );
    hold(outcome === 'closed' || this.#failed, `closing rejects with ${outcome}`);
    hold(this.#process.open === 0, 'a closed storage keeps a descriptor');
    await this.#open();
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
    await this.#open();
  }

  failAfter(calls: number, errno: string): void {
    this.#failAt = this.#process.calls + calls;
    this.#errno = errno;
  }

  /**
   * Opens; where the call that fails is one of opening, the operator mounts the disk anew and
   * starts again.
   */
  async #open(): Promise<void> {
    const left = this.#failAt - this.#process.calls;
    this.#process = this.#machine.process();
    this.#killAt = Infinity;
    this.#failAt = left > 0 ? left : Infinity;
    this.#failed = false;
    this.#isStale = false;
    this.#process.fault = (call, number) => {
      if (number >= this.#killAt) {
        this.#process.kill();
        this.#killed();
        return undefined;
      }
      if (call === 'truncate') this.#isStale = false;
      if (number !== this.#failAt) return undefined;
      this.#failed = true;
      if (call === 'datasync') this.#isStale = true;
      return this.#errno;
    };
    try {
      this.#storage = await inTime(
        fileStorage(path, { disk: this.#process.disk, clock }),
        hangMs,
        'opening',
      );
    } catch (error) {
      hold(this.#failed, `opening rejects with ${String(error)}`);
      this.#machine = this.#machine.cutPower(this.#random);
      await this.#open();
    }
  }
}
