// Tests C88: the store, rules, clock and journal of each API key's name.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import {
  createPetstore,
  digestOfKey,
  fileStorage,
  KeyRing,
  memoryStorage,
  type Plugin,
  type PluginHost,
} from '../../dist/index.js';
import { faultsPlugin } from '../../dist/plugins/faults.js';
import { ordersPlugin } from '../../dist/plugins/orders.js';
import { assertError, header } from '../support/client.js';
import {
  connectTo,
  requestBytes,
  sendRequest,
  start,
  type RequestParts,
} from '../support/fixture.js';
import { everyTransport, expectResponse, petJson, startLogged } from '../support/scenes.js';
import { mockTimeouts } from '../support/timers.js';
import { until } from '../support/waiting.js';
import { folder } from '../support/process.js';
import { join } from 'node:path';

const seed = { pets: [{ name: 'Tom', categoryId: 7n }] };
const tom = '{"id":1,"name":"Tom","categoryId":7}';

/** Starts a petstore with the keys `a` and `b`, named key-1 and key-2. */
const startIsolated = (t: TestContext, options: Parameters<typeof start>[1] = {}) =>
  start(t, {
    keys: ['a', 'b'],
    isolate: true,
    storage: memoryStorage(seed),
    plugins: [faultsPlugin()],
    ...options,
  });
const as = (key: string, parts: RequestParts = {}): RequestParts => ({
  ...parts,
  authorization: `Bearer ${key}`,
});

test('C88 each key has a store, rules and a journal of its own, made from the seed', async (t) => {
  const { port } = await startIsolated(t);
  const add = (key: string) => sendRequest(port, 'POST', '/v1/pets', as(key, { body: petJson }));
  assert.equal((await add('a')).body, '{"id":2,"name":"a","categoryId":1}');
  await expectResponse(port, 'GET /v1/pets', `200 [${tom}]`, as('b'));

  const rules = JSON.stringify({ rules: [{ fault: 'status=503' }] });
  await sendRequest(port, 'PUT', '/v1/faults', as('b', { body: rules }));
  await expectResponse(port, 'GET /v1/pets', '503 unavailable', as('b'));
  assert.equal((await add('a')).status, 201);

  const paths = async (key: string) =>
    JSON.parse((await sendRequest(port, 'GET', '/v1/requests', as(key))).body).map(
      ({ method, status, key: name }: Record<string, unknown>) => `${method} ${status} ${name}`,
    );
  assert.deepEqual(await paths('a'), ['POST 201 key-1', 'POST 201 key-1']);
  assert.deepEqual(await paths('b'), ['GET 200 key-2', 'GET 503 key-2']);

  await expectResponse(port, 'POST /v1/reset', 204, as('b'));
  await expectResponse(port, 'GET /v1/pets', `200 [${tom}]`, as('b'));
  assert.deepEqual(await paths('b'), ['GET 200 key-2']);
  assert.equal((await add('a')).body, '{"id":4,"name":"a","categoryId":1}');
});

test('C88 a plugin sees each response and its end once', async (t) => {
  const seen: string[] = [];
  const watching: Plugin = ({ onReply, onResponseEnd, isolatedKey: store }) => {
    onReply(({ route, status }) => void seen.push(`${route} in ${store}: ${status}`));
    onResponseEnd(({ route, isWhole }) => void seen.push(`${route} in ${store}: ${isWhole}`));
  };
  const ofPets = () => seen.filter((text) => text.startsWith('/v1/pets '));
  const { port } = await startIsolated(t, { plugins: [watching] });
  for (const key of ['a', 'b', 'c']) await sendRequest(port, 'GET', '/v1/pets', as(key));
  await until('the last end', () => ofPets().length === 6);
  assert.deepEqual(
    ofPets(),
    ['key-1: 200', 'key-1: true', 'key-2: 200', 'key-2: true']
      .concat('undefined: 401', 'undefined: true')
      .map((text) => `/v1/pets in ${text}`),
  );
});

