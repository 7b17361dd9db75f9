// Tests the control of the faults plugin: the journal (C82), the library (C83), the clock (C87), the
// warning (C89), and what metrics say (C90).
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import {
  createPetstore,
  digestOfKey,
  KeyRing,
  memoryStorage,
  type Plugin,
} from '../../dist/index.js';
import { faultsPlugin, type JournalItem } from '../../dist/plugins/faults.js';
import { metricsPlugin } from '../../dist/plugins/metrics.js';
import { assertError, assertResponse, Client, header } from '../support/client.js';
import { connectTo, key, requestBytes, start, type RequestParts } from '../support/fixture.js';
import {
  everyTransport,
  keyHeaders,
  noKey,
  petJson,
  plainStorage,
  startLogged,
} from '../support/scenes.js';
import { until } from '../support/waiting.js';

const startFaulty = (t: TestContext, options: Parameters<typeof start>[1] = {}) =>
  start(t, { plugins: [faultsPlugin()], ...options });

/** Sends a request on a connection of its own, without any other request. */
async function sendRequest(port: number, method: string, target: string, parts?: RequestParts) {
  const client = await Client.connect(port);
  client.send(requestBytes(method, target, parts));
  const response = await client.nextResponse(method);
  client.endSending();
  return response;
}

/** Sends a request and checks the response, as `assertResponse`. */
async function expectResponse(
  port: number,
  request: string,
  expected: number | string,
  parts?: RequestParts,
) {
  const [method = '', target = ''] = request.split(' ');
  const response = await sendRequest(port, method, target, parts);
  assertResponse(response, expected, request);
  return response;
}

/** Calls {@link expectResponse} for each row, one after the other. */
async function expectResponses(
  port: number,
  rows: readonly (readonly [request: string, expected: number | string, parts?: RequestParts])[],
) {
  for (const row of rows) await expectResponse(port, ...row);
}

/** Returns a page of the journal. */
async function journal(port: number, query = '?limit=100'): Promise<readonly JournalItem[]> {
  const response = await sendRequest(port, 'GET', `/v1/requests${query}`);
  assert.equal(response.status, 200, response.body);
  return JSON.parse(response.body);
}

/** The JSON of a pet, and its bytes. */
const catJson = '{"name":"猫","categoryId":1}';
const catBytes = Buffer.from(catJson).toString('latin1');

/** Adds a pet with a fault and an idempotency key; ignores how the connection ends. */
async function attempt(port: number, fault: string, idempotencyKey: string) {
  const headers = [`Idempotency-Key: ${idempotencyKey}`, `Petstore-Fault: ${fault}`];
  const bytes = requestBytes('POST', '/v1/pets', { body: catBytes, headers });
  const client = (await Client.connect(port)).send(bytes);
  await client.ends();
}

test('C82 the journal shows three attempts with one key, two cut, and one pet', async (t) => {
  const { port } = await startFaulty(t);
  await attempt(port, 'drop,after', 'one');
  await attempt(port, 'after,truncate', 'one');
  const words = { body: catBytes, headers: ['Idempotency-Key: one'] };
  await expectResponse(port, 'POST /v1/pets', 201, words);
  await expectResponse(port, 'GET /v1/pets', 200);

  const attempts = await journal(port, '?idempotencyKey=one');
  const bodySha256 = createHash('sha256').update(catJson).digest('hex');
  const common = {
    method: 'POST',
    path: '/v1/pets',
    route: '/v1/pets',
    key: 'key-1',
    idempotencyKey: 'one',
    bodyLength: catBytes.length,
    bodySha256,
  };
  assert.deepEqual(
    attempts.map(({ time, ms = NaN, ...item }) => {
      assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      assert.ok(ms >= 0);
      return item;
    }),
    [
      { id: 1, ...common, fault: 'drop,after', cut: true, replayed: false },
      { id: 2, ...common, status: 201, fault: 'truncate,after', cut: true, replayed: true },
      { id: 3, ...common, status: 201, cut: false, replayed: true },
    ],
  );
  assert.deepEqual(
    (await journal(port)).map(({ id, method }) => `${id} ${method}`),
    ['1 POST', '2 POST', '3 POST', '4 GET'],
  );
});

