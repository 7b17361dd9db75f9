/** Storage files as the contract writes them, made here by hand, so that the code does not prove itself. */
import type { Journal } from '../../dist/storage/journal.js';
import { openJournal } from '../../dist/storage/open-journal.js';
import type { Disk } from '../../dist/storage/disk.js';
import { petLines } from '../../dist/storage/pet-lines.js';
import { commitOf } from '../storage/commit-line.js';

/** A file and what is in it. */
export interface Made {
  readonly bytes: Buffer;
  /** The text of each animal, in order. */
  readonly texts: readonly string[];
  /** Where the last batch begins. */
  readonly lastFrom: number;
}

/** Batches of so many animals, each with its commit line. */
export function made(sizes: readonly number[], nameOf: (id: number) => string = (id) => `pet ${id}`): Made {
  const texts: string[] = [];
  let bytes = Buffer.alloc(0);
  let lastFrom = 0;
  for (const size of sizes) {
    lastFrom = bytes.length;
    const from = texts.length;
    for (let index = 0; index < size; index++) texts.push(petText(texts.length + 1, nameOf(texts.length + 1)));
    const body = Buffer.from(texts.slice(from).map((text) => `${text}\n`).join(''));
    bytes = Buffer.concat([bytes, body, commitOf(body, lastFrom)]);
  }
  return { bytes, texts, lastFrom };
}

/** An animal's one text; three of four have a status. */
export function petText(id: number, name: string): string {
  const status = ['', ',"status":"available"', ',"status":"pending"', ',"status":"sold"'][id % 4];
  return `{"id":${id},"name":${JSON.stringify(name)},"categoryId":5${status}}`;
}

const noLock = { openFlags: 0, lock: async () => ({ lost: () => false, release: async () => undefined }) };

/**
 * Opens a journal as a start does, with the texts that it would serve; without the lock's process, which would cost more
 * than all the rest.
 */
export async function openTexts(disk: Disk, path: string): Promise<{ readonly texts: readonly string[]; readonly journal: Journal }> {
  const texts: string[] = [];
  const keep = petLines((_id, _status, json) => texts.push(Buffer.from(json, 'latin1').toString()));
  const journal = await openJournal(path, { disk, locking: noLock, log: () => undefined, clock: () => 0 }, keep);
  return { texts, journal };
}

/** The texts that a start would serve. */
export async function startTexts(disk: Disk, path: string): Promise<readonly string[]> {
  const { texts, journal } = await openTexts(disk, path);
  await journal.close();
  return texts;
}