test('C88 a plugin sees the ends of responses if it watches only those of one store', async (t) => {
  const ends: unknown[] = [];
  const watching: Plugin = ({ onResponseEnd, isolatedKey }) => {
    if (isolatedKey === 'key-1') onResponseEnd(({ isWhole }) => void ends.push(isWhole));
  };
  const { petstore, port } = await startIsolated(t, { plugins: [watching] });
  for (const key of ['a', 'b']) await sendRequest(port, 'GET', '/v1/pets', as(key));
  await until('the end over the port', () => ends.length === 1);
  for (const key of ['a', 'b']) {
    const headers = { Authorization: `Bearer ${key}` };
    await (await petstore.fetch('http://any/v1/pets', { headers })).text();
  }
  await until('the end of the fetch', () => ends.length === 2);
  assert.deepEqual(ends, [true, true]);
});

test('C88 each key has a clock of its own, which Date and the sunset follow', async (t) => {
  for (const nodeInterface of ['auto', 'documented'] as const) {
    const running = await startIsolated(t);
    const { port } = await running.petstore.listen({ port: 0, nodeInterface });
    const body = '{"clock":"2030-12-06T00:00:00Z"}';
    await expectResponse(port, 'POST /v1/reset', 204, as('a', { body }));
    const gone = await expectResponse(port, 'GET /v1/pets/1', '404 not_found', as('a'));
    assert.match(header(gone, 'Date') ?? '', /^Fri, 06 Dec 2030 00:/);
    const list = await expectResponse(port, 'GET /v1/pets', 200, as('a'));
    assert.match(header(list, 'Date') ?? '', /^Fri, 06 Dec 2030 00:/);
    const other = await expectResponse(port, 'GET /v1/pets/1', 200, as('b'));
    assert.doesNotMatch(header(other, 'Date') ?? '', /2030/);
    await expectResponse(port, 'POST /v1/reset', 204, as('a'));
    await expectResponse(port, 'GET /v1/pets/1', 200, as('a'));
  }
});

test('C73 C87 C88 API keys and idempotency keys expire by the clock of their store', async (t) => {
  const dayMs = 24 * 3_600_000;
  const expiresAt = Date.now() + 2 * dayMs;
  const entries = ['a', 'b'].map((name) => ({ name, digest: digestOfKey(name), expiresAt }));
  const ring = new KeyRing(entries, Date.now);
  const clocks = new Map<string | undefined, PluginHost['setClock']>();
  const stepper: Plugin = (host) => void clocks.set(host.isolatedKey, host.setClock);
  const keys = ring.verify.bind(ring);
  const { port } = await startIsolated(t, { keys, plugins: [stepper] });
  const add = async (name: string, expected: number | string) => {
    const parts = { body: petJson, headers: ['Idempotency-Key: k'] };
    await expectResponse(port, 'POST /v1/pets', expected, as(name, parts));
  };
  const second = '201 {"id":2,"name":"a","categoryId":1}';
  for (const name of ['a', 'b']) await add(name, second);
  clocks.get('a')?.(Date.now() + 1.5 * dayMs);
  await add('a', '201 {"id":3,"name":"a","categoryId":1}');
  clocks.get('a')?.(expiresAt + dayMs);
  await add('a', '401 unauthorized');
  await add('b', second);
});

test('C71 C88 a reset refuses only the requests of its key', async (t) => {
  const running = await startIsolated(t);
  const { port } = running;
  const slow = as('a', { headers: ['Petstore-Fault: delay=30000'] });
  const [own, foreign] = [
    await connectTo(t, running, requestBytes('GET', '/v1/pets', slow)),
    await connectTo(
      t,
      running,
      requestBytes('GET', '/v1/pets', as('b', { headers: ['Petstore-Fault: delay=300'] })),
    ),
  ];
  const count = async (key: string) =>
    JSON.parse((await sendRequest(port, 'GET', '/v1/requests', as(key))).body).length;
  await until('both', async () => (await count('a')) > 0 && (await count('b')) > 0);
  await expectResponse(port, 'POST /v1/reset', 204, as('a'));
  await own.expect('503 unavailable');
  await foreign.expect(`200 [${tom}]`);
});

