// The storage in memory, and one that somebody else wrote.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import '../support/built.js';
import { testInsertOnce, testRecords, testStorage } from '../../dist/conformance/index.js';
import { toPetStorage, jsonStoreOf } from '../../dist/engine/index.js';
import { createPetstore, type Pet, type PetStorage } from '../../dist/index.js';
import { memoryStorage } from '../../dist/memory/index.js';

describe('memoryStorage keeps', () => {
  testStorage({ open: memoryStorage });
  testInsertOnce({ open: memoryStorage });
  testRecords({ open: memoryStorage });
});

test('memoryStorage is not durable', () => assert.equal(memoryStorage().durable, false));

test('a list of animals goes on where a page of texts ends before its limit', async () => {
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

const rex = { name: 'Rex', categoryId: 5n } as const;

/**
 * A storage each of whose methods answers this. One that somebody else wrote, in animals alone, may
 * answer anything: what is no animal must never become JSON.
 */
function answering(answer: unknown): PetStorage {
  // Without types, as who writes JavaScript has none.
  const pet = answer as Pet;
  return {
    durable: false,
    insert: async () => pet,
    insertOnce: async () => pet,
    get: async () => pet,
    list: async () => [pet],
    close: async () => undefined,
  };
}

test('a status of null counts as absent (C19)', async () => {
  const texts = jsonStoreOf(answering({ id: 1n, ...rex, status: null }));
  const json = '{"id":1,"name":"Rex","categoryId":5}';
  assert.deepEqual(await texts.insert(rex), { id: 1n, json });
  assert.equal(await texts.get(1n), json);
  assert.deepEqual(await texts.list({ limit: 5 }), { texts: [json] });
});

test('an animal of null counts as absent', async () => {
  assert.equal(await jsonStoreOf(answering(null)).get(1n), undefined);
});

const noAnimals: readonly (readonly [rule: RegExp, ...answers: readonly unknown[]])[] = [
  [/id/, rex, ...[null, 1, '1', 0n, 2n ** 63n].map((id) => ({ id, ...rex })), 'Rex', []],
  [/categoryId/, { id: 1n, name: 'Rex' }, { id: 1n, name: 'Rex', categoryId: 5 }],
  [/name/, { id: 1n, name: null, categoryId: 5n }],
  [/status/, { id: 1n, ...rex, status: 'lost' }, { id: 1n, ...rex, status: 0 }],
];

test('what is no animal is a TypeError that says its rule', async () => {
  for (const { rule, texts } of noAnimals.flatMap(([rule, ...answers]) =>
    answers.map((answer) => ({ rule, texts: jsonStoreOf(answering(answer)) })),
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
  for (const answer of [undefined, null])
    await assert.rejects(async () => jsonStoreOf(answering(answer)).insert(rex), TypeError);
});

test('a list that is none is a TypeError too', async () => {
  const texts = jsonStoreOf({ ...answering(null), list: async () => ({}) as Pet[] });
  await assert.rejects(async () => texts.list({ limit: 5 }), TypeError);
});

test('C49 over HTTP that is a 500, and the log says which rule it breaks', async () => {
  const logged: unknown[] = [];
  const storage = answering({ id: null, ...rex });
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
  assert.match(JSON.stringify(logged), /the storage answered an animal whose id is no bigint/);
});