test('C82 the journal has refused requests, and no path of the plugin', async (t) => {
  const { port } = await startFaulty(t);
  await expectResponses(port, [
    ['GET /v1/pets?limit=7', '401 unauthorized', noKey],
    ['DELETE /v1/pets', '405 method_not_allowed'],
    ['POST /v1/pets', '415 unsupported_media_type', { body: '1', headers: ['Content-Type: a/b'] }],
    ['POST /v1/pets', '413 content_too_large', { body: 'x'.repeat(70_000) }],
    ['GET /v1/pets?limit=0', '400 invalid_parameter'],
    ['GET /v1/nothing', '404 not_found'],
    ['GET /healthz', 200, noKey],
    ['OPTIONS /v1/pets', 204],
    ['GET /v1/pets', '431 headers_too_large', { headers: [`X: ${'x'.repeat(17_000)}`] }],
    ['GET /v1/requests', '401 unauthorized', noKey],
    ['GET /v1/faults', 200],
  ]);
  const garbage = (await Client.connect(port)).send('no HTTP at all\r\n\r\n');
  await garbage.ends();
  const twoHosts = (await Client.connect(port)).send(
    'GET /v1/pets HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n',
  );
  await twoHosts.ends();
  const items = await journal(port);
  assert.deepEqual(
    items.map(({ method, path, query, route, status, key: name, cut }) =>
      [method, path, query, route, status, name, cut].join(' '),
    ),
    [
      'GET /v1/pets limit=7 /v1/pets 401  false',
      'DELETE /v1/pets  /v1/pets 405  false',
      'POST /v1/pets  /v1/pets 415 key-1 false',
      'POST /v1/pets  /v1/pets 413 key-1 false',
      'GET /v1/pets limit=0 /v1/pets 400 key-1 false',
      'GET /v1/nothing   404  false',
      'GET /healthz  /healthz 200  false',
      'OPTIONS /v1/pets  /v1/pets 204  false',
      ...[items[8], items[9]].map((item) =>
        [item?.method, item?.path, '', '', item?.status, '', false].join(' '),
      ),
      ...[items[10]].map((item) => [item?.method, item?.path, '', '', 400, '', false].join(' ')),
    ],
  );
  assert.deepEqual(
    items.slice(8).map(({ status }) => status),
    [431, 400, 400],
  );
  for (const { bodyLength } of items) assert.equal(bodyLength, undefined);
});

test('C82 filters choose by method, path, status, key and fault, and pages link on', async (t) => {
  const { port } = await startFaulty(t);
  await attempt(port, 'drop,after', 'a');
  await sendRequest(port, 'GET', '/v1/pets/1', { headers: ['Petstore-Fault: delay=1,status=503'] });
  await sendRequest(port, 'GET', '/v1/pets/2');
  await sendRequest(port, 'GET', '/v1/pets', { headers: ['Petstore-Fault: delay=2'] });
  for (const [query, ids] of [
    ['', [1, 2, 3, 4]],
    ['?method=GET', [2, 3, 4]],
    ['?method=PUT', []],
    ['?path=/v1/pets', [1, 4]],
    ['?path=/v1/pets/2', [3]],
    ['?path=/v1/pets/%7BpetId%7D', [2, 3]],
    ['?status=503', [2]],
    ['?status=404&path=/v1/pets/2', [3]],
    ['?idempotencyKey=a', [1]],
    ['?fault=drop', [1]],
    ['?fault=after,drop', [1]],
    ['?fault=delay', [2, 4]],
    ['?fault=delay=2', [4]],
    ['?fault=status=503,delay', [2]],
    ['?fault=drop,delay', []],
    ['?after=2', [3, 4]],
    ['?after=99', []],
    ['?unknown=1', [1, 2, 3, 4]],
  ] as const)
    assert.deepEqual(
      (await journal(port, query)).map(({ id }) => id),
      ids,
      query,
    );

  const page = await sendRequest(port, 'GET', '/v1/requests?fault=delay&limit=1');
  const link = header(page, 'Link');
  assert.equal(link, '</v1/requests?limit=1&fault=delay&after=2>; rel="next"');
  const rest = await sendRequest(port, 'GET', '/v1/requests?limit=1&fault=delay&after=2');
  assert.equal(JSON.parse(rest.body)[0].id, 4);
  assert.equal(header(rest, 'Link'), undefined);
});

