/**
 * The faults plugin and the hook that it stands on: what a request can ask for, when its operation
 * runs, and how it says no.
 */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { test, type TestContext } from 'node:test';
import { createPetstore, memoryStorage, type Plugin } from '../../dist/index.js';
import { faultsPlugin } from '../../dist/plugins/faults.js';
import { assertError, Client, type Answer } from '../support/client.js';
import { ask, bytesOf, key, start, type Running } from '../support/fixture.js';
import {
  animal,
  documentOf,
  everyWay,
  expectAnswer,
  expectAnswers,
  firstAnimal,
  keyHeaders,
  noKey,
  plainStorage,
  startWith,
} from '../support/scenes.js';
import { until } from '../support/waiting.js';

const words =
  'one of status=408, status=409, status=429, status=500, status=502, status=503, status=504, drop and truncate, ' +
  'or delay=MILLISECONDS (up to 30000), or one of them and a delay; with before or after, or, for a delay alone, ' +
  'within; joined by commas';
const rule = `Petstore-Fault must be ${words}.`;

/** A petstore with the plugin. */
const startFaulty = (t: TestContext, options: Parameters<typeof start>[1] = {}): Promise<Running> =>
  start(t, { plugins: [faultsPlugin()], ...options });
const withFault = (fault: string, ...headers: readonly string[]) => ({
  headers: [`Petstore-Fault: ${fault}`, ...headers],
});
const post = (port: number, fault: string, ...headers: readonly string[]): Promise<Answer> =>
  ask(port, 'POST', '/v1/pets', { body: animal, ...withFault(fault, ...headers) });
/** What a repeat is with this Idempotency-Key. */
const keyed = (value: string) => ({ body: animal, headers: [`Idempotency-Key: ${value}`] });
const count = async (port: number): Promise<number> =>
  JSON.parse((await ask(port, 'GET', '/v1/pets')).body).length;
const add = 'POST /v1/pets';
const list = 'GET /v1/pets';

test('C61 each status is answered with its Error body and Retry-After where that helps, and nothing is added', async (t) => {
  const { port } = await startFaulty(t);
  for (const [fault, expected, retryAfter] of [
    ['status=503', '503 unavailable', '1'],
    ['status=429', '429 too_many_requests', '1'],
    ['status=500', '500 internal_error', undefined],
    ['status=408', '408 request_timeout', undefined],
    ['status=409', '409 idempotency_in_flight', '1'],
    ['status=502', '502 bad_gateway', undefined],
    ['status=504', '504 gateway_timeout', undefined],
    [' before , status=503 ', '503 unavailable', '1'],
    ['delay=1,status=503', '503 unavailable', '1'],
  ] as const) {
    const asked = { body: animal, ...withFault(fault) };
    await expectAnswer(port, add, expected, asked, { 'Retry-After': retryAfter });
  }
  assert.equal(await count(port), 0);
});

test('after: the animal is kept before the fault, and a repeat with its Idempotency-Key adds nothing', async (t) => {
  const { port } = await startFaulty(t);
  assertError(await post(port, 'status=503,after', 'Idempotency-Key: one'), 503, 'unavailable');
  await expectAnswer(port, add, `201 ${firstAnimal}`, keyed('one'));
  assert.equal(await count(port), 1);
  // An operation that fails by itself says so: the fault comes after what was carried out.
  const bad = { body: '{}', ...withFault('status=503,after') };
  await expectAnswer(port, add, '400 invalid_body', bad);
});

test('a delay comes before the operation or after it, and is at least as long as was asked for', async (t) => {
  const { port } = await startFaulty(t);
  for (const fault of ['delay=60', 'delay=60,after']) {
    const from = performance.now();
    assert.equal((await post(port, fault)).status, 201);
    assert.ok(performance.now() - from >= 55, fault);
  }
  let isAnswered = false;
  const slow = post(port, 'delay=2000,after').finally(() => (isAnswered = true));
  await until('the animal', async () => (await count(port)) === 3);
  assert.ok(!isAnswered, 'the animal is there while its answer waits');
  assert.equal((await slow).status, 201);
});

