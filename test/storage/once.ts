/**
 * What a storage promises that has `insertOnce`, as a suite beside the one of the whole contract.
 */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { after, describe, test } from 'node:test';
import { textsOf } from '../../dist/engine/index.js';
import type { IdempotencyKeyUse, PetDraft, PetStorage, StoredText } from '../../dist/index.js';

const rex: PetDraft = { name: 'Rex', categoryId: 5n, status: 'available' };
const tom: PetDraft = { name: 'Tom', categoryId: 7n };
export const dayMs = 86_400_000;
export const mismatch = { name: 'PetstoreError', code: 'idempotency_mismatch' };
export const inFlight = { name: 'PetstoreError', code: 'idempotency_in_flight' };
const unavailable = { name: 'PetstoreError', code: 'unavailable' };

/** A key and a body by short names, at a time. */
export function onceOf(key: string, body = 'body', at = 1_795_132_800_000): IdempotencyKeyUse {
  return { key: hash('sha256', key), body: hash('sha256', body), at };
}

/** The storage's own `insertOnce`, which it must have. */
export function insertOnce(
  storage: PetStorage,
  draft: PetDraft,
  once: IdempotencyKeyUse,
): ReturnType<PetStorage['insert']> {
  return storage.insertOnce?.(draft, once) ?? assert.fail('it has no insertOnce');
}

/** The same in texts, which may be answered or refused at once. */
export async function insertTextOnce(
  storage: PetStorage,
  draft: PetDraft,
  once: IdempotencyKeyUse,
): Promise<StoredText> {
  return textsOf(storage).insertOnce(draft, once);
}

