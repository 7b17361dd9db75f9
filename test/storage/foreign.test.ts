// A storage that somebody else wrote, in animals alone, may answer anything: what is no animal must
// never become JSON.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import '../support/built.js';
import { createPetstore, type Pet, type PetStorage } from '../../dist/index.js';
import { textsOf } from '../../dist/engine/index.js';

const rex = { name: 'Rex', categoryId: 5n } as const;

/** A storage each of whose methods answers this. */
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
  const texts = textsOf(answering({ id: 1n, ...rex, status: null }));
  const json = '{"id":1,"name":"Rex","categoryId":5}';
  assert.deepEqual(await texts.insert(rex), { id: 1n, json });
  assert.equal(await texts.get(1n), json);
  assert.deepEqual(await texts.list({ limit: 5 }), { texts: [json] });
});

test('an animal of null counts as absent', async () => {
  assert.equal(await textsOf(answering(null)).get(1n), undefined);
});

const noAnimals: readonly (readonly [unknown, RegExp])[] = [
  [{ ...rex }, /id/],
  [{ id: null, ...rex }, /id/],
  [{ id: 1, ...rex }, /id/],
  [{ id: '1', ...rex }, /id/],
  [{ id: 0n, ...rex }, /id/],
  [{ id: 2n ** 63n, ...rex }, /id/],
  [{ id: 1n, name: 'Rex' }, /categoryId/],
  [{ id: 1n, name: 'Rex', categoryId: 5 }, /categoryId/],
  [{ id: 1n, name: null, categoryId: 5n }, /name/],
  [{ id: 1n, ...rex, status: 'lost' }, /status/],
  [{ id: 1n, ...rex, status: 0 }, /status/],
  ['Rex', /id/],
  [[], /id/],
];

test('what is no animal is a TypeError that says its rule', async () => {
  for (const [answer, rule] of noAnimals) {
    const texts = textsOf(answering(answer));
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
    await assert.rejects(async () => textsOf(answering(answer)).insert(rex), TypeError);
});

test('a list that is none is a TypeError too', async () => {
  const texts = textsOf({ ...answering(null), list: async () => ({}) as Pet[] });
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