test('what is no fault answers 400 with the rule, and the operation is not carried out', async (t) => {
  const { port } = await startFaulty(t);
  // biome-ignore format: short ones by the dozen, a line for each would hide the test.
  const wrong = ['', ',', 'status=418', 'status=', 'status=5030', 'Status=503', 'status=503,status=429', 'status=503,drop', 'drop,truncate', 'drop,drop', 'before', 'within', 'status=503,within', 'drop,within', 'before,within', 'before,after', 'delay=-1', 'delay=30001', 'delay=1e3', 'delay=999999999999', 'status=503,', 'reset', 'toString'];
  for (const answer of [
    ...wrong.map((fault) => post(port, fault)),
    post(port, 'status=503', 'Petstore-Fault: status=429'),
  ])
    assert.equal(assertError(await answer, 400, 'invalid_parameter'), rule);
  assert.equal(await count(port), 0);
});

test('without a valid key, off the operations, or without the plugin the header does nothing', async (t) => {
  const { port } = await startFaulty(t);
  const asked = withFault('status=503');
  await expectAnswers(port, [
    [list, '401 unauthorized', { ...asked, ...noKey }],
    ['GET /healthz', 200, asked],
    ['OPTIONS /v1/pets', 204, asked],
    ['GET /v1/nothing', '404 not_found', asked],
    [list, '503 unavailable', asked],
  ]);
  await expectAnswer((await start(t)).port, list, 200, asked);
});

test('C61 the OpenAPI document has the header in every operation once, the answers of all faults, and the paths of the plugin, while that is on alone', async (t) => {
  let now = Date.UTC(2030, 0);
  const { port } = await startFaulty(t, { clock: () => now });
  const { port: plain } = await start(t);
  const parametersOf = async (from: number): Promise<unknown> =>
    Object.values<object>((await documentOf(from)).paths).map((item) =>
      Object.values(item).map(({ parameters = [] }) =>
        parameters.map(({ name }: { readonly name: string }) => name),
      ),
    );
  const without = [[['limit', 'status', 'after'], ['Idempotency-Key']], [['petId']]];
  const within = without.map((item) => item.map((names) => [...names, 'Petstore-Fault']));
  // Those of the plugin's own paths meet no fault.
  const own = [[[], [], []], [[]]];
  assert.deepEqual(await parametersOf(plain), without);
  assert.deepEqual(await parametersOf(port), [...within, ...own]);

  const { paths, components, tags } = await documentOf(port);
  for (const path of ['/pets', '/pets/{petId}'])
    for (const [method, { responses }] of Object.entries<{ readonly responses: object }>(
      paths[path],
    ))
      for (const status of ['408', '409', '429', '500', '502', '503', '504'])
        assert.ok(status in responses, `${method} ${path} ${status}`);
  assert.deepEqual(Object.keys(paths['/faults']), ['get', 'put', 'delete']);
  assert.deepEqual(Object.keys(paths['/reset']), ['post']);
  assert.deepEqual(components.schemas.FaultRules.required, ['rules']);
  assert.ok(tags.some(({ name }: { readonly name: string }) => name === 'faults'));

  // The document is made anew once a route is gone (C35).
  now = Date.UTC(2031, 0);
  assert.deepEqual(await parametersOf(port), [...within.slice(0, 1), ...own]);
});

test('close does not wait for a delay longer than for any request', async () => {
  const { fetch, close } = createPetstore({ keys: [key], plugins: [faultsPlugin()] });
  const headers = { ...keyHeaders, 'Petstore-Fault': 'delay=50' };
  const answering = fetch('http://any/v1/pets', { headers });
  await close();
  assert.equal((await answering).status, 200);
});

/** What comes on a new connection until it ends, and the code of the error that ends it. */
async function read(port: number, bytes: string): Promise<readonly [string, string | undefined]> {
  const client = (await Client.connect(port)).send(bytes);
  await client.ends();
  return [client.received, Object(client.failure).code];
}

