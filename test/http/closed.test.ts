/** C59: what a closed petstore still answers, and one whose storage is away. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { createPetstore, memoryStorage, PetstoreError, type PetStorage } from '../../dist/index.js';
import { atEnd } from '../support/at-end.js';
import { assertError } from '../support/client.js';
import { ask, emptyStorage, key, start } from '../support/fixture.js';

const full = '/v1/pets?limit=1';
const first = '[{"id":1,"name":"a","categoryId":1}]';

/** A storage in which the page above is full. */
async function withTwo(storage: PetStorage): Promise<PetStorage> {
  for (const name of ['a', 'b']) await storage.insert({ name, categoryId: 1n });
  return storage;
}

test('C59 once closed, fetch and handler answer all that needs the storage 503, a kept page too', async (t) => {
  const storage = await withTwo(await emptyStorage());
  const { fetch, handler, close } = createPetstore({ keys: [key], storage });
  const server = createServer(handler).listen(0, '127.0.0.1');
  atEnd(t, () => server.close());
  await once(server, 'listening');
  const { port } = Object(server.address());
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  const statusOf = async (path: string, init?: RequestInit): Promise<number> =>
    (await fetch(`http://any${path}`, { headers, ...init })).status;
  for (let times = 0; times < 3; times++) assert.equal((await ask(port, 'GET', full)).body, first);

  await close();
  for (const path of [full, '/v1/pets', '/v1/pets/1']) {
    const answer = await fetch(`http://any${path}`, { headers });
    assert.deepEqual([answer.status, answer.headers.get('Retry-After')], [503, '1'], path);
    assertError(await ask(port, 'GET', path), 503, 'unavailable');
  }
  const body = '{"name":"c","categoryId":1}';
  assert.equal(await statusOf('/v1/pets', { method: 'POST', body }), 503);
  assertError(await ask(port, 'POST', '/v1/pets', { body }), 503, 'unavailable');
  // What needs no storage is answered as ever.
  assert.equal(await statusOf('/v1/pets?limit=0'), 400);
  assert.equal(await statusOf('/v1/pets', { headers: {} }), 401);
  for (const path of ['/healthz', '/openapi.json']) assert.equal(await statusOf(path), 200, path);
  assert.equal(await statusOf('/readyz'), 503);
});

test('C59 while the storage is away, a full page that was asked for twice is still answered', async (t) => {
  const { insert, get, list, close } = await withTwo(memoryStorage());
  let isAway = false;
  const { port } = await start(t, {
    storage: {
      durable: false,
      insert,
      get,
      close,
      list: async (query) => {
        if (isAway) throw new PetstoreError('unavailable', 'The database is away.');
        return list(query);
      },
    },
  });
  for (let times = 0; times < 2; times++) await ask(port, 'GET', full);
  isAway = true;
  assert.equal((await ask(port, 'GET', full)).body, first);
  assertError(await ask(port, 'GET', '/v1/pets?limit=1&after=1'), 503, 'unavailable');
});
