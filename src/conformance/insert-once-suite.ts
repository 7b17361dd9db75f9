/** The suite for the optional member `insertOnce`. */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import type { IdempotencyKeyUse, PetDraft, PetStorage, PetTexts } from '../index.js';
import { testMember, type StorageChecks, type StorageWith } from './optional-member.js';
import { rex, unavailable, type OpenStorage } from './storage-tester.js';

const tom: PetDraft = { name: 'Tom', categoryId: 7n };
/** The time in milliseconds for which a key is kept. */
const dayMs = 86_400_000;
const mismatch = { name: 'PetstoreError', code: 'idempotency_mismatch' };

/** Returns a use of a key, with the digests of short texts. */
function keyUse(key: string, body = 'body', at = 1_795_132_800_000): IdempotencyKeyUse {
  return { key: hash('sha256', key), body: hash('sha256', body), at };
}

async function idsIn(storage: PetStorage): Promise<readonly bigint[]> {
  return (await storage.list({ limit: 1000 })).map(({ id }) => id);
}

/** Returns the storage and its `texts`, if any, whose methods may throw instead of rejecting. */
function withTexts(
  storage: StorageWith<'insertOnce'>,
): readonly Pick<PetStorage | PetTexts, 'insertOnce'>[] {
  const { texts } = storage;
  if (texts === undefined) return [storage];

  assert.ok(texts.insertOnce, '`texts` has no insertOnce');
  return [storage, texts];
}