test('C82 the link to the next page keeps a filter that a URL must encode', async (t) => {
  const { port } = await startFaulty(t);
  const idempotencyKey = 'a&b=%41+#>;"';
  const words = { body: petJson, headers: [`Idempotency-Key: ${idempotencyKey}`] };
  for (let count = 0; count < 2; count++) await expectResponse(port, 'POST /v1/pets', 201, words);
  await expectResponse(port, 'GET /v1/pets', 200);
  const query = `limit=1&idempotencyKey=${encodeURIComponent(idempotencyKey)}`;
  const page = await sendRequest(port, 'GET', `/v1/requests?${query}`);
  const [, next = ''] = /^<([^>]*)>; rel="next"$/.exec(header(page, 'Link') ?? '') ?? [];
  const rest = await sendRequest(port, 'GET', next);
  assert.deepEqual(
    JSON.parse(rest.body).map((item: JournalItem) => [item.id, item.idempotencyKey]),
    [[2, idempotencyKey]],
  );
  assert.equal(header(rest, 'Link'), undefined);
});

test('C82 a filter that no request can have is 400 and names the parameter', async (t) => {
  const { port } = await startFaulty(t);
  for (const [query, message] of [
    ['limit=0', 'limit must be an integer from 1 to 100, in decimal digits.'],
    ['after=-1', 'after must be an integer from 0 to 9223372036854775807, in decimal digits.'],
    ['method=post', 'method must be a method in capitals, such as POST.'],
    ['path=v1/pets', 'path must be a path, such as /v1/pets or /v1/pets/{petId}.'],
    ['status=2xx', 'status must be a status code from 200 to 599.'],
    ['status=600', 'status must be a status code from 200 to 599.'],
    ['idempotencyKey=', 'idempotencyKey must be 1 to 255 visible ASCII characters.'],
    ['fault=dop', 'In fault, "dop" is not a word of a fault; the nearest is drop.'],
    ['method=GET&method=PUT', 'method must be given only once.'],
  ] as const)
    assert.equal(
      assertError(
        await sendRequest(port, 'GET', `/v1/requests?${query}`),
        400,
        'invalid_parameter',
      ),
      message,
    );
});

test('C82 a request is in the journal while it is in flight, and cut if its client leaves', async (t) => {
  const running = await startFaulty(t);
  const { port } = running;
  const parts = { headers: ['Petstore-Fault: delay=30000'] };
  const client = await connectTo(t, running, requestBytes('GET', '/v1/pets', parts));
  const only = async () => (await journal(port))[0];
  await until('the request', async () => (await only()) !== undefined);
  const { status, ms, cut } = (await only()) ?? assert.fail();
  assert.deepEqual([status, ms, cut], [undefined, undefined, false]);
  client.reset();
  await until('the end', async () => (await only())?.ms !== undefined);
  const ended = (await only()) ?? assert.fail();
  assert.deepEqual([ended.status, ended.cut, ended.fault], [undefined, true, 'delay=30000']);
  // The members have the order of the document, whenever they were set.
  const names = ['id', 'time', 'method', 'path', 'route', 'key'];
  assert.deepEqual(Object.keys(ended), [...names, 'fault', 'cut', 'replayed', 'ms']);
});

test('C82 a client that closes its sending side has a whole response in the journal', async (t) => {
  const running = await startFaulty(t);
  const { port } = running;
  const parts = { headers: ['Petstore-Fault: delay=30000'] };
  const client = await connectTo(t, running, requestBytes('GET', '/v1/pets', parts));
  await until('the request', async () => (await journal(port))[0] !== undefined);
  client.endSending();
  await until('the end', async () => (await journal(port))[0]?.ms !== undefined);
  const ended = (await journal(port))[0] ?? assert.fail();
  assert.deepEqual([ended.status, ended.cut, ended.fault], [200, false, 'delay=30000']);
});

