/**
 * The faults plugin and the hook that it stands on: what a request can ask for, when its operation
 * runs, and how it says no.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { test } from 'node:test';
import { createPetstore, memoryStorage, type Plugin } from '../../dist/index.js';
import { faultsPlugin } from '../../dist/plugins/faults.js';
import { assertError, header, type Answer } from '../support/client.js';
import { ask, bytesOf, key, start } from '../support/fixture.js';

const body = '{"name":"a","categoryId":1}';
const words =
  'one of status=408, status=409, status=429, status=500, status=502, status=503, status=504, drop and truncate, ' +
  'or delay=MILLISECONDS (up to 30000), or one of them and a delay; with before or after, or, for a delay alone, ' +
  'within; joined by commas';
const rule = `Petstore-Fault must be ${words}.`;

const post = (port: number, fault: string, ...headers: readonly string[]): Promise<Answer> =>
  ask(port, 'POST', '/v1/pets', { body, headers: [`Petstore-Fault: ${fault}`, ...headers] });
const count = async (port: number): Promise<number> =>
  JSON.parse((await ask(port, 'GET', '/v1/pets')).body).length;

test('C61 each status is answered with its Error body and Retry-After where that helps, and nothing is added', async (t) => {
  const { port } = await start(t, { plugins: [faultsPlugin()] });
  for (const [fault, status, code, retryAfter] of [
    ['status=503', 503, 'unavailable', '1'],
    ['status=429', 429, 'too_many_requests', '1'],
    ['status=500', 500, 'internal_error', undefined],
    ['status=408', 408, 'request_timeout', undefined],
    ['status=409', 409, 'idempotency_in_flight', '1'],
    ['status=502', 502, 'bad_gateway', undefined],
    ['status=504', 504, 'gateway_timeout', undefined],
    [' before , status=503 ', 503, 'unavailable', '1'],
    ['delay=1,status=503', 503, 'unavailable', '1'],
  ] as const) {
    const answer = await post(port, fault);
    assertError(answer, status, code);
    assert.equal(header(answer, 'Retry-After'), retryAfter, fault);
  }
  assert.equal(await count(port), 0);
});

test('after: the animal is kept before the fault, and a repeat with its Idempotency-Key adds nothing', async (t) => {
  const { port } = await start(t, { plugins: [faultsPlugin()] });
  assertError(await post(port, 'status=503,after', 'Idempotency-Key: one'), 503, 'unavailable');
  const again = await ask(port, 'POST', '/v1/pets', { body, headers: ['Idempotency-Key: one'] });
  assert.deepEqual([again.status, again.body], [201, '{"id":1,"name":"a","categoryId":1}']);
  assert.equal(await count(port), 1);
  // An operation that fails by itself says so: the fault comes after what was carried out.
  const bad = await ask(port, 'POST', '/v1/pets', {
    body: '{}',
    headers: ['Petstore-Fault: status=503,after'],
  });
  assertError(bad, 400, 'invalid_body');
});

test('a delay comes before the operation or after it, and is at least as long as was asked for', async (t) => {
  const { port } = await start(t, { plugins: [faultsPlugin()] });
  for (const fault of ['delay=60', 'delay=60,after']) {
    const from = performance.now();
    const answering = post(port, fault);
    assert.equal((await answering).status, 201);
    assert.ok(performance.now() - from >= 55, fault);
  }
  const slow = post(port, 'delay=1500,after');
  while ((await count(port)) < 3);
  assert.equal((await slow).status, 201);
});

test('what is no fault answers 400 with the rule, and the operation is not carried out', async (t) => {
  const { port } = await start(t, { plugins: [faultsPlugin()] });
  for (const fault of [
    '',
    ',',
    'status=418',
    'status=',
    'status=5030',
    'Status=503',
    'status=503,status=429',
    'status=503,drop',
    'drop,truncate',
    'drop,drop',
    'before',
    'within',
    'status=503,within',
    'drop,within',
    'before,within',
    'before,after',
    'delay=-1',
    'delay=30001',
    'delay=1e3',
    'delay=999999999999',
    'status=503,',
    'reset',
    'toString',
  ]) {
    assert.equal(assertError(await post(port, fault), 400, 'invalid_parameter'), rule, fault);
  }
  const twice = await post(port, 'status=503', 'Petstore-Fault: status=429');
  assert.equal(assertError(twice, 400, 'invalid_parameter'), rule);
  assert.equal(await count(port), 0);
});

test('without a valid key, off the operations, or without the plugin the header does nothing', async (t) => {
  const { port } = await start(t, { plugins: [faultsPlugin()] });
  const headers = ['Petstore-Fault: status=503'];
  assertError(
    await ask(port, 'GET', '/v1/pets', { authorization: null, headers }),
    401,
    'unauthorized',
  );
  assert.equal((await ask(port, 'GET', '/healthz', { headers })).status, 200);
  assert.equal((await ask(port, 'OPTIONS', '/v1/pets', { headers })).status, 204);
  assertError(await ask(port, 'GET', '/v1/nothing', { headers }), 404, 'not_found');
  assertError(await ask(port, 'GET', '/v1/pets', { headers }), 503, 'unavailable');
  const { port: plain } = await start(t);
  assert.equal((await ask(plain, 'GET', '/v1/pets', { headers })).status, 200);
});

test('the OpenAPI document has the header in every operation once, while the plugin is on alone', async (t) => {
  let now = Date.UTC(2030, 0);
  const { port } = await start(t, { plugins: [faultsPlugin()], clock: () => now });
  const { port: plain } = await start(t);
  const parametersIn = (text: string): unknown =>
    Object.values<object>(JSON.parse(text).paths).map((item) =>
      Object.values(item).map(({ parameters = [] }) =>
        parameters.map((each: object) => Object(each).name),
      ),
    );
  const without = [[['limit', 'status', 'after'], ['Idempotency-Key']], [['petId']]];
  const within = without.map((item) => item.map((names) => [...names, 'Petstore-Fault']));
  // Those of the plugin's own paths meet no fault.
  const own = [[[], [], []], [[]]];
  assert.deepEqual(parametersIn((await ask(plain, 'GET', '/openapi.json')).body), without);
  assert.deepEqual(parametersIn((await ask(port, 'GET', '/openapi.json')).body), [
    ...within,
    ...own,
  ]);
  // The document is made anew once a route is gone (C35).
  now = Date.UTC(2031, 0);
  assert.deepEqual(parametersIn((await ask(port, 'GET', '/openapi.json')).body), [
    ...within.slice(0, 1),
    ...own,
  ]);
});

test('C61 the OpenAPI document has the answers of all faults, and the paths of the plugin', async (t) => {
  const { port } = await start(t, { plugins: [faultsPlugin()] });
  const { paths, components, tags } = JSON.parse((await ask(port, 'GET', '/openapi.json')).body);
  for (const [path, method] of [
    ['/pets', 'get'],
    ['/pets', 'post'],
    ['/pets/{petId}', 'get'],
  ] as const)
    for (const status of [408, 409, 429, 500, 502, 503, 504])
      assert.ok(paths[path][method].responses[status], `${method} ${path} ${status}`);
  assert.deepEqual(Object.keys(paths['/faults']), ['get', 'put', 'delete']);
  assert.deepEqual(Object.keys(paths['/reset']), ['post']);
  assert.deepEqual(components.schemas.FaultRules.required, ['rules']);
  assert.ok(tags.some(({ name }: { readonly name: string }) => name === 'faults'));
});

test('close does not wait for a delay longer than for any request', async () => {
  const petstore = createPetstore({ keys: [key], plugins: [faultsPlugin()] });
  const headers = { Authorization: `Bearer ${key}`, 'Petstore-Fault': 'delay=50' };
  const answering = petstore.fetch('http://any/v1/pets', { headers });
  await petstore.close();
  assert.equal((await answering).status, 200);
});

/** What comes on a new connection until it ends, and the code of the error that ends it. */
async function read(port: number, bytes: string): Promise<readonly [string, string | undefined]> {
  const socket = connect(port, '127.0.0.1');
  let text = '';
  let code: string | undefined;
  socket.on('data', (chunk) => (text += chunk.toString('latin1')));
  socket.on('error', (error) => (code = Object(error).code));
  socket.write(bytes);
  await new Promise((resolve) => socket.once('close', resolve));
  return [text, code];
}

