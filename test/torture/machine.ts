/**
 * A machine with a disk in memory that fails as Linux does: what is written stands in a cache, a sync brings it to the
 * medium, a sync that fails forgets what it should have written, and a power cut leaves any part of the rest.
 */
import { closeSync, constants, openSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Disk } from '../../dist/storage/disk.js';
import { systemError } from './errors.js';
import type { Random } from './random.js';

export const blockBytes = 4096;

/** What happens to a call: an errno's name; or, for a write, how many bytes it takes at most. */
export type Fault = string | number | undefined;
export type CallName = keyof Disk;

class Inode {
  readonly isFolder: boolean;
  cache: Buffer = Buffer.alloc(0);
  medium: Buffer = Buffer.alloc(0);
  /** The blocks of the cache that the next sync writes. */
  dirty = new Set<number>();
  /** A real file of this one's own, for the kernel's lock. */
  lockFile = '';

  constructor(isFolder: boolean) {
    this.isFolder = isFolder;
  }

  /** Changes the cache from an offset on; the block in which the change begins is written again too. */
  put(from: number, bytes: Uint8Array): void {
    this.cache = Buffer.concat([this.cache.subarray(0, from), bytes]);
    const blocks = Math.ceil(this.cache.length / blockBytes);
    this.dirty = new Set([...this.dirty].filter((block) => block < blocks));
    for (let block = Math.floor(from / blockBytes); block < blocks; block++) this.dirty.add(block);
  }

  /** The medium once these blocks are written. */
  written(blocks: Iterable<number>): Buffer {
    const after = Buffer.alloc(this.cache.length);
    this.medium.copy(after);
    for (const block of blocks) this.cache.copy(after, block * blockBytes, block * blockBytes, (block + 1) * blockBytes);
    return after;
  }
}

/** Outlives the processes on it. Names too are on the medium only once their folder is synced. */
export class Machine {
  readonly #scratch: string;
  #names = new Map<string, Inode>([['/', new Inode(true)]]);
  #mediumNames = new Map(this.#names);
  static #locks = 0;

  /** `scratch` is a real folder; what is no file with these bytes is a folder. */
  constructor(scratch: string, files: Readonly<Record<string, Buffer | undefined>> = {}) {
    this.#scratch = scratch;
    for (const [path, bytes] of Object.entries(files)) {
      const inode = new Inode(bytes === undefined);
      inode.cache = Buffer.from(bytes ?? '');
      inode.medium = inode.cache;
      this.#names.set(path, inode);
    }
    this.#mediumNames = new Map(this.#names);
  }

  /** The bytes that a program would read. */
  file(path: string): Buffer | undefined {
    return this.#names.get(path)?.cache;
  }

