// Tests the faults plugin and the hook `around`: the kinds of faults, whether the operation runs, and
// refused faults.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { test, type TestContext } from 'node:test';
import { createPetstore, emptyReply, memoryStorage, type Plugin } from '../../dist/index.js';
import { faultsPlugin } from '../../dist/plugins/faults.js';
import { assertError, Client, type RawResponse } from '../support/client.js';
import {
  sendRequest,
  requestBytes,
  connectTo,
  key,
  start,
  type Running,
} from '../support/fixture.js';
import {
  petJson,
  countingPets,
  documentOf,
  everyTransport,
  expectResponse,
  expectResponses,
  firstPetJson,
  keyHeaders,
  noKey,
  plainStorage,
  serve,
  startWith,
} from '../support/scenes.js';
import { root, StartedProcess } from '../support/process.js';
import { gate, until } from '../support/waiting.js';

/** Starts a petstore with the plugin. */
const startFaulty = (t: TestContext, options: Parameters<typeof start>[1] = {}): Promise<Running> =>
  start(t, { plugins: [faultsPlugin()], ...options });
const withFault = (fault: string, ...headers: readonly string[]) => ({
  headers: [`Petstore-Fault: ${fault}`, ...headers],
});
const post = (port: number, fault: string, ...headers: readonly string[]): Promise<RawResponse> =>
  sendRequest(port, 'POST', '/v1/pets', { body: petJson, ...withFault(fault, ...headers) });
/** Returns a request to add a pet with an idempotency key. */
const keyed = (value: string) => ({ body: petJson, headers: [`Idempotency-Key: ${value}`] });
const count = async (port: number): Promise<number> =>
  JSON.parse((await sendRequest(port, 'GET', '/v1/pets')).body).length;
const add = 'POST /v1/pets';
const list = 'GET /v1/pets';

test('C61 a fault status has its Error body and Retry-After, and no pet is added', async (t) => {
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
    const parts = { body: petJson, ...withFault(fault) };
    await expectResponse(port, add, expected, parts, { 'Retry-After': retryAfter });
  }
  assert.equal(await count(port), 0);
});

test('C61 a fault with `after` stores the pet, and a retry with its key adds nothing', async (t) => {
  const { port } = await startFaulty(t);
  assertError(await post(port, 'status=503,after', 'Idempotency-Key: one'), 503, 'unavailable');
  await expectResponse(port, add, `201 ${firstPetJson}`, keyed('one'));
  assert.equal(await count(port), 1);
  // If the operation fails, its error is the response, because the fault comes after success.
  const bad = { body: '{}', ...withFault('status=503,after') };
  await expectResponse(port, add, '400 invalid_body', bad);
});

test('C61 a delay before or after the operation lasts at least the requested time', async (t) => {
  const { port } = await startFaulty(t);
  for (const fault of ['delay=60', 'delay=60,after']) {
    const from = performance.now();
    assert.equal((await post(port, fault)).status, 201);
    assert.ok(performance.now() - from >= 55, fault);
  }
  let hasResponse = false;
  const slow = post(port, 'delay=2000,after').finally(() => (hasResponse = true));
  await until('the pet', async () => (await count(port)) === 3);
  assert.ok(!hasResponse, 'the response must wait after the pet is stored');
  assert.equal((await slow).status, 201);
});

test('C61 an invalid fault is 400, and the operation is not carried out', async (t) => {
  const { port } = await startFaulty(t);
  // biome-ignore format: many short values; one per line would hide the test.
  const wrong = [',', 'status=418', 'status=', 'status=5030', 'Status=503', 'status=503,status=429', 'status=503,drop', 'drop,truncate', 'drop,drop', 'before', 'within', 'status=503,within', 'drop,within', 'before,within', 'before,after', 'delay=-1', 'delay=30001', 'delay=1e3', 'delay=999999999999', 'status=503,', 'reset', 'toString', 'constructor', '__proto__'];
  for (const response of [
    ...wrong.map((fault) => post(port, fault)),
    post(port, 'status=503', 'Petstore-Fault: status=429'),
  ])
    assert.match(
      assertError(await response, 400, 'invalid_parameter'),
      /^In Petstore-Fault, .+\.$/,
    );
  assert.equal(await count(port), 0);
});