test('C62 drop resets the connection without a byte; truncate after half of the body; before or after the operation', async (t) => {
  const { port } = await start(t, { plugins: [faultsPlugin()] });
  const send = (fault: string, id: string) =>
    read(
      port,
      bytesOf('POST', '/v1/pets', {
        body,
        headers: [`Petstore-Fault: ${fault}`, `Idempotency-Key: ${id}`],
      }),
    );
  assert.deepEqual(await send('drop', 'a'), ['', 'ECONNRESET']);
  assert.deepEqual(await send('drop,before', 'a'), ['', 'ECONNRESET']);
  assert.equal(await count(port), 0);

  // Kept, and never heard of: what an idempotency key exists for.
  assert.deepEqual(await send('drop,after', 'a'), ['', 'ECONNRESET']);
  assert.equal(await count(port), 1);
  const again = await ask(port, 'POST', '/v1/pets', { body, headers: ['Idempotency-Key: a'] });
  assert.deepEqual([again.status, again.body], [201, '{"id":1,"name":"a","categoryId":1}']);
  assert.equal(await count(port), 1);

  const [text, code] = await send('truncate,after', 'b');
  const whole = '{"id":2,"name":"a","categoryId":1}';
  assert.equal(code, 'ECONNRESET');
  assert.match(text, new RegExp(`^HTTP/1.1 201 .*\r\nContent-Length: ${whole.length}\r\n`, 's'));
  assert.equal(text.split('\r\n\r\n')[1], whole.slice(0, whole.length / 2));
  const [before] = await send('truncate', 'c');
  assert.match(before, /^HTTP\/1.1 503 .*\r\n\r\n\{"code":"unavailable",/s);
  assert.equal(await count(port), 2);
});

test('C62 what waits behind a request that is dropped is not carried out, and other connections go on', async (t) => {
  const { port } = await start(t, { plugins: [faultsPlugin()] });
  const dropped = bytesOf('GET', '/v1/pets', { headers: ['Petstore-Fault: drop'] });
  const [text] = await read(port, dropped + bytesOf('POST', '/v1/pets', { body }));
  assert.equal(text, '');
  assert.equal(await count(port), 0);
});

test('C62 through fetch a cut rejects as a network error does, and under handler it destroys the socket', async (t) => {
  const petstore = createPetstore({ keys: [key], plugins: [faultsPlugin()] });
  const server = createServer(petstore.handler).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    return petstore.close();
  });
  const { port } = Object(server.address());
  for (const fault of ['drop', 'truncate', 'drop,after', 'truncate,after']) {
    const init = { headers: { Authorization: `Bearer ${key}`, 'Petstore-Fault': fault } };
    await assert.rejects(petstore.fetch('http://any/v1/pets', init), {
      name: 'TypeError',
      message: 'fetch failed',
    });
    const asking = fetch(`http://127.0.0.1:${port}/v1/pets`, init);
    await assert.rejects(
      asking.then((response) => response.text()),
      TypeError,
      fault,
    );
  }
});