  get paths(): readonly string[] {
    return [...this.#names.keys()].filter((path) => !this.#names.get(path)?.isFolder);
  }

  /** Another machine in the same state, with no process on it. */
  clone(): Machine {
    const copies = new Map<Inode, Inode>();
    const copyOf = (inode: Inode): Inode => {
      const copy = copies.get(inode) ?? new Inode(inode.isFolder);
      Object.assign(copy, { cache: inode.cache, medium: inode.medium, dirty: new Set(inode.dirty) });
      copies.set(inode, copy);
      return copy;
    };
    const clone = new Machine(this.#scratch);
    clone.#names = new Map([...this.#names].map(([path, inode]) => [path, copyOf(inode)]));
    clone.#mediumNames = new Map([...this.#mediumNames].map(([path, inode]) => [path, copyOf(inode)]));
    return clone;
  }

  /** What a power cut may leave: of each file what was synced, and any blocks of the rest, or a part of its length. */
  cutPower({ below }: Random): Machine {
    const after = this.clone();
    after.#names = after.#mediumNames;
    after.#mediumNames = new Map(after.#names);
    for (const file of after.#names.values()) {
      const chance = below(4);
      if (chance > 0 && file.dirty.size > 0) {
        const left = file.written([...file.dirty].filter(() => chance === 1 || below(2) === 0));
        // The length may have stopped anywhere on its way from the synced one.
        const length = chance === 3 ? file.medium.length + below(Math.abs(left.length - file.medium.length) + 1) : left.length;
        file.medium = left.subarray(0, Math.max(length, Math.min(file.medium.length, left.length)));
      }
      file.cache = Buffer.from(file.medium);
      file.dirty = new Set();
    }
    return after;
  }

  /** The disk as one process sees it. */
  process(): Process {
    return new Process(this.#names, (folder) => this.#syncNames(folder), () => join(this.#scratch, `lock-${++Machine.#locks}`));
  }

  #syncNames(folder: string): void {
    const inside = (path: string): boolean => path !== folder && dirname(path) === folder;
    for (const path of this.#mediumNames.keys()) if (inside(path) && !this.#names.has(path)) this.#mediumNames.delete(path);
    for (const [path, inode] of this.#names) if (inside(path)) this.#mediumNames.set(path, inode);
    // A journaling file system brings the names of the folders above along.
    for (let above = folder; above !== '/'; above = dirname(above)) {
      const inode = this.#names.get(above);
      if (inode !== undefined) this.#mediumNames.set(above, inode);
    }
  }
}

/** A process's disk. Set `fault` to fail its calls; `kill` ends it between two of them. */
export class Process {
  readonly disk: Disk;
  /** Asked before each call, counted from 1. */
  fault: (call: CallName, number: number) => Fault = () => undefined;
  calls = 0;
  readonly #opened = new Map<number, { readonly inode: Inode; readonly path: string }>();
  #isDead = false;

  constructor(names: Map<string, Inode>, syncNames: (folder: string) => void, newLockFile: () => string) {
    const at = (path: string): Inode => {
      const inode = names.get(path);
      if (inode === undefined) throw systemError('ENOENT');
      return inode;
    };
    const of = (descriptor: number) => {
      const opened = this.#opened.get(descriptor);
      if (opened === undefined) throw systemError('EBADF');
      return opened;
    };
    const create = (path: string, isFolder: boolean): Inode => {
      if (names.has(path)) throw systemError('EEXIST');
      at(dirname(path));
      const inode = new Inode(isFolder);
      names.set(path, inode);
      return inode;
    };
    const sync = (descriptor: number): void => {
      const { inode, path } = of(descriptor);
      if (inode.isFolder) syncNames(path);
      inode.medium = inode.written(inode.dirty);
      inode.dirty.clear();
    };
    const facts = (inode: Inode) => ({ size: inode.cache.length, dev: 1, ino: inoOf(inode), blksize: blockBytes, isFile: () => !inode.isFolder });
    const step = <Args extends readonly unknown[], Result>(name: CallName, work: (...args: Args) => Result, failed?: (...args: Args) => void) =>
      async (...args: Args): Promise<Result> => {
        const fault = await this.#passes(name);
        if (typeof fault !== 'string') return work(...args);
        failed?.(...args);
        throw systemError(fault);
      };

    const close = (descriptor: number): void => {
      of(descriptor);
      this.#opened.delete(descriptor);
      closeSync(descriptor);
    };
    this.disk = {
      open: step('open', (path: string, flags: number) => {
        const exists = names.has(path);
        if (exists && (flags & constants.O_EXCL) !== 0) throw systemError('EEXIST');
        const inode = exists || (flags & constants.O_CREAT) === 0 ? at(path) : create(path, false);
        inode.lockFile ||= newLockFile();
        const descriptor = openSync(inode.lockFile, 'a', 0o600);
        this.#opened.set(descriptor, { inode, path });
        return descriptor;
      }),
      // The kernel gives the descriptor free also where it reports an error.
      close: step('close', close, close),
      read: step('read', (descriptor: number, into: Uint8Array, position: number) => of(descriptor).inode.cache.copy(into, 0, position, position + into.length)),
      write: async (descriptor, bytes) => {
        const fault = await this.#passes('write');
        if (typeof fault === 'string') throw systemError(fault);
        const { inode } = of(descriptor);
        const taken = bytes.subarray(0, fault ?? bytes.length);
        inode.put(inode.cache.length, taken);
        return taken.length;
      },
      datasync: step('datasync', sync, (descriptor) => of(descriptor).inode.dirty.clear()),
      sync: step('sync', sync, (descriptor) => of(descriptor).inode.dirty.clear()),
      truncate: step('truncate', (descriptor: number, size: number) => of(descriptor).inode.put(size, Buffer.alloc(0))),
      factsOf: step('factsOf', (descriptor: number) => facts(of(descriptor).inode)),
      factsAt: step('factsAt', (path: string) => facts(at(path))),
      makeFolder: step('makeFolder', (path: string) => void create(path, true)),
      remove: step('remove', (path: string) => void (at(path), names.delete(path))),
    };
  }

  /** How many descriptors it holds. */
  get open(): number {
    return this.#opened.size;
  }

  /** Nothing that is under way ever ends; the kernel closes what was open. */
  kill(): void {
    this.#isDead = true;
    for (const descriptor of this.#opened.keys()) closeSync(descriptor);
    this.#opened.clear();
  }

  async #passes(name: CallName): Promise<Fault> {
    const fault = this.#isDead ? undefined : this.fault(name, ++this.calls);
    await undefined;
    return this.#isDead ? new Promise(() => undefined) : fault;
  }
}

const inos = new WeakMap<Inode, number>();
let lastIno = 0;

function inoOf(inode: Inode): number {
  const ino = inos.get(inode) ?? ++lastIno;
  inos.set(inode, ino);
  return ino;
}