test('C82 a client that leaves in the middle of a body has a cut response', async (t) => {
  for (const nodeInterface of ['auto', 'documented'] as const) {
    const { petstore } = await startFaulty(t);
    const { port } = await petstore.listen({ port: 0, nodeInterface });
    const client = await Client.connect(port);
    const parts = { headers: ['Petstore-Fault: status=503,dribble=30000'] };
    client.send(requestBytes('GET', '/v1/pets', parts));
    await until('the head', () => client.received.includes('\r\n\r\n'));
    client.reset();
    await until('the end', async () => (await journal(port))[0]?.cut === true);
    assert.equal((await journal(port))[0]?.status, 503);
  }
});

test('C82 the journal notes a response by every transport, with its cut', async (t) => {
  const running = await startFaulty(t);
  for (const way of await everyTransport(t, running)) {
    await sendRequest(running.port, 'POST', '/v1/reset');
    const send = async (fault: string) => {
      const response = await way('/v1/pets', {
        headers: { ...keyHeaders, 'Petstore-Fault': fault },
      });
      await response.text();
    };
    await send('status=503');
    await send('status=502,dribble=50');
    for (const fault of ['drop', 'truncate,after', 'truncate,end,after'])
      await send(fault).catch(() => undefined);
    await until('all ends', async () => {
      const items = await journal(running.port);
      return items.length === 5 && items.every(({ ms }) => ms !== undefined);
    });
    assert.deepEqual(
      (await journal(running.port)).map(({ status, cut }) => [status, cut]),
      [
        [503, false],
        [502, false],
        [undefined, true],
        [200, true],
        [200, true],
      ],
    );
  }
});

test('C82 the journal is bounded in items and in bytes', async (t) => {
  const { port } = await startFaulty(t, { plugins: [faultsPlugin({ journalSize: 3 })] });
  for (let index = 0; index < 5; index++) await sendRequest(port, 'GET', `/v1/pets?a=${index}`);
  assert.deepEqual(
    (await journal(port)).map(({ id, query }) => `${id} ${query}`),
    ['3 a=2', '4 a=3', '5 a=4'],
  );
  const none = await startFaulty(t, { plugins: [faultsPlugin({ journalSize: 0 })] });
  await sendRequest(none.port, 'GET', '/v1/pets');
  assert.deepEqual(await journal(none.port), []);

  const big = faultsPlugin({ journalSize: 10_000 });
  const { petstore } = await startFaulty(t, { plugins: [big] });
  const query = 'x'.repeat(15_000);
  for (let index = 0; index < 300; index++)
    await petstore.fetch(`http://any/v1/pets?${query}`, { headers: keyHeaders });
  const items = big.requests();
  assert.ok(items.length > 100 && items.length < 150, `${items.length}`);
  assert.equal(items.at(-1)?.id, 300);
  await big.reset();
  await petstore.fetch(`http://any/v1/pets?${query}`, { headers: keyHeaders });
  assert.equal(big.requests().length, 1, 'a reset frees the bytes');

  for (const journalSize of [-1, 1.5, 10_001, Number.NaN, Object('7')])
    assert.throws(() => faultsPlugin({ journalSize }), {
      name: 'TypeError',
      message: 'faultsPlugin: journalSize must be an integer from 0 to 10000',
    });
});

