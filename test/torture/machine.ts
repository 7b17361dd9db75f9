/**
 * A simulated machine whose disk fails as on Linux. Writes go to a cache, and a sync writes them to
 * the medium. A sync that fails drops its writes. A power cut keeps any part of the unsynced
 * writes.
 */
import { dirname } from 'node:path';
import { Inode } from './inode.js';
import { ProcessDisk } from './process-disk.js';
import type { Random } from './random.js';

/** The files of the machine. A name is on the medium only after a sync of its folder. */
export class Machine {
  #names = new Map<string, Inode>([['/', new Inode(true)]]);
  #mediumNames = new Map(this.#names);

  /** Makes a machine with these files, all on the medium. A path without bytes is a folder. */
  constructor(files: Readonly<Record<string, Buffer | undefined>> = {}) {
    for (const [path, bytes] of Object.entries(files)) {
      const inode = new Inode(bytes === undefined);
      inode.cache = Buffer.from(bytes ?? '');
      inode.medium = inode.cache;
      this.#names.set(path, inode);
    }
    this.#mediumNames = new Map(this.#names);
  }

  /** Returns the bytes that a program would read. */
  file(path: string): Buffer | undefined {
    return this.#names.get(path)?.cache;
  }

  /** Appends to an existing file, in the cache and on the medium. */
  append(path: string, bytes: string): void {
    const inode = this.#names.get(path);
    inode?.put(inode.cache.length, Buffer.from(bytes));
    if (inode !== undefined) inode.medium = inode.written(inode.dirty);
  }

  get paths(): readonly string[] {
    return [...this.#names.keys()].filter((path) => !this.#names.get(path)?.isFolder);
  }

  /** Returns a copy of the machine, without processes. */
  clone(): Machine {
    const copies = new Map<Inode, Inode>();
    const copyOf = (inode: Inode): Inode => {
      const copy = copies.get(inode) ?? new Inode(inode.isFolder);
      Object.assign(copy, {
        cache: inode.cache,
        medium: inode.medium,
        dirty: new Set(inode.dirty),
      });
      copies.set(inode, copy);
      return copy;
    };
    const clone = new Machine();
    clone.#names = new Map([...this.#names].map(([path, inode]) => [path, copyOf(inode)]));
    clone.#mediumNames = new Map(
      [...this.#mediumNames].map(([path, inode]) => [path, copyOf(inode)]),
    );
    return clone;
  }

  /**
   * Returns the machine as a power cut may leave it. Each file has its synced bytes, and by chance
   * some of its other blocks and any length between the synced and the new one.
   */
  cutPower({ below }: Random): Machine {
    const after = this.clone();
    after.#names = after.#mediumNames;
    after.#mediumNames = new Map(after.#names);
    for (const file of after.#names.values()) {
      const chance = below(4);
      if (chance > 0 && file.dirty.size > 0) {
        const left = file.written([...file.dirty].filter(() => chance === 1 || below(2) === 0));
        // Any length between the synced length and the new one.
        const length =
          chance === 3
            ? file.medium.length + below(Math.abs(left.length - file.medium.length) + 1)
            : left.length;
        file.medium = left.subarray(0, Math.max(length, Math.min(file.medium.length, left.length)));
      }
      file.cache = Buffer.from(file.medium);
      file.dirty = new Set();
    }
    return after;
  }

  /** Returns the disk of a new process. */
  process(): ProcessDisk {
    return new ProcessDisk(this.#names, (folder) => this.#syncNames(folder));
  }

  #syncNames(folder: string): void {
    const inside = (path: string): boolean => path !== folder && dirname(path) === folder;
    for (const path of this.#mediumNames.keys())
      if (inside(path) && !this.#names.has(path)) this.#mediumNames.delete(path);
    for (const [path, inode] of this.#names) if (inside(path)) this.#mediumNames.set(path, inode);
    // A journaling file system also syncs the names of the parent folders.
    for (let above = folder; above !== '/'; above = dirname(above)) {
      const inode = this.#names.get(above);
      if (inode !== undefined) this.#mediumNames.set(above, inode);
    }
  }
}
