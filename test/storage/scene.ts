/** Folders and files of many states, for the tests of the file storage. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import '../support/built.js';
import { fileStorage, type FileStorageOptions } from '../../dist/file/index.js';
import { nodeDisk } from '../../dist/journal/index.js';
import { clock, type diskWith, unlocked } from '../support/disk.js';
import { gate } from '../support/waiting.js';
import { commitOf } from './commit-line.js';
import type { IdempotencyKeyUse, PetStorage } from '../../dist/index.js';

export * from './animals.js';
export * from './once.js';

const root = mkdtempSync(join(tmpdir(), 'petstore-storage-'));
let scenes = 0;
process.once('exit', () => rmSync(root, { recursive: true, force: true }));

/** The path of a data file in a folder of its own that is not there yet. */
export function newPath(): string {
  return join(root, String(++scenes), 'pets.jsonl');
}

/** A data file with this text (UTF-8) or these bytes, in a new folder. */
export function fileWith(content: string | Uint8Array): string {
  const path = join(mkdtempSync(join(root, 'given-')), 'pets.jsonl');
  writeFileSync(path, content);
  return path;
}

/** The line of an animal. */
export function petLine(id: number, name = `pet ${id}`): string {
  return `{"id":${id},"name":"${name}","categoryId":5,"status":"available"}\n`;
}

/** A record's line, written here by hand, so that the code does not prove itself. */
export function recordLine({ key, body, at }: IdempotencyKeyUse): string {
  return `{"idempotency":{"key":"${key}","body":"${body}","at":${at}}}\n`;
}

/** Batches of lines by hand, each with its commit line, behind a file where there is one. */
export function committed(
  bodies: readonly string[],
  before: Uint8Array = new Uint8Array(),
): Buffer {
  let file = Buffer.from(before);
  for (const body of bodies.map((lines) => Buffer.from(lines)))
    file = Buffer.concat([file, body, commitOf(body, file.length)]);
  return file;
}

/** Batches, each of so many animals, ids from 1. */
export function batches(...sizes: readonly number[]): Buffer {
  let id = 0;
  const bodies = sizes.map((size) => Array.from({ length: size }, () => petLine(++id)).join(''));
  return committed(bodies);
}

/** The torn tails beside a data file. */
export function tornTails(path: string): readonly Buffer[] {
  const folder = dirname(path);
  const names = readdirSync(folder).filter((name) => name.startsWith(`${basename(path)}.torn-`));
  return names.sort().map((name) => readFileSync(join(folder, name)));
}

/** Opens, hands over, closes in any case; without the lock, which has tests of its own. */
export async function using<T>(
  path: string,
  use: (storage: PetStorage) => Promise<T>,
  options: FileStorageOptions = {},
): Promise<T> {
  const storage = await fileStorage(path, { disk: unlocked, clock, ...options });
  try {
    return await use(storage);
  } finally {
    await storage.close();
  }
}

/** How many animals a storage of this file has. */
export const sizeOf = (path: string) => using(path, async ({ size }) => size ?? 0);

/**
 * From now on whatever is synced hangs, once `syncing` has resolved, until it is thawed: then it
 * ends well, or fails by an error.
 */
export function hang(disk: ReturnType<typeof diskWith>) {
  const [syncing, thawed] = [gate(), gate()];
  let failure: Error | undefined;
  disk.datasync = async (descriptor) => {
    syncing.open();
    await thawed.opened;
    if (failure) throw failure;
    await nodeDisk.datasync(descriptor);
  };
  const thaw = (error?: Error) => {
    failure = error;
    thawed.open();
  };
  return { syncing: syncing.opened, thaw };
}
