/** Folders for what needs no disk. */
import { existsSync, mkdtempSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The memory's file system of Linux. */
const inMemory = '/dev/shm';

/** Makes a folder in memory, or among the temporary files where there is none, or less than so many bytes are free there. */
export function folderInMemory(prefix: string, roomBytes: number): string {
  return mkdtempSync(join(existsSync(inMemory) && freeBytes() >= roomBytes ? inMemory : tmpdir(), prefix));
}

function freeBytes(): number {
  const { bavail, bsize } = statfsSync(inMemory);
  return bavail * bsize;
}
