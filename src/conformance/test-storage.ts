/** A suite on node:test that tests what every storage must do, for whoever writes one. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { inspect } from 'node:util';
import {
  petFields,
  petStatuses,
  type Pet,
  type PetDraft,
  type PetFilter,
  type PetQuery,
  type PetStorage,
} from '../index.js';

const rex: PetDraft = { name: 'Rex', categoryId: 5n, status: 'available' };
/** The ends of an int64. */
const ends = [-(2n ** 63n), 2n ** 63n - 1n];
const unavailable = { name: 'PetstoreError', code: 'unavailable' };

/** So many drafts of different names. */
const numbered = (count: number): PetDraft[] =>
  Array.from({ length: count }, (_, at) => ({ ...rex, name: `n${at}` }));

/** The animals that a storage makes of these drafts, where it has no others. */
const kept = (drafts: readonly PetDraft[]): Pet[] =>
  drafts.map((draft, at) => ({ id: BigInt(at + 1), ...draft }));

/** The names of the fields that lists filter by. */
const filterNames = petFields.filter(({ isFilterable }) => isFilterable).map(({ name }) => name);

/** Returns the filters by each combination of fields, with the values that a pet has. */
function filtersOf(pet: Pet): readonly PetFilter[] {
  const values: Readonly<Record<string, unknown>> = { ...pet };
  const filters: PetFilter[] = [{}];
  for (const name of filterNames)
    if (values[name] !== undefined)
      filters.push(...filters.map((filter) => ({ ...filter, [name]: values[name] })));
  return filters;
}

/** Returns true if a pet has each value of a filter. A value that is undefined counts as absent. */
function matches(pet: Pet, filter: PetFilter): boolean {
  const values: Readonly<Record<string, unknown>> = { ...pet };
  return Object.entries(filter).every(
    ([name, value]) => value === undefined || values[name] === value,
  );
}

/** What a program without types may give in place of a query. */
const impossibleQueries: readonly unknown[] = [
  ...[undefined, null, {}],
  ...[0, -1, 1.5, NaN, Infinity, '5', 5n].map((limit) => ({ limit })),
  ...[1, '1', null].map((after) => ({ limit: 5, after })),
];

/**
 * Registers the tests with node:test. `insertOnce` and `records`, which a storage need not have,
 * have suites of their own; what needs a restart is not tested.
 *
 * @param options `open` answers another storage for each test, open and without animals; the suite
 * closes it.
 */
