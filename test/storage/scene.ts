/** Folders, disks with faults and files of many states, for the tests of the file storage. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { appendInSteps, nodeDisk, type Disk } from '../../build/storage/disk.js';
import { commitOf } from './commit-line.js';

const root = mkdtempSync(join(tmpdir(), 'petstore-storage-'));
let scenes = 0;
after(() => rmSync(root, { recursive: true, force: true }));

/** The path of a data file in a folder of its own that is not there yet. */
export function newPath(): string {
  return join(root, String(++scenes), 'pets.jsonl');
}

/** A data file with this text (UTF-8) or these bytes. */
export function fileWith(content: string | Uint8Array): string {
  const path = join(mkdtempSync(join(root, 'given-')), 'pets.jsonl');
  writeFileSync(path, content);
  return path;
}

/** The line of an animal. */
export function petLine(id: number, name = `pet ${id}`): string {
  return `{"id":${id},"name":"${name}","categoryId":5,"status":"available"}\n`;
}

/** Batches with their commit lines, each of so many animals, ids from 1. */
export function batches(...sizes: readonly number[]): Buffer {
  let file = Buffer.alloc(0);
  let id = 0;
  for (const size of sizes) {
    const body = Buffer.from(Array.from({ length: size }, () => petLine(++id)).join(''));
    file = Buffer.concat([file, body, commitOf(body, file.length)]);
  }
  return file;
}

/** The torn tails beside a data file. */
export function tornTails(path: string): readonly Buffer[] {
  const folder = join(path, '..');
  const names = readdirSync(folder).filter((name) => name.includes('.torn-'));
  return names.sort().map((name) => readFileSync(join(folder, name)));
}

/**
 * This machine's disk with some functions replaced, now or later. It appends by `write` and then `datasync`: to the journal
 * that is what one call of Linux is, which fails by its write or by its sync and does not say by which.
 */
export function diskWith(changes: Partial<Disk>): Disk {
  const disk: Disk = { ...nodeDisk, ...changes };
  disk.append = (descriptor, bytes) => appendInSteps(disk)(descriptor, bytes);
  return disk;
}

/** A promise with its ends in hand. */
export function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open: () => open() };
}
