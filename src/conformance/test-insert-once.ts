/** A suite on node:test that tests `insertOnce`, for whoever writes a storage that has it. */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import type { IdempotencyKeyUse, PetDraft, PetStorage, PetTexts } from '../index.js';
import { testMember, type Having, type StorageRules } from './optional.js';

const rex: PetDraft = { name: 'Rex', categoryId: 5n, status: 'available' };
const tom: PetDraft = { name: 'Tom', categoryId: 7n };
/** How long a key is kept, in milliseconds. */
const dayMs = 86_400_000;
const mismatch = { name: 'PetstoreError', code: 'idempotency_mismatch' };
const unavailable = { name: 'PetstoreError', code: 'unavailable' };

/** A use of a key and a body by short names, at a time. */
function onceOf(key: string, body = 'body', at = 1_795_132_800_000): IdempotencyKeyUse {
  return { key: hash('sha256', key), body: hash('sha256', body), at };
}

async function idsIn(storage: PetStorage): Promise<readonly bigint[]> {
  return (await storage.list({ limit: 1000 })).map(({ id }) => id);
}

/** The storage and its texts, where it keeps some; a method of those may throw, not reject. */
function facesOf(
  storage: Having<'insertOnce'>,
): readonly Pick<PetStorage | PetTexts, 'insertOnce'>[] {
  const { texts } = storage;
  if (texts === undefined) return [storage];

  assert.ok(texts.insertOnce, 'its texts have no insertOnce');
  return [storage, texts];
}

