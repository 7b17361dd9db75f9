/**
 * Copies animals, and what plugins keep, from any storage to any other, ids kept: compares, adds,
 * and reads again.
 */
import { createHash } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { isRecordName, jsonStoreOf, parsePet } from '../engine/index.js';
import { PetstoreError } from '../errors.js';
import { firstLineIn, nodeDisk, wholeLines } from '../journal/index.js';
import { int64Max, parseJson } from '../json.js';
import type { Log } from '../log.js';
import type { PetStorage, StoredText, TextPage, Texts, TextTarget } from '../storage.js';
import { withFileToRead } from './check-file.js';
import { anyRecords, idOfText } from './record-lines.js';

/** A storage that can be copied to. It is open in one way at a time. */
export interface CopyTarget {
  /** Opens it to be compared. */
  readonly open: () => Promise<PetStorage>;
  /** Opens its animals, or the records of a name, to be added to. */
  readonly openTarget: (records?: string) => Promise<TextTarget>;
}

/** Is told how many animals, or records, a step has come to. */
export type CopyProgress = (what: 'comparing' | 'copying' | 'checking', count: number) => void;

/** What was copied. */
export interface CopyReport {
  /** How many animals, or records, both storages have now. */
  readonly count: number;
  /** How many of them the other one had before. */
  readonly present: number;
  /** The SHA-256 of all their texts, a newline behind each, in hexadecimal digits. */
  readonly sha256: string;
}

/**
 * Copies what `to` lacks of the animals of `from`, also after it was cut off. Nobody else may add
 * to `to` meanwhile; what is added to `from` may be left out. Idempotency keys are not copied.
 * @throws PetstoreError `storage_unusable` where `to` holds an animal that `from` has not,
 * `storage_damaged` where in the end they differ, and whatever opening, reading and writing them
 * throws.
 */
export function copyPets(
  from: PetStorage,
  to: CopyTarget,
  progress?: CopyProgress,
): Promise<CopyReport> {
  return copyRecords(undefined, from, to, progress);
}

/** The same for the records of a name, which `from` hands out once. */
export async function copyRecords(
  name: string | undefined,
  from: PetStorage,
  to: CopyTarget,
  progress: CopyProgress = () => undefined,
): Promise<CopyReport> {
  const sumOfTarget = async (what: 'comparing' | 'checking') => {
    const sum = new Sum();
    const storage = await to.open();
    try {
      for await (const page of pagesOf(await textsIn(storage, name))) progress(what, sum.add(page));
    } finally {
      await storage.close();
    }
    return sum;
  };

  const source = await textsIn(from, name);
  // Before `to` is made, for `from` may not be readable.
  await source.list({ limit: 1 });

  // What is there already must be how the source begins.
  const present = await sumOfTarget('comparing');
  const sum = new Sum();
  for await (const page of pagesOf(source, 0n, present.lastId)) sum.add(page);
  if (sum.sha256 !== present.sha256) {
    const what = `${name ?? 'animals'} that are not those to be copied; copy to an empty storage`;
    throw new PetstoreError('storage_unusable', `the storage to copy to holds ${what}`);
  }

  const target = await to.openTarget(name);
  try {
    for await (const page of pagesOf(source, present.lastId)) {
      await target.adopt(page);
      progress('copying', sum.add(page));
    }
  } finally {
    await target.close();
  }

  const copied = await sumOfTarget('checking');
  const { count, sha256 } = sum;
  if (copied.sha256 === sha256) return { count, present: present.count, sha256 };

  const both = `${copied.count} of SHA-256 ${copied.sha256}, where ${count} of ${sha256} were read`;
  throw new PetstoreError('storage_damaged', `the copy is not the same: ${both}`);
}

type Listed = Pick<Texts<never>, 'list'>;

/** The animals of a storage, or its records of a name. @throws PetstoreError `storage_unusable` */
async function textsIn(storage: PetStorage, name: string | undefined): Promise<Listed> {
  if (name === undefined) return jsonStoreOf(storage);

  const records = storage.records?.(name, anyRecords);
  if (!records)
    throw new PetstoreError('storage_unusable', 'this storage keeps nothing but animals');

  await records.opened;
  return records;
}

/** What of two storages must be equal: how many texts they have, and the SHA-256 of those. */
class Sum {
  count = 0;
  lastId = 0n;
  readonly #hash = createHash('sha256');

  /** Adds texts; answers how many there are by now. */
  add(texts: readonly StoredText[]): number {
    for (const { json } of texts) this.#hash.update(`${json}\n`, 'latin1');
    this.lastId = texts.at(-1)?.id ?? this.lastId;
    return (this.count += texts.length);
  }

  get sha256(): string {
    return this.#hash.copy().digest('hex');
  }
}

/** How many texts, and about how many bytes of them, share a commit. */
const pageSize = 500;
const pageBytes = 4 * 2 ** 20;

/** All texts of ids above one and up to another, a page at a time. */
async function* pagesOf(
  texts: Listed,
  above = 0n,
  upTo = int64Max,
): AsyncGenerator<readonly StoredText[]> {
  // How long the texts are is known only once there is a page of them.
  let limit = 16;
  for (let after: bigint | undefined = above; after !== undefined && after < upTo; ) {
    const page: TextPage = await texts.list({ limit, after });

    const bytes = page.texts.reduce((sum, json) => sum + json.length, 0);
    if (bytes > 0)
      limit = Math.max(1, Math.min(pageSize, Math.floor((pageBytes * page.texts.length) / bytes)));

    const found = page.texts
      .map((json) => ({ id: idOfText(json), json }))
      .filter(({ id }) => id <= upTo);
    if (found.length > 0) yield found;
    after = page.next;
  }
}

/**
 * The names under which plugins keep records beside a file, in `FILE.NAME`. A file whose first line
 * is no record, or is an animal, as in a copy of the storage file, is not among them: `log` is told
 * of it.
 */
export async function fileRecordNames(
  path: string,
  log: Log = () => undefined,
): Promise<readonly string[]> {
  const folder = dirname(resolve(path));
  const prefix = `${basename(path)}.`;
  const names: string[] = [];
  for (const base of (await readdir(folder)).sort()) {
    const name = base.slice(prefix.length);
    if (!base.startsWith(prefix) || !isRecordName(name)) continue;

    const file = `${folder}/${base}`;
    const line = await firstLineOf(file);
    if (line === undefined) continue;

    // The file may be damaged, which the copying will tell.
    if (/^\s*\{.*"id"\s*:/.test(line) && !isAnimal(line)) names.push(name);
    else {
      const message = 'a file beside the storage file is not taken for the records of a plugin';
      log('warn', message, { file });
    }
  }
  return names;
}

/** The first line of a file that is neither blank nor of the journal's own. */
async function firstLineOf(path: string): Promise<string | undefined> {
  const facts = await stat(path).catch(() => undefined);
  if (!facts?.isFile()) return undefined;

  return withFileToRead(path, async (descriptor) => {
    for await (const { text, at } of wholeLines(nodeDisk, descriptor, facts)) {
      const line = text
        .slice(firstLineIn(text, at))
        .split('\n')
        .find((each) => !/^(\{"(commit|idempotency|import)":|\s*$)/.test(each));
      if (line !== undefined) return line;
    }
    return undefined;
  });
}

/** Whether a line has an animal's members and no more. */
function isAnimal(line: string): boolean {
  try {
    const value = parseJson(line);
    return value instanceof Map && value.size === Object.keys(parsePet(line)).length;
  } catch {
    return false;
  }
}
