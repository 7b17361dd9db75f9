/** Owns the few file functions that the file storage is built on, so that a test can fail any call. Knows no format. */
import fs, { type Stats } from 'node:fs';
import { promisify } from 'node:util';

/** What the storage asks about a file. */
export type FileFacts = Pick<Stats, 'size' | 'dev' | 'ino' | 'blksize' | 'isFile'>;

/**
 * A disk, by numeric descriptors. Every function is asynchronous, because a disk that freezes must not freeze the
 * readers of what is in memory. Each rejects with Node's system error, whose `code` is the errno's name.
 */
export interface Disk {
  /** Opens with the `O_` flags of `fs.constants`; `mode` counts for a file that this call creates. */
  open(path: string, flags: number, mode: number): Promise<number>;
  close(descriptor: number): Promise<void>;
  /** Reads at most `into.length` bytes from an offset; 0 is the end of the file. */
  read(descriptor: number, into: Uint8Array, position: number): Promise<number>;
  /** Writes where the descriptor stands, at the end if it was opened so; answers how many bytes went, maybe fewer. */
  write(descriptor: number, bytes: Uint8Array): Promise<number>;
  /** Resolves once the file's bytes and size are on the medium. */
  datasync(descriptor: number): Promise<void>;
  /** As `datasync`, with everything else that a file or folder has. */
  sync(descriptor: number): Promise<void>;
  truncate(descriptor: number, size: number): Promise<void>;
  factsOf(descriptor: number): Promise<FileFacts>;
  factsAt(path: string): Promise<FileFacts>;
  /** Makes one folder. */
  makeFolder(path: string, mode: number): Promise<void>;
  remove(path: string): Promise<void>;
}

const read = promisify(fs.read);
const write = promisify(fs.write);

/** The disk of this machine. */
export const nodeDisk: Disk = {
  open: promisify(fs.open),
  close: promisify(fs.close),
  read: async (descriptor, into, position) => (await read(descriptor, into, 0, into.length, position)).bytesRead,
  write: async (descriptor, bytes) => (await write(descriptor, bytes)).bytesWritten,
  datasync: promisify(fs.fdatasync),
  sync: promisify(fs.fsync),
  truncate: promisify(fs.ftruncate),
  // At once, for each batch asks: the kernel has these in memory as long as the file is open, even of a disk that is frozen,
  // and a way to a thread and back costs forty times as much. A network's file system may have to ask its server.
  factsOf: async (descriptor) => fs.fstatSync(descriptor),
  factsAt: async (path) => fs.statSync(path),
  makeFolder: async (path, mode) => promisify(fs.mkdir)(path, mode),
  remove: promisify(fs.unlink),
};

/** The name of the errno of a system error, `ENOENT` and the like; undefined for anything else. */
export function errnoOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** Writes on where the disk took only a part. */
export async function writeAll(disk: Disk, descriptor: number, bytes: Uint8Array): Promise<void> {
  for (let written = 0; written < bytes.length; ) {
    const count = await disk.write(descriptor, bytes.subarray(written));
    if (count === 0) throw new Error('the disk takes no more bytes and does not say why');
    written += count;
  }
}
