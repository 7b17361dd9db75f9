/** Makes folders and files for the tests of the file storage. */
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

export * from './pets.js';
export * from './once.js';

const root = mkdtempSync(join(tmpdir(), 'petstore-storage-'));
let scenes = 0;
process.once('exit', () => rmSync(root, { recursive: true, force: true }));

/** Returns a path in a new folder, which does not exist yet. */
export function newPath(): string {
  return join(root, String(++scenes), 'pets.jsonl');
}

/** Creates a storage file in a new folder, and returns its path. */
export function fileWith(content: string | Uint8Array): string {
  const path = join(mkdtempSync(join(root, 'given-')), 'pets.jsonl');
  writeFileSync(path, content);
  return path;
}

/** Returns the line of a pet. */
export function petLine(id: number, name = `pet ${id}`): string {
  return `{"id":${id},"name":"${name}","categoryId":5,"status":"available"}\n`;
}

/** Returns an idempotency record. Does not call the code under test. */
export function recordLine({ key, body, at }: IdempotencyKeyUse): string {
  return `{"idempotency":{"key":"${key}","body":"${body}","at":${at}}}\n`;
}

/** Returns the file `before` with batches of lines, each with its commit record. */
export function committed(
  bodies: readonly string[],
  before: Uint8Array = new Uint8Array(),
): Buffer {
  let file = Buffer.from(before);
  for (const body of bodies.map((lines) => Buffer.from(lines)))
    file = Buffer.concat([file, body, commitOf(body, file.length)]);
  return file;
}

/** Returns a file with batches of these sizes; the ids of the pets begin with 1. */
export function batches(...sizes: readonly number[]): Buffer {
  let id = 0;
  const bodies = sizes.map((size) => Array.from({ length: size }, () => petLine(++id)).join(''));
  return committed(bodies);
}

/** Reads the torn tails beside a storage file. */
export function tornTails(path: string): readonly Buffer[] {
  const folder = dirname(path);
  const names = readdirSync(folder).filter((name) => name.startsWith(`${basename(path)}.torn-`));
  return names.sort().map((name) => readFileSync(join(folder, name)));
}

/** Opens a storage for the time of `use`, without a lock. */
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

/** Opens a file and returns the number of its pets. */
export const sizeOf = (path: string) => using(path, async ({ size }) => size ?? 0);

/**
 * Makes each sync of a disk hang until `thaw`, which may pass an error for it. `syncing` resolves
 * once the first sync hangs.
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