test('C88 requests without a valid key meet no store', async (t) => {
  const { port, petstore } = await startIsolated(t);
  await expectResponse(port, 'GET /v1/pets', '401 unauthorized', { authorization: null });
  await expectResponse(port, 'GET /v1/pets', '401 unauthorized', as('c'));
  await expectResponse(port, 'GET /healthz', 200, { authorization: null });
  await expectResponse(port, 'GET /healthz', 200, as('a'));
  await expectResponse(port, 'OPTIONS /v1/pets', 204, { authorization: null });
  await expectResponse(port, 'GET /v1/nothing', '404 not_found', as('a'));
  assert.equal(petstore.storage.size, 1);
});

test('C88 at most 256 names have a store', async (t) => {
  const { petstore } = await startIsolated(t, { keys: (token: string) => token, plugins: [] });
  const get = async (name: string) => {
    const headers = { Authorization: `Bearer ${name}` };
    return petstore.fetch('http://any/v1/pets', { headers });
  };
  for (let index = 0; index < 256; index++) assert.equal((await get(`n${index}`)).status, 200);
  const refused = await get('one-more');
  assert.equal(refused.status, 503);
  assert.match(await refused.text(), /There are 256 isolated stores already/);
  assert.equal((await get('n7')).status, 200);
});

test('C83 C88 forKey controls the store of a key, and the plugin warns once', async (t) => {
  const faults = faultsPlugin({ rules: [{ fault: 'status=500', times: 1 }] });
  const options = { keys: ['a', 'b'], isolate: true, plugins: [faults] };
  const { port, lines } = await startLogged(t, options);
  assert.throws(() => faults.forKey('key-1').rules(), {
    name: 'TypeError',
    message: 'faultsPlugin: no request has used a key named "key-1" with isolate',
  });
  await expectResponse(port, 'GET /v1/pets', '500 internal_error', as('a'));
  await expectResponse(port, 'GET /v1/pets', '500 internal_error', as('b'));
  assert.throws(() => faults.rules(), {
    name: 'TypeError',
    message: 'faultsPlugin: each API key has a store of its own; call forKey(NAME)',
  });
  const first = faults.forKey('key-1');
  first.set([{ fault: 'status=429' }]);
  await expectResponse(port, 'GET /v1/pets', '429 too_many_requests', as('a'));
  await expectResponse(port, 'GET /v1/pets', 200, as('b'));
  assert.deepEqual(
    first.requests({ path: '/v1/pets' }).map(({ status }) => status),
    [500, 429],
  );
  await first.reset();
  assert.deepEqual(first.rules(), [{ fault: 'status=500', times: 1, left: 1 }]);
  assert.equal(lines.filter((line) => line.includes('fails on purpose')).length, 1);
});

test('C88 isolate needs a storage in memory, and a boolean', async (t) => {
  const storage = await fileStorage(join(folder(t), 'pets.jsonl'));
  assert.throws(() => createPetstore({ keys: ['a'], isolate: true, storage }), {
    name: 'TypeError',
    message: 'option isolate must be false, unless the storage is memoryStorage()',
  });
  await storage.close();
  assert.throws(() => createPetstore({ keys: ['a'], isolate: Object('yes') }), {
    message: 'option isolate must be true or false',
  });
});

test('C88 a plugin that fails in a store, or a key that cannot be verified, is a 500', async (t) => {
  const picky: Plugin = ({ isolatedKey }) => {
    if (isolatedKey === 'bad') throw new Error('no store for bad');
  };
  const keys = (token: string) => {
    if (token === 'broken') throw new Error('no verifier');
    return token;
  };
  const { petstore, lines } = await startLogged(t, { keys, isolate: true, plugins: [picky] });
  for (const [key, status] of [
    ['good', 200],
    ['bad', 500],
    ['broken', 500],
    ['good', 200],
  ] as const) {
    const headers = { Authorization: `Bearer ${key}` };
    const response = await petstore.fetch('http://any/v1/pets', { headers });
    assert.equal(response.status, status, key);
  }
  assert.equal(lines.length, 2);
});