test('C40 C82 the journal never has an API key', async (t) => {
  const made = `psk_${'Ab3-_'.repeat(8)}xyz`;
  const odd = 'kept/in=parts';
  const { port } = await startFaulty(t, { keys: [key, made, odd] });
  const use = (token: string) => ({ authorization: `Bearer ${token}` });
  await sendRequest(port, 'GET', `/v1/pets/${key}?a=${key}&b=${made}`);
  await sendRequest(port, 'GET', `/v1/${made}`, noKey);
  await sendRequest(port, 'GET', `/v1/pets?api_key=${key}&limit=5&status=sold`, noKey);
  await sendRequest(port, 'POST', '/v1/pets', {
    body: petJson,
    headers: [`Idempotency-Key: ${made}`],
  });
  await sendRequest(port, 'GET', '/v1/pets?k=kept%2Fin%3d%70arts', use(odd));
  await sendRequest(port, 'GET', `/v1/pets?k=${odd}`);
  await sendRequest(port, 'GET', `/v1/pets/${key}x`);
  await sendRequest(port, 'GET', `/v1/pets?${made},${made}&a=x${key}`);
  await sendRequest(port, 'GET', '/v1/pets?debug&unknown-key&a=5=unknown', noKey);
  for (const authorization of ['bEARER one.used', 'Bearer   two.used'])
    await sendRequest(port, 'GET', `/v1/pets?${authorization.slice(-8)}`, { authorization });
  const { body } = await sendRequest(port, 'GET', '/v1/requests');
  for (const text of [`"${key}`, `=${key}"`, `/${key}"`, made, odd, 'kept', 'parts'])
    assert.ok(!body.includes(text), `${text} in ${body}`);
  const items: readonly JournalItem[] = JSON.parse(Buffer.from(body, 'latin1').toString());
  assert.deepEqual(
    items.map(({ path, query }) => `${path}?${query ?? ''}`),
    [
      '/v1/pets/…?a=…&b=…',
      '/v1/…?',
      '/v1/pets?api_key=…&limit=5&status=sold',
      '/v1/pets?',
      '/v1/pets?k=…',
      '/v1/pets?k=…',
      `/v1/pets/${key}x?`,
      `/v1/pets?…,…&a=x${key}`,
      '/v1/pets?debug&…&a=…',
      '/v1/pets?…',
      '/v1/pets?…',
    ],
  );
});

test('C82 a path without parameters is whole, although a token was one of its words', async (t) => {
  const { port } = await startFaulty(t);
  await sendRequest(port, 'GET', '/v1/pets', { authorization: 'Bearer pets' });
  await sendRequest(port, 'GET', '/v1/pets');
  await sendRequest(port, 'GET', '/v1/pets/pets');
  const [refused, whole, masked = ''] = (await journal(port)).map(({ path }) => path);
  assert.deepEqual([refused, whole], ['/v1/pets', '/v1/pets']);
  assert.match(masked, /^[/]v1[/][^/]+[/][^/]+$/);
  assert.doesNotMatch(masked, /pets/);
});

test('C63 C82 a reset empties the journal, and older requests do not enter it', async (t) => {
  const running = await startFaulty(t);
  const { port } = running;
  const old = await connectTo(
    t,
    running,
    requestBytes('GET', '/v1/pets', { headers: ['Petstore-Fault: delay=30000'] }),
  );
  await until('the request', async () => (await journal(port)).length === 1);
  const bytes = requestBytes('POST', '/v1/pets', { body: petJson });
  const late = await connectTo(t, running, bytes.slice(0, -1));
  await sendRequest(port, 'GET', '/v1/pets');
  await expectResponse(port, 'POST /v1/reset', 204);
  await old.expect('503 unavailable');
  late.send(bytes.slice(-1));
  await late.expect('503 unavailable');
  assert.deepEqual(await journal(port), []);
  await sendRequest(port, 'GET', '/v1/pets');
  assert.deepEqual(
    (await journal(port)).map(({ id }) => id),
    [1],
  );
});

test('C83 set, rules, requests and reset control the petstore that uses the plugin', async () => {
  const faults = faultsPlugin();
  const storage = memoryStorage();
  for (const call of [() => faults.set([]), () => faults.rules(), () => faults.requests()])
    assert.throws(call, {
      name: 'TypeError',
      message: 'faultsPlugin: no petstore uses this plugin yet',
    });
  await assert.rejects(faults.reset(), { name: 'TypeError' });

  const petstore = createPetstore({ keys: [key], storage, plugins: [faults] });
  const add = () =>
    petstore.fetch('http://any/v1/pets', { method: 'POST', headers: keyHeaders, body: petJson });
  faults.set([{ method: 'POST', path: '/v1/pets', fault: 'status=503', times: 1 }], { seed: 5 });
  assert.equal((await add()).status, 503);
  assert.equal((await add()).status, 201);
  const rule = { method: 'POST', path: '/v1/pets', fault: 'status=503', times: 1, left: 0 };
  assert.deepEqual(faults.rules(), [rule]);
  faults.set(faults.rules());
  assert.deepEqual(faults.rules(), [rule]);
  const statuses = (filter: Parameters<typeof faults.requests>[0]) =>
    faults.requests(filter).map(({ status }) => status);
  assert.deepEqual(statuses({}), [503, 201]);
  assert.deepEqual(statuses({ status: 201, method: 'POST' }), [201]);
  assert.deepEqual(statuses({ fault: 'status' }), [503]);
  // The items are copies, so a test cannot change the journal.
  for (const item of faults.requests()) Object.assign(item, { status: 0 });
  assert.deepEqual(statuses({}), [503, 201]);

  await faults.reset();
  assert.deepEqual([storage.size, faults.rules(), faults.requests()], [0, [], []]);
  await petstore.close();
  // A test may look at the journal after the end.
  assert.deepEqual(faults.requests(), []);
});