const rules: StorageRules<'insertOnce'> = {
  'a first insert is like one without a key; a repeat answers its animal and keeps nothing': async (
    storage,
  ) => {
    assert.deepEqual(await storage.insertOnce(rex, onceOf('a')), { id: 1n, ...rex });
    assert.deepEqual(await storage.insert(tom), { id: 2n, ...tom });
    for (const at of [undefined, 1_795_132_800_001])
      assert.deepEqual(await storage.insertOnce(rex, onceOf('a', 'body', at)), {
        id: 1n,
        ...rex,
      });
    assert.deepEqual(await idsIn(storage), [1n, 2n]);
    assert.equal((await storage.insert(rex)).id, 3n);
  },

  'its texts, where it keeps some, do the same': async (storage) => {
    const { texts } = storage;
    if (texts === undefined) return;

    const json = '{"id":1,"name":"Tom","categoryId":7}';
    for (let count = 0; count < 2; count++)
      assert.deepEqual(await texts.insertOnce?.(tom, onceOf('a')), { id: 1n, json });
    assert.deepEqual(await storage.insertOnce(tom, onceOf('a')), { id: 1n, ...tom });
    assert.deepEqual(await idsIn(storage), [1n]);
  },

  'another body is a mismatch and keeps nothing, and the first stays what it was': async (
    storage,
  ) => {
    await storage.insertOnce(rex, onceOf('a', 'one'));
    for (const face of facesOf(storage))
      await assert.rejects(async () => face.insertOnce?.(tom, onceOf('a', 'other')), mismatch);
    assert.equal((await storage.insertOnce(rex, onceOf('a', 'one'))).id, 1n);
    assert.deepEqual(await idsIn(storage), [1n]);
  },

  'each key is its own, whatever the body': async (storage) => {
    assert.equal((await storage.insertOnce(rex, onceOf('a'))).id, 1n);
    assert.equal((await storage.insertOnce(rex, onceOf('b'))).id, 2n);
    assert.deepEqual(
      [
        (await storage.insertOnce(rex, onceOf('b'))).id,
        (await storage.insertOnce(rex, onceOf('a'))).id,
      ],
      [2n, 1n],
    );
  },

  'a key is kept for 24 hours from its first use, then it is new, for any body': async (
    storage,
  ) => {
    const at = 1_795_132_800_000;
    await storage.insertOnce(rex, onceOf('a', 'one', at));
    assert.equal(
      (await storage.insertOnce(rex, onceOf('a', 'one', at + dayMs - 1))).id,
      1n,
      'a repeat does not make it last longer',
    );
    await assert.rejects(storage.insertOnce(tom, onceOf('a', 'other', at + dayMs - 1)), mismatch);
    assert.equal((await storage.insertOnce(tom, onceOf('a', 'other', at + dayMs))).id, 2n);
    assert.equal((await storage.insertOnce(tom, onceOf('a', 'other', at + 2 * dayMs - 1))).id, 2n);
    assert.equal((await storage.insertOnce(rex, onceOf('a', 'one', at + 2 * dayMs))).id, 3n);
  },

  'a use from before the first, as by a clock that was set back, is a repeat': async (storage) => {
    const at = 1_795_132_800_000;
    await storage.insertOnce(rex, onceOf('a', 'one', at));
    for (const before of [1, dayMs, 365 * dayMs])
      assert.equal((await storage.insertOnce(rex, onceOf('a', 'one', at - before))).id, 1n);
    await storage.insertOnce(tom, onceOf('b', 'one', at - 2 * dayMs));
    await storage.insertOnce(tom, onceOf('c', 'one', at - 2 * dayMs));
    assert.equal((await storage.insertOnce(rex, onceOf('a', 'one', at - 2 * dayMs))).id, 1n);
    assert.deepEqual(await idsIn(storage), [1n, 2n, 3n]);
  },

  'of many at once with one key one is kept; the others get it, or that it is under way': async (
    storage,
  ) => {
    const outcomes = await Promise.allSettled(
      Array.from({ length: 50 }, () => storage.insertOnce(rex, onceOf('a'))),
    );
    for (const outcome of outcomes) {
      if (outcome.status === 'fulfilled') assert.deepEqual(outcome.value, { id: 1n, ...rex });
      else assert.equal(outcome.reason.code, 'idempotency_in_flight');
    }
    assert.ok(outcomes.some(({ status }) => status === 'fulfilled'));
    assert.deepEqual(await idsIn(storage), [1n]);
    assert.equal((await storage.insertOnce(rex, onceOf('a'))).id, 1n);
  },

  'many keys at once, among inserts without one, get an animal each': async (storage) => {
    const keyed = Array.from({ length: 100 }, (_, index) =>
      storage.insertOnce({ name: `k${index}`, categoryId: 1n }, onceOf(`k${index}`)),
    );
    const plain = Array.from({ length: 100 }, () => storage.insert(tom));
    const first = await Promise.all(keyed);
    await Promise.all(plain);
    for (const [index, pet] of first.entries()) {
      assert.equal(pet.name, `k${index}`);
      assert.deepEqual(
        await storage.insertOnce({ name: `k${index}`, categoryId: 1n }, onceOf(`k${index}`)),
        pet,
      );
    }
    assert.equal((await idsIn(storage)).length, 200);
  },

  'what is against the rules is a TypeError, keeps nothing and leaves the key new': async (
    storage,
  ) => {
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
        storage.insertOnce(rex, once as IdempotencyKeyUse),
        TypeError,
        JSON.stringify(once),
      );
    await assert.rejects(storage.insertOnce({ ...rex, name: '\ud800' }, good), TypeError);
    assert.deepEqual(await idsIn(storage), []);
    assert.equal((await storage.insertOnce(rex, onceOf('a', 'other'))).id, 1n);
    assert.equal((await storage.insertOnce(rex, { ...onceOf('b'), at: 0 })).id, 2n);
  },

  'inserts under way when it closes are kept and answered; then new keys and repeats are refused':
    async (storage) => {
      const inserts = Array.from({ length: 20 }, (_, index) =>
        storage.insertOnce(rex, onceOf(`k${index}`)),
      );
      const closing = storage.close();
      assert.equal((await Promise.all(inserts)).length, 20);
      await closing;
      for (const key of ['k0', 'new']) {
        for (const face of facesOf(storage))
          await assert.rejects(async () => face.insertOnce?.(rex, onceOf(key)), unavailable);
      }
    },
};

/**
 * Registers one test with node:test, and each rule within it. What needs a restart or a failing
 * disk is not tested: that key and animal are kept in one step, or neither.
 *
 * @param options `open` answers another storage for each rule, open and without animals; the suite
 * closes it.
 */
export function testInsertOnce({
  open,
}: {
  readonly open: () => PetStorage | Promise<PetStorage>;
}): void {
  testMember('the contract of insertOnce', 'insertOnce', open, rules);
}
