/** Tests of `list`, of the storage and of its `texts`. */
import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { inspect } from 'node:util';
import {
  petJson,
  petStatuses,
  type Pet,
  type PetDraft,
  type PetFilter,
  type PetQuery,
} from '../index.js';
import {
  filterNames,
  filtersOf,
  invalidQueries,
  numberedDrafts,
  storedPets,
  rex,
  type TestWith,
} from './storage-tester.js';

const maxId = 2n ** 63n - 1n;
const statuses = [...petStatuses, undefined];
/** Forty pets with all combinations of a status and a category. */
const mixedDrafts = Array.from({ length: 40 }, (_, at): PetDraft => {
  const status = statuses[(at * 7) % statuses.length];
  return { name: `n${at % 5}`, categoryId: BigInt(at % 3), ...(status && { status }) };
});

/** A pet that differs from `rex` in each field. */
const tom: PetDraft = { name: 'Tom', categoryId: 7n };

/** Returns true if a pet has each value of a filter. A value that is undefined counts as absent. */
function matches(pet: Pet, filter: PetFilter): boolean {
  const values: Readonly<Record<string, unknown>> = { ...pet };
  return Object.entries(filter).every(
    ([name, value]) => value === undefined || values[name] === value,
  );
}

/** Registers the tests of `list`. */
export function testList(testWith: TestWith): void {
  testWith(
    'list returns the first pets that match the query, by ascending id',
    mixedDrafts,
    async (storage) => {
      const all = storedPets(mixedDrafts);
      assert.deepEqual(await storage.list({ limit: 100 }), all);

      const absent = Object.fromEntries(filterNames.map((name) => [name, undefined]));
      const filters = new Map(
        [absent, ...all.flatMap(filtersOf)].map((filter) => [inspect(filter), filter]),
      );
      for (const [shownFilter, filter] of filters) {
        for (const limit of [1, 2, 7, 39, 40, 100]) {
          for (const after of [undefined, 0n, 1n, 2n, 20n, 39n, 40n, 41n, 2n ** 32n, maxId]) {
            const query: Required<Omit<PetQuery, keyof PetFilter>> = { ...filter, limit, after };
            const following = all.filter(({ id }) => id > (after ?? 0n));
            const matching = following.filter((pet) => matches(pet, filter));
            const pets = matching.slice(0, limit);
            assert.deepEqual(await storage.list(query), pets, `a list filtered by ${shownFilter}`);

            const page = await storage.texts?.list(query);
            if (page === undefined) continue;
            assert.deepEqual(
              page.texts,
              pets.map((pet) => petJson(pet.id, pet)),
            );
            assert.equal(page.next, matching.length > limit ? pets.at(-1)?.id : undefined);
          }
        }
      }
    },
  );

  testWith('list returns an empty page if no pet matches', [], async (storage) => {
    const assertEmpty = async (query: PetQuery) => {
      assert.deepEqual(await storage.list(query), [], inspect(query));
      if (storage.texts !== undefined)
        assert.deepEqual(await storage.texts.list(query), { texts: [] }, inspect(query));
    };
    const filters = filtersOf({ id: 1n, ...rex }).filter(
      (filter) => Object.keys(filter).length > 0,
    );

    for (const query of [{ limit: 1 }, { limit: 100, after: 5n }]) await assertEmpty(query);
    for (const filter of filters) await assertEmpty({ limit: 100, ...filter });

    // No filter matches these pets.
    for (const draft of [tom, { ...tom, status: 'sold' } as const]) await storage.insert(draft);
    for (const filter of filters) await assertEmpty({ limit: 100, ...filter });
    await assertEmpty({ limit: 100, after: 2n });
  });

  testWith(
    'list returns the same full page after further inserts',
    numberedDrafts(5),
    async (storage) => {
      const queries: readonly PetQuery[] = [{ limit: 2 }, { limit: 2, after: 2n }, { limit: 4 }];
      const pageOf = async (query: PetQuery) => [
        await storage.list(query),
        await storage.texts?.list(query),
      ];
      const pages = () => Promise.all(queries.map(pageOf));

      // A copy, because the storage may return the same array again.
      const before = structuredClone(await pages());
      const drafts = numberedDrafts(5).map((draft): PetDraft => ({ ...draft, status: 'sold' }));
      await Promise.all(drafts.map((draft) => storage.insert(draft)));
      assert.deepEqual(await pages(), before);
    },
  );

  testWith('list returns a pet only after all pets with smaller ids', [], async (storage) => {
    const pets = storedPets(numberedDrafts(100));

    let isInserting = true;
    const end = () => (isInserting = false);
    const inserting = Promise.all(numberedDrafts(100).map((draft) => storage.insert(draft)));
    inserting.then(end, end);
    while (isInserting) {
      const listed = await storage.list({ limit: 100 });
      assert.deepEqual(listed, pets.slice(0, listed.length));
      await setImmediate();
    }
    await inserting;
  });

  testWith('list rejects an invalid query with a TypeError', [rex], async (storage) => {
    for (const query of invalidQueries)
      for (const lister of [storage, storage.texts ?? storage])
        await assert.rejects(async () => lister.list(query as PetQuery), TypeError, inspect(query));
  });
}