test('C62 drop resets the connection without a byte; truncate after half of the body; before or after the operation', async (t) => {
  const { port } = await startFaulty(t);
  const send = (fault: string, id: string) => {
    const { body, headers } = keyed(id);
    return read(port, bytesOf('POST', '/v1/pets', { body, ...withFault(fault, ...headers) }));
  };
  // The last one is kept, and never heard of: what an idempotency key exists for.
  for (const [fault, kept] of [
    ['drop', 0],
    ['drop,before', 0],
    ['drop,after', 1],
  ] as const) {
    assert.deepEqual(await send(fault, 'a'), ['', 'ECONNRESET']);
    assert.equal(await count(port), kept);
  }
  await expectAnswer(port, add, `201 ${firstAnimal}`, keyed('a'));
  assert.equal(await count(port), 1);

  const [text, code] = await send('truncate,after', 'b');
  const whole = firstAnimal.replace('1', '2');
  assert.equal(code, 'ECONNRESET');
  assert.match(text, new RegExp(`^HTTP/1.1 201 .*\r\nContent-Length: ${whole.length}\r\n`, 's'));
  assert.equal(text.split('\r\n\r\n')[1], whole.slice(0, whole.length / 2));
  const [before] = await send('truncate', 'c');
  assert.match(before, /^HTTP\/1.1 503 .*\r\n\r\n\{"code":"unavailable",/s);
  assert.equal(await count(port), 2);
});

test('C62 what waits behind a request that is dropped is not carried out, and other connections go on', async (t) => {
  const { port } = await startFaulty(t);
  const dropped = bytesOf('GET', '/v1/pets', withFault('drop'));
  const [text] = await read(port, dropped + bytesOf('POST', '/v1/pets', { body: animal }));
  assert.equal(text, '');
  assert.equal(await count(port), 0);
});

test('C62 through fetch a cut rejects as a network error does, and under handler it destroys the socket', async (t) => {
  const [, ...ways] = await everyWay(t, await startFaulty(t));
  for (const fault of ['drop', 'truncate', 'drop,after', 'truncate,after'])
    for (const ask of ways) {
      const asking = ask('/v1/pets', { headers: { ...keyHeaders, 'Petstore-Fault': fault } });
      const text = asking.then((response) => response.text());
      const message = ask === ways[1] ? /^fetch failed$/ : /./;
      await assert.rejects(text, { name: 'TypeError', message }, fault);
    }
});

test('C61 within: the operation itself takes that long, and a second request with its key is 409 until it ends', async (t) => {
  const { port } = await startFaulty(t);
  const { body, headers } = keyed('slow');
  const slow = post(port, 'delay=700,within', ...headers);
  // A repeat begins once the first has come, and goes on until that has its answer.
  for (let busy = 0; ; busy++) {
    const answer = await ask(port, 'POST', '/v1/pets', { body, headers });
    if (answer.status === 201) {
      assert.ok(busy > 0);
      assert.equal(answer.body, (await slow).body);
      break;
    }
    assertError(answer, 409, 'idempotency_in_flight');
    await sleep(10);
  }
  assert.equal(await count(port), 1);
});

const setRules = (port: number, rules: unknown, body = JSON.stringify({ rules })) =>
  ask(port, 'PUT', '/v1/faults', { body });
const rules = 'GET /v1/faults';
const first = 'GET /v1/pets/1';

test('C61 a rule meets the requests that fit, skips and counts; a header comes before it; DELETE ends it', async (t) => {
  const { port } = await startFaulty(t);
  const given = [
    { method: 'POST', path: '/v1/pets', fault: 'status=503,after', times: 2, skip: 1 },
    { path: '/v1/pets/{petId}', fault: 'status=500' },
  ];
  const set = await setRules(port, given);
  const left = (...counts: readonly (number | null)[]) =>
    JSON.stringify({ rules: given.map((each, at) => ({ ...each, left: counts[at] })) });
  assert.deepEqual([set.status, set.body], [200, left(2, null)]);

  for (const status of [201, 503, 503, 201])
    await expectAnswer(port, add, status, { body: animal });
  assert.equal(await count(port), 4);
  await expectAnswers(port, [
    [first, '500 internal_error'],
    [first, '429 too_many_requests', withFault('status=429')],
    [rules, `200 ${left(0, null)}`],
    ['DELETE /v1/faults', 204],
    [first, 200],
    [rules, '200 {"rules":[]}'],
    [rules, '401 unauthorized', noKey],
  ]);
});

test('a rule for all leaves the ways to end it, and what needs no key', async (t) => {
  const { port } = await startWith(t, faultsPlugin({ rules: [{ fault: 'drop' }] }));
  const [text] = await read(port, bytesOf('GET', '/v1/pets'));
  assert.equal(text, '');
  await expectAnswers(port, [
    ['GET /healthz', 200],
    [rules, '200 {"rules":[{"fault":"drop","left":null}]}'],
    ['POST /v1/reset', 204],
    [list, 200],
  ]);
});

test('C61 a bad rule is 400 with its number and the mend, and changes nothing', async (t) => {
  const { port } = await startFaulty(t);
  await setRules(port, [{ fault: 'status=503' }]);
  const drop = { fault: 'drop' };
  const noFault = `fault must be ${words}`;
  const noTimes = 'times must be an integer from 1 to 1000000, or be left out';
  for (const [bad, problem] of [
    ...[{ fault: 'status=418' }, {}, { fault: 5 }, 5, null].map((each) => [each, noFault] as const),
    [{ ...drop, method: 'post' }, 'method must be a method such as POST, or be left out'],
    [
      { ...drop, path: '/v1/pets/1' },
      'path must be the path of a route, such as /v1/pets/{petId}, or be left out',
    ],
    [{ ...drop, times: 0 }, noTimes],
    [{ ...drop, times: 1.5 }, noTimes],
    [{ ...drop, skip: -1 }, 'skip must be an integer from 0 to 1000000, or be left out'],
  ] as const) {
    const message = assertError(await setRules(port, [drop, bad]), 400, 'invalid_body');
    assert.equal(message, `In rules, rule 2 is wrong: ${problem}.`);
  }
  const unknown =
    'In rules, rule 1 has an unknown member; it may have method, path, fault, times, skip.';
  const misspelt = await setRules(port, [{ ...drop, time: 1 }]);
  assert.equal(assertError(misspelt, 400, 'invalid_body'), unknown);
  for (const text of ['[]', '{}', '{"rules":{}}', '5']) {
    const message = assertError(await setRules(port, [], text), 400, 'invalid_body');
    assert.equal(message, 'The body must be {"rules":[…]}.');
  }
  assertError(await setRules(port, [], '{'), 400, 'invalid_json');
  await expectAnswer(port, list, '503 unavailable');
  assert.throws(() => faultsPlugin({ rules: [{ fault: 'drip' }] }), {
    name: 'TypeError',
    message: `faultsPlugin: rule 1 is wrong: ${noFault}`,
  });
});

for (const isByProgram of [false, true]) {
  const by = isByProgram ? 'the program' : 'the plugin';
  test(`C63 reset by ${by}: the animals of the start, ids from 1, no keys, no rules of the plugin, and no page of before`, async (t) => {
    const storage = memoryStorage({ pets: [{ name: 'Tom', categoryId: 7n }] });
    const { port } = await startFaulty(t, { storage });
    const tom = '{"id":1,"name":"Tom","categoryId":7}';
    const second = firstAnimal.replace('1', '2');
    const page = 'GET /v1/pets?limit=1&after=1';
    const adding = { body: animal };
    await expectAnswers(port, [
      ...Array.from({ length: 3 }, () => [add, 201, adding] as const),
      [add, `201 ${firstAnimal.replace('1', '5')}`, keyed('k')],
      // A full page is kept once it is asked for again.
      ...Array.from({ length: 3 }, () => [page, `200 [${second}]`] as const),
    ]);
    await setRules(port, [{ path: '/v1/pets/{petId}', fault: 'status=500' }]);

    if (isByProgram) await storage.reset();
    else await expectAnswer(port, 'POST /v1/reset', 204);
    await expectAnswers(port, [
      [list, `200 [${tom}]`],
      [page, '200 []'],
      [add, `201 ${second}`, keyed('k')],
    ]);
    assert.equal(storage.size, 2);
    if (isByProgram) return;
    await expectAnswers(port, [
      [first, `200 ${tom}`],
      [rules, '200 {"rules":[]}'],
    ]);
  });
}

test('C63 reset is 404 where the storage does not forget', async (t) => {
  const { port } = await startFaulty(t, { storage: plainStorage() });
  await expectAnswer(port, 'POST /v1/reset', '404 not_found');
});

test('C64 the header Date is of the clock, over a socket and under handler', async (t) => {
  const clock = () => Date.UTC(2030, 11, 5, 23, 59, 50);
  const ways = await everyWay(t, await start(t, { clock }));
  for (const ask of ways.slice(0, 2))
    assert.equal((await ask('/v1/pets')).headers.get('Date'), 'Thu, 05 Dec 2030 23:59:50 GMT');
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
  const { port } = await startWith(t, wrapping('outer'), wrapping('inner'));
  const told = { 'X-outer': 'yes', 'X-inner': 'yes' };
  await expectAnswer(port, list, 200, { headers: ['X-A: 1'] }, told);
  await expectAnswers(port, [
    [list, 401, noKey],
    ['GET /nothing', 404],
    ['DELETE /v1/pets', 405],
  ]);
  assert.deepEqual(seen, ['outer GET key-1 1', 'inner GET key-1 1', 'inner 200', 'outer 200']);
});