const checks: StorageChecks<'insertOnce'> = {
  'insertOnce stores a pet once and returns it again for the same key and body': async (
    storage,
  ) => {
    assert.deepEqual(await storage.insertOnce(rex, keyUse('a')), { id: 1n, ...rex });
    assert.deepEqual(await storage.insert(tom), { id: 2n, ...tom });
    for (const at of [undefined, 1_795_132_800_001])
      assert.deepEqual(await storage.insertOnce(rex, keyUse('a', 'body', at)), {
        id: 1n,
        ...rex,
      });
    assert.deepEqual(await idsIn(storage), [1n, 2n]);
    assert.equal((await storage.insert(rex)).id, 3n);
  },

  'texts.insertOnce shares its keys with insertOnce': async (storage) => {
    const { texts } = storage;
    if (texts === undefined) return;

    const json = '{"id":1,"name":"Tom","categoryId":7}';
    const first = await texts.insertOnce?.(tom, keyUse('a'));
    assert.deepEqual(first, { id: 1n, json });
    const repeated = await texts.insertOnce?.(tom, keyUse('a'));
    // Storages of 1.0.0 do not mark a replay.
    assert.deepEqual({ ...repeated, isReplay: true }, { id: 1n, json, isReplay: true });
    assert.deepEqual(await storage.insertOnce(tom, keyUse('a')), { id: 1n, ...tom });
    assert.deepEqual(await idsIn(storage), [1n]);
  },

  'insertOnce rejects another body for a used key and stores nothing': async (storage) => {
    await storage.insertOnce(rex, keyUse('a', 'one'));
    for (const methods of withTexts(storage))
      await assert.rejects(async () => methods.insertOnce?.(tom, keyUse('a', 'other')), mismatch);
    assert.equal((await storage.insertOnce(rex, keyUse('a', 'one'))).id, 1n);

    // The second use may reach the storage before the first one has ended.
    const outcomes = await Promise.allSettled([
      storage.insertOnce(rex, keyUse('b', 'one')),
      storage.insertOnce(tom, keyUse('b', 'other')),
    ]);
    const refused = outcomes.filter((outcome) => outcome.status === 'rejected');
    assert.equal(refused.length, 1, 'one of two bodies for a key must be rejected');
    for (const { reason } of refused)
      assert.match(reason.code, /^idempotency_(?:mismatch|in_flight)$/);
    assert.deepEqual(await idsIn(storage), [1n, 2n]);
  },

  'insertOnce stores a pet for each key, also if the bodies are equal': async (storage) => {
    const ids: bigint[] = [];
    for (const key of ['a', 'b', 'b', 'a'])
      ids.push((await storage.insertOnce(rex, keyUse(key))).id);
    assert.deepEqual(ids, [1n, 2n, 2n, 1n]);

    // The key of the next use differs from the key of `first` in its last digit.
    const first = keyUse('a');
    const lastDigit = first.key.endsWith('0') ? '1' : '0';
    const near = { ...first, key: `${first.key.slice(0, -1)}${lastDigit}` };
    assert.equal((await storage.insertOnce(rex, near)).id, 3n);
  },

  'insertOnce keeps a key for 24 hours from its first use': async (storage) => {
    const at = 1_795_132_800_000;
    await storage.insertOnce(rex, keyUse('a', 'one', at));
    assert.equal(
      (await storage.insertOnce(rex, keyUse('a', 'one', at + dayMs - 1))).id,
      1n,
      'a repeat must not extend the 24 hours',
    );
    await assert.rejects(storage.insertOnce(tom, keyUse('a', 'other', at + dayMs - 1)), mismatch);
    assert.equal((await storage.insertOnce(tom, keyUse('a', 'other', at + dayMs))).id, 2n);
    assert.equal((await storage.insertOnce(tom, keyUse('a', 'other', at + 2 * dayMs - 1))).id, 2n);
    assert.equal((await storage.insertOnce(rex, keyUse('a', 'one', at + 2 * dayMs))).id, 3n);
  },

  'insertOnce recognises a repeat whose time is before the first use': async (storage) => {
    const at = 1_795_132_800_000;
    await storage.insertOnce(rex, keyUse('a', 'one', at));
    for (const before of [1, dayMs, 365 * dayMs])
      assert.equal((await storage.insertOnce(rex, keyUse('a', 'one', at - before))).id, 1n);
    await storage.insertOnce(tom, keyUse('b', 'one', at - 2 * dayMs));
    await storage.insertOnce(tom, keyUse('c', 'one', at - 2 * dayMs));
    assert.equal((await storage.insertOnce(rex, keyUse('a', 'one', at - 2 * dayMs))).id, 1n);
    assert.deepEqual(await idsIn(storage), [1n, 2n, 3n]);
  },

  'concurrent calls of insertOnce with one key store one pet': async (storage) => {
    const outcomes = await Promise.allSettled(
      Array.from({ length: 50 }, () => storage.insertOnce(rex, keyUse('a'))),
    );
    for (const outcome of outcomes) {
      if (outcome.status === 'fulfilled') assert.deepEqual(outcome.value, { id: 1n, ...rex });
      else assert.equal(outcome.reason.code, 'idempotency_in_flight');
    }
    assert.ok(outcomes.some(({ status }) => status === 'fulfilled'));
    assert.deepEqual(await idsIn(storage), [1n]);
    assert.equal((await storage.insertOnce(rex, keyUse('a'))).id, 1n);
  },

  'concurrent calls of insertOnce with different keys store a pet each': async (storage) => {
    const keyed = Array.from({ length: 100 }, (_, index) =>
      storage.insertOnce({ name: `k${index}`, categoryId: 1n }, keyUse(`k${index}`)),
    );
    const plain = Array.from({ length: 100 }, () => storage.insert(tom));
    const first = await Promise.all(keyed);
    await Promise.all(plain);
    for (const [index, pet] of first.entries()) {
      assert.equal(pet.name, `k${index}`);
      assert.deepEqual(
        await storage.insertOnce({ name: `k${index}`, categoryId: 1n }, keyUse(`k${index}`)),
        pet,
      );
    }
    assert.equal((await idsIn(storage)).length, 200);
  },

  'insertOnce rejects an invalid key use or draft with a TypeError and keeps no key': async (
    storage,
  ) => {
    const good = keyUse('a');
    const bad: readonly unknown[] = [
      null,
      {},
      'a',
      { ...good, key: 'a' },
      { ...good, key: good.key.toUpperCase() },
      { ...good, key: `${good.key}0` },
      { ...good, key: `${good.key.slice(1)}\n` },
      { ...good, key: undefined },
      { ...good, body: undefined },
      { ...good, body: `${good.body.slice(1)}g` },
      { ...good, at: -1 },
      { ...good, at: 1.5 },
      { ...good, at: NaN },
      { ...good, at: 1e15 },
      { ...good, at: '0' },
    ];
    for (const methods of withTexts(storage)) {
      for (const use of bad)
        await assert.rejects(
          // A caller without types may pass any value.
          async () => methods.insertOnce?.(rex, use as IdempotencyKeyUse),
          TypeError,
          JSON.stringify(use),
        );
      const draft = { ...rex, name: '\ud800' };
      await assert.rejects(async () => methods.insertOnce?.(draft, good), TypeError);
    }
    assert.deepEqual(await idsIn(storage), []);
    assert.equal((await storage.insertOnce(rex, keyUse('a', 'other'))).id, 1n);
    assert.equal((await storage.insertOnce(rex, { ...keyUse('b'), at: 0 })).id, 2n);
  },

  'close finishes calls of insertOnce in flight and rejects later calls': async (storage) => {
    const inserts = Array.from({ length: 20 }, (_, index) =>
      storage.insertOnce(rex, keyUse(`k${index}`)),
    );
    const closing = storage.close();
    assert.deepEqual(
      (await Promise.all(inserts)).map(({ id }) => id),
      Array.from({ length: 20 }, (_, index) => BigInt(index + 1)),
    );
    await closing;
    for (const key of ['k0', 'new']) {
      for (const methods of withTexts(storage))
        await assert.rejects(async () => methods.insertOnce?.(rex, keyUse(key)), unavailable);
    }
  },
};

/**
 * Registers a test of `insertOnce` with node:test, with subtests. Nothing is tested that needs a
 * restart or a failing disk, such as that key and pet are stored in one step.
 *
 * @param options `open` returns a new, empty, open storage for each subtest; the suite closes it.
 */
export function testInsertOnce({ open }: { readonly open: OpenStorage }): void {
  testMember('the contract of insertOnce', 'insertOnce', open, checks);
}
