/** Helpers of the storage suites: a storage for each test, pets to insert, and filters. */
import { test } from 'node:test';
import { petFields, type Pet, type PetDraft, type PetFilter, type PetStorage } from '../index.js';

/** Returns a new storage without pets. */
export type OpenStorage = () => PetStorage | Promise<PetStorage>;

/** Registers a test. The test gets a new storage that contains the pets of `drafts`. */
export type TestWith = (
  name: string,
  drafts: readonly PetDraft[],
  run: (storage: PetStorage) => Promise<void>,
) => void;

/** Returns a function that registers tests, each with a storage from `open`. */
export function storageTester(open: OpenStorage): TestWith {
  return (name, drafts, run) => {
    void test(name, async (t) => {
      const storage = await open();
      t.after(() => storage.close());

      await Promise.all(drafts.map((draft) => storage.insert(draft)));
      await run(storage);
    });
  };
}

/** A draft. Frozen, so that a storage that changes it fails at once. */
export const rex: PetDraft = Object.freeze({ name: 'Rex', categoryId: 5n, status: 'available' });

/** The smallest and the greatest int64. */
export const int64Limits = [-(2n ** 63n), 2n ** 63n - 1n];

/** The error of a method that is called after `close`. */
export const unavailable = { name: 'PetstoreError', code: 'unavailable' };

/** Returns `count` drafts with different names. */
export function numberedDrafts(count: number): PetDraft[] {
  return Array.from({ length: count }, (_, at) => ({ ...rex, name: `n${at}` }));
}

/** Returns the pets that an empty storage makes of `drafts`. */
export function storedPets(drafts: readonly PetDraft[]): Pet[] {
  return drafts.map((draft, at) => ({ id: BigInt(at + 1), ...draft }));
}

/** The names of the fields by which a list can be filtered. */
export const filterNames = petFields
  .filter(({ isFilterable }) => isFilterable)
  .map(({ name }) => name);

/** Returns the filters by each combination of fields, with the values that a pet has. */
export function filtersOf(pet: Pet): readonly PetFilter[] {
  const values: Readonly<Record<string, unknown>> = { ...pet };
  const filters: PetFilter[] = [{}];
  for (const name of filterNames)
    if (values[name] !== undefined)
      filters.push(...filters.map((filter) => ({ ...filter, [name]: values[name] })));
  return filters;
}

/** Values that are not a query, which a caller without types may pass. */
export const invalidQueries: readonly unknown[] = [
  ...[undefined, null, {}],
  ...[0, -1, 1.5, NaN, Infinity, '5', 5n].map((limit) => ({ limit })),
  ...[1, '1', null].map((after) => ({ limit: 5, after })),
];
