/**
 * The faults plugin and the hook that it stands on: what a request can ask for, when its operation
 * runs, and how it says no.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createPetstore, type Plugin } from '../../dist/index.js';
import { faultsPlugin } from '../../dist/plugins/faults.js';
import { assertError, header, type Answer } from '../support/client.js';
import { ask, key, start } from '../support/fixture.js';

const body = '{"name":"a","categoryId":1}';
const rule =
  'Petstore-Fault must be one or more of status=429, status=500 or status=503, delay=MILLISECONDS (up to 30000), ' +
  'and before or after, each once and joined by commas.';

const post = (port: number, fault: string, ...headers: readonly string[]): Promise<Answer> =>
  ask(port, 'POST', '/v1/pets', { body, headers: [`Petstore-Fault: ${fault}`, ...headers] });
const count = async (port: number): Promise<number> =>
  JSON.parse((await ask(port, 'GET', '/v1/pets')).body).length;

test('each status is answered with its Error body and Retry-After where that helps, and nothing is added', async (t) => {
  const { port } = await start(t, { plugins: [faultsPlugin()] });
  for (const [fault, status, code, retryAfter] of [
    ['status=503', 503, 'unavailable', '1'],
    ['status=429', 429, 'too_many_requests', '1'],
    ['status=500', 500, 'internal_error', undefined],
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
  assert.deepEqual(parametersIn((await ask(plain, 'GET', '/openapi.json')).body), without);
  assert.deepEqual(parametersIn((await ask(port, 'GET', '/openapi.json')).body), within);
  // The document is made anew once a route is gone (C35).
  now = Date.UTC(2031, 0);
  assert.deepEqual(
    parametersIn((await ask(port, 'GET', '/openapi.json')).body),
    within.slice(0, 1),
  );
});

test('close does not wait for a delay longer than for any request', async () => {
  const petstore = createPetstore({ keys: [key], plugins: [faultsPlugin()] });
  const headers = { Authorization: `Bearer ${key}`, 'Petstore-Fault': 'delay=50' };
  const answering = petstore.fetch('http://any/v1/pets', { headers });
  await petstore.close();
  assert.equal((await answering).status, 200);
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
