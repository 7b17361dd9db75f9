/** Copies pets or a plugin's records from any storage to any other, with their ids. */
import { createHash } from 'node:crypto';
import { jsonStoreOf } from '../engine/index.js';
import { PetstoreError } from '../errors.js';
import { int64Max } from '../json.js';
import type { PetStorage, StoredText, TextPage, Texts, TextTarget } from '../storage.js';
import { anyRecords, idOfText } from './record-lines.js';

/** A storage to copy to. Only one of its two functions has it open at a time. */
export interface CopyTarget {
  /** Opens the storage to compare it. */
  readonly open: () => Promise<PetStorage>;
  /** Opens its pets, or a plugin's records by their name, to add to them. */
  readonly openTarget: (records?: string) => Promise<TextTarget>;
}

/** Called with the number of pets or records that a step has done so far. */
export type CopyProgress = (what: 'comparing' | 'copying' | 'checking', count: number) => void;

/** The result of a copy. */
export interface CopyReport {
  /** The number of pets or records that both storages have now. */
  readonly count: number;
  /** The number of these that the target had before. */
  readonly present: number;
  /** The SHA-256 of all texts, each with a newline, in hexadecimal digits. */
  readonly sha256: string;
}

/**
 * Copies the pets of `from` that `to` lacks, and then compares both. An interrupted copy can be
 * continued. No other process may add to `to` meanwhile; what is added to `from` meanwhile may be
 * left out. Idempotency keys are not copied.
 * @throws PetstoreError `storage_unusable` if `to` has a pet that `from` does not have
 * @throws PetstoreError `storage_damaged` if both differ in the end
 */
export function copyPets(
  from: PetStorage,
  to: CopyTarget,
  progress?: CopyProgress,
): Promise<CopyReport> {
  return copyRecords(undefined, from, to, progress);
}

/**
 * Copies a plugin's records as `copyPets` does, or the pets if `name` is undefined. Opens the
 * records of `from`, which is possible once.
 * @throws PetstoreError as `copyPets`
 */
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
  // Reads one text before `to` is created, because `from` may not be readable.
  await source.list({ limit: 1 });

  // The texts of the target must equal the first texts of the source.
  const present = await sumOfTarget('comparing');
  const sum = new Sum();
  for await (const page of pagesOf(source, 0n, present.lastId)) sum.add(page);
  if (sum.sha256 !== present.sha256) {
    const what = `other ${name ?? 'pets'} than the source; copy to an empty storage`;
    throw new PetstoreError('storage_unusable', `the storage to copy to has ${what}`);
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

  const source256 = `the source has ${count} with SHA-256 ${sha256}`;
  const copy256 = `the copy has ${copied.count} with SHA-256 ${copied.sha256}`;
  throw new PetstoreError('storage_damaged', `the copy differs: ${source256}, ${copy256}`);
}

type Listed = Pick<Texts<never>, 'list'>;

/**
 * Returns the pets of a storage, or a plugin's records by their name.
 * @throws PetstoreError `storage_unusable` if the storage does not keep records
 */
async function textsIn(storage: PetStorage, name: string | undefined): Promise<Listed> {
  if (name === undefined) return jsonStoreOf(storage);

  const records = storage.records?.(name, anyRecords);
  if (!records)
    throw new PetstoreError('storage_unusable', 'this storage keeps only pets, no records');

  await records.opened;
  return records;
}

/** The number and the SHA-256 of texts, by which two storages are compared. */
class Sum {
  count = 0;
  lastId = 0n;
  readonly #hash = createHash('sha256');

  /** Adds texts and returns the new count. */
  add(texts: readonly StoredText[]): number {
    for (const { json } of texts) this.#hash.update(`${json}\n`, 'latin1');
    this.lastId = texts.at(-1)?.id ?? this.lastId;
    return (this.count += texts.length);
  }

  get sha256(): string {
    return this.#hash.copy().digest('hex');
  }
}

/** The greatest number of texts in a commit, and about the greatest number of their bytes. */
const pageSize = 500;
const pageBytes = 4 * 2 ** 20;

/** Reads all texts with an id above `above` and up to `upTo`, page by page. */
async function* pagesOf(
  texts: Listed,
  above = 0n,
  upTo = int64Max,
): AsyncGenerator<readonly StoredText[]> {
  // Begins with a small page, because the length of the texts is unknown.
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
