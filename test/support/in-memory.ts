/** Folders for what needs no disk. */
import { accessSync, constants, mkdtempSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The memory's file system of Linux. */
const inMemory = '/dev/shm';

/** Makes a folder in memory; among the temporary files where that cannot be, or has not so many bytes free. */
export function folderInMemory(prefix: string, roomBytes: number): string {
  return mkdtempSync(join(hasRoom(roomBytes) ? inMemory : tmpdir(), prefix));
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