test('C88 close waits for no request that got no store, and closes the plugins of each store', async (t) => {
  const closed: unknown[] = [];
  const closing: Plugin = ({ isolatedKey, onClose }) =>
    onClose(() => void closed.push(isolatedKey));
  const keys = (token: string) => (token === 'broken' ? assert.fail('no verifier') : token);
  const petstore = createPetstore({ keys, isolate: true, plugins: [closing] });
  for (const [token, status] of [
    ['a', 200],
    ['broken', 500],
    ['b', 200],
  ] as const) {
    const headers = { Authorization: `Bearer ${token}` };
    assert.equal((await petstore.fetch('http://any/v1/pets', { headers })).status, status);
  }
  // Timeouts never end here, so a close that waited for the failed request would not resolve.
  mockTimeouts(t);
  await petstore.close();
  assert.deepEqual(closed, [undefined, 'a', 'b']);
});

test('C88 close ends the delays of all stores, and later requests are 503', async () => {
  const petstore = createPetstore({ keys: ['a', 'b'], isolate: true, plugins: [faultsPlugin()] });
  const get = (key: string, fault = '') =>
    petstore.fetch('http://any/v1/pets', {
      headers: { Authorization: `Bearer ${key}`, 'Petstore-Fault': fault },
    });
  const from = performance.now();
  const waiting = ['a', 'b'].map((key) => get(key, 'delay=30000'));
  await until('both stores', () => true);
  await petstore.close();
  for (const response of waiting) assert.equal((await response).status, 200);
  assert.ok(performance.now() - from < 20_000);
  assert.equal((await get('a')).status, 503);
});

test('C88 works by every transport, and with records of plugins', async (t) => {
  const running = await startIsolated(t, { plugins: [faultsPlugin(), ordersPlugin()] });
  for (const way of await everyTransport(t, running)) {
    const headers = { Authorization: 'Bearer a', 'Content-Type': 'application/json' };
    const body = '{"petId":1,"quantity":1}';
    const placed = await way('/v1/store/orders', { method: 'POST', headers, body });
    assert.equal(placed.status, 201, await placed.clone().text());
    assert.equal(JSON.parse(await placed.text()).id, 1);
    const other = await way('/v1/store/orders', { headers: { Authorization: 'Bearer b' } });
    assert.equal(await other.text(), '[]');
    await way('/v1/reset', { method: 'POST', headers: { Authorization: 'Bearer a' } });
  }
});

test('C88 20 parallel tests on one petstore do not disturb each other', async (t) => {
  const keys = Array.from({ length: 20 }, (_, index) => `worker-${index}`);
  const { port } = await startIsolated(t, { keys });
  const oneTest = async (key: string, round: number) => {
    const call = (method: string, path: string, parts: RequestParts = {}) =>
      sendRequest(port, method, path, as(key, parts));
    await call('POST', '/v1/reset');
    const times = 1 + (round % 3);
    const rules = [{ method: 'POST', fault: 'status=503', times }];
    await call('PUT', '/v1/faults', { body: JSON.stringify({ rules }) });
    let attempts = 0;
    const idempotent = { body: petJson, headers: [`Idempotency-Key: ${key}-${round}`] };
    for (let status = 0; status !== 201; attempts++)
      ({ status } = await call('POST', '/v1/pets', idempotent));
    assert.equal(attempts, times + 1);
    const items = JSON.parse((await call('GET', '/v1/requests?method=POST')).body);
    assert.equal(items.length, times + 1, `${key} ${round}`);
    assert.equal(JSON.parse((await call('GET', '/v1/pets')).body).length, 2);
  };
  for (let round = 0; round < 5; round++) await Promise.all(keys.map((key) => oneTest(key, round)));
  assertError(await sendRequest(port, 'GET', '/v1/pets', as('nobody')), 401, 'unauthorized');
});
