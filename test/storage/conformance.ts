/** The contract of a storage as a suite: every backend passes all of it, with no switch and no list of exceptions. */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import type { PetDraft } from '../../build/pet.js';
import { petStatuses } from '../../build/pet.js';
import type { PetQuery, PetStorage } from '../../build/storage.js';
import { textsOf } from '../../build/storage/texts.js';

const rex: PetDraft = { name: 'Rex', categoryId: 5n, status: 'available' };
const unavailable = { name: 'PetstoreError', code: 'unavailable' };

/** Runs the suite; `open` answers a new and empty storage each time. */
export function testStorage(name: string, open: () => Promise<PetStorage>): void {
  const opened: PetStorage[] = [];
  const openOne = async (): Promise<PetStorage> => {
    const storage = await open();
    opened.push(storage);
    return storage;
  };
  const openWith = async (drafts: readonly PetDraft[]): Promise<PetStorage> => {
    const storage = await openOne();
    await Promise.all(drafts.map((draft) => storage.insert(draft)));
    return storage;
  };

  describe(`${name} keeps the contract of a storage`, () => {
    after(() => Promise.all(opened.map((storage) => storage.close())));

    test('an inserted animal is answered whole and read back the same', async () => {
      const storage = await openOne();
      assert.deepEqual(await storage.insert(rex), { id: 1n, ...rex });
      assert.deepEqual(await storage.get(1n), { id: 1n, ...rex });
      assert.deepEqual(await storage.list({ limit: 20 }), [{ id: 1n, ...rex }]);
    });

    test('C19 a status that is left out stays absent', async () => {
      const storage = await openWith([{ name: 'Tom', categoryId: 7n }]);
      assert.deepEqual(Object.keys((await storage.get(1n)) ?? {}), ['id', 'name', 'categoryId']);
    });

    test('C23 both ends of int64 are kept exactly', async () => {
      const ends = [-(2n ** 63n), 2n ** 63n - 1n, 2n ** 53n + 1n, 0n];
      const storage = await openWith(ends.map((categoryId) => ({ name: '', categoryId })));
      assert.deepEqual(
        (await storage.list({ limit: 9 })).map((pet) => pet.categoryId),
        ends,
      );
    });

    test('C25 any well-formed text is kept as a name', async () => {
      const names = ['', ' ', '\u0000', '"\\/\b\n\u2028', 'Tüm', '猫', '🐈', '\uFEFF', '\uFFFF', 'x'.repeat(70_000)];
      const storage = await openWith(names.map((text) => ({ name: text, categoryId: 1n })));
      assert.deepEqual(
        (await storage.list({ limit: 99 })).map((pet) => pet.name),
        names,
      );
    });

    test('C31 ids are 1, 2, 3 … in the order of the calls, with many at once too', async () => {
      const storage = await openOne();
      const drafts = Array.from({ length: 300 }, (_, index) => ({ name: `n${index}`, categoryId: 1n }));
      const pets = await Promise.all(drafts.map((draft) => storage.insert(draft)));
      assert.deepEqual(
        pets.map((pet) => pet.id),
        drafts.map((_, index) => BigInt(index + 1)),
      );
      assert.deepEqual(await storage.list({ limit: 300 }), pets);
    });

    test('an id that no animal has is undefined', async () => {
      const storage = await openWith([rex]);
      for (const id of [-(2n ** 63n), -1n, 0n, 2n, 2n ** 53n, 2n ** 63n - 1n]) assert.equal(await storage.get(id), undefined);
    });

    test('C5, C6, C7 a list is the first of those that match, by ascending id, whatever the query', async () => {
      const statuses = [...petStatuses, undefined];
      const drafts = Array.from({ length: 40 }, (_, index): PetDraft => {
        const status = statuses[(index * 7) % 4];
        return status === undefined ? { name: `n${index}`, categoryId: 1n } : { name: `n${index}`, categoryId: 1n, status };
      });
      const storage = await openWith(drafts);
      const all = await storage.list({ limit: 100 });
      assert.equal(all.length, 40);
      for (const status of statuses) {
        for (const limit of [1, 2, 7, 39, 40, 100]) {
          for (const afterId of [undefined, 0n, 1n, 2n, 20n, 39n, 40n, 41n, 2n ** 63n - 1n]) {
            const query: PetQuery = { limit, ...(status && { status }), ...(afterId !== undefined && { after: afterId }) };
            const matching = all.filter((pet) => (status === undefined || pet.status === status) && pet.id > (afterId ?? 0n));
            assert.deepEqual(await storage.list(query), matching.slice(0, limit));
            // A member that is undefined counts as absent.
            const { texts, next } = await textsOf(storage).list({ limit, status, after: afterId });
            assert.equal(texts.length, Math.min(limit, matching.length));
            assert.equal(next, matching.length > limit ? matching[limit - 1]?.id : undefined);
          }
        }
      }
    });

    test('C8 an empty storage lists nothing', async () => {
      const storage = await openOne();
      for (const query of [{ limit: 1 }, { limit: 100, status: 'sold' as const }, { limit: 100, after: 5n }]) {
        assert.deepEqual(await storage.list(query), []);
        assert.deepEqual(await textsOf(storage).list(query), { texts: [] });
      }
    });

    test('its texts are its animals, as byte strings', async () => {
      const storage = await openOne();
      const texts = textsOf(storage);
      const json = '{"id":1,"name":"T\u00c3\u00bcm","categoryId":5,"status":"sold"}';
      assert.deepEqual(await texts.insert({ name: 'Tüm', categoryId: 5n, status: 'sold' }), { id: 1n, json });
      assert.equal(await texts.get(1n), json);
      assert.equal(await texts.get(2n), undefined);
      assert.deepEqual(await texts.list({ limit: 5 }), { texts: [json] });
    });

    test('a draft against the rules is a TypeError and keeps nothing', async () => {
      const storage = await openOne();
      const bad: readonly unknown[] = [
        null,
        {},
        { name: 5, categoryId: 1n },
        { name: '\ud800', categoryId: 1n },
        { name: 'x', categoryId: 1 },
        { name: 'x', categoryId: 2n ** 63n },
        { name: 'x', categoryId: 1n, status: 'gone' },
      ];
      // A caller without types is what the check is for.
      for (const draft of bad) await assert.rejects(storage.insert(draft as PetDraft), TypeError);
      assert.deepEqual(await storage.list({ limit: 5 }), []);
      assert.equal((await storage.insert(rex)).id, 1n);
    });

    test('its size, where it says one, is the number of animals', async () => {
      const storage = await openWith([rex, rex, rex]);
      assert.ok(storage.size === undefined || storage.size === 3);
    });

    test('it is ready once open', async () => {
      await (await openOne()).ready?.();
    });

    test('inserts under way when it closes are kept and answered', async () => {
      const storage = await openOne();
      const inserts = Array.from({ length: 50 }, () => storage.insert(rex));
      const closing = storage.close();
      assert.equal((await Promise.all(inserts)).length, 50);
      await closing;
    });

    test('once closed every method is refused, and closing again is fine', async () => {
      const storage = await openWith([rex]);
      await Promise.all([storage.close(), storage.close()]);
      await storage.close();
      const texts = textsOf(storage);
      await assert.rejects(storage.insert(rex), unavailable);
      await assert.rejects(storage.get(1n), unavailable);
      await assert.rejects(storage.list({ limit: 1 }), unavailable);
      await assert.rejects(async () => texts.insert(rex), unavailable);
      await assert.rejects(async () => texts.get(1n), unavailable);
      await assert.rejects(async () => texts.list({ limit: 1 }), unavailable);
      await assert.rejects(async () => (storage.ready ? storage.ready() : storage.get(1n)), unavailable);
    });
  });
}
