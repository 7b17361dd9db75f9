/** Makes temporary folders in memory or on a disk. */
import assert from 'node:assert/strict';
import { accessSync, constants, mkdtempSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The folder of Linux that is in memory. */
const inMemory = '/dev/shm';
/** The type of file systems in memory, from `statfs(2)`. */
const tmpfs = 0x01021994;

/** Makes a folder in memory; in the temporary folder if memory has less than `roomBytes` free. */
export function folderInMemory(prefix: string, roomBytes: number): string {
  return mkdtempSync(join(hasRoom(roomBytes) ? inMemory : tmpdir(), prefix));
}

/** Makes a folder on a disk. It is in `/var/tmp`, because `/tmp` is in memory on many machines. */
export function folderOnDisk(prefix: string): string {
  const folder = mkdtempSync(join('/var/tmp', prefix));
  assert.notEqual(statfsSync(folder).type, tmpfs, `${folder} is in memory`);
  return folder;
}

function hasRoom(roomBytes: number): boolean {
  try {
    accessSync(inMemory, constants.W_OK);
    const { bavail, bsize } = statfsSync(inMemory);
    return bavail * bsize >= roomBytes;
  } catch {
    return false;
  }
}
