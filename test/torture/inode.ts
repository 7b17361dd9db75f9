/** A file or folder of the simulated machine: its bytes in the cache and on the medium. */

export const blockBytes = 4096;

let lastIno = 0;

export class Inode {
  readonly ino = ++lastIno;
  readonly isFolder: boolean;
  cache: Buffer = Buffer.alloc(0);
  medium: Buffer = Buffer.alloc(0);
  /** The blocks of the cache that the next sync writes. */
  dirty = new Set<number>();
  /** The descriptor that holds the lock. */
  lockedBy: number | undefined;

  constructor(isFolder: boolean) {
    this.isFolder = isFolder;
  }

  /** Replaces the bytes of the cache from an offset on, and marks their blocks as dirty. */
  put(from: number, bytes: Uint8Array): void {
    this.cache = Buffer.concat([this.cache.subarray(0, from), bytes]);
    const blocks = Math.ceil(this.cache.length / blockBytes);
    this.dirty = new Set([...this.dirty].filter((block) => block < blocks));
    for (let block = Math.floor(from / blockBytes); block < blocks; block++) this.dirty.add(block);
  }

  /** Returns the bytes of the medium as they would be after writing these blocks. */
  written(blocks: Iterable<number>): Buffer {
    const after = Buffer.alloc(this.cache.length);
    this.medium.copy(after);
    for (const block of blocks)
      this.cache.copy(after, block * blockBytes, block * blockBytes, (block + 1) * blockBytes);
    return after;
  }
}