test('C61 the header has no effect without a valid key, outside /v1 or without the plugin', async (t) => {
  const { port } = await startFaulty(t);
  const parts = withFault('status=503');
  await expectResponses(port, [
    [list, '401 unauthorized', { ...parts, ...noKey }],
    ['GET /healthz', 200, parts],
    ['OPTIONS /v1/pets', 204, parts],
    ['GET /v1/nothing', '404 not_found', parts],
    [list, '503 unavailable', parts],
  ]);
  await expectResponse((await start(t)).port, list, 200, parts);
});

test('C61 the OpenAPI document describes the header, the faults and the paths of the plugin', async (t) => {
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
  // Faults do not apply to the plugin's own paths.
  const filters = ['limit', 'method', 'path', 'status', 'idempotencyKey', 'fault', 'after'];
  const own = [[[], [], []], [filters], [[]]];
  assert.deepEqual(await parametersOf(plain), without);
  assert.deepEqual(await parametersOf(port), [...within, ...own]);

  const { paths, components, tags } = await documentOf(port);
  for (const path of ['/pets', '/pets/{petId}'])
    for (const [method, { responses }] of Object.entries<{ readonly responses: object }>(
      paths[path],
    ))
      for (const status of ['401', '403', '404', '408', '409', '429', '500', '502', '503', '504'])
        assert.ok(status in responses, `${method} ${path} ${status}`);
  assert.deepEqual(Object.keys(paths['/faults']), ['get', 'put', 'delete']);
  assert.deepEqual(Object.keys(paths['/reset']), ['post']);
  assert.deepEqual(components.schemas.FaultRules.required, ['rules']);
  assert.ok(tags.some(({ name }: { readonly name: string }) => name === 'faults'));

  // The document changes when a route is gone (C35).
  now = Date.UTC(2031, 0);
  assert.deepEqual(await parametersOf(port), [...within.slice(0, 1), ...own]);
});

test('C61 close lets a request with a short delay finish', async () => {
  const { fetch, close } = createPetstore({ keys: [key], plugins: [faultsPlugin()] });
  const headers = { ...keyHeaders, 'Petstore-Fault': 'delay=50' };
  const pending = fetch('http://any/v1/pets', { headers });
  await close();
  assert.equal((await pending).status, 200);
});

/** Sends bytes; returns what is received until the connection ends, and the code of its error. */
async function read(port: number, bytes: string): Promise<readonly [string, string | undefined]> {
  const client = (await Client.connect(port)).send(bytes);
  await client.ends();
  return [client.received, Object(client.failure).code];
}

