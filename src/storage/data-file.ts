/** Owns having the data file and its folder there, open and known to the disk (F8). Knows not what stands in the file. */
import { constants } from 'node:fs';
import { dirname } from 'node:path';
import { errnoOf, type Disk } from './disk.js';

/**
 * Opens a file for reading and for a disk's `append`; makes it with mode 600 where missing, and its folder with mode 700. Its name
 * outlasts a power cut only after `syncFolder`. `lockFlags` are further `O_` flags. The caller owns the descriptor.
 * @throws what the disk throws.
 */
export async function openDataFile(disk: Disk, path: string, lockFlags: number): Promise<number> {
  const flags = constants.O_RDWR | constants.O_APPEND | disk.appendFlags | lockFlags;
  return (await openExisting(disk, path, flags)) ?? create(disk, path, flags);
}

/** Makes the names in a folder outlast a power cut; Windows does that by itself and can open no folder. */
export async function syncFolder(disk: Disk, folder: string): Promise<void> {
  if (process.platform === 'win32') return;
  const descriptor = await disk.open(folder, constants.O_RDONLY, 0);
  try {
    await disk.sync(descriptor);
  } finally {
    await disk.close(descriptor);
  }
}

async function openExisting(disk: Disk, path: string, flags: number): Promise<number | undefined> {
  try {
    return await disk.open(path, flags, 0);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

async function create(disk: Disk, path: string, flags: number): Promise<number> {
  await makeFolder(disk, dirname(path));
  try {
    return await disk.open(path, flags | constants.O_CREAT | constants.O_EXCL, 0o600);
  } catch (error) {
    // Another process was faster; the lock will tell which of us may have it.
    if (errnoOf(error) === 'EEXIST') return disk.open(path, flags, 0);
    throw error;
  }
}

/** Makes a folder and those above it where missing. (Node's own recursive `mkdir` never ends below /proc.) */
async function makeFolder(disk: Disk, folder: string): Promise<void> {
  const above = dirname(folder);
  try {
    await disk.makeFolder(folder, 0o700);
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return;
    if (errnoOf(error) !== 'ENOENT' || above === folder) throw error;
    await makeFolder(disk, above);
    await disk.makeFolder(folder, 0o700).catch(passExisting);
  }
  // A new folder is a name in the one above it.
  await syncFolder(disk, above);
}

/** Another process that starts may make the same folder. */
function passExisting(error: unknown): void {
  if (errnoOf(error) !== 'EEXIST') throw error;
}
