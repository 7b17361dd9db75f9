// Tests the storage in memory, and storages of other authors.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import '../support/built.js';
import { testInsertOnce, testRecords, testStorage } from '../../dist/conformance/index.js';
import { toPetStorage, jsonStoreOf } from '../../dist/engine/index.js';
import { createPetstore, type Pet, type PetStorage } from '../../dist/index.js';
import { memoryStorage } from '../../dist/memory/index.js';

describe('memoryStorage', () => {
  testStorage({ open: memoryStorage });
  testInsertOnce({ open: memoryStorage });
  testRecords({ open: memoryStorage });
});

test('reports that memoryStorage is not durable', () =>
  assert.equal(memoryStorage().durable, false));

test('lists pets up to the limit although a page of texts ends earlier', async () => {
  const storage = memoryStorage();
  for (let categoryId = 1n; categoryId <= 5n; categoryId++)
    await storage.insert({ name: 'Rex', categoryId });
  const texts = jsonStoreOf(storage);
  const { list } = toPetStorage({
    ...texts,
    list: (query) => texts.list({ ...query, limit: Math.min(2, query.limit) }),
  });
  for (const [limit, after, ids] of [
    [3, 0n, [1n, 2n, 3n]],
    [9, 1n, [2n, 3n, 4n, 5n]],
    [9, 5n, []],
    [1, undefined, [1n]],
  ] as const) {
    assert.deepEqual(
      (await list({ limit, after })).map(({ id }) => id),
      ids,
    );
  }
});

test('throws a TypeError for a draft that is not an object', async () => {
  const { insert } = memoryStorage();
  for (const draft of [null, undefined, 'Rex'])
    await assert.rejects(async () => Reflect.apply(insert, undefined, [draft]), {
      name: 'TypeError',
      message: 'a draft must be an object',
    });
});

const rex = { name: 'Rex', categoryId: 5n } as const;

/**
 * Returns a storage whose methods all resolve to one value, which need not be a pet. A value that
 * is not a pet must never become JSON.
 */
function resolvingTo(value: unknown): PetStorage {
  // A cast, because an author who writes JavaScript has no types.
  const pet = value as Pet;
  return {
    durable: false,
    insert: async () => pet,
    insertOnce: async () => pet,
    get: async () => pet,
    list: async () => [pet],
    close: async () => undefined,
  };
}

test('C19 treats a status of null as absent', async () => {
  const texts = jsonStoreOf(resolvingTo({ id: 1n, ...rex, status: null }));
  const json = '{"id":1,"name":"Rex","categoryId":5}';
  assert.deepEqual(await texts.insert(rex), { id: 1n, json });
  assert.equal(await texts.get(1n), json);
  assert.deepEqual(await texts.list({ limit: 5 }), { texts: [json] });
});

test('treats a pet of null as absent', async () => {
  assert.equal(await jsonStoreOf(resolvingTo(null)).get(1n), undefined);
});

const invalidPets: readonly (readonly [rule: RegExp, ...values: readonly unknown[]])[] = [
  [/id/, rex, ...[null, 1, '1', 0n, 2n ** 63n].map((id) => ({ id, ...rex })), 'Rex', []],
  [/categoryId/, { id: 1n, name: 'Rex' }, { id: 1n, name: 'Rex', categoryId: 5 }],
  [/name/, { id: 1n, name: null, categoryId: 5n }],
  [/status/, { id: 1n, ...rex, status: 'lost' }, { id: 1n, ...rex, status: 0 }],
];

test('throws a TypeError with the rule if a storage returns an invalid pet', async () => {
  for (const { rule, texts } of invalidPets.flatMap(([rule, ...values]) =>
    values.map((value) => ({ rule, texts: jsonStoreOf(resolvingTo(value)) })),
  )) {
    const once = { key: 'a'.repeat(64), body: 'b'.repeat(64), at: 0 };
    for (const use of [
      async () => texts.insert(rex),
      async () => texts.insertOnce(rex, once),
      async () => texts.get(1n),
      async () => texts.list({ limit: 5 }),
    ]) {
      await assert.rejects(use, { name: 'TypeError', message: rule });
    }
  }
  for (const value of [undefined, null])
    await assert.rejects(async () => jsonStoreOf(resolvingTo(value)).insert(rex), TypeError);
});

test('throws a TypeError if a storage returns a list that is not an array', async () => {
  const texts = jsonStoreOf({ ...resolvingTo(null), list: async () => ({}) as Pet[] });
  await assert.rejects(async () => texts.list({ limit: 5 }), TypeError);
});

test('C49 responds 500 to an invalid pet of a storage, and logs the rule', async () => {
  const logged: unknown[] = [];
  const storage = resolvingTo({ id: null, ...rex });
  const petstore = createPetstore({ keys: ['key'], storage, log: (...line) => logged.push(line) });
  for (const path of ['/v1/pets/1', '/v1/pets']) {
    const request = new Request(`http://localhost${path}`, {
      headers: { authorization: 'Bearer key' },
    });
    const response = await petstore.fetch(request);
    assert.equal(response.status, 500);
    assert.deepEqual(Object.keys(Object(await response.json())), ['code', 'message', 'status']);
  }
  await petstore.close();
  assert.equal(logged.length, 2);
  assert.match(JSON.stringify(logged), /the storage returned a pet whose id is not a bigint/);
});
