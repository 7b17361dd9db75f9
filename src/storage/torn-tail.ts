/** Owns what becomes of a torn tail: a copy beside the file, then the cut (F2). Knows not why the tail is torn. */
import { constants } from 'node:fs';
import { dirname } from 'node:path';
import { errnoOf, writeAll, type Disk } from './disk.js';
import { syncFolder } from './data-file.js';

/** A file whose bytes from `from` to `to` are torn. */
export interface TornTail {
  readonly path: string;
  readonly descriptor: number;
  readonly from: number;
  readonly to: number;
}

/**
 * Copies the tail to `FILE.torn-TIME` (mode 600), and once that is on the disk cuts it off the file; answers the copy's
 * path. `timeMs` is since the epoch.
 * @throws what the disk throws; the file is untouched then, or else the copy is complete.
 */
export async function setTornTailAside(disk: Disk, tail: TornTail, timeMs: number): Promise<string> {
  const copy = await createBeside(disk, `${tail.path}.torn-${new Date(timeMs).toISOString().replaceAll(':', '-')}`);
  try {
    await copyTail(disk, tail, copy.descriptor);
    await disk.sync(copy.descriptor);
  } catch (error) {
    // Half a copy is of no use, and each further start would leave one more.
    await disk.remove(copy.path);
    throw error;
  } finally {
    await disk.close(copy.descriptor);
  }
  await syncFolder(disk, dirname(tail.path));
  await disk.truncate(tail.descriptor, tail.from);
  await disk.datasync(tail.descriptor);
  return copy.path;
}

/** Never takes a name that is taken: what stands there may be the only copy of an earlier tail. */
async function createBeside(disk: Disk, name: string): Promise<{ readonly path: string; readonly descriptor: number }> {
  const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_EXCL;
  for (let number = 0; ; number++) {
    const path = number === 0 ? name : `${name}-${number}`;
    try {
      return { path, descriptor: await disk.open(path, flags, 0o600) };
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw error;
    }
  }
}

async function copyTail(disk: Disk, { descriptor, from, to }: TornTail, copy: number): Promise<void> {
  const buffer = Buffer.allocUnsafe(Math.min(2 ** 20, to - from));
  for (let at = from; at < to; ) {
    const count = await disk.read(descriptor, buffer.subarray(0, Math.min(buffer.length, to - at)), at);
    if (count === 0) throw new Error('the file became shorter while it was read');
    await writeAll(disk, copy, buffer.subarray(0, count));
    at += count;
  }
}
