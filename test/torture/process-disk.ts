/**
 * The disk of the simulated machine, as one process sees it. A test makes its calls fail, or kills
 * the process.
 */
import { constants } from 'node:fs';
import { dirname } from 'node:path';
import { appendInSteps, type Disk } from '../../dist/journal/index.js';
import { systemError } from '../support/disk.js';
import { blockBytes, Inode } from './inode.js';

/** The fault of a call: the name of an errno, or the number of bytes after which a write ends. */
export type DiskFault = string | number | undefined;
export type CallName = Exclude<keyof Disk, 'append' | 'appendFlags' | 'lockFlags'>;

/** The last descriptor of all processes. They share it, because a lock belongs to a descriptor. */
let lastDescriptor = 0;

/**
 * The disk of a process. `fault` makes calls fail, and `kill` ends the process.
 */
export class ProcessDisk {
  readonly disk: Disk;
  /** Called before each call, with its number from 1. */
  fault: (call: CallName, number: number) => DiskFault = () => undefined;
  calls = 0;
  readonly #opened = new Map<number, { readonly inode: Inode; readonly path: string }>();
  #isDead = false;

  constructor(names: Map<string, Inode>, syncNames: (folder: string) => void) {
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
    const facts = (inode: Inode) => ({
      size: inode.cache.length,
      dev: 1,
      ino: inode.ino,
      blksize: blockBytes,
      isFile: () => !inode.isFolder,
    });
    const step =
      <Args extends readonly unknown[], Result>(
        name: CallName,
        work: (...args: Args) => Result,
        failed?: (...args: Args) => void,
      ) =>
      async (...args: Args): Promise<Result> => {
        const fault = await this.#passes(name);
        if (typeof fault !== 'string') return work(...args);
        failed?.(...args);
        throw systemError(fault);
      };

    const close = (descriptor: number): void => {
      this.#close(descriptor, of(descriptor).inode);
    };
    this.disk = {
      open: step('open', (path: string, flags: number) => {
        const exists = names.has(path);
        if (exists && (flags & constants.O_EXCL) !== 0) throw systemError('EEXIST');
        const inode = exists || (flags & constants.O_CREAT) === 0 ? at(path) : create(path, false);
        this.#opened.set(++lastDescriptor, { inode, path });
        return lastDescriptor;
      }),
      // The kernel frees the descriptor even if it reports an error.
      close: step('close', close, close),
      lockFlags: 0,
      lock: step('lock', (descriptor: number) => {
        const { inode } = of(descriptor);
        if (inode.lockedBy !== undefined) throw systemError('EAGAIN');
        inode.lockedBy = descriptor;
      }),
      read: step('read', (descriptor: number, into: Uint8Array, position: number) =>
        of(descriptor).inode.cache.copy(into, 0, position, position + into.length),
      ),
      write: async (descriptor, bytes) => {
        const fault = await this.#passes('write');
        if (typeof fault === 'string') throw systemError(fault);
        const { inode } = of(descriptor);
        const taken = bytes.subarray(0, fault ?? bytes.length);
        inode.put(inode.cache.length, taken);
        return taken.length;
      },
      // The journal makes one call, but the write and the sync fail separately, and a kill may come
      // between them.
      appendFlags: 0,
      append: (descriptor, bytes) => appendInSteps(this.disk)(descriptor, bytes),
      datasync: step('datasync', sync, (descriptor) => of(descriptor).inode.dirty.clear()),
      sync: step('sync', sync, (descriptor) => of(descriptor).inode.dirty.clear()),
      truncate: step('truncate', (descriptor: number, size: number) =>
        of(descriptor).inode.put(size, Buffer.alloc(0)),
      ),
      factsOf: step('factsOf', (descriptor: number) => facts(of(descriptor).inode)),
      factsAt: step('factsAt', (path: string) => facts(at(path))),
      makeFolder: step('makeFolder', (path: string) => void create(path, true)),
      remove: step('remove', (path: string) => void (at(path), names.delete(path))),
    };
  }

  /** The number of open descriptors. */
  get open(): number {
    return this.#opened.size;
  }

  /** Closes all files, as the kernel does. Calls in flight stay pending for ever. */
  kill(): void {
    this.#isDead = true;
    for (const [descriptor, { inode }] of this.#opened) this.#close(descriptor, inode);
  }

  #close(descriptor: number, inode: Inode): void {
    this.#opened.delete(descriptor);
    if (inode.lockedBy === descriptor) inode.lockedBy = undefined;
  }

  async #passes(name: CallName): Promise<DiskFault> {
    const fault = this.#isDead ? undefined : this.fault(name, ++this.calls);
    await undefined;
    return this.#isDead ? new Promise(() => undefined) : fault;
  }
}