test('C83 set and requests control the petstore that stays open', async () => {
  for (const isOlderClosed of [true, false]) {
    const faults = faultsPlugin();
    const both = [1, 2].map(() => createPetstore({ keys: [key], plugins: [faults] }));
    const [closed, open] = isOlderClosed ? both : both.toReversed();
    await closed?.close();
    faults.set([{ fault: 'status=503' }]);
    const response = await open?.fetch('http://any/v1/pets', { headers: keyHeaders });
    assert.equal(response?.status, 503);
    assert.deepEqual(
      faults.requests().map(({ status }) => status),
      [503],
    );
    await open?.close();
  }
});

test('C83 mistakes are TypeErrors, and change nothing', async (t) => {
  const faults = faultsPlugin();
  const petstore = createPetstore({ keys: [key], plugins: [faults] });
  faults.set([{ fault: 'drop' }]);
  for (const [call, message] of [
    [
      () => faults.set([{ fault: 'drip' }]),
      'faultsPlugin: rule 1 is wrong: in fault, "drip" is not a word of a fault; the nearest is drop',
    ],
    [
      () => faults.set([{ fault: 'drop', path: '/v1/pet' }]),
      'faultsPlugin: rule 1 is wrong: path must be the path of a route, such as /v1/pets, or be left out',
    ],
    [() => faults.set(Object('x')), 'faultsPlugin: rules must be an array'],
    [
      () => faults.set([], { seed: -1 }),
      'faultsPlugin: seed must be an integer from 0 to 4294967295, or be left out',
    ],
    [
      () => faults.requests(Object({ statuss: 5 })),
      'requests: the filter statuss is unknown; the nearest is status',
    ],
    [
      () => faults.requests({ status: 7 }),
      'requests: status must be a status code from 200 to 599.',
    ],
    [
      () => faults.requests({ fault: 'dop' }),
      'requests: In fault, "dop" is not a word of a fault; the nearest is drop.',
    ],
  ] as const)
    assert.throws(call, { name: 'TypeError', message });
  assert.deepEqual(faults.rules(), [{ fault: 'drop', left: null }]);
  await assert.rejects(faults.reset({ clock: '2030-12-06' }), {
    name: 'TypeError',
    message: /^faultsPlugin: clock must be a time of RFC 3339/,
  });

  const other = createPetstore({ keys: [key], plugins: [faults] });
  assert.throws(() => faults.rules(), {
    message: 'faultsPlugin: 2 petstores use this plugin; call faultsPlugin() for each',
  });
  await other.close();
  assert.equal(faults.rules().length, 1);
  await petstore.close();

  const fixed = faultsPlugin();
  await start(t, { storage: plainStorage(), plugins: [fixed] });
  await assert.rejects(fixed.reset(), {
    name: 'TypeError',
    message: 'faultsPlugin: the storage of this petstore cannot be reset',
  });
});

const sunset = '2030-12-06T00:00:00Z';
const resetTo = (port: number, body: string, ...headers: readonly string[]) =>
  sendRequest(port, 'POST', '/v1/reset', { body, headers });