export function testStorage({
  open,
}: {
  readonly open: () => PetStorage | Promise<PetStorage>;
}): void {
  /** One test, with a storage that holds these animals. */
  const rule = (
    what: string,
    drafts: readonly PetDraft[],
    run: (storage: PetStorage) => Promise<void>,
  ): void =>
    void test(what, async (t) => {
      const storage = await open();
      t.after(() => storage.close());

      await Promise.all(drafts.map((draft) => storage.insert(draft)));
      await run(storage);
    });

  describe('the contract of a storage', () => {
    rule(
      'a storage that is open takes an animal, answers it whole and reads it back the same',
      [],
      async (storage) => {
        const pet = { id: 1n, ...rex };

        await storage.ready?.();
        assert.deepEqual(await storage.insert(rex), pet);
        assert.deepEqual(await storage.get(1n), pet);
        assert.deepEqual(await storage.list({ limit: 20 }), [pet]);
        assert.equal(storage.size ?? 1, 1);
      },
    );

    const categories = [...ends, 2n ** 53n + 1n, 0n].map(
      (categoryId): PetDraft => ({ name: 'Tom', categoryId }),
    );
    const texts = [
      '',
      ' ',
      '\u0000',
      '"\\/\b\n\u2028',
      'Tüm',
      '猫',
      '🐈',
      '\uFEFF',
      '\uFFFF',
      'x'.repeat(70_000),
    ];

    const given = [...categories, ...texts.map((name) => ({ ...rex, name }))];
    rule(
      'any int64 and any text are kept exactly, and a status that is left out is absent',
      given,
      async (storage) => {
        for (const [at, pet] of kept(given).entries())
          assert.deepEqual(await storage.get(BigInt(at + 1)), pet);
        assert.deepEqual(await storage.list({ limit: 99 }), kept(given));
      },
    );

    rule(
      'ids are 1, 2, 3 … in the order of the calls, with many at once too',
      [],
      async (storage) => {
        const pets = kept(numbered(300));

        assert.deepEqual(
          await Promise.all(numbered(300).map((draft) => storage.insert(draft))),
          pets,
        );
        assert.deepEqual(await storage.list({ limit: 300 }), pets);
      },
    );

    const statuses = [...petStatuses, undefined];
    const mixed = Array.from({ length: 40 }, (_, at): PetDraft => {
      const status = statuses[(at * 7) % statuses.length];
      return { name: `n${at % 5}`, categoryId: BigInt(at % 3), ...(status && { status }) };
    });
    rule(
      'a list has the first pets that match the query, by ascending id, whatever its filter',
      mixed,
      async (storage) => {
        const all = kept(mixed);
        assert.deepEqual(await storage.list({ limit: 100 }), all);

        const absent = Object.fromEntries(filterNames.map((name) => [name, undefined]));
        const filters = new Map(
          [absent, ...all.flatMap(filtersOf)].map((filter) => [inspect(filter), filter]),
        );
        for (const [words, filter] of filters) {
          for (const limit of [1, 2, 7, 39, 40, 100]) {
            for (const after of [undefined, 0n, 1n, 2n, 20n, 39n, 40n, 41n, 2n ** 63n - 1n]) {
              const query: Required<Omit<PetQuery, keyof PetFilter>> = { ...filter, limit, after };
              const following = all.filter(({ id }) => id > (after ?? 0n));
              const matching = following.filter((pet) => matches(pet, filter));
              const listed = await storage.list(query);
              assert.deepEqual(listed, matching.slice(0, limit), `a list filtered by ${words}`);

              const page = await storage.texts?.list(query);
              if (page === undefined) continue;
              assert.equal(page.texts.length, Math.min(limit, matching.length));
              assert.equal(
                page.next,
                matching.length > limit ? matching[limit - 1]?.id : undefined,
              );
            }
          }
        }
      },
    );

    rule('what is not there is undefined, and in no list', [], async (storage) => {
      for (const id of [...ends, -1n, 0n, 1n, 2n ** 53n])
        assert.equal(await storage.get(id), undefined);

      for (const query of [
        { limit: 1 },
        { limit: 100, after: 5n },
        ...filtersOf({ id: 1n, ...rex }).map((filter) => ({ limit: 100, ...filter })),
      ]) {
        assert.deepEqual(await storage.list(query), []);
        if (storage.texts !== undefined)
          assert.deepEqual(await storage.texts.list(query), { texts: [] });
      }
    });

    rule('a page after which more animals follow never changes', numbered(5), async (storage) => {
      const queries: readonly PetQuery[] = [{ limit: 2 }, { limit: 2, after: 2n }, { limit: 4 }];
      const pageOf = async (query: PetQuery) => [
        await storage.list(query),
        await storage.texts?.list(query),
      ];
      const pages = () => Promise.all(queries.map(pageOf));

      const before = await pages();
      await Promise.all(numbered(5).map((draft) => storage.insert({ ...draft, status: 'sold' })));
      assert.deepEqual(await pages(), before);
    });

    rule(
      'its texts, where it keeps some, are its animals as byte strings',
      [],
      async ({ texts }) => {
        if (texts === undefined) return;

        const json = '{"id":1,"name":"T\u00c3\u00bcm","categoryId":5,"status":"sold"}';
        assert.deepEqual(await texts.insert({ ...rex, name: 'Tüm', status: 'sold' }), {
          id: 1n,
          json,
        });
        assert.equal(await texts.get(1n), json);
        assert.equal(await texts.get(2n), undefined);
        assert.deepEqual(await texts.list({ limit: 5 }), { texts: [json] });
      },
    );

    rule(
      'a query or a draft against the rules is a TypeError, at once, and keeps nothing',
      [rex],
      async (storage) => {
        for (const query of impossibleQueries)
          for (const face of [storage, storage.texts ?? storage])
            await assert.rejects(
              async () => face.list(query as PetQuery),
              TypeError,
              inspect(query),
            );

        const wrong = [
          { name: 5 },
          { name: '\ud800' },
          { categoryId: 1 },
          { categoryId: 2n ** 63n },
          { status: 'gone' },
        ];
        for (const draft of [null, {}, ...wrong.map((member) => ({ ...rex, ...member }))])
          await assert.rejects(storage.insert(draft as PetDraft), TypeError);

        assert.deepEqual(await storage.list({ limit: 5 }), kept([rex]));
        assert.equal((await storage.insert(rex)).id, 2n);
      },
    );

    rule(
      'closing answers the inserts under way; then every method is refused, closing is not',
      [],
      async (storage) => {
        const inserts = numbered(50).map((draft) => storage.insert(draft));
        const closing = [storage.close(), storage.close()];

        assert.deepEqual(await Promise.all(inserts), kept(numbered(50)));
        await Promise.all(closing);
        await storage.close();

        await assert.rejects(storage.ready ? storage.ready() : storage.get(1n), unavailable);
        // A method of `texts` may throw instead of rejecting.
        for (const face of [storage, storage.texts ?? storage]) {
          await assert.rejects(async () => face.insert(rex), unavailable);
          await assert.rejects(async () => face.get(1n), unavailable);
          await assert.rejects(async () => face.list({ limit: 1 }), unavailable);
        }
      },
    );
  });
}
