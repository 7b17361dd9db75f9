/**
 * Owns copying animals, and what plugins keep beside them, from one storage to another, ids kept: what is there already is
 * compared, what is missing is added, and in the end all of it is read again. Knows no backend.
 */
import { createHash } from 'node:crypto';
import { PetstoreError } from '../errors.js';
import type { PetStorage, StoredText } from '../storage.js';
import { anyRecords } from './any-records.js';
import { lastIdOf, Pace, pagesOf, type Readable } from './text-pages.js';
import { textsOf } from './texts.js';

/** Takes texts with the ids that they have; for one at work at a time, and for nobody beside it. */
export interface TextTarget {
  /** Keeps texts of ascending ids, all above those that are there, in one commit. @throws PetstoreError */
  adopt(texts: readonly StoredText[]): Promise<void>;
  close(): Promise<void>;
}

/** A storage that can be copied to, in both of its roles; never in both at once. */
export interface CopyTarget {
  readonly open: () => Promise<PetStorage>;
  /** For its animals, or for the records of a name. */
  readonly openTarget: (records?: string) => Promise<TextTarget>;
}

/** What was copied. */
export interface CopyReport {
  /** How many animals, or records, both have now. */
  readonly count: number;
  /** How many of them were there before. */
  readonly present: number;
  /** The SHA-256 of every text with a newline behind it, in hexadecimal digits. */
  readonly sha256: string;
}

/** How far it is: `done` is from 0 to 1. */
export type CopyProgress = (what: 'comparing' | 'copying' | 'checking', done: number, count: number) => void;

/** What is copied, where to, and what one of them is called. */
interface Work {
  readonly from: Readable;
  readonly open: () => Promise<{ readonly texts: Readable; readonly close: () => Promise<void> }>;
  readonly openTarget: () => Promise<TextTarget>;
  readonly one: string;
}

/**
 * Copies what `to` lacks of the animals of `from`. It may be begun again after it was cut off. Nobody else may add to
 * `to` meanwhile; what is added to `from` may be left out. Idempotency keys are not copied.
 * @throws PetstoreError `storage_unusable` where `to` holds an animal that `from` has not, `storage_damaged` where in the
 * end they are not the same, and whatever opening, reading and writing them throws.
 */
export async function copyPets(from: PetStorage, to: CopyTarget, progress: CopyProgress = () => undefined): Promise<CopyReport> {
  const open: Work['open'] = async () => {
    const storage = await to.open();
    return { texts: textsOf(storage), close: () => storage.close() };
  };
  return copyTexts({ from: textsOf(from), open, openTarget: () => to.openTarget(), one: 'animal' }, progress);
}

/** The same for what a plugin keeps under a name, as `PetStorage.records` has it; to be asked for once of a `from`. */
export async function copyRecords(name: string, from: PetStorage, to: CopyTarget, progress: CopyProgress = () => undefined): Promise<CopyReport> {
  const open: Work['open'] = async () => {
    const storage = await to.open();
    try {
      return { texts: await recordsOf(storage, name), close: () => storage.close() };
    } catch (error) {
      await storage.close();
      throw error;
    }
  };
  return copyTexts({ from: await recordsOf(from, name), open, openTarget: () => to.openTarget(name), one: `record of ${name}` }, progress);
}

async function recordsOf(storage: PetStorage, name: string): Promise<Readable> {
  const records = storage.records?.(name, anyRecords);
  if (records === undefined) throw new PetstoreError('storage_unusable', 'this storage keeps nothing but animals');
  await records.opened;
  return records;
}

async function copyTexts({ from, open, openTarget, one }: Work, progress: CopyProgress): Promise<CopyReport> {
  const lastId = await lastIdOf(from);
  const doneAt = (id: bigint): number => (lastId === 0n ? 1 : Math.min(1, Number((id * 1000n) / lastId) / 1000));
  const source = new Tally();
  // Begun again, the copy goes on in step.
  const pace = new Pace();

  const before = await open();
  try {
    for await (const texts of commonOf(from, before.texts, pace, one)) {
      source.add(texts);
      progress('comparing', doneAt(source.lastId), source.count);
    }
  } finally {
    await before.close();
  }

  const present = source.count;
  const target = await openTarget();
  try {
    for await (const texts of pagesOf(from, source.lastId, pace)) {
      await target.adopt(texts);
      source.add(texts);
      progress('copying', doneAt(source.lastId), source.count);
    }
  } finally {
    await target.close();
  }

  const copy = new Tally();
  const after = await open();
  try {
    for await (const texts of pagesOf(after.texts, 0n, new Pace())) {
      copy.add(texts);
      progress('checking', doneAt(copy.lastId), copy.count);
    }
  } finally {
    await after.close();
  }
  const [sha256, copied] = [source.digest(), copy.digest()];
  if (copy.count !== source.count || copied !== sha256) {
    throw new PetstoreError('storage_damaged', `the copy is not the same: ${copy.count} of SHA-256 ${copied}, where ${source.count} of ${sha256} were read`);
  }
  return { count: source.count, present, sha256 };
}

/** Counts what passes, and takes its digest. */
class Tally {
  count = 0;
  lastId = 0n;
  readonly #hash = createHash('sha256');

  add(texts: readonly StoredText[]): void {
    for (const { json } of texts) this.#hash.update(`${json}\n`, 'latin1');
    this.count += texts.length;
    this.lastId = texts.at(-1)?.id ?? this.lastId;
  }

  /** To be asked for once. */
  digest(): string {
    return this.#hash.digest('hex');
  }
}

/** A page at a time what both have, which must be the beginning of `from` and all of `to`. */
async function* commonOf(from: Readable, to: Readable, pace: Pace, one: string): AsyncGenerator<readonly StoredText[], void, undefined> {
  const theirs = pagesOf(from, 0n, new Pace());
  for await (const ours of pagesOf(to, 0n, pace)) {
    const { value: wanted = [] } = await theirs.next();
    const other = ours.find(({ json }, index) => json !== wanted[index]?.json);
    if (other !== undefined) {
      throw new PetstoreError('storage_unusable', `the ${one} of id ${other.id} is not the one that is to be copied; copy to an empty storage`);
    }
    yield ours;
  }
}