test('C61 within: the operation itself takes that long, and a second request with its key is 409 until it ends', async (t) => {
  const { port } = await start(t, { plugins: [faultsPlugin()] });
  const headers = ['Idempotency-Key: slow'];
  const slow = post(port, 'delay=1000,within', ...headers);
  const repeat = () => ask(port, 'POST', '/v1/pets', { body, headers });
  const isEnded = slow.then(() => true);
  // It begins once the first has come, and goes on until that has its answer.
  let busy = 0;
  for (;;) {
    const answer = await repeat();
    if (answer.status === 201) break;
    assertError(answer, 409, 'idempotency_in_flight');
    busy++;
  }
  assert.ok(await isEnded);
  assert.ok(busy > 0);
  assert.deepEqual((await repeat()).body, (await slow).body);
  assert.equal(await count(port), 1);
});

const setRules = (port: number, rules: unknown, text = JSON.stringify({ rules })) =>
  ask(port, 'PUT', '/v1/faults', { body: text });

test('C61 a rule meets the requests that fit, skips and counts; a header comes before it; DELETE ends it', async (t) => {
  const { port } = await start(t, { plugins: [faultsPlugin()] });
  const given = [
    { method: 'POST', path: '/v1/pets', fault: 'status=503,after', times: 2, skip: 1 },
    { path: '/v1/pets/{petId}', fault: 'status=500' },
  ];
  const set = await setRules(port, given);
  const left = (...counts: readonly (number | null)[]) =>
    JSON.stringify({ rules: given.map((each, at) => ({ ...each, left: counts[at] })) });
  assert.deepEqual([set.status, set.body], [200, left(2, null)]);

  const add = () => ask(port, 'POST', '/v1/pets', { body });
  assert.deepEqual(
    [(await add()).status, (await add()).status, (await add()).status, (await add()).status],
    [201, 503, 503, 201],
  );
  assert.equal(await count(port), 4);
  assertError(await ask(port, 'GET', '/v1/pets/1'), 500, 'internal_error');
  const own = { headers: ['Petstore-Fault: status=429'] };
  assertError(await ask(port, 'GET', '/v1/pets/1', own), 429, 'too_many_requests');
  assert.equal((await ask(port, 'GET', '/v1/faults')).body, left(0, null));

  assert.equal((await ask(port, 'DELETE', '/v1/faults')).status, 204);
  assert.equal((await ask(port, 'GET', '/v1/pets/1')).status, 200);
  assert.equal((await ask(port, 'GET', '/v1/faults')).body, '{"rules":[]}');
  assertError(await ask(port, 'GET', '/v1/faults', { authorization: null }), 401, 'unauthorized');
});

