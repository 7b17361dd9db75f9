/** `petstore/conformance`: a suite on node:test that tests what every storage must do, for whoever writes one. */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { inspect } from 'node:util';
import { petStatuses, type Pet, type PetDraft, type PetQuery, type PetStorage } from '../index.js';

const rex: PetDraft = { name: 'Rex', categoryId: 5n, status: 'available' };
const ends = [-(2n ** 63n), 2n ** 63n - 1n];
const unavailable = { name: 'PetstoreError', code: 'unavailable' };
const numbered = (count: number): PetDraft[] => Array.from({ length: count }, (_, at) => ({ ...rex, name: `n${at}` }));
const kept = (drafts: readonly PetDraft[]): Pet[] => drafts.map((draft, at) => ({ id: BigInt(at + 1), ...draft }));

const impossibleQueries: readonly unknown[] = [
  ...[undefined, null, {}],
  ...[0, -1, 1.5, NaN, Infinity, '5', 5n].map((limit) => ({ limit })),
  ...[1, '1', null].map((after) => ({ limit: 5, after })),
];

/**
 * Registers the tests with node:test, in the `describe` around the call, if any. `size`, `ready` and `texts` are tested
 * where the storage has them; `insertOnce`, `records` and what needs a restart are not tested.
 * @param options `open` answers another storage for each test, open and without animals; the suite closes it.
 */
