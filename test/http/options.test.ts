/** The options of createPetstore: each rule by its name, and a storage that is still to come. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { atEnd } from '../at-end.js';
import { createPetstore, memoryStorage, PetstoreError, type PetStorage, type PetstoreOptions } from '../../build/index.js';
import { assertError } from './client.js';
import { add, ask, key, start } from './fixture.js';

/** What a program without types may hand over. */
function create(options: Readonly<Record<string, unknown>> | null | undefined): unknown {
  const make: (options: PetstoreOptions) => unknown = createPetstore;
  return Reflect.apply(make, undefined, [options]);
}

test('every option against its rule is a TypeError that names it', () => {
  const bad: Readonly<Record<string, readonly unknown[]>> = {
    keys: [undefined, null, [], 'psk', [''], ['a b'], ['ä'], ['a', 7], [null], ['a\n'], {}, 7, new Set(['a'])],
    storage: [null, 7, 'memory:', {}, { insert() {} }, { ...memoryStorage(), close: undefined }, { ...memoryStorage(), list: 1 }],
    clock: [null, 7, '0', {}, new Date()],
    plugins: [null, {}, 'x', [null], [{}], () => undefined, [() => undefined, 'x']],
    log: [null, {}, 'info', console, true],
    maxBodyBytes: [null, 0, -1, 1.5, NaN, Infinity, '65536', 65536n, 2 ** 24 + 1, {}],
    baseUrl: [null, '', 'example.com/v1', '/v1', 'ftp://example.com', 'javascript:0', 7, new URL('http://a'), 'http://'],
    stagingBaseUrl: [null, '', 'example.com', '/v1', 7],
  };
  for (const [name, values] of Object.entries(bad)) {
    for (const value of values) {
      assert.throws(() => create({ keys: [key], [name]: value }), { name: 'TypeError', message: new RegExp(`^option ${name} `) }, `${name}: ${String(value)}`);
    }
  }
  for (const options of [undefined, null, 7, 'x'])
    assert.throws(() => Reflect.apply(createPetstore, undefined, [options]), { name: 'TypeError', message: /options/ });
  assert.throws(() => create({}), { name: 'TypeError', message: /^option keys / });
});

test('an unknown option is refused by its name, a misspelt one included', () => {
  for (const name of ['key', 'Keys', 'maxBodyByte', 'port', 'toString', '']) {
    assert.throws(() => create({ keys: [key], [name]: 1 }), {
      name: 'TypeError',
      message: new RegExp(`^option ${name} is unknown; known are keys, storage, `),
    });
  }
});

test('good options are taken as they are, and the caller’s object stays untouched', async () => {
  const keys = Object.freeze([key]);
  const options = Object.freeze({
    keys,
    storage: memoryStorage(),
    clock: Date.now,
    plugins: Object.freeze([]),
    log: () => undefined,
    maxBodyBytes: 2 ** 24,
    baseUrl: 'https://a.example/v1',
    stagingBaseUrl: 'http://b.example/v1',
  });
  const { storage, close } = createPetstore(options);
  assert.equal(storage, options.storage);
  await close();
  await createPetstore({ keys, maxBodyBytes: 1 }).close();
});

test('a key list that changes later changes nothing', async (t) => {
  const keys = [key];
  const { port } = await start(t, { keys });
  keys[0] = 'other';
  assert.equal((await ask(port, 'GET', '/v1/pets')).status, 200);
});

test('a storage that is still to come is waited for, by requests and by listen; ready does not wait', async (t) => {
  let open = (_storage: PetStorage): void => undefined;
  const opening = new Promise<PetStorage>((resolve) => (open = resolve));
  const { fetch, listen, close } = createPetstore({ keys: [key], storage: opening });
  atEnd(t, close);
  const headers = { Authorization: `Bearer ${key}` };
  const early = fetch(new Request('http://a/v1/pets', { headers }));
  const listening = listen({ port: 0 });
  assert.equal(await Promise.race([listening, early, sleep(30, 'nothing yet')]), 'nothing yet');
  assert.equal((await fetch(new Request('http://a/readyz'))).status, 503);
  assert.equal((await fetch(new Request('http://a/healthz'))).status, 200);
  open(memoryStorage());
  assert.equal(await (await early).text(), '[]');
  const { port } = await listening;
  assert.equal(await add(port, '{"name":"a","categoryId":1}'), '{"id":1,"name":"a","categoryId":1}');
  assert.equal((await ask(port, 'GET', '/readyz')).status, 200);
});

test('C48 a storage that cannot be opened answers 503, and listen rejects with the storage’s own error', async () => {
  const damaged = new PetstoreError('storage_damaged', 'line 3 of /srv/secret');
  const { fetch, listen, close } = createPetstore({ keys: [key], storage: Promise.reject(damaged) });
  await sleep(5);
  await assert.rejects(listen({ port: 0 }), damaged);
  const headers = { Authorization: `Bearer ${key}` };
  for (const request of [
    new Request('http://a/v1/pets', { headers }),
    new Request('http://a/v1/pets/1', { headers }),
    new Request('http://a/v1/pets', { method: 'POST', headers, body: Buffer.from('{"name":"a","categoryId":1}') }),
    new Request('http://a/readyz'),
  ]) {
    const response = await fetch(request);
    const text = await response.text();
    assert.deepEqual([response.status, response.headers.get('retry-after')], [503, '1']);
    assert.ok(text.includes('"unavailable"') && !text.includes('secret'));
  }
  assert.equal((await fetch(new Request('http://a/v1/pets', { method: 'POST', headers, body: Buffer.from('{}') }))).status, 400, 'the body is looked at first');
  await close();
});

test('listen takes 3000 and 127.0.0.1 where nothing is said, and Node’s refusal of what is no port', async (t) => {
  const { petstore } = await start(t);
  await assert.rejects(petstore.listen({ port: 70_000 }), { code: 'ERR_SOCKET_BAD_PORT' });
  await assert.rejects(petstore.listen({ port: 0, host: '203.0.113.1' }), { code: 'EADDRNOTAVAIL' });
  const six = await petstore.listen({ port: 0, host: '::1' }).catch(() => undefined);
  if (six !== undefined) assert.equal(six.url, `http://[::1]:${six.port}`);
  assertError(await ask((await petstore.listen({ port: 0 })).port, 'GET', '/x'), 404, 'not_found');
});
