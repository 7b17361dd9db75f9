/**
 * Makes storage files in the format of the contract without the code under test, so that a mistake
 * in that code shows.
 */
import { openJournal, type Disk } from '../../dist/journal/index.js';
import { petLines } from '../../dist/file/index.js';
import { commitOf } from '../storage/commit-line.js';
import { onceOf } from '../storage/once.js';
import { clock } from '../support/disk.js';

/** The bytes of a file, and its content. */
export interface Made {
  readonly bytes: Buffer;
  /** The text of each pet in order, after its idempotency record, if any. */
  readonly texts: readonly string[];
  /** The offset of the last batch. */
  readonly lastFrom: number;
}

/** Makes a file with batches of these sizes, each with its commit record. */
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

/** Returns the JSON of a pet. Three of four pets have a status. */
export function petText(id: number, name: string): string {
  const status = ['', ',"status":"available"', ',"status":"pending"', ',"status":"sold"'][id % 4];
  return `{"id":${id},"name":${JSON.stringify(name)},"categoryId":5${status}}`;
}

/** Returns the JSON of a pet after its idempotency record. */
export function keyedText(id: number, name: string): string {
  const { key, body, at } = onceOf(name);
  return `{"idempotency":{"key":"${key}","body":"${body}","at":${at}}}\n${petText(id, name)}`;
}

/** Returns the texts that a start would serve, each after its idempotency record. */
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