export function testStorage({ open }: { readonly open: () => PetStorage | Promise<PetStorage> }): void {
  const opened: PetStorage[] = [];
  const openWith = async (drafts: readonly PetDraft[]): Promise<PetStorage> => {
    const storage = await open();
    opened.push(storage);
    await Promise.all(drafts.map((draft) => storage.insert(draft)));
    return storage;
  };

  describe('the contract of a storage', () => {
    after(() => Promise.all(opened.map((storage) => storage.close())));

    test('an inserted animal is answered whole and read back the same', async () => {
      const storage = await openWith([]);
      const pet = { id: 1n, ...rex };
      assert.deepEqual(await storage.insert(rex), pet);
      assert.deepEqual(await storage.get(1n), pet);
      assert.deepEqual(await storage.list({ limit: 20 }), [pet]);
    });

    test('a status that is left out stays absent', async () => {
      const storage = await openWith([{ name: 'Tom', categoryId: 7n }]);
      assert.deepEqual(Object.keys((await storage.get(1n)) ?? {}), ['id', 'name', 'categoryId']);
    });

    test('both ends of int64 are kept exactly', async () => {
      const drafts = [...ends, 2n ** 53n + 1n, 0n].map((categoryId) => ({ name: '', categoryId }));
      assert.deepEqual(await (await openWith(drafts)).list({ limit: 9 }), kept(drafts));
    });

    test('any well-formed text is kept as a name', async () => {
      const names = ['', ' ', '\u0000', '"\\/\b\n\u2028', 'Tüm', '猫', '🐈', '\uFEFF', '\uFFFF', 'x'.repeat(70_000)];
      const drafts = names.map((name) => ({ name, categoryId: 1n }));
      assert.deepEqual(await (await openWith(drafts)).list({ limit: 99 }), kept(drafts));
    });

    test('ids are 1, 2, 3 … in the order of the calls, with many at once too', async () => {
      const storage = await openWith([]);
      const pets = kept(numbered(300));
      assert.deepEqual(await Promise.all(numbered(300).map((draft) => storage.insert(draft))), pets);
      assert.deepEqual(await storage.list({ limit: 300 }), pets);
    });

    test('an id that no animal has is undefined', async () => {
      const storage = await openWith([rex]);
      for (const id of [...ends, -1n, 0n, 2n, 2n ** 53n]) assert.equal(await storage.get(id), undefined);
    });

    test('a list is the first of those that match, by ascending id, whatever the query', async () => {
      const statuses = [...petStatuses, undefined];
      const drafts = numbered(40).map(({ name, categoryId }, at): PetDraft => {
        const status = statuses[(at * 7) % 4];
        return { name, categoryId, ...(status && { status }) };
      });
      const storage = await openWith(drafts);
      const all = kept(drafts);
      assert.deepEqual(await storage.list({ limit: 100 }), all);
      for (const status of statuses) {
        for (const limit of [1, 2, 7, 39, 40, 100]) {
          for (const afterId of [undefined, 0n, 1n, 2n, 20n, 39n, 40n, 41n, 2n ** 63n - 1n]) {
            const following = all.filter(({ id }) => id > (afterId ?? 0n));
            const matching = following.filter((pet) => status === undefined || pet.status === status);
            const query = { limit, ...(status && { status }), ...(afterId !== undefined && { after: afterId }) };
            assert.deepEqual(await storage.list(query), matching.slice(0, limit));
            const page = await storage.texts?.list({ limit, status, after: afterId });
            if (page === undefined) continue;
            assert.equal(page.texts.length, Math.min(limit, matching.length));
            assert.equal(page.next, matching.length > limit ? matching[limit - 1]?.id : undefined);
          }
        }
      }
    });

    test('a query that no page can answer is a TypeError, at once', async () => {
      const storage = await openWith([rex, rex]);
      for (const query of impossibleQueries)
        for (const face of [storage, storage.texts ?? storage])
          await assert.rejects(async () => face.list(query as PetQuery), TypeError, inspect(query));
      assert.equal((await storage.list({ limit: 9 })).length, 2);
    });

    test('an empty storage lists nothing', async () => {
      const storage = await openWith([]);
      for (const query of [{ limit: 1 }, { limit: 100, status: 'sold' as const }, { limit: 100, after: 5n }]) {
        assert.deepEqual(await storage.list(query), []);
        if (storage.texts !== undefined) assert.deepEqual(await storage.texts.list(query), { texts: [] });
      }
    });

    test('a page after which more animals follow never changes', async () => {
      const storage = await openWith(numbered(5));
      const queries: readonly PetQuery[] = [{ limit: 2 }, { limit: 2, after: 2n }, { limit: 4 }];
      const pageOf = async (query: PetQuery) => [await storage.list(query), await storage.texts?.list(query)];
      const pages = () => Promise.all(queries.map(pageOf));
      const before = await pages();
      await Promise.all(numbered(5).map((draft) => storage.insert({ ...draft, status: 'sold' })));
      assert.deepEqual(await pages(), before);
    });

    test('its texts, where it keeps some, are its animals as byte strings', async () => {
      const { texts } = await openWith([]);
      if (texts === undefined) return;
      const json = '{"id":1,"name":"T\u00c3\u00bcm","categoryId":5,"status":"sold"}';
      assert.deepEqual(await texts.insert({ ...rex, name: 'Tüm', status: 'sold' }), { id: 1n, json });
      assert.equal(await texts.get(1n), json);
      assert.equal(await texts.get(2n), undefined);
      assert.deepEqual(await texts.list({ limit: 5 }), { texts: [json] });
    });

    test('a draft against the rules is a TypeError and keeps nothing', async () => {
      const storage = await openWith([]);
      const names = [5, '\ud800'].map((name) => ({ ...rex, name }));
      const categories = [1, 2n ** 63n].map((categoryId) => ({ ...rex, categoryId }));
      for (const draft of [null, {}, ...names, ...categories, { ...rex, status: 'gone' }])
        await assert.rejects(storage.insert(draft as PetDraft), TypeError);
      assert.deepEqual(await storage.list({ limit: 5 }), []);
      assert.equal((await storage.insert(rex)).id, 1n);
    });

    test('it is ready once open; its size, where it says one, is the number of animals', async () => {
      const storage = await openWith([rex, rex, rex]);
      await storage.ready?.();
      assert.ok(storage.size === undefined || storage.size === 3);
    });

    test('inserts under way when it closes are kept and answered', async () => {
      const storage = await openWith([]);
      const inserts = numbered(50).map((draft) => storage.insert(draft));
      const closing = storage.close();
      assert.equal((await Promise.all(inserts)).length, 50);
      await closing;
    });

    test('once closed every method is refused, and closing again is fine', async () => {
      const storage = await openWith([rex]);
      await Promise.all([storage.close(), storage.close()]);
      await storage.close();
      await assert.rejects(storage.ready ? storage.ready() : storage.get(1n), unavailable);
      await assert.rejects(storage.insert(rex), unavailable);
      await assert.rejects(storage.get(1n), unavailable);
      await assert.rejects(storage.list({ limit: 1 }), unavailable);
      const { texts } = storage;
      if (texts === undefined) return;
      // A method of `texts` may throw instead of rejecting.
      await assert.rejects(async () => texts.insert(rex), unavailable);
      await assert.rejects(async () => texts.get(1n), unavailable);
      await assert.rejects(async () => texts.list({ limit: 1 }), unavailable);
    });
  });
}