test('C87 a reset sets the clock, from which sunset, Date, journal and keys follow', async (t) => {
  const storage = memoryStorage({ pets: [{ name: 'Tom', categoryId: 7n }] });
  const expiring = { name: 'temp', digest: digestOfKey('temp'), expiresAt: Date.parse(sunset) };
  const lasting = { name: 'own', digest: digestOfKey(key) };
  const ring = new KeyRing([expiring, lasting], Date.now);
  const keys = ring.verify.bind(ring);
  const { port } = await startFaulty(t, { storage, keys });
  const temp = { authorization: 'Bearer temp' };
  await expectResponses(port, [
    ['GET /v1/pets/1', 200],
    ['GET /v1/pets', 200, temp],
  ]);

  assert.equal((await resetTo(port, `{"clock":"${sunset}"}`)).status, 204);
  const gone = await expectResponse(port, 'GET /v1/pets/1', '404 not_found');
  assert.match(header(gone, 'Date') ?? '', /^Fri, 06 Dec 2030 00:0\d:\d\d GMT$/);
  await expectResponse(port, 'GET /v1/pets', '401 unauthorized', temp);
  const [first] = await journal(port);
  const late = Date.parse(first?.time ?? '') - Date.parse(sunset);
  assert.ok(late >= 0 && late < 120_000, first?.time);

  // RFC 3339 allows lowercase.
  assert.equal((await resetTo(port, `{"clock":"${sunset.toLowerCase()}"}`)).status, 204);
  await expectResponse(port, 'GET /v1/pets/1', '404 not_found');

  await resetTo(port, '{"clock":"2030-12-05T12:00:00+00:00"}');
  await expectResponses(port, [
    ['GET /v1/pets/1', 200],
    ['GET /v1/pets', 200, temp],
    ['POST /v1/reset', 204],
  ]);
  const now = await expectResponse(port, 'GET /v1/pets', 200);
  assert.ok(Math.abs(Date.parse(header(now, 'Date') ?? '') - Date.now()) < 60_000);
});

test('C73 C87 idempotency keys expire by the clock that a reset has set', async (t) => {
  const faults = faultsPlugin();
  let now = Date.parse('2027-01-01T00:00:00Z');
  const { petstore } = await startFaulty(t, { plugins: [faults], clock: () => now });
  const add = async () => {
    const headers = { ...keyHeaders, 'Idempotency-Key': 'k' };
    const init = { method: 'POST', headers, body: petJson };
    return JSON.parse(await (await petstore.fetch('http://any/v1/pets', init)).text()).id;
  };
  await faults.reset({ clock: '2029-06-01T12:00:00.500Z' });
  assert.equal(await add(), 1);
  now += 23 * 3_600_000;
  assert.equal(await add(), 1);
  now += 3_600_000;
  assert.equal(await add(), 2);
  // The clock goes on from the time that was set.
  assert.equal(faults.requests().at(-1)?.time, '2029-06-02T12:00:00.500Z');
});

test('C73 C87 idempotency keys expire if a plugin sets the clock a day ahead', async (t) => {
  let setClock = (_time: number | undefined): void => assert.fail('not started');
  const stepper: Plugin = (host) => void (setClock = host.setClock);
  const { petstore } = await start(t, { plugins: [stepper] });
  const add = async () => {
    const headers = { ...keyHeaders, 'Idempotency-Key': 'k' };
    const init = { method: 'POST', headers, body: petJson };
    return JSON.parse(await (await petstore.fetch('http://any/v1/pets', init)).text()).id;
  };
  assert.equal(await add(), 1);
  setClock(Date.now() + 23 * 3_600_000);
  assert.equal(await add(), 1);
  setClock(Date.now() + 25 * 3_600_000);
  assert.equal(await add(), 2);
  for (const time of [Number.NaN, -1, 253_402_300_800_000, Object('7')])
    assert.throws(() => setClock(time), { name: 'TypeError', message: /^setClock takes millis/ });
});

test('C87 the clock stands still at the end of the year 9999', async (t) => {
  const { port } = await startFaulty(t);
  await resetTo(port, '{"clock":"9999-12-31T23:59:59.999Z"}');
  const { headers } = await expectResponse(port, 'GET /v1/pets', 200);
  assert.ok(headers.get('date')?.includes('Fri, 31 Dec 9999 23:59:59 GMT'));
});