/** Runs the suite; `open` answers a new and empty storage each time. */
export function testInsertOnce(name: string, open: () => Promise<PetStorage>): void {
  const opened: PetStorage[] = [];
  const openOne = async (): Promise<PetStorage> => {
    const storage = await open();
    opened.push(storage);
    return storage;
  };
  const idsIn = async (storage: PetStorage): Promise<readonly bigint[]> =>
    (await storage.list({ limit: 1000 })).map(({ id }) => id);

  describe(`${name} inserts once for a key`, () => {
    after(() => Promise.all(opened.map((storage) => storage.close())));

    test('a first insert is as any, a repeat answers its animal and keeps nothing', async () => {
      const storage = await openOne();
      assert.deepEqual(await insertOnce(storage, rex, onceOf('a')), { id: 1n, ...rex });
      assert.deepEqual(await storage.insert(tom), { id: 2n, ...tom });
      for (const at of [undefined, 1_795_132_800_001])
        assert.deepEqual(await insertOnce(storage, rex, onceOf('a', 'body', at)), {
          id: 1n,
          ...rex,
        });
      assert.deepEqual(await idsIn(storage), [1n, 2n]);
      assert.equal((await storage.insert(rex)).id, 3n);
    });

    test('its texts do the same', async () => {
      const storage = await openOne();
      const json = '{"id":1,"name":"Tom","categoryId":7}';
      for (let count = 0; count < 2; count++) {
        assert.deepEqual(await insertTextOnce(storage, tom, onceOf('a')), { id: 1n, json });
      }
      assert.deepEqual(await insertOnce(storage, tom, onceOf('a')), { id: 1n, ...tom });
      assert.deepEqual(await idsIn(storage), [1n]);
    });

    test('another body is a mismatch and keeps nothing, and the first stays what it was', async () => {
      const storage = await openOne();
      await insertOnce(storage, rex, onceOf('a', 'one'));
      await assert.rejects(insertOnce(storage, tom, onceOf('a', 'other')), mismatch);
      await assert.rejects(insertTextOnce(storage, rex, onceOf('a', 'other')), mismatch);
      assert.equal((await insertOnce(storage, rex, onceOf('a', 'one'))).id, 1n);
      assert.deepEqual(await idsIn(storage), [1n]);
    });

    test('each key is its own, whatever the body', async () => {
      const storage = await openOne();
      assert.equal((await insertOnce(storage, rex, onceOf('a'))).id, 1n);
      assert.equal((await insertOnce(storage, rex, onceOf('b'))).id, 2n);
      assert.deepEqual(
        [
          (await insertOnce(storage, rex, onceOf('b'))).id,
          (await insertOnce(storage, rex, onceOf('a'))).id,
        ],
        [2n, 1n],
      );
    });

    test('a key is kept for 24 hours from its first use, then it is new, for any body', async () => {
      const storage = await openOne();
      const at = 1_795_132_800_000;
      await insertOnce(storage, rex, onceOf('a', 'one', at));
      assert.equal(
        (await insertOnce(storage, rex, onceOf('a', 'one', at + dayMs - 1))).id,
        1n,
        'a repeat does not make it last longer',
      );
      await assert.rejects(
        insertOnce(storage, tom, onceOf('a', 'other', at + dayMs - 1)),
        mismatch,
      );
      assert.equal((await insertOnce(storage, tom, onceOf('a', 'other', at + dayMs))).id, 2n);
      assert.equal(
        (await insertOnce(storage, tom, onceOf('a', 'other', at + 2 * dayMs - 1))).id,
        2n,
      );
      assert.equal((await insertOnce(storage, rex, onceOf('a', 'one', at + 2 * dayMs))).id, 3n);
    });

    test('of many at once with one key exactly one is kept; the others hear of it, or that it is under way', async () => {
      const storage = await openOne();
      const outcomes = await Promise.allSettled(
        Array.from({ length: 50 }, () => insertOnce(storage, rex, onceOf('a'))),
      );
      for (const outcome of outcomes) {
        if (outcome.status === 'fulfilled') assert.deepEqual(outcome.value, { id: 1n, ...rex });
        else assert.equal(outcome.reason.code, inFlight.code);
      }
      assert.ok(outcomes.some(({ status }) => status === 'fulfilled'));
      assert.deepEqual(await idsIn(storage), [1n]);
      assert.equal((await insertOnce(storage, rex, onceOf('a'))).id, 1n);
    });

    test('many keys at once, among inserts without one, get an animal each', async () => {
      const storage = await openOne();
      const keyed = Array.from({ length: 100 }, (_, index) =>
        insertOnce(storage, { name: `k${index}`, categoryId: 1n }, onceOf(`k${index}`)),
      );
      const plain = Array.from({ length: 100 }, () => storage.insert(tom));
      const first = await Promise.all(keyed);
      await Promise.all(plain);
      for (const [index, pet] of first.entries()) {
        assert.equal(pet.name, `k${index}`);
        assert.deepEqual(
          await insertOnce(storage, { name: `k${index}`, categoryId: 1n }, onceOf(`k${index}`)),
          pet,
        );
      }
      assert.equal((await idsIn(storage)).length, 200);
    });

    test('what is against the rules is a TypeError, keeps nothing and leaves the key new', async () => {
      const storage = await openOne();
      const good = onceOf('a');
      const bad: readonly unknown[] = [
        null,
        {},
        'a',
        { ...good, key: 'a' },
        { ...good, key: good.key.toUpperCase() },
        { ...good, key: `${good.key}0` },
        { ...good, key: `${good.key.slice(1)}\n` },
        { ...good, body: undefined },
        { ...good, body: `${good.body.slice(1)}g` },
        { ...good, at: -1 },
        { ...good, at: 1.5 },
        { ...good, at: NaN },
        { ...good, at: 1e15 },
        { ...good, at: '0' },
      ];
      // A caller without types is what the check is for.
      for (const once of bad)
        await assert.rejects(
          insertOnce(storage, rex, once as IdempotencyKeyUse),
          TypeError,
          JSON.stringify(once),
        );
      await assert.rejects(insertOnce(storage, { ...rex, name: '\ud800' }, good), TypeError);
      assert.deepEqual(await idsIn(storage), []);
      assert.equal((await insertOnce(storage, rex, onceOf('a', 'other'))).id, 1n);
      assert.equal((await insertOnce(storage, rex, { ...onceOf('b'), at: 0 })).id, 2n);
    });

    test('inserts under way when it closes are kept and answered; then new keys and repeats are refused', async () => {
      const storage = await openOne();
      const inserts = Array.from({ length: 20 }, (_, index) =>
        insertOnce(storage, rex, onceOf(`k${index}`)),
      );
      const closing = storage.close();
      assert.equal((await Promise.all(inserts)).length, 20);
      await closing;
      for (const key of ['k0', 'new']) {
        await assert.rejects(insertOnce(storage, rex, onceOf(key)), unavailable);
        await assert.rejects(insertTextOnce(storage, rex, onceOf(key)), unavailable);
      }
    });
  });
}