test('a rule for all leaves the ways to end it, and what needs no key', async (t) => {
  const { port } = await start(t, { plugins: [faultsPlugin({ rules: [{ fault: 'drop' }] })] });
  assert.equal((await ask(port, 'GET', '/healthz')).status, 200);
  const [text] = await read(port, bytesOf('GET', '/v1/pets'));
  assert.equal(text, '');
  assert.equal(
    (await ask(port, 'GET', '/v1/faults')).body,
    '{"rules":[{"fault":"drop","left":null}]}',
  );
  assert.equal((await ask(port, 'POST', '/v1/reset')).status, 204);
  assert.equal((await ask(port, 'GET', '/v1/pets')).status, 200);
});

test('C61 a bad rule is 400 with its number and the mend, and changes nothing', async (t) => {
  const { port } = await start(t, { plugins: [faultsPlugin()] });
  await setRules(port, [{ fault: 'status=503' }]);
  for (const [bad, problem] of [
    [{ fault: 'status=418' }, `rule 2 is wrong: fault must be ${words}`],
    [{}, `rule 2 is wrong: fault must be ${words}`],
    [{ fault: 5 }, `rule 2 is wrong: fault must be ${words}`],
    [5, `rule 2 is wrong: fault must be ${words}`],
    [null, `rule 2 is wrong: fault must be ${words}`],
    [
      { fault: 'drop', method: 'post' },
      'rule 2 is wrong: method must be a method such as POST, or be left out',
    ],
    [
      { fault: 'drop', path: '/v1/pets/1' },
      'rule 2 is wrong: path must be the path of a route, such as /v1/pets/{petId}, or be left out',
    ],
    [
      { fault: 'drop', times: 0 },
      'rule 2 is wrong: times must be an integer from 1 to 1000000, or be left out',
    ],
    [
      { fault: 'drop', times: 1.5 },
      'rule 2 is wrong: times must be an integer from 1 to 1000000, or be left out',
    ],
    [
      { fault: 'drop', skip: -1 },
      'rule 2 is wrong: skip must be an integer from 0 to 1000000, or be left out',
    ],
    [
      { fault: 'drop', time: 1 },
      'rule 2 has an unknown member; it may have method, path, fault, times, skip',
    ],
  ] as const) {
    const answer = await setRules(port, [{ fault: 'drop' }, bad]);
    assert.equal(assertError(answer, 400, 'invalid_body'), `In rules, ${problem}.`);
  }
  for (const text of ['[]', '{}', '{"rules":{}}', '5'])
    assert.equal(
      assertError(await setRules(port, [], text), 400, 'invalid_body'),
      'The body must be {"rules":[…]}.',
    );
  assertError(await setRules(port, [], '{'), 400, 'invalid_json');
  assertError(await ask(port, 'GET', '/v1/pets'), 503, 'unavailable');
  assert.throws(() => faultsPlugin({ rules: [{ fault: 'drip' }] }), {
    name: 'TypeError',
    message: `faultsPlugin: rule 1 is wrong: fault must be ${words}`,
  });
});