test('C62 drop resets the connection without a response, and truncate after half of it', async (t) => {
  const { port } = await startFaulty(t);
  const send = (fault: string, id: string) => {
    const { body, headers } = keyed(id);
    return read(port, requestBytes('POST', '/v1/pets', { body, ...withFault(fault, ...headers) }));
  };
  // With `after` the pet is stored without a response, which is why idempotency keys exist.
  for (const [fault, kept] of [
    ['drop', 0],
    ['drop,before', 0],
    ['drop,after', 1],
  ] as const) {
    assert.deepEqual(await send(fault, 'a'), ['', 'ECONNRESET']);
    assert.equal(await count(port), kept);
  }
  await expectResponse(port, add, `201 ${firstPetJson}`, keyed('a'));
  assert.equal(await count(port), 1);

  let text = '';
  // If the bytes and the reset arrive while this process is busy, libuv reports an end instead.
  await until('a reset', async () => {
    const [received, code] = await send('truncate,after', 'b');
    text = received;
    return code === 'ECONNRESET';
  });
  const whole = firstPetJson.replace('1', '2');
  assert.match(text, new RegExp(`^HTTP/1.1 201 .*\r\nContent-Length: ${whole.length}\r\n`, 's'));
  assert.equal(text.split('\r\n\r\n')[1], whole.slice(0, whole.length / 2));
  const [before] = await send('truncate', 'c');
  assert.match(before, /^HTTP\/1.1 503 .*\r\n\r\n\{"code":"unavailable",/s);
  assert.equal(await count(port), 2);
});

test('C62 a request pipelined after a dropped one is not carried out', async (t) => {
  const { port } = await startFaulty(t);
  const dropped = requestBytes('GET', '/v1/pets', withFault('drop'));
  const [text] = await read(port, dropped + requestBytes('POST', '/v1/pets', { body: petJson }));
  assert.equal(text, '');
  assert.equal(await count(port), 0);
});

test('C62 a cut breaks `fetch` like a network error, and destroys the socket of `handler`', async (t) => {
  const [, ...ways] = await everyTransport(t, await startFaulty(t));
  for (const fault of ['drop', 'truncate', 'drop,after', 'truncate,after'])
    for (const sendRequest of ways) {
      const asking = sendRequest('/v1/pets', {
        headers: { ...keyHeaders, 'Petstore-Fault': fault },
      });
      const text = asking.then((response) => response.text());
      const message = sendRequest === ways[1] ? /^(fetch failed|terminated)$/ : /./;
      await assert.rejects(text, { name: 'TypeError', message }, fault);
    }
});

test('C61 a delay with `within` lets a second request with the same key get 409', async (t) => {
  const { port } = await startFaulty(t);
  const { body, headers } = keyed('slow');
  const slow = post(port, 'delay=700,within', ...headers);
  // Repeats the request until the first one has its response.
  for (let busy = 0; ; busy++) {
    const response = await sendRequest(port, 'POST', '/v1/pets', { body, headers });
    if (response.status === 201) {
      assert.ok(busy > 0);
      assert.equal(response.body, (await slow).body);
      break;
    }
    assertError(response, 409, 'idempotency_in_flight');
    await sleep(10);
  }
  assert.equal(await count(port), 1);
});

const setRules = (port: number, rules: unknown, body = JSON.stringify({ rules })) =>
  sendRequest(port, 'PUT', '/v1/faults', { body });
const rules = 'GET /v1/faults';
const first = 'GET /v1/pets/1';

test('C61 a rule skips and counts matching requests, and a header takes precedence', async (t) => {
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
    await expectResponse(port, add, status, { body: petJson });
  assert.equal(await count(port), 4);
  await expectResponses(port, [
    [first, '500 internal_error'],
    [first, '429 too_many_requests', withFault('status=429')],
    [rules, `200 ${left(0, null)}`],
    ['DELETE /v1/faults', 204],
    [first, 200],
    [rules, '200 {"rules":[]}'],
    [rules, '401 unauthorized', noKey],
  ]);
});

test('C61 a rule for all requests affects neither the plugin’s paths nor requests without a key', async (t) => {
  const { port } = await startWith(t, faultsPlugin({ rules: [{ fault: 'drop' }] }));
  const [text] = await read(port, requestBytes('GET', '/v1/pets'));
  assert.equal(text, '');
  await expectResponses(port, [
    ['GET /healthz', 200],
    [rules, '200 {"rules":[{"fault":"drop","left":null}]}'],
    ['POST /v1/reset', 204],
    [rules, '200 {"rules":[{"fault":"drop","left":null}]}'],
    ['DELETE /v1/faults', 204],
    [list, 200],
  ]);
});

test('C61 an invalid rule is 400 with its number and a hint, and changes no rule', async (t) => {
  const { port } = await startFaulty(t);
  await setRules(port, [{ fault: 'status=503' }]);
  const drop = { fault: 'drop' };
  const noFault = 'fault must be a fault such as status=503';
  const noTimes = 'times must be an integer from 1 to 1000000, or be left out';
  for (const [bad, problem] of [
    ...[{}, { fault: 5 }, 5, null].map((each) => [each, noFault] as const),
    [{ fault: 'drip' }, 'in fault, "drip" is not a word of a fault; the nearest is drop'],
    [
      { ...drop, method: 'post' },
      'method must be a method in capitals, such as POST, or be left out',
    ],
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
  const unknown = 'In rules, rule 1 has an unknown member "time"; the nearest is times.';
  const misspelt = await setRules(port, [{ ...drop, time: 1 }]);
  assert.equal(assertError(misspelt, 400, 'invalid_body'), unknown);
  for (const text of ['[]', '{}', '{"rules":{}}', '5']) {
    const message = assertError(await setRules(port, [], text), 400, 'invalid_body');
    assert.equal(message, 'The body must be {"rules":[…]}.');
  }
  assertError(await setRules(port, [], '{'), 400, 'invalid_json');
  await expectResponse(port, list, '503 unavailable');
  assert.throws(() => faultsPlugin({ rules: [{ fault: 'drip' }] }), {
    name: 'TypeError',
    message:
      'faultsPlugin: rule 1 is wrong: in fault, "drip" is not a word of a fault; the nearest is drop',
  });
});

for (const isByProgram of [false, true]) {
  const by = isByProgram ? 'the program' : 'the plugin';
  test(`C63 a reset by ${by} restores the first pets, and clears ids, keys, rules and pages`, async (t) => {
    const storage = memoryStorage({ pets: [{ name: 'Tom', categoryId: 7n }] });
    const { port } = await startFaulty(t, { storage });
    const tom = '{"id":1,"name":"Tom","categoryId":7}';
    const second = firstPetJson.replace('1', '2');
    const page = 'GET /v1/pets?limit=1&after=1';
    const adding = { body: petJson };
    await expectResponses(port, [
      ...Array.from({ length: 3 }, () => [add, 201, adding] as const),
      [add, `201 ${firstPetJson.replace('1', '5')}`, keyed('k')],
      // A full page is cached when it is requested again.
      ...Array.from({ length: 3 }, () => [page, `200 [${second}]`] as const),
    ]);
    await setRules(port, [{ path: '/v1/pets/{petId}', fault: 'status=500' }]);

    if (isByProgram) await storage.reset();
    else await expectResponse(port, 'POST /v1/reset', 204);
    await expectResponses(port, [
      [list, `200 [${tom}]`],
      [page, '200 []'],
      [add, `201 ${second}`, keyed('k')],
    ]);
    assert.equal(storage.size, 2);
    if (isByProgram) return;
    await expectResponses(port, [
      [first, `200 ${tom}`],
      [rules, '200 {"rules":[]}'],
    ]);
  });
}

/** A plugin with the route `/v1/kennels`, to which faults apply too. */
const late: Plugin = ({ route }) =>
  route({ path: '/v1/kennels', methods: { PATCH: { handler: () => emptyReply(204, []) } } });

/** Rules that match no route, each with the end of its message, which names the nearest route. */
const unreachable: readonly (readonly [rule: object, problem: string])[] = [
  ...[
    ['/v1/pet', '/v1/pets'],
    ['/v1/pets/', '/v1/pets'],
    ['/V1/PETS', '/v1/pets'],
    ['/pets', '/v1/pets'],
    ['/v1/pets?limit=1', '/v1/pets'],
    ['/v1/kennel', '/v1/kennels'],
    ['/v1/pets/{id}', '/v1/pets/{petId}'],
    ['/v1/pets/17', '/v1/pets/{petId}'],
    ['/v1/pets/x'.padEnd(60_000, 'x'), '/v1/pets/{petId}'],
    // Faults do not apply to these.
    ['/v1/faults', '/v1/pets'],
    ['/v1/reset', '/v1/pets'],
    ['/healthz', '/v1/pets'],
    ['/openapi.json', '/v1/pets'],
    ['', '/v1/pets'],
  ].map(
    ([path = '', nearest]) =>
      [{ path }, `path must be the path of a route, such as ${nearest}, or be left out`] as const,
  ),
  ...[
    [{ method: 'FETCH' }, 'GET of /v1/pets'],
    [{ method: 'PUT' }, 'POST of /v1/pets'],
    [{ method: 'OPTIONS' }, 'GET of /v1/pets'],
    [{ method: 'PATCH', path: '/v1/pets' }, 'POST of /v1/pets'],
    [{ method: 'POST', path: '/v1/pets/{petId}' }, 'GET of /v1/pets/{petId}'],
    [{ method: 'OPTIONS', path: '/v1/pets' }, 'GET of /v1/pets'],
    [{ method: 'GET', path: '/v1/kennels' }, 'PATCH of /v1/kennels'],
  ].map(
    ([rule, nearest]) =>
      [
        Object(rule),
        `method must be one that the route has, such as ${nearest}, or be left out`,
      ] as const,
  ),
];

test('C61 a rule that matches no route is 400 and names the nearest route', async (t) => {
  const { port } = await startWith(t, faultsPlugin(), late);
  const good = { method: 'PATCH', path: '/v1/kennels', fault: 'status=500' };
  assert.equal((await setRules(port, [good])).status, 200);
  for (const [rule, problem] of unreachable) {
    const response = await setRules(port, [good, { ...rule, fault: 'drop' }]);
    const message = assertError(response, 400, 'invalid_body');
    assert.equal(
      message,
      `In rules, rule 2 is wrong: ${problem}.`,
      JSON.stringify(rule).slice(0, 99),
    );
  }
  await expectResponse(port, 'PATCH /v1/kennels', '500 internal_error');
  for (const rule of [{ method: 'HEAD' }, { method: 'GET', path: '/v1/pets/{petId}' }])
    assert.equal((await setRules(port, [{ ...rule, fault: 'drop' }])).status, 200);
});

test('C61 createPetstore throws a TypeError for a rule that matches no route', async () => {
  const withRules = (rules: readonly object[], ...plugins: readonly Plugin[]) =>
    createPetstore({ keys: [key], plugins: [faultsPlugin({ rules: Object(rules) }), ...plugins] });
  for (const [rule, problem] of unreachable)
    assert.throws(() => withRules([{ ...rule, fault: 'drop' }], late), {
      name: 'TypeError',
      message: `faultsPlugin: rule 1 is wrong: ${problem}`,
    });

  // The route of an async plugin may be missing until it has started.
  const rules = [{ method: 'PATCH', path: '/v1/kennels', fault: 'status=500' }];
  const asyncLate: Plugin = async (host) => {
    await sleep(1);
    late(host);
  };
  const petstore = withRules(rules, asyncLate);
  await petstore.listen({ port: 0 });
  await petstore.close();
  const wrong = withRules([{ ...rules[0], path: '/v1/kennel' }], asyncLate);
  await assert.rejects(wrong.listen({ port: 0 }), { name: 'TypeError', message: /\/v1\/kennels/ });
  await wrong.close();

  const rule = { path: '/v1/pets/{petId}', fault: 'drop' };
  const clock = () => Date.UTC(2031, 0);
  const gone = () =>
    createPetstore({ keys: [key], clock, plugins: [faultsPlugin({ rules: [rule] })] });
  assert.throws(gone, { name: 'TypeError', message: /such as \/v1\/pets,/ }, 'C35');
  for (const bad of ['drop', null, 5, {}])
    assert.throws(() => faultsPlugin({ rules: Object(bad) }), {
      message: /rules must be an array/,
    });
  // With a misspelt option, a client would be tested without faults.
  const misspelt = Object({ rule: [{ fault: 'drop' }] });
  assert.throws(() => faultsPlugin(misspelt), {
    name: 'TypeError',
    message: /option rule is unknown/,
  });
});

test('C61 PUT accepts the rules of GET and continues their counts', async (t) => {
  const { port } = await startFaulty(t);
  const given = [
    { method: 'POST', fault: 'status=503', times: 2, skip: 2 },
    { method: 'GET', path: '/v1/pets/{petId}', fault: 'status=500', skip: 1 },
  ];
  await setRules(port, given);
  /** Sets the rules that GET returns, and checks that GET returns the same. */
  const putBack = async () => {
    const { body } = await sendRequest(port, 'GET', '/v1/faults');
    const set = await setRules(port, [], body);
    assert.deepEqual([set.status, set.body], [200, body]);
    return body;
  };
  const text = JSON.stringify({
    rules: given.map((each, at) => ({ ...each, left: [2, null][at] })),
  });
  assert.equal(await putBack(), text);
  for (const status of [201, 201, 503, 503, 201, 201]) {
    await expectResponse(port, add, status, { body: petJson });
    await putBack();
  }
  for (const status of [200, 500, 500]) {
    await expectResponse(port, first, status);
    await putBack();
  }
  const parsed = JSON.parse(await putBack());
  assert.deepEqual(parsed.rules[0], { ...given[0], left: 0 });

  // The option `rules` accepts them too.
  const { port: other } = await startWith(t, faultsPlugin(parsed));
  await expectResponse(other, rules, `200 ${JSON.stringify(parsed)}`);

  const problem =
    'left must be an integer from 0 to times, null if times is left out, or be left out';
  for (const bad of [
    { left: 1 },
    { times: 1, left: 2 },
    { times: 1, left: null },
    { times: 1, left: -1 },
  ])
    assert.equal(
      assertError(await setRules(port, [{ fault: 'drop', ...bad }]), 400, 'invalid_body'),
      `In rules, rule 1 is wrong: ${problem}.`,
    );
  const skipped = await setRules(port, [{ fault: 'drop', skip: 1, skipped: 2 }]);
  assert.match(
    assertError(skipped, 400, 'invalid_body'),
    /skipped must be an integer from 0 to skip/,
  );
});

test('C61 more than 1,000 rules are refused', async (t) => {
  const { port } = await startFaulty(t);
  const rule = { method: 'HEAD', fault: 'drop' };
  const some = (count: number) => Array.from({ length: count }, () => rule);
  assert.equal((await setRules(port, some(1_000))).status, 200);
  const message = assertError(await setRules(port, some(1_001)), 400, 'invalid_body');
  assert.equal(message, 'In rules, rule 1001 is too many; give up to 1000.');
  assert.throws(() => faultsPlugin({ rules: some(1_001) }), { message: /1001 is too many/ });
});

test('C57 C61 a request with the key of a delayed one is validated before the 409', async (t) => {
  const reached = gate();
  const seen: Plugin = ({ around }) => around((_, next) => (reached.open(), next()));
  const { port, petstore } = await startWith(t, seen, faultsPlugin());
  const { headers } = keyed('slow');
  const slow = post(port, 'delay=30000,within', ...headers);
  await reached.opened;

  const empty = { body: petJson, headers: ['Idempotency-Key: '] };
  await expectResponses(port, [
    [add, '400 invalid_parameter', empty],
    [add, '400 invalid_parameter', { ...empty, headers: ['Idempotency-Key: a b'] }],
    [add, '400 invalid_body', { body: '{}', headers }],
    [add, '400 invalid_json', { body: '{', headers }],
    [
      add,
      '415 unsupported_media_type',
      { body: petJson, headers: [...headers, 'Content-Type: a/b'] },
    ],
    [list, '200 []', { headers }],
    [first, '404 not_found', { headers }],
    [add, '409 idempotency_in_flight', { body: petJson, headers }, { 'Retry-After': '1' }],
    [add, '409 idempotency_in_flight', { body: '{"name":"b","categoryId":2}', headers }],
    [add, `201 ${firstPetJson}`, { body: petJson }],
    [add, 201, keyed('other')],
  ]);
  // An invalid request is 400 at once, because its operation does not begin.
  const bad = { body: '{}', headers: [...headers, 'Petstore-Fault: delay=30000,within'] };
  await expectResponse(port, add, '400 invalid_body', bad);
  // `close` ends the delay.
  await Promise.all([petstore.close(), slow]);
  assert.equal((await slow).status, 201);
});

test('C61 a storage without keys refuses a key at once, also of a delayed request', async (t) => {
  const { port } = await startFaulty(t, { storage: plainStorage() });
  const from = performance.now();
  assertError(
    await post(port, 'delay=30000,within', 'Idempotency-Key: a'),
    400,
    'invalid_parameter',
  );
  assert.ok(performance.now() - from < 15_000);
});

/** The ways in which a client leaves while its request is delayed. */
const leaving: Readonly<Record<string, (client: Client) => unknown>> = {
  'closes its connection': (client) => client.destroy(),
  'resets its connection': (client) => client.reset(),
  'closes its sending side': (client) => client.endSending(),
};

for (const [how, leave] of Object.entries(leaving))
  test(`C53 C61 a delay ends if the client ${how}, and its request is carried out`, async (t) => {
    const { plugin, reaches } = countingPets();
    const running = await startWith(t, plugin, faultsPlugin());
    const foreign = await serve(t, running.petstore.handler);
    let kept = 0;
    for (const [port, fault] of [
      [running.port, 'delay=30000'],
      [running.port, 'delay=30000,within'],
      [foreign, 'delay=30000'],
      [foreign, 'delay=30000,within'],
    ] as const) {
      const bytes = requestBytes('POST', '/v1/pets', {
        body: petJson,
        headers: [`Petstore-Fault: ${fault}`],
      });
      const client = await connectTo(t, { port }, bytes);
      kept++;
      await reaches(kept);
      leave(client);
      await until('the pet', () => running.petstore.storage.size === kept, 15_000);
    }
    const from = performance.now();
    await running.petstore.close();
    assert.ok(performance.now() - from < 6_000);
  });

test('C61 a delay ends if its fetch is aborted, and its request is carried out', async () => {
  const { plugin, reaches } = countingPets();
  const plugins = [plugin, faultsPlugin()];
  const { fetch, storage, close } = createPetstore({ keys: [key], plugins });
  for (const [index, fault] of ['delay=30000', 'delay=30000,within'].entries()) {
    const controller = new AbortController();
    const { signal } = controller;
    const headers = { ...keyHeaders, 'Petstore-Fault': fault };
    const init = { method: 'POST', headers, body: petJson, signal };
    const asking = fetch(new Request('http://any/v1/pets', init));
    await reaches(index + 1);
    controller.abort();
    await assert.rejects(asking, { name: 'AbortError' });
    await until('the pet', () => storage.size === index + 1, 15_000);
  }
  await close();
});

test('C61 close ends delays and their timers, and many delays cause no warning of Node', async () => {
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const timersBefore = timers();
  const warnings: Error[] = [];
  const hear = (warning: Error) => void warnings.push(warning);
  process.on('warning', hear);
  const { fetch, storage, close } = createPetstore({ keys: [key], plugins: [faultsPlugin()] });
  const waiting = ['delay=30000', 'delay=30000,after', 'delay=30000,within'].flatMap((fault) =>
    Array.from({ length: 20 }, () =>
      fetch('http://any/v1/pets', {
        method: 'POST',
        headers: { ...keyHeaders, 'Petstore-Fault': fault },
        body: petJson,
      }),
    ),
  );
  await until('the pets of `after`', () => storage.size === 20);
  const from = performance.now();
  await close();
  assert.ok(performance.now() - from < 6_000);
  for (const response of await Promise.all(waiting)) assert.equal(response.status, 201);
  // A timer would keep the process from ending.
  assert.ok(timers() <= timersBefore, `${timers()} timers, ${timersBefore} before`);
  process.off('warning', hear);
  assert.deepEqual(warnings, []);
});

test('C62 truncate sends no body to HEAD, and of a long page at most 64 KiB', async (t) => {
  const running = await startFaulty(t);
  const foreign = await serve(t, running.petstore.handler);
  const name = 'x'.repeat(50_000);
  for (let i = 0; i < 5; i++) await running.petstore.storage.insert({ name, categoryId: 1n });
  const page = await sendRequest(running.port, 'GET', '/v1/pets');
  for (const port of [running.port, foreign]) {
    const parts = withFault('truncate,after');
    const [head] = await read(port, requestBytes('HEAD', '/v1/pets', parts));
    assert.match(head, /^HTTP\/1\.1 200 [\s\S]*\r\n\r\n$/);
    assert.match(head, new RegExp(`Content-Length: ${page.body.length}\r\n`, 'i'));

    const [text, code] = await read(port, requestBytes('GET', '/v1/pets', parts));
    const body = text.slice(text.indexOf('\r\n\r\n') + 4);
    assert.ok(body === page.body.slice(0, 65_536), `${body.length} bytes`);
    if (port === running.port) assert.equal(code, 'ECONNRESET');
  }
});

test('C63 /v1/reset is 404 if the storage has no reset', async (t) => {
  const { port } = await startFaulty(t, { storage: plainStorage() });
  await expectResponse(port, 'POST /v1/reset', '404 not_found');
});

test('C64 Date is the time of the option `clock`, over a socket and under `handler`', async (t) => {
  const clock = () => Date.UTC(2030, 11, 5, 23, 59, 50);
  const ways = await everyTransport(t, await start(t, { clock }));
  for (const sendRequest of ways.slice(0, 2))
    assert.equal(
      (await sendRequest('/v1/pets')).headers.get('Date'),
      'Thu, 05 Dec 2030 23:59:50 GMT',
    );
});

test('C72 around wraps accepted requests only, with the first plugin outermost', async (t) => {
  const seen: string[] = [];
  const wrapping =
    (name: string): Plugin =>
    ({ around }) =>
      around(async (request, next) => {
        // After an error, the fixture requests /healthz.
        if (request.keyName === undefined) return next();
        seen.push(`${name} ${request.method} ${request.keyName} ${request.header('x-a')}`);
        const reply = await next();
        seen.push(`${name} ${reply.status}`);
        return { ...reply, headers: [...reply.headers, `X-${name}`, 'yes'] };
      });
  const { port } = await startWith(t, wrapping('outer'), wrapping('inner'));
  const told = { 'X-outer': 'yes', 'X-inner': 'yes' };
  await expectResponse(port, list, 200, { headers: ['X-A: 1'] }, told);
  await expectResponses(port, [
    [list, 401, noKey],
    ['GET /nothing', 404],
    ['DELETE /v1/pets', 405],
  ]);
  assert.deepEqual(seen, ['outer GET key-1 1', 'inner GET key-1 1', 'inner 200', 'outer 200']);
});

test('C61 at most 32,768 requests are delayed at a time, and others are 429', async () => {
  // Runs in another process, because the test runner tracks each promise, which doubles the duration.
  const script = `
    import { createPetstore } from ${JSON.stringify(import.meta.resolve('../../dist/index.js'))};
    import { faultsPlugin } from ${JSON.stringify(import.meta.resolve('../../dist/plugins/faults.js'))};
    const petstore = createPetstore({ keys: ['${key}'], plugins: [faultsPlugin()] });
    const request = (fault) =>
      petstore.fetch('http://any/v1/pets', {
        headers: { Authorization: 'Bearer ${key}', 'Petstore-Fault': fault },
      });
    const delayed = Array.from({ length: 32_768 }, () => request('delay=30000'));
    const refused = await request('delay=30000');
    await petstore.storage.reset();
    const responses = await Promise.all(delayed);
    const { status } = await request('delay=1');
    await petstore.close();
    const statuses = [...new Set(responses.map((response) => response.status))];
    console.log(refused.status, refused.headers.get('Retry-After'), ...statuses, status);`;
  const args = ['--input-type=module', '--eval', script];
  const ended = await new StartedProcess(process.execPath, args, { cwd: root }).ended;
  assert.deepEqual(ended, { code: 0, signal: null, stdout: '429 1 503 200\n', stderr: '' });
});
