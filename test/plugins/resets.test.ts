// Tests C71: a reset of the storage refuses requests that came before it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createPetstore,
  emptyReply,
  memoryStorage,
  type MemoryStorage,
  type Petstore,
  type Plugin,
} from '../../dist/index.js';
import { faultsPlugin } from '../../dist/plugins/faults.js';
import { ordersPlugin } from '../../dist/plugins/orders.js';
import { sendRequest, requestBytes, connectTo, key, start } from '../support/fixture.js';
import {
  petJson,
  countingPets,
  everyTransport,
  expectResponse,
  expectResponses,
  firstPetJson,
  keyHeaders,
} from '../support/scenes.js';
import { gate } from '../support/waiting.js';

const add = 'POST /v1/pets';
const list = 'GET /v1/pets';
const reset = 'POST /v1/reset';

/** Starts a petstore with the faults plugin and a count of requests. */
async function startCounting(t: Parameters<typeof start>[0], storage = memoryStorage()) {
  const { plugin, reaches } = countingPets();
  const running = await start(t, { storage, plugins: [plugin, faultsPlugin()] });
  return { ...running, storage, reaches };
}

/** The ways of resetting a petstore. */
const resets: Readonly<Record<string, (petstore: Petstore, storage: MemoryStorage) => unknown>> = {
  'storage.reset()': (_, storage) => storage.reset(),
  'POST /v1/reset': async ({ fetch }) => {
    const response = await fetch('http://any/v1/reset', { method: 'POST', headers: keyHeaders });
    assert.equal(response.status, 204);
  },
};

for (const [how, resetBy] of Object.entries(resets))
  test(`C71 ${how} ends every delay with 503 and carries out no delayed request`, async (t) => {
    const running = await startCounting(t);
    const { petstore, storage, port, reaches } = running;
    const faults = ['', ',before', ',within', ',after', ',status=500', ',drop', ',truncate,after'];
    let reached = 0;
    for (const way of await everyTransport(t, running)) {
      const waiting = faults.flatMap((fault) =>
        ['POST', 'GET'].map((method, index) =>
          way('/v1/pets', {
            method,
            headers: {
              ...keyHeaders,
              'Petstore-Fault': `delay=30000${fault}`,
              'Idempotency-Key': `key${fault}${index}`,
            },
            ...(method === 'POST' ? { body: petJson } : {}),
          }),
        ),
      );
      reached += waiting.length;
      await reaches(reached);

      const from = performance.now();
      await resetBy(petstore, storage);
      // The pets and idempotency keys of the delayed requests are gone at once.
      const next = { ...keyHeaders, 'Idempotency-Key': 'key,within0' };
      const init = { method: 'POST', headers: next, body: petJson };
      const response = await petstore.fetch('http://any/v1/pets', init);
      assert.deepEqual([response.status, await response.text()], [201, firstPetJson]);
      reached++;

      for (const each of await Promise.all(waiting)) {
        assert.equal(each.status, 503);
        assert.equal(Object(await each.json()).code, 'unavailable');
      }
      assert.ok(performance.now() - from < 15_000, 'the delays ended early');
      await expectResponse(port, list, `200 [${firstPetJson}]`);
      reached++;
      // The end of the old request does not delete the key of the new request.
      await expectResponse(port, add, `201 ${firstPetJson}`, {
        body: petJson,
        headers: ['Idempotency-Key: key,within0'],
      });
      reached++;
      assert.equal(storage.size, 1);
    }
  });

test('C71 a reset refuses a request whose body is incomplete with 503', async (t) => {
  const storage = memoryStorage();
  const running = await start(t, { storage, plugins: [faultsPlugin()] });
  const bytes = requestBytes('POST', '/v1/pets', {
    body: petJson,
    headers: ['Expect: 100-continue'],
  });
  const client = await connectTo(t, running, bytes.slice(0, -petJson.length));
  await client.expect(100);
  await storage.reset();
  client.send(petJson);
  await client.expect('503 unavailable');
  await client.closed();

  // Rules whose body comes after the reset are not set.
  const body = JSON.stringify({ rules: [{ fault: 'drop' }] });
  const put = requestBytes('PUT', '/v1/faults', { body, headers: ['Expect: 100-continue'] });
  const other = await connectTo(t, running, put.slice(0, -body.length));
  await other.expect(100);
  await expectResponse(running.port, reset, 204);
  other.send(body);
  await other.expect('503 unavailable');
  await expectResponse(running.port, 'GET /v1/faults', '200 {"rules":[]}');
  assert.equal(storage.size, 0);
});