test('C63 reset: the animals of the start, ids from 1, no keys, no rules, and no page of before', async (t) => {
  const storage = memoryStorage({ pets: [{ name: 'Tom', categoryId: 7n }] });
  const { port } = await start(t, { storage, plugins: [faultsPlugin()] });
  const tom = '{"id":1,"name":"Tom","categoryId":7}';
  const keyed = { body, headers: ['Idempotency-Key: k'] };
  for (let added = 0; added < 3; added++) await ask(port, 'POST', '/v1/pets', { body });
  assert.equal(JSON.parse((await ask(port, 'POST', '/v1/pets', keyed)).body).id, 5);
  // A full page is kept once it is asked for again.
  const page = () => ask(port, 'GET', '/v1/pets?limit=1&after=1');
  for (let asked = 0; asked < 3; asked++) assert.match((await page()).body, /"id":2/);
  await setRules(port, [{ path: '/v1/pets/{petId}', fault: 'status=500' }]);

  assert.equal((await ask(port, 'POST', '/v1/reset')).status, 204);
  assert.equal((await ask(port, 'GET', '/v1/pets')).body, `[${tom}]`);
  assert.equal((await page()).body, '[]');
  assert.equal((await ask(port, 'GET', '/v1/pets/1')).body, tom);
  assert.equal((await ask(port, 'GET', '/v1/faults')).body, '{"rules":[]}');
  assert.equal(JSON.parse((await ask(port, 'POST', '/v1/pets', keyed)).body).id, 2);
  assert.equal(storage.size, 2);
});

test('C63 a storage that is reset by the program leaves no page of before either', async (t) => {
  const storage = memoryStorage();
  const { port } = await start(t, { storage });
  for (let added = 0; added < 3; added++) await ask(port, 'POST', '/v1/pets', { body });
  const page = () => ask(port, 'GET', '/v1/pets?limit=1');
  for (let asked = 0; asked < 3; asked++) assert.match((await page()).body, /"id":1/);
  await storage.reset();
  assert.equal((await page()).body, '[]');
});

test('C63 reset is 404 where the storage does not forget', async (t) => {
  const { insert, get, list, close } = memoryStorage();
  const storage = { durable: true, insert, get, list, close };
  const { port } = await start(t, { storage, plugins: [faultsPlugin()] });
  assertError(await ask(port, 'POST', '/v1/reset'), 404, 'not_found');
});

test('C64 the header Date is of the clock, over a socket and under handler', async (t) => {
  const clock = () => Date.UTC(2030, 11, 5, 23, 59, 50);
  const { petstore, port } = await start(t, { clock });
  const server = createServer(petstore.handler).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const { port: other } = Object(server.address());
  for (const each of [port, other])
    assert.equal(
      header(await ask(each, 'GET', '/v1/pets'), 'Date'),
      'Thu, 05 Dec 2030 23:59:50 GMT',
    );
});

test('around wraps what is carried out, the first plugin outermost, and nothing that is refused before', async (t) => {
  const seen: string[] = [];
  const wrapping =
    (name: string): Plugin =>
    ({ around }) =>
      around(async (request, next) => {
        // The fixture asks for the server's health after each answer that is an error.
        if (request.keyName === undefined) return next();
        seen.push(`${name} ${request.method} ${request.keyName} ${request.header('x-a')}`);
        const reply = await next();
        seen.push(`${name} ${reply.status}`);
        return { ...reply, headers: [...reply.headers, `X-${name}`, 'yes'] };
      });
  const { port } = await start(t, { plugins: [wrapping('outer'), wrapping('inner')] });
  const answer = await ask(port, 'GET', '/v1/pets', { headers: ['X-A: 1'] });
  assert.deepEqual(seen, ['outer GET key-1 1', 'inner GET key-1 1', 'inner 200', 'outer 200']);
  assert.deepEqual(
    [answer.status, header(answer, 'X-outer'), header(answer, 'X-inner')],
    [200, 'yes', 'yes'],
  );
  seen.length = 0;
  for (const [method, path, words] of [
    ['GET', '/v1/pets', { authorization: null }],
    ['GET', '/nothing', {}],
    ['DELETE', '/v1/pets', {}],
  ] as const) {
    assert.ok((await ask(port, method, path, words)).status >= 400);
  }
  assert.deepEqual(seen, []);
});

test('around that throws, rejects or answers no reply is a 500, and its cause is in the log', async (t) => {
  const wrong: unknown[] = [
    undefined,
    { status: 99, headers: [] },
    { status: 200, headers: ['Date', 'x'] },
  ];
  const logged: unknown[] = [];
  let answered: unknown;
  const plugin: Plugin = ({ around }) =>
    around(({ keyName }, next) => (keyName === undefined ? next() : Object(answered)));
  const { port } = await start(t, {
    plugins: [plugin],
    log: (_level, message) => void logged.push(message),
  });
  for (answered of wrong) assertError(await ask(port, 'GET', '/v1/pets'), 500, 'internal_error');
  assert.deepEqual(
    logged,
    wrong.map(() => 'internal error'),
  );
});
