/**
 * Owns copying animals from one storage to another, ids kept: what is there already is compared, what is missing is added,
 * and in the end all of it is read again. Knows no backend.
 */
import { createHash } from 'node:crypto';
import { PetstoreError } from '../errors.js';
import { parsePet } from '../pet.js';
import type { PetStorage, StoredText, TextPage } from '../storage.js';
import { textsOf } from './texts.js';

/** Takes animals with the ids that they have; for one at work at a time, and for nobody beside it. */
export interface PetTarget {
  /** Keeps animals of ascending ids, all above those that are there, in one commit. @throws PetstoreError */
  adopt(pets: readonly StoredText[]): Promise<void>;
  close(): Promise<void>;
}

/** A storage that can be copied to, in both of its roles; never in both at once. */
export interface CopyTarget {
  readonly open: () => Promise<PetStorage>;
  readonly openTarget: () => Promise<PetTarget>;
}

/** What was copied. */
export interface CopyReport {
  /** How many animals both have now. */
  readonly animals: number;
  /** How many of them were there before. */
  readonly present: number;
  /** The SHA-256 of every text with a newline behind it, in hexadecimal digits. */
  readonly sha256: string;
}

/** How far it is: `done` is from 0 to 1. */
export type CopyProgress = (what: 'comparing' | 'copying' | 'checking', done: number, animals: number) => void;

/** How many animals share a commit; fewer where they are long, so that about so many bytes are held at once. */
const pageSize = 500;
const pageBytes = 4 * 2 ** 20;

/**
 * Copies what `to` lacks of the animals of `from`. It may be begun again after it was cut off. Nobody else may add to
 * `to` meanwhile; what is added to `from` may be left out.
 * @throws PetstoreError `storage_unusable` where `to` holds an animal that `from` has not, `storage_damaged` where in the
 * end they are not the same, and whatever opening, reading and writing them throws.
 */
export async function copyPets(from: PetStorage, to: CopyTarget, progress: CopyProgress = () => undefined): Promise<CopyReport> {
  const lastId = await lastIdOf(from);
  const doneAt = (id: bigint): number => (lastId === 0n ? 1 : Math.min(1, Number((id * 1000n) / lastId) / 1000));
  const source = new Tally();

  const before = await to.open();
  try {
    await compare(from, before, source, (id) => progress('comparing', doneAt(id), source.animals));
  } finally {
    await before.close();
  }

  const present = source.animals;
  const target = await to.openTarget();
  try {
    for await (const pets of pagesOf(from, source.lastId)) {
      await target.adopt(pets);
      source.add(pets);
      progress('copying', doneAt(source.lastId), source.animals);
    }
  } finally {
    await target.close();
  }

  const after = await to.open();
  const copy = new Tally();
  try {
    for await (const pets of pagesOf(after, 0n)) {
      copy.add(pets);
      progress('checking', doneAt(copy.lastId), copy.animals);
    }
  } finally {
    await after.close();
  }
  const [sha256, copied] = [source.digest(), copy.digest()];
  if (copy.animals !== source.animals || copied !== sha256) {
    throw new PetstoreError('storage_damaged', `the copy is not the same: ${copy.animals} animals of SHA-256 ${copied}, where ${source.animals} of ${sha256} were read`);
  }
  return { animals: source.animals, present, sha256 };
}

/** Counts what passes, and takes its digest. */
class Tally {
  animals = 0;
  lastId = 0n;
  readonly #hash = createHash('sha256');

  add(pets: readonly StoredText[]): void {
    for (const { json } of pets) this.#hash.update(`${json}\n`, 'latin1');
    this.animals += pets.length;
    this.lastId = pets.at(-1)?.id ?? this.lastId;
  }

  /** To be asked for once. */
  digest(): string {
    return this.#hash.digest('hex');
  }
}

/** Takes what both have, which must be the beginning of `from` and all of `to`. */
async function compare(from: PetStorage, to: PetStorage, source: Tally, told: (id: bigint) => void): Promise<void> {
  const theirs = pagesOf(from, 0n);
  for await (const ours of pagesOf(to, 0n)) {
    const { value: wanted = [] } = await theirs.next();
    const other = ours.find(({ json }, index) => json !== wanted[index]?.json);
    if (other !== undefined) {
      throw new PetstoreError('storage_unusable', `the animal of id ${other.id} is not the one that is to be copied; copy to an empty storage`);
    }
    source.add(ours);
    told(source.lastId);
  }
}

/** Every animal above an id, a page at a time. The same animals make the same pages, whatever they are kept in. */
async function* pagesOf(storage: PetStorage, after: bigint): AsyncGenerator<readonly StoredText[], undefined, undefined> {
  let limit = pageSize;
  for (let last: bigint | undefined = after; last !== undefined; ) {
    const { texts, next }: TextPage = await textsOf(storage).list({ limit, after: last });
    if (texts.length > 0) yield texts.map((json) => ({ id: parsePet(json).id, json }));
    const bytes = texts.reduce((sum, json) => sum + json.length, 0);
    limit = Math.max(1, Math.min(pageSize, Math.floor((pageBytes * texts.length) / bytes)));
    last = next;
  }
  return undefined;
}

/** The greatest id of a storage, 0 of an empty one, by some hundred questions at most. */
async function lastIdOf(storage: PetStorage): Promise<bigint> {
  const isAny = async (after: bigint): Promise<boolean> => (await textsOf(storage).list({ limit: 1, after })).texts.length > 0;
  if (!(await isAny(0n))) return 0n;
  let [low, high] = [0n, 1n];
  // Some animal is above `low`, none above `high`.
  while (high < 2n ** 62n && (await isAny(high))) [low, high] = [high, 2n * high];
  if (high >= 2n ** 62n) high = 2n ** 63n - 1n;
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    if (await isAny(middle)) low = middle;
    else high = middle;
  }
  return high;
}