test('C63 C87 a reset accepts an empty body of any type, and an empty object', async (t) => {
  const { port } = await startFaulty(t);
  const reset = 'POST /v1/reset';
  await expectResponses(port, [
    [reset, 204],
    [reset, 204, { headers: ['Content-Type: text/plain', 'Content-Length: 0'] }],
    [reset, 204, { headers: ['Content-Type: application/x-www-form-urlencoded'] }],
    [reset, 204, { body: '{}' }],
  ]);
});

test('C87 a bad clock is 400, and nothing is reset', async (t) => {
  const storage = memoryStorage();
  const { port } = await startFaulty(t, { storage });
  await sendRequest(port, 'POST', '/v1/pets', { body: petJson });
  const rule =
    'clock must be a time of RFC 3339 such as 2030-12-05T23:59:50Z, from 1970 to the end of 9999 in UTC.';
  const form = 'The body must be {"clock":"2030-12-06T00:00:00Z"}, or be left out.';
  for (const [body, message] of [
    ['{"clock":"2030-12-06"}', rule],
    ['{"clock":"2030-02-30T00:00:00Z"}', rule],
    ['{"clock":"1969-12-31T23:59:59Z"}', rule],
    ['{"clock":"+10000-01-01T00:00:00Z"}', rule],
    ['{"clock":1922745600000}', rule],
    ['{"clock":null}', rule],
    ['{"clok":"2030-12-06T00:00:00Z"}', 'The member "clok" is unknown; the nearest is clock.'],
    ['[]', form],
    ['"2030-12-06T00:00:00Z"', form],
  ] as const)
    assert.equal(assertError(await resetTo(port, body), 400, 'invalid_body'), message);
  assertError(await resetTo(port, '{'), 400, 'invalid_json');
  assertError(await resetTo(port, '{}', 'Content-Type: text/plain'), 415, 'unsupported_media_type');
  assert.equal(storage.size, 1);
});

test('C89 a start with the plugin logs one warning', async (t) => {
  const { lines } = await startLogged(t, { plugins: [faultsPlugin()] });
  assert.deepEqual(lines, [
    "[ 'warn', 'the plugin faults is on: this server fails on purpose, " +
      "and any API key may set the rules', undefined ]",
  ]);
});

test('C90 metrics name the fault and the cut, and no status that was not sent', async (t) => {
  const running = await startFaulty(t, { plugins: [metricsPlugin(), faultsPlugin()] });
  const { port } = running;
  await attempt(port, 'drop,after,delay=1', 'a');
  await attempt(port, 'truncate,after', 'b');
  await sendRequest(port, 'GET', '/v1/pets', { headers: ['Petstore-Fault: delay=1,status=502'] });
  await sendRequest(port, 'GET', '/v1/pets', { headers: ['Petstore-Fault: delay=2'] });
  const parts = { headers: ['Petstore-Fault: delay=30000'] };
  const client = await connectTo(t, running, requestBytes('GET', '/v1/pets', parts));
  await until('the request', async () => (await journal(port)).length === 5);
  client.reset();
  await until('the end', async () => (await journal(port))[4]?.cut === true);
  const { body } = await sendRequest(port, 'GET', '/metrics');
  const values = (name: string) =>
    [...body.matchAll(new RegExp(`^${name}\\{(.*)\\} (\\d+)$`, 'gm'))].map(
      ([, labels, value]) => `${labels} ${value}`,
    );
  assert.deepEqual(values('petstore_faults_total').sort(), [
    'fault="delay" 2',
    'fault="drop" 1',
    'fault="status=502" 1',
    'fault="truncate" 1',
  ]);
  assert.deepEqual(values('petstore_cut_responses_total').sort(), [
    'cut="client" 1',
    'cut="drop" 1',
    'cut="truncate" 1',
  ]);
  const posts = values('http_requests_total').filter((each) => each.includes('POST'));
  assert.deepEqual(posts, [
    'method="POST",route="/v1/pets",status="none" 1',
    'method="POST",route="/v1/pets",status="201" 1',
  ]);
});