test('C71 requests pipelined after a request that a reset refuses are not carried out', async (t) => {
  const running = await startCounting(t);
  const { reaches, port, storage } = running;
  const parts = { body: petJson, headers: ['Petstore-Fault: delay=30000'] };
  const plain = requestBytes('POST', '/v1/pets', { body: petJson });
  const client = await connectTo(t, running, requestBytes('POST', '/v1/pets', parts) + plain);
  await reaches(1);
  client.send(plain);
  await expectResponse(port, reset, 204);
  await client.expect('503 unavailable');
  await client.closed();
  await expectResponse(port, list, '200 []');
  assert.equal(storage.size, 0);
});

test('C71 a request pipelined after one that was in flight at a reset is 503', async (t) => {
  const [reached, released] = [gate(), gate()];
  const storage = memoryStorage();
  const slow: Plugin = ({ route }) =>
    route({
      path: '/slow',
      methods: {
        GET: {
          handler: async () => {
            reached.open();
            await released.opened;
            return { status: 204, headers: [] };
          },
        },
      },
    });
  const running = await start(t, { storage, plugins: [slow] });
  const bytes = requestBytes('GET', '/slow') + requestBytes('POST', '/v1/pets', { body: petJson });
  const client = await connectTo(t, running, bytes);
  await reached.opened;
  await storage.reset();
  released.open();
  await client.expect(204, '503 unavailable');
  assert.equal(storage.size, 0);
});

for (const nodeInterface of ['auto', 'documented'] as const)
  test(`C71 requests pipelined after a reset are carried out (${nodeInterface})`, async (t) => {
    const { petstore } = await startCounting(t);
    const listening = await petstore.listen({ port: 0, nodeInterface });
    const plain = requestBytes('POST', '/v1/pets', { body: petJson });
    const bytes = plain + requestBytes('POST', '/v1/reset') + plain;
    const client = await connectTo(t, listening, bytes);
    await client.expect(201, 204, `201 ${firstPetJson}`);
  });

