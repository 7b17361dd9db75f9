/**
 * Storage files as the contract writes them, made here by hand, so that the code does not prove
 * itself.
 */
import { openJournal, type Disk } from '../../dist/journal/index.js';
import { petLines } from '../../dist/file/index.js';
import { commitOf } from '../storage/commit-line.js';
import { onceOf } from '../storage/once.js';
import { clock } from '../support/disk.js';

/** A file and what is in it. */
export interface Made {
  readonly bytes: Buffer;
  /** The text of each animal, in order, behind that of its idempotency record where it has one. */
  readonly texts: readonly string[];
  /** Where the last batch begins. */
  readonly lastFrom: number;
}

/** Batches of so many animals, each with its commit line. */
export function made(
  sizes: readonly number[],
  nameOf: (id: number) => string = (id) => `pet ${id}`,
  isKeyed: (id: number) => boolean = () => false,
): Made {
  const texts: string[] = [];
  let bytes = Buffer.alloc(0);
  let lastFrom = 0;
  for (const size of sizes) {
    lastFrom = bytes.length;
    const from = texts.length;
    for (let id = from + 1; id <= from + size; id++)
      texts.push(isKeyed(id) ? keyedText(id, nameOf(id)) : petText(id, nameOf(id)));
    const body = Buffer.from(
      texts
        .slice(from)
        .map((text) => `${text}\n`)
        .join(''),
    );
    bytes = Buffer.concat([bytes, body, commitOf(body, lastFrom)]);
  }
  return { bytes, texts, lastFrom };
}

/** An animal's one text; three of four have a status. */
export function petText(id: number, name: string): string {
  const status = ['', ',"status":"available"', ',"status":"pending"', ',"status":"sold"'][id % 4];
  return `{"id":${id},"name":${JSON.stringify(name)},"categoryId":5${status}}`;
}

/** An animal's text behind its idempotency record. */
export function keyedText(id: number, name: string): string {
  const { key, body, at } = onceOf(name);
  return `{"idempotency":{"key":"${key}","body":"${body}","at":${at}}}\n${petText(id, name)}`;
}

/** The texts that a start would serve, each behind its record as it was read. */
export async function startTexts(disk: Disk, path: string): Promise<readonly string[]> {
  const texts: string[] = [];
  const keep = petLines((_id, json, _indexed, once) => {
    const record = once === undefined ? '' : `${JSON.stringify({ idempotency: once })}\n`;
    texts.push(record + Buffer.from(json, 'latin1').toString());
  });
  const journal = await openJournal(path, { disk, log: () => undefined, clock }, keep);
  await journal.close();
  return texts;
}
