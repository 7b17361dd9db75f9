/** Folders for what needs no disk, and for what is measured on one. */
import assert from 'node:assert/strict';
import { accessSync, constants, mkdtempSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The memory's file system of Linux. */
const inMemory = '/dev/shm';
/** The number of its kind, of `statfs(2)`. */
const tmpfs = 0x01021994;

/**
 * Makes a folder in memory; among the temporary files where that cannot be, or has not so many
 * bytes free.
 */
export function folderInMemory(prefix: string, roomBytes: number): string {
  return mkdtempSync(join(hasRoom(roomBytes) ? inMemory : tmpdir(), prefix));
}

/**
 * Makes a folder that is on a disk: `/tmp` is memory on many a machine, `/var/tmp` outlives a
 * restart.
 */
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