test('C63 a reset deletes the records of plugins, whose ids begin at 1 again', async (t) => {
  const { port } = await start(t, { plugins: [ordersPlugin(), faultsPlugin()] });
  const orders = '/v1/store/orders';
  for (let round = 0; round < 2; round++) {
    await expectResponse(port, add, 201, { body: petJson });
    const placed = await expectResponse(port, `POST ${orders}`, 201, {
      body: '{"petId":1,"quantity":1}',
    });
    assert.match(placed.body, /^\{"id":1,/);
    await expectResponse(port, reset, 204);
    await expectResponse(port, `GET ${orders}`, '200 []');
  }
});

test('C63 a reset frees the idempotency keys that plugins hold', async () => {
  const held = [gate(), gate()];
  const released = [gate(), gate()];
  let holds = 0;
  const holding: Plugin = ({ around }) =>
    around((request, next) =>
      request.header('x-hold') === undefined
        ? next()
        : next(async () => {
            const number = holds++;
            held[number]?.open();
            await released[number]?.opened;
          }),
    );
  const storage = memoryStorage();
  const petstore = createPetstore({ keys: [key], storage, plugins: [holding] });
  const send = (headers: Readonly<Record<string, string>> = {}) =>
    petstore.fetch('http://any/v1/pets', {
      method: 'POST',
      headers: { ...keyHeaders, 'Idempotency-Key': 'a', ...headers },
      body: petJson,
    });
  const hold = { 'X-Hold': '1' };

  const outdated = send(hold);
  await held[0]?.opened;
  assert.equal((await send()).status, 409);
  await storage.reset();
  const current = send(hold);
  await held[1]?.opened;
  // The end of the outdated request must not free the key of the current request.
  released[0]?.open();
  assert.equal((await outdated).status, 503);
  assert.equal((await send()).status, 409);
  released[1]?.open();
  assert.equal((await current).status, 201);
  assert.equal((await send()).status, 201);
  assert.equal(storage.size, 1);
  await petstore.close();
});

test('C71 an operation of a plugin may reset the storage', async (t) => {
  const storage = memoryStorage();
  const forget: Plugin = ({ route }) =>
    route({
      path: '/v1/forget',
      methods: { POST: { handler: async () => (await storage.reset(), emptyReply(204, [])) } },
    });
  const { port } = await start(t, { storage, plugins: [forget, faultsPlugin()] });
  await expectResponses(port, [
    [add, 201, { body: petJson }],
    ['POST /v1/forget', 204],
    [list, '200 []'],
  ]);
});

test('C71 concurrent resets are 204, and a reset after close is 503', async (t) => {
  const { petstore, port } = await startCounting(t);
  const init = { method: 'POST', headers: keyHeaders };
  const both = [1, 2].map(() => petstore.fetch('http://any/v1/reset', init));
  for (const response of await Promise.all(both)) assert.equal(response.status, 204);
  await Promise.all([expectResponse(port, reset, 204), expectResponse(port, reset, 204)]);
  await petstore.close();
  assert.equal((await petstore.fetch('http://any/v1/reset', init)).status, 503);
});

test('C71 a reset during close ends delayed requests with 503', async () => {
  const storage = memoryStorage();
  const { plugin, reaches } = countingPets();
  const petstore = createPetstore({ keys: [key], storage, plugins: [plugin, faultsPlugin()] });
  const headers = { ...keyHeaders, 'Petstore-Fault': 'delay=30000' };
  const waiting = petstore.fetch('http://any/v1/pets', { method: 'POST', headers, body: petJson });
  await reaches(1);
  const closing = petstore.close();
  await storage.reset();
  assert.equal((await waiting).status, 503);
  await closing;
});

test('C71 a reset refuses a request whose key is still being verified', async (t) => {
  const [reached, released] = [gate(), gate()];
  const storage = memoryStorage();
  const keys = async () => {
    reached.open();
    await released.opened;
    return 'me';
  };
  const { port } = await start(t, { storage, keys });
  const adding = sendRequest(port, 'POST', '/v1/pets', { body: petJson });
  await reached.opened;
  await storage.reset();
  released.open();
  assert.equal((await adding).status, 503);
  assert.equal(storage.size, 0);
});

test('C71 a listener of onReset that throws does not stop the reset', async () => {
  const storage = memoryStorage({ pets: [{ name: 'Tom', categoryId: 7n }] });
  const heard: string[] = [];
  storage.onReset?.(() => assert.fail('from a listener'));
  storage.onReset?.(() => void heard.push(`${storage.size}`));
  await storage.insert({ name: 'Rex', categoryId: 1n });
  await storage.reset();
  assert.deepEqual([storage.size, heard], [1, ['1']]);
});

test('C63 C71 a reset restores the rules of the start with their counts', async (t) => {
  const rules = [{ method: 'POST', path: '/v1/pets', fault: 'status=503', times: 1, skip: 1 }];
  const plugin = faultsPlugin({ rules });
  const storages = [memoryStorage(), memoryStorage()];
  for (const storage of storages) {
    const { port } = await start(t, { storage, plugins: [plugin] });
    const body = { body: petJson };
    const round = [
      [add, 201, body],
      [add, '503 unavailable', body],
      [add, 201, body],
    ] as const;
    await expectResponses(port, [
      ...round,
      [reset, 204],
      ...round,
      ['DELETE /v1/faults', 204],
      [add, 201, body],
    ]);
    await storage.reset();
    await expectResponses(port, [...round, [list, 200]]);
    await expectResponse(
      port,
      'GET /v1/faults',
      `200 ${JSON.stringify({ rules: [{ ...rules[0], left: 0 }] })}`,
    );
  }
});
