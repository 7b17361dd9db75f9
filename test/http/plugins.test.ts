/** Tests of the plugin host: routes, hooks, and the mistakes of plugins (C49, C72). */
import assert from 'node:assert/strict';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { atEnd } from '../support/at-end.js';
import {
  createPetstore,
  emptyReply,
  memoryStorage,
  type OpenApiDocument,
  type OperationRequest,
  PetstoreError,
  type PetstoreOptions,
  type Plugin,
  type PluginHost,
  type Reply,
  type ReplyEvent,
  toByteString,
} from '../../dist/index.js';
import { assertCommonHeaders, assertError, header } from '../support/client.js';
import { sendRequest, requestBytes, connectTo, exchange, key, start } from '../support/fixture.js';
import {
  petJson,
  documentOf,
  everyTransport,
  expectResponse,
  expectResponses,
  noKey,
  okReply,
  serve,
  routePlugin,
  startLogged,
  startWith,
} from '../support/scenes.js';
import { gate, until } from '../support/waiting.js';

const list = requestBytes('GET', '/v1/pets');
/** A route whose reply cannot be sent, because its header contains a line break. */
const bad = routePlugin('/bad', () => okReply('"bad"', ['X-A', 'a\nb']));

test('requires a key only for plugin routes at and below /v1, and adds HEAD, OPTIONS and 405', async (t) => {
  const seen: unknown[] = [];
  const plugin: Plugin = ({ route }) => {
    const handler = ({ params, keyName, body }: OperationRequest): Reply => {
      seen.push([params, keyName, body]);
      return okReply('{"ok":true}');
    };
    const methods = { GET: { handler }, PUT: { handler, readsBody: true } };
    route({ path: '/v1/store/orders', methods });
    route({ path: '/stats/{day}', methods });
    const body = toByteString('plain');
    const text = { status: 200, headers: ['X-A', '1'], body, contentType: 'text/plain' };
    const DELETE = { handler: () => emptyReply(204, []) };
    route({ path: '/text', methods: { GET: { handler: () => text }, DELETE } });
    for (const path of ['/v1', '/v10']) route({ path, methods: { GET: { handler: () => text } } });
  };
  const { port } = await startWith(t, plugin);
  const orders = '/v1/store/orders';
  await expectResponses(port, [
    [`GET ${orders}`, '401 unauthorized', noKey],
    [`GET ${orders}`, '200 {"ok":true}'],
    [`PUT ${orders}`, 200, { body: 'any text' }],
    [`PUT ${orders}`, '415 unsupported_media_type', { body: 'x', headers: ['Content-Type: a/b'] }],
    ['GET /stats/2030%2D01', 200, noKey],
    ['HEAD /stats/x', 200, noKey],
    [`OPTIONS ${orders}`, 204, noKey, { Allow: 'GET, HEAD, PUT, OPTIONS' }],
    [`POST ${orders}`, '405 method_not_allowed', noKey],
    ['DELETE /text', 204, noKey],
    ['GET /v1', '401 unauthorized', noKey],
    ['GET /v1', '200 plain'],
    ['GET /v10', '200 plain', noKey],
  ]);
  const expected = { 'Content-Type': 'text/plain', 'X-A': '1' };
  assertCommonHeaders(await expectResponse(port, 'GET /text', '200 plain', noKey, expected));
  assert.deepEqual(seen, [
    [{}, 'key-1', ''],
    [{}, 'key-1', 'any text'],
    [{ day: '2030-01' }, undefined, ''],
    [{ day: 'x' }, undefined, ''],
  ]);
});

test('responds with the error and headers that a plugin’s handler throws', async (t) => {
  const errors = [
    new PetstoreError('too_many_requests', 'Später.', { headers: ['Retry-After', '7'] }),
    // One value in place of the 1 of the server, because Retry-After is not a list.
    new PetstoreError('unavailable', '後で', { headers: ['retry-after', '7'] }),
  ];
  const plugins = errors.map((error) => routePlugin(`/${error.code}`, () => Promise.reject(error)));
  for (const sendRequest of await everyTransport(t, await start(t, { plugins })))
    for (const { code, message, status } of errors) {
      const response = await sendRequest(`/${code}`);
      assert.deepEqual([response.status, response.headers.get('Retry-After')], [status, '7']);
      assert.deepEqual(await response.json(), { code, message, status });
    }
  const split = { headers: ['X-A', 'a\r\nX-B: b'] };
  assert.throws(() => new PetstoreError('too_many_requests', 'Later.', split), TypeError);
});

test('responds 500 if a plugin’s handler or wrapper returns an invalid reply, and to that request only', async (t) => {
  const nonsense = `null
    7
    "text"
    {}
    { "status": 99, "headers": [] }
    { "status": "200", "headers": null }
    { "status": 1000, "headers": [] }
    { "status": 299.5, "headers": [] }
    { "status": 200, "headers": ["Set-Cookie", ["a=1", "b=2"]] }
    { "status": 200, "headers": ["X", null] }
    { "status": 200, "headers": ["X", "a\\nb"] }
    { "status": 200, "headers": ["X y", "a"] }
    { "status": 200, "headers": ["X", "猫"] }
    { "status": 200, "headers": [], "body": 42 }
    { "status": 200, "headers": [], "body": ["a"] }
    { "status": 204, "headers": [], "body": "{}" }
    { "status": 205, "headers": [], "body": "{}" }
    { "status": 304, "headers": [], "body": "{}" }
    { "status": 200, "headers": [], "cut": "short" }
    { "status": 200, "headers": [], "cacheControl": "a\\r\\nX-Evil: 1" }`;
  const framing = ['Connection', 'Keep-Alive', 'content-length', 'Transfer-Encoding'];
  const separate = ['Content-Type', 'cache-control', 'Date'];
  const replies = [
    ...nonsense.split('\n'),
    ...[...framing, ...separate].map((name) => `{ "status": 200, "headers": ["${name}", "1"] }`),
  ];
  let reply = '';
  const odd = () => JSON.parse(reply);
  const wrapping: Plugin = ({ around }) =>
    around(({ header }, next) => (header('x-odd') === undefined ? next() : odd()));
  const running = await startLogged(t, { plugins: [routePlugin('/odd', odd), wrapping] });
  const client = await connectTo(t, running);
  const ours = '500 internal_error';
  for (reply of replies) {
    const wrapped = requestBytes('GET', '/v1/pets', { headers: ['X-Odd: 1'] });
    client.send(list + requestBytes('GET', '/odd') + wrapped + list);
    await client.expect(200, ours, ours, 200);
    const { status } = await running.petstore.fetch('http://a/odd');
    assert.equal(status, 500, reply);
  }
  assert.equal(running.lines.length, 3 * replies.length);
});

test('ignores changes that a plugin makes to the headers of its reply afterwards', async (t) => {
  const headers = ['X-A', 'a'];
  const changing = routePlugin('/a', () => {
    setImmediate(() => headers.push('X-B', 'a\r\nX-C: b'));
    return okReply('{}', headers);
  });
  const slow: Plugin = ({ around }) => around(async (_, next) => sleep(30, await next()));
  const { port } = await startWith(t, changing, slow);
  const expected = { 'X-A': 'a', 'X-B': undefined, 'X-C': undefined };
  await expectResponse(port, 'GET /a', 200, {}, expected);
});

test('calls onReply once, with 500, for a reply that cannot be sent, and keeps the connection open', async (t) => {
  const statuses: number[] = [];
  const slow = routePlugin('/slow', () => sleep(30, okReply('"slow"')));
  const watching: Plugin = ({ onReply }) => onReply(({ status }) => statuses.push(status));
  const running = await startWith(t, slow, bad, watching);
  const client = await connectTo(
    t,
    running,
    requestBytes('GET', '/slow') + requestBytes('GET', '/bad'),
  );
  await client.expect(200, '500 internal_error');
  client.send(requestBytes('POST', '/v1/pets', { body: petJson }) + list);
  await client.expect(201, 200);
  await client.send('garbage\r\n\r\n').expect('400 bad_request');
  const chunked = requestBytes('GET', '/healthz', { headers: ['Transfer-Encoding: chunked'] });
  await exchange(running.port, `${chunked}x\r\n`);
  await running.petstore.fetch('http://a/bad');
  assert.deepEqual(statuses, [200, 500, 201, 200, 400, 400, 500]);
});

test('passes method, route, status, key name, path, address and duration of each response to onReply', async (t) => {
  const heard: string[] = [];
  const watch: Plugin = ({ onReply }) =>
    onReply(({ method, route, status, keyName, milliseconds }, { path, address }) => {
      assert.ok(milliseconds >= 0 && milliseconds < 5_000);
      heard.push([method, route, status, keyName, path, address].join(' '));
    });
  const { port, petstore } = await startWith(t, watch);
  const targetOf = (target: string) => requestBytes('GET', target, noKey);
  const long = 'a'.repeat(60_000);
  const rows: readonly (readonly [bytes: string, heard: string])[] = [
    [requestBytes('GET', '/v1/pets?limit=3'), 'GET /v1/pets 200 key-1 /v1/pets 127.0.0.1'],
    [
      requestBytes('POST', '/v1/pets', { body: petJson }),
      'POST /v1/pets 201 key-1 /v1/pets 127.0.0.1',
    ],
    [
      requestBytes('GET', '/v1/%70ets/77?key=secret'),
      'GET /v1/pets/{petId} 404 key-1 /v1/%70ets/77 127.0.0.1',
    ],
    [requestBytes('HEAD', '/v1/pets', noKey), 'HEAD /v1/pets 401  /v1/pets 127.0.0.1'],
    [requestBytes('PUT', '/v1/pets'), 'PUT /v1/pets 405  /v1/pets 127.0.0.1'],
    [targetOf('/secret/path'), 'GET  404  /secret/path 127.0.0.1'],
    [targetOf('/a//b?'), 'GET  404  /a//b 127.0.0.1'],
    [targetOf('http://user:secret@x/readyz?key=a'), 'GET /readyz 200  /readyz 127.0.0.1'],
    ['GET / HTTP/1.1\r\n\r\n', 'GET  400  / 127.0.0.1'],
    ['garbage\r\n\r\n', '  400   '],
    [requestBytes('FOO', '/'), '  501   '],
    [targetOf(`/${long}`), '  431   '],
    [requestBytes('CONNECT', 'a:1'), 'CONNECT  404  a:1 127.0.0.1'],
    [
      `${requestBytes('GET', '/healthz', { headers: ['Connection: close'] })}garbage`,
      'GET /healthz 200  /healthz 127.0.0.1',
    ],
  ];
  for (const [bytes, expected] of rows) {
    const client = await connectTo(t, { port }, bytes);
    await client.nextResponse(bytes.split(' ')[0]);
    await sleep(5);
    assert.deepEqual(heard.splice(0), [expected]);
  }
  const mounted = await serve(t, petstore.handler);
  await (await fetch(`http://127.0.0.1:${mounted}/readyz`)).text();
  await petstore.fetch('http://a/b?c');
  assert.deepEqual(heard, ['GET /readyz 200  /readyz 127.0.0.1', 'GET  404  /b ']);
});

test('calls addHeaders for every response to a valid request, in the order of the plugins', async (t) => {
  const calls: string[] = [];
  const first: Plugin = ({ addHeaders }) =>
    addHeaders(({ method, header: sent }) => {
      calls.push(`${method} ${sent('x-a')}`);
      return ['X-First', sent('x-a') ?? 'none'];
    });
  const second: Plugin = ({ addHeaders }) => addHeaders(() => ['X-Second', '2']);
  const { port, petstore } = await startWith(t, first, second);
  const headers = ['x-A: 1', 'X-a: 2'];
  const added = { 'X-First': '1, 2', 'X-Second': '2' };
  await expectResponses(port, [
    ['GET /v1/pets', 200, { headers }, added],
    // The headers of a deprecated route stay.
    ['GET /v1/pets/9', '404 not_found', { headers }, { ...added, Deprecation: '@1795132800' }],
    ['PUT /v1/pets', '405 method_not_allowed', { headers }, added],
    ['OPTIONS /v1/pets', 204, { headers }, added],
    ['GET /no', '404 not_found', { headers }, added],
  ]);
  const chunked = requestBytes('POST', '/v1/pets', {
    headers: [...headers, 'Transfer-Encoding: chunked'],
  });
  const broken = await exchange(port, `${chunked}no chunk`, 'POST');
  assertError(broken, 400, 'bad_request');
  assert.equal(header(broken, 'X-First'), '1, 2');
  const response = await petstore.fetch('http://a/v1/pets', { headers: { 'X-A': '3' } });
  assert.deepEqual([response.status, response.headers.get('X-First')], [401, '3']);
  for (const each of ['GET 3', 'PUT 1, 2', 'GET undefined']) assert.ok(calls.includes(each), each);
  calls.length = 0;
  const garbage = await (await connectTo(t, { port }, 'garbage\r\n\r\n')).nextResponse();
  assert.ok(!garbage.headers.has('x-first'));
  assert.deepEqual(calls, []);
});

test('omits and logs headers of a plugin that are invalid, and sends the response', async (t) => {
  const plugin: Plugin = ({ addHeaders }) => {
    addHeaders(() => {
      // A value that cannot be converted to a string.
      throw Object.create(null);
    });
    for (const headers of [['Content-Length', '3'], ['X-Odd'], JSON.parse('null'), ['X-Fine', '1']])
      addHeaders(() => headers);
  };
  const { port, lines } = await startLogged(t, { plugins: [plugin] });
  const expected = { 'X-Fine': '1', 'X-Odd': undefined };
  const closing = { headers: ['Connection: close'] };
  await expectResponse(port, 'GET /healthz', '200 {"status":"ok"}', closing, expected);
  assert.equal(lines.length, 4);
});

/** Creates a petstore with a plugin. */
const withPlugin = (plugin: Plugin, options: Partial<PetstoreOptions> = {}) =>
  createPetstore({ keys: [key], plugins: [plugin], ...options });

test('waits in listen and fetch until plugins are open, and rejects listen if a plugin fails', async (t) => {
  const late: number[] = [];
  for (const opens of [
    (opening: () => Promise<void>): Plugin =>
      ({ waitFor }) =>
        waitFor(opening()),
    (opening: () => Promise<void>): Plugin =>
      async (host) => {
        await opening();
        routePlugin('/late', () => okReply('1'))(host);
      },
  ]) {
    const [opening, isOpen] = [gate(), gate()];
    const petstore = withPlugin(opens(() => opening.opened.then(isOpen.open)));
    atEnd(t, () => petstore.close());
    const listening = petstore.listen({ port: 0 });
    const response = petstore.fetch('http://a/healthz');
    const earlier = await Promise.race([listening, response, sleep(20)]);
    assert.equal(earlier, undefined);
    opening.open();
    await isOpen.opened;
    assert.equal((await response).status, 200);
    const { url } = await listening;
    late.push((await fetch(`${url}/late`)).status);

    const failure = new RangeError('the licence has run out');
    const failing = withPlugin(opens(() => Promise.reject(failure)));
    atEnd(t, () => failing.close());
    await sleep(0);
    await assert.rejects(failing.listen({ port: 0 }), failure);
  }
  assert.deepEqual(late, [404, 200]);
});

test('describe changes only the document of its own petstore', async (t) => {
  const plugin: Plugin = ({ route, describe }) => {
    for (const [path, operationId] of [
      ['/v1/store/orders', 'listOrders'],
      ['/stats', 'stats'],
    ] as const) {
      const document = { operationId, responses: { 200: { description: 'Some.' } } };
      route({ path, methods: { GET: { handler: () => okReply('[]'), document } } });
    }
    describe((document) => {
      document['x-ours'] = true;
      Object.assign(Object(document.components).schemas, { Order: { type: 'object' } });
    });
    describe((document) => void (document['x-seen'] = typeof document['x-ours']));
  };
  const { port } = await startWith(t, plugin);
  const described = await documentOf(port);
  assert.deepEqual([described['x-ours'], described['x-seen']], [true, 'boolean']);
  assert.equal(described.paths['/store/orders'].get.operationId, 'listOrders');
  assert.deepEqual(described.paths['/stats'].servers, [{ url: '/' }]);
  assert.ok('Order' in described.components.schemas);
  const plain = await documentOf((await start(t)).port);
  assert.ok(
    !('x-ours' in plain) && !('Order' in plain.components.schemas),
    'the document of another petstore is unchanged',
  );
});

test('rejects a route with a duplicate or malformed path or an unknown method by a TypeError', () => {
  const operation = { handler: () => okReply('{}') };
  const adding =
    (paths: readonly string[], more: object = {}): (() => unknown) =>
    () =>
      withPlugin(({ route }) =>
        paths.forEach((path) => route({ path, methods: { GET: operation }, ...more })),
      );
  const refused = (message: RegExp, paths: readonly string[], more?: object): void =>
    assert.throws(adding(paths, more), { name: 'TypeError', message }, paths.join());
  for (const path of ['/v1/pets', '/v1/pets/{petId}', '/healthz', '/readyz', '/openapi.json'])
    refused(new RegExp(`^route ${path} is taken$`), [path]);
  // biome-ignore format: one line for each value would hide the test.
  const malformed = ['', 'x', '//', '/a//', '//a', '/a//b', '/a b', '/a?b', '/{}', '/{a', '/a{b}', '/%61', '/ä', '*'];
  // The last four could never match.
  for (const path of [...malformed, '/.', '/a/..', '/./b', '/./'])
    refused(/^route .*is not a path/, [path]);
  refused(/\{b\}/, ['/a/{b}', '/a/{c}']);
  refused(/taken/, ['/a/{b}', '/a/{b}']);
  refused(/no methods/, ['/a'], { methods: {} });
  refused(/unknown method get/, ['/a'], { methods: { get: operation } });
  const deprecation = { since: 0, sunset: 1, successor: '/b\r\nX: y' };
  refused(/successor of route \/a/, ['/a'], { deprecation });
  assert.doesNotThrow(adding(['/', '/a', '/a/', '/a/{b}', '/a/{b}/', '/a/{b}/c', '/a/b']));
});

test('opens and closes plugins in order, then closes the storage, even if a plugin fails', async () => {
  const order: string[] = [];
  const memory = memoryStorage();
  const logged: unknown[] = [];
  const named =
    (name: string): Plugin =>
    ({ onClose }) => {
      order.push(name);
      onClose(async () => {
        await sleep(5);
        order.push(`close ${name}`);
        if (name === 'b') throw new Error('b fails');
      });
    };
  await createPetstore({
    keys: [key],
    plugins: ['a', 'b', 'c'].map(named),
    storage: { ...memory, close: async () => (order.push('close storage'), memory.close()) },
    log: (...line) => logged.push(line),
  }).close();
  assert.equal(order.join(), 'a,b,c,close a,close b,close c,close storage');
  assert.match(JSON.stringify(logged), /b fails/);
});

test('passes storage, clock and log to a plugin', async () => {
  let given: PluginHost | undefined;
  const storage = memoryStorage();
  const { close } = withPlugin((host) => void (given = host), { storage, clock: () => 7 });
  assert.equal(given?.storage, storage);
  assert.equal(given?.clock(), 7);
  assert.doesNotThrow(() => given?.log('info', 'silence'));
  await close();
});

test('sends Content-Length 0 for an empty reply, and the current headers of a reply that is used again', async (t) => {
  const lines = ['X-Count', '0'];
  let count = 0;
  const plugins = [
    routePlugin('/empty', () => ({ status: 200, headers: [] })),
    routePlugin('/same', () => ({ status: 304, headers: [] })),
    routePlugin('/count', () => {
      lines[1] = String(++count);
      return { status: 204, headers: lines };
    }),
  ];
  await expectResponses((await start(t, { plugins })).port, [
    ['GET /empty', 200, {}, { 'Content-Length': '0', 'Content-Type': undefined }],
    ['GET /same', 304, {}, { 'Content-Length': undefined }],
    ['GET /count', 204, {}, { 'X-Count': '1' }],
    ['GET /count', 204, {}, { 'X-Count': '2' }],
  ]);
});

test('C47 sends no-store unless a reply has cacheControl, by port, handler and fetch', async (t) => {
  const cacheControl = 'public, max-age=86400';
  const day = routePlugin('/day', () => ({ ...okReply('{}'), cacheControl }));
  const removing: Plugin = ({ around }) =>
    around(async ({ query }, next) => {
      const reply = await next();
      const { cacheControl: _, ...others } = reply;
      return query === 'removed' ? others : reply;
    });
  for (const sendRequest of await everyTransport(t, await start(t, { plugins: [day, removing] })))
    for (const [path, expected] of [
      ['/day', cacheControl],
      ['/day?removed', 'no-store'],
      ['/healthz', 'no-store'],
    ] as const)
      assert.equal((await sendRequest(path)).headers.get('Cache-Control'), expected);
});

test('includes the time in the queue in the milliseconds of onReply', async (t) => {
  const events: ReplyEvent[] = [];
  let workedMs = Infinity;
  const slow = routePlugin('/slow', async () => {
    // Both requests come in one packet, so both have arrived by the next tick.
    await nextTurn();
    const since = performance.now();
    await sleep(60);
    workedMs = performance.now() - since;
    return okReply('1');
  });
  const watch: Plugin = ({ onReply }) => onReply((event) => events.push(event));
  const client = await connectTo(
    t,
    await startWith(t, slow, watch),
    requestBytes('GET', '/slow') + requestBytes('GET', '/healthz'),
  );
  await client.expect(200, 200);
  assert.equal(events.length, 2);
  for (const { milliseconds } of events)
    assert.ok(milliseconds >= workedMs, `${milliseconds} of ${workedMs}`);
});

test('logs hooks that throw or reject, and calls the other hooks', async (t) => {
  const heard: number[] = [];
  const throwing = (what: string) => () => assert.fail(`${what} at once`);
  const rejecting = (what: string) => () => Promise.reject(new Error(`${what} late`));
  // Some are possible only in JavaScript.
  const plugin = (host: PluginHost): void => {
    for (const failing of [throwing, rejecting]) {
      host.onReply(failing('watching'));
      host.addHeaders(Object(failing('headers')));
      host.describe(failing('describing'));
      host.onClose(failing('closing'));
      host.storage.onCommit?.(failing('commit'));
    }
    host.onReply(({ status }) => heard.push(status));
  };
  const { port, petstore, lines } = await startLogged(t, { plugins: [plugin] });
  await expectResponses(port, [
    ['POST /v1/pets', 201, { body: petJson }],
    ['GET /openapi.json', 200],
  ]);
  assertError(await exchange(port, 'garbage\r\n\r\n'), 400, 'bad_request');
  await petstore.close();
  // Two are requests by which the fixture checks if the connection stays open.
  assert.deepEqual(heard, [201, 200, 200, 200, 400]);
  for (const what of ['watching', 'headers', 'describing', 'closing'])
    for (const when of ['at once', 'late'])
      assert.match(lines.join(), new RegExp(`a plugin failed to .*${what} ${when}`));
});

/** Values that are not an array of alternating header names and values. */
const invalidHeaders: readonly unknown[] = [
  'ab',
  '',
  undefined,
  null,
  5,
  true,
  { 'X-A': 5 },
  { 'X A': 'a' },
  { 'Content-Length': '1' },
  new Map([['X-A', 'a']]),
  new Set(['X-A', 'a']),
  ['X-A'],
  ['X-A', 'a', 'X-B'],
  [['X-A', 'a']],
  ['X-A', 5],
  ['X-A', undefined],
  Object.assign(new Array(1), { 1: 'a' }),
  () => ['X-A', 'a'],
];

test('C72 adds no header and logs one line if a hook returns no valid headers', async (t) => {
  let headers: unknown;
  const odd: Plugin = (host) => void Object(host).addHeaders(() => headers);
  const { petstore, lines } = await startLogged(t, { plugins: [odd] });
  const plain = await (await start(t)).petstore.fetch('http://any/healthz');
  const plainHeaders = [...plain.headers.keys()];
  for (headers of invalidHeaders) {
    const response = await petstore.fetch('http://any/healthz');
    assert.equal(response.status, 200);
    assert.deepEqual([...response.headers.keys()], plainHeaders);
    const [line = '', ...others] = lines.splice(0);
    assert.match(line, /a plugin failed to add headers.*header/);
    assert.deepEqual(others, []);
  }
  headers = ['X-A', 'a'];
  assert.equal((await petstore.fetch('http://any/healthz')).headers.get('X-A'), 'a');
  headers = [];
  await petstore.fetch('http://any/healthz');
  assert.deepEqual(lines, []);

  for (const each of invalidHeaders.filter((value) => value !== undefined && value !== null))
    assert.throws(
      () => new PetstoreError('unavailable', 'No.', Object({ headers: each })),
      TypeError,
    );
});

test('C72 rejects a hook that is not a function by a TypeError that names it', () => {
  const names = ['addHeaders', 'around', 'onReply', 'describe', 'onClose', 'onStart'] as const;
  for (const name of names)
    for (const value of [undefined, null, 'text', {}, [], Promise.resolve()])
      assert.throws(() => withPlugin((host) => Object(host)[name](value)), {
        name: 'TypeError',
        message: new RegExp(`^${name} takes a function, not `),
      });
  for (const value of [undefined, null, 5, 'text', {}, () => Promise.resolve()])
    assert.throws(() => withPlugin((host) => Object(host).waitFor(value)), {
      name: 'TypeError',
      message: /^waitFor takes a promise, not /,
    });
});

test('C72 rejects a route with a member of a wrong type by a TypeError that names it', () => {
  const handler = () => okReply('{}');
  for (const [route, message] of [
    [undefined, /^route takes a path/],
    ['/a', /^route takes a path/],
    [{ methods: { GET: { handler } } }, /^route takes a path .*, not undefined$/],
    [{ path: 5, methods: { GET: { handler } } }, /^route takes a path .*, not 5$/],
    [{ path: '/a' }, /^route \/a needs methods/],
    [{ path: '/a', methods: null }, /^route \/a needs methods/],
    [{ path: '/a', methods: 'GET' }, /^route \/a needs methods/],
    [{ path: '/a', methods: ['GET'] }, /^route \/a 0 needs a handler/],
    [{ path: '/a', methods: { GET: handler } }, /^route \/a GET needs a handler/],
    [{ path: '/a', methods: { GET: null } }, /^route \/a GET needs a handler/],
    [{ path: '/a', methods: { GET: {} } }, /^route \/a GET needs a handler/],
    [{ path: '/a', methods: { GET: { handler: 'x' } } }, /^route \/a GET needs a handler/],
    [
      { path: '/a', methods: { GET: { handler, readsBody: 'yes' } } },
      /a readsBody that is not true/,
    ],
    [
      { path: '/a', methods: { GET: { handler, survivesReset: 1 } } },
      /a survivesReset that is not/,
    ],
    [{ path: '/a', methods: { GET: { handler, awaitsHold: 1 } } }, /an? awaitsHold that is not/],
    [{ path: '/a', methods: { GET: { handler, document: 'GET' } } }, /not an Operation Object/],
    [{ path: '/a', methods: { GET: { handler } }, deprecation: {} }, /^the successor of route \/a/],
    [
      { path: '/a', methods: { GET: { handler } }, deprecation: { successor: '/b', since: 'now' } },
      /^since and sunset of route \/a/,
    ],
  ] as const)
    assert.throws(() => withPlugin((host) => Object(host).route(route)), {
      name: 'TypeError',
      message,
    });
});

test('C72 responds 500 and logs the function if a wrapper returns nothing', async (t) => {
  const plugin: Plugin = (host) => void Object(host).around(() => undefined);
  const { petstore, lines } = await startLogged(t, { plugins: [plugin] });
  assert.equal((await petstore.fetch('http://any/healthz')).status, 500);
  assert.match(lines[0] ?? '', /a function given to `around` must return a reply, .*not undefined/);
});

test('C72 ignores and logs a change of the document that is async, is not JSON, or replaces it', async (t) => {
  const change =
    (apply: (document: OpenApiDocument) => unknown): Plugin =>
    (host) =>
      void Object(host).describe(apply);
  const { port, lines } = await startLogged(t, {
    plugins: [
      change((document) => ({ ...document, 'x-other': 1 })),
      change(async (document) => void (document['x-late'] = 1)),
      change((document) => (document['x-big'] = Object(1n))),
      change((document) => void (document['x-function'] = Object(() => 1))),
      change((document) => ((document['x-half'] = 1), assert.fail('half'))),
      // These return a value only because they are expressions.
      change((document) => document.tags.push({ name: 'ours', description: 'Ours.' })),
      change((document) => Object.assign(document, { 'x-good': 1 })),
      change((document) => Object.assign(document.components.schemas, { Ours: {} })),
    ],
  });
  const document = await documentOf(port);
  const added = Object.keys(document).filter((name) => name.startsWith('x-'));
  assert.deepEqual(added, ['x-good']);
  assert.ok('Ours' in document.components.schemas);
  assert.equal(lines.length, 5, lines.join('\n'));
  for (const line of lines) assert.match(line, /a plugin failed to describe itself/);
  assert.match(lines[0] ?? '', /must change the document that it is given, not return another/);
  assert.match(lines[1] ?? '', /describe cannot wait/);
});

test('C72 rejects a plugin that returns a function, because its factory was passed instead', async () => {
  const makePlugin = () => () => undefined;
  const keys = ['a'];
  assert.throws(() => createPetstore({ keys, plugins: [Object(makePlugin)] }), {
    name: 'TypeError',
    message: /makePlugin returned a function: .*makePlugin\(\)/,
  });
  const petstore = createPetstore({ keys, plugins: [Object(async () => makePlugin)] });
  await assert.rejects(petstore.listen({ port: 0 }), { name: 'TypeError' });
  await petstore.close();
});

test('C72 calls onStart with all routes once all plugins are open', async () => {
  const seen: string[] = [];
  const first: Plugin = ({ onStart, routes }) =>
    onStart(() => seen.push(...routes().map(({ path, methods }) => `${path} ${methods.join()}`)));
  const handler = () => okReply('{}');
  const second: Plugin = ({ route }) => route({ path: '/v1/a', methods: { GET: { handler } } });
  const withAll = (...plugins: readonly Plugin[]) => createPetstore({ keys: ['a'], plugins });
  withAll(first, second);
  assert.ok(
    seen.includes('/v1/a GET,HEAD,OPTIONS') && seen.includes('/v1/pets GET,HEAD,POST,OPTIONS'),
  );

  seen.splice(0);
  const late: Plugin = async (host) => {
    await nextTurn();
    second(host);
  };
  const petstore = withAll(first, late);
  assert.equal(seen.length, 0);
  await petstore.listen({ port: 0 });
  await petstore.close();
  assert.ok(seen.includes('/v1/a GET,HEAD,OPTIONS'));

  const failing: Plugin = ({ onStart }) => onStart(() => assert.fail('no start'));
  assert.throws(() => withAll(failing), /no start/);
  const both = withAll(failing, late);
  await assert.rejects(both.listen({ port: 0 }), /no start/);
  await both.close();
});

test('holds an operation between its checks and its effect for each wrapper that requests it', async (t) => {
  const steps: string[] = [];
  const holding =
    (name: string): Plugin =>
    ({ around }) =>
      around((_, next) => next(async () => void steps.push(name)));
  const counting: Plugin = ({ around }) =>
    around(async (_, next) => {
      steps.push('before');
      // Foreign code may call `next` with a value that is not a function.
      return Promise.resolve(5).then(Object(next));
    });
  const own: Plugin = ({ route }) =>
    route({
      path: '/held',
      methods: {
        GET: {
          awaitsHold: true,
          handler: async ({ hold }) => {
            steps.push('checked');
            await hold?.();
            steps.push('done');
            return okReply('1');
          },
        },
      },
    });
  const plugins = [holding('one'), counting, holding('two'), own];
  const { petstore } = await start(t, { plugins });
  assert.equal((await petstore.fetch('http://any/held')).status, 200);
  assert.deepEqual(steps, ['before', 'checked', 'one', 'two', 'done']);
});

test('responds 500 if the log throws, and logs fields and errors that cannot be read as such', async (t) => {
  const unreadable = Object.defineProperty(new Error('odd'), 'stack', {
    get: () => assert.fail('no stack'),
  });
  const odd: Plugin = (host) => {
    const cyclic: Record<string, unknown> = {};
    cyclic['self'] = cyclic;
    routePlugin('/odd', () => {
      host.log('info', 'cyclic', cyclic);
      throw unreadable;
    })(host);
  };
  const lines: string[] = [];
  const { port } = await start(t, {
    plugins: [odd],
    log: (level, message, fields) => lines.push(`${level} ${message} ${JSON.stringify(fields)}`),
  });
  await expectResponse(port, 'GET /odd', '500 internal_error');
  assert.match(lines[0] ?? '', /^info cyclic .*could not be logged/);
  assert.match(lines[1] ?? '', /^error internal error .*odd/);
  const mute = await start(t, { plugins: [odd], log: () => assert.fail('no disk') });
  await expectResponses(mute.port, [
    ['GET /odd', '500 internal_error'],
    ['GET /v1/pets', 200],
  ]);
});

test('a wrapper’s change of a reply affects only its own request', async (t) => {
  const greedy: Plugin = ({ around }) =>
    around(async (request, next) => {
      const reply = await next();
      const { headers, body: taken } = reply;
      // Possible only in JavaScript.
      const changeable: unknown = headers;
      if (Array.isArray(changeable)) changeable.push('X-Seen', request.keyName ?? 'nobody');
      if (typeof taken === 'object')
        assert.throws(() => Object.assign(taken, { texts: ['mine'] }), TypeError);
      Object.assign(reply, { body: '["of one key"]' });
      if (request.header('x-mine') !== undefined || taken === undefined) return reply;
      return { ...reply, body: taken };
    });
  const pets = Array.from({ length: 30 }, (_, index) => ({
    name: 'x'.repeat(index === 0 ? 70_000 : 10),
    categoryId: 1n,
  }));
  const { port } = await start(t, { plugins: [greedy], storage: memoryStorage({ pets }) });
  for (const path of [
    '/healthz',
    '/v1/pets?limit=2&after=3',
    '/v1/pets?limit=2',
    '/openapi.json',
    '/v1/pets/99',
  ]) {
    const first = await sendRequest(port, 'GET', path);
    const mine = await sendRequest(port, 'GET', path, { headers: ['X-Mine: 1'] });
    assert.equal(mine.body, '["of one key"]', path);
    for (let count = 0; count < 3; count++) {
      const again = await sendRequest(port, 'GET', path);
      assert.equal(again.body, first.body, path);
      assert.equal(again.headers.get('x-seen')?.length, 1, path);
    }
  }
});

test('sends a reply of which a wrapper has changed only the value of a header', async (t) => {
  const changing: Plugin = ({ around }) =>
    around(async (_, next) => {
      const reply = await next();
      const headers = reply.headers.map((text) => text.replace('rel="next"', 'rel="later"'));
      return { ...reply, headers };
    });
  const storage = memoryStorage({ pets: [1n, 2n].map((categoryId) => ({ name: '', categoryId })) });
  const { port } = await start(t, { storage, plugins: [changing] });
  for (let count = 0; count < 3; count++)
    await expectResponse(
      port,
      'GET /v1/pets?limit=1',
      200,
      {},
      {
        Link: '</v1/pets?limit=1&after=1>; rel="later"',
      },
    );
});

test('serves a deprecated route of a plugin until its sunset', async (t) => {
  let now = Date.UTC(2027, 0, 1);
  const handler = () => okReply('1');
  // The headers have whole seconds (RFC 9745, RFC 8594).
  const [since, sunset] = [Date.UTC(2026, 0, 1) + 1, now + 5_999];
  const plugin: Plugin = ({ route }) =>
    route({
      path: '/v1/old',
      methods: { GET: { handler } },
      deprecation: { since, sunset, successor: '/v1/new' },
    });
  const { port } = await start(t, { clock: () => now, plugins: [plugin] });
  await expectResponse(
    port,
    'GET /v1/old',
    '200 1',
    {},
    {
      Deprecation: '@1767225600',
      Sunset: 'Fri, 01 Jan 2027 00:00:05 GMT',
      Link: '</v1/new>; rel="successor-version"',
    },
  );
  now += 5_999;
  await expectResponse(port, 'GET /v1/old', '200 1');
  now += 1;
  const gone = await expectResponse(port, 'GET /v1/old', '404 not_found');
  assert.match(gone.body, /use GET \/v1\/new/);
});

test('a wrapper’s change of an error affects only its own request', async (t) => {
  const changing: Plugin = ({ around }) =>
    around(async (_, next) => {
      try {
        return await next();
      } catch (error) {
        const { headers }: { headers?: unknown } = Object(error);
        for (const change of [
          () => Object.assign(Object(error), { message: 'changed' }),
          () => Object.assign(Object(error), { headers: ['X-Changed', '1'] }),
          () => Array.isArray(headers) && headers.push('X-Changed', '1'),
        ])
          assert.throws(change, TypeError);
        throw error;
      }
    });
  const { port } = await start(t, { plugins: [changing] });
  const plain = await start(t);
  for (const request of ['GET /v1/pets?limit=0', 'GET /v1/pets?after=x', 'POST /v1/pets']) {
    const parts = { body: '{' };
    const expected = await expectResponse(plain.port, request, 400, parts);
    for (let count = 0; count < 2; count++)
      await expectResponse(port, request, `400 ${expected.body}`, parts, {
        'X-Changed': undefined,
      });
  }
});

test('responds 500 and logs a body that is a text instead of a byte string', async (t) => {
  const words = 'Größe 猫';
  const json = JSON.stringify({ name: words });
  // Possible only in JavaScript, because the compiler rejects it.
  const texts: readonly object[] = [
    { body: json },
    { body: JSON.stringify({ name: 'Größe' }) },
    { body: words, contentType: 'text/html; charset=UTF-8' },
    { body: '"ü"', contentType: 'application/problem+json' },
    { body: words, contentType: 'text/plain' },
    // The low byte of this character is the sign +.
    { body: '"猫"' },
  ];
  const image = { ...okReply('\u00ff'), contentType: 'image/png' };
  const text = { status: 200, headers: [], body: '\u00ff', contentType: 'text/plain' };
  const { port, lines } = await startLogged(t, {
    plugins: [
      routePlugin('/bytes', () => okReply(json)),
      // A body of another media type may have any bytes.
      routePlugin('/image', () => image),
      routePlugin('/text', () => Object(text)),
      ...texts.map((text, index) =>
        routePlugin(`/${index}`, () => Object({ status: 200, headers: [], ...text })),
      ),
    ],
  });
  for (const index of texts.keys())
    await expectResponse(port, `GET /${index}`, '500 internal_error');
  assert.equal(lines.length, texts.length);
  for (const line of lines)
    assert.match(line, /bytes of UTF-8: make them of a text by toByteString/);
  await expectResponses(port, [
    ['GET /bytes', `200 ${toByteString(json)}`],
    ['GET /image', 200],
    ['GET /text', 200],
  ]);
});

test('C49 checks the long body of a reply again after a plugin changes the reply', async (t) => {
  const reply = { status: 200, headers: [], body: '"x"'.padEnd(70_000), contentType: 'text/html' };
  const { port } = await start(t, { plugins: [routePlugin('/long', () => Object(reply))] });
  for (const _ of 'ab') await expectResponse(port, 'GET /long', 200);
  Object.assign(reply, { contentType: 'text/plain', body: '\u00ff'.repeat(70_000) });
  await expectResponse(port, 'GET /long', 200);
  reply.contentType = 'text/html; charset=utf-8';
  await expectResponse(port, 'GET /long', '500 internal_error');
});

test('C49 responds 500 if a handler or hook throws any value, and serves other requests', async (t) => {
  class Odd extends PetstoreError {
    override readonly status: number | undefined = 409;
  }
  const revoked = (): object => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    return proxy;
  };
  const changed = (members: object) => (): Error =>
    Object.assign(new Odd('unavailable', 'Odd.'), members);
  const failing = (name: string) => (): Error =>
    Object.defineProperty(new Odd('unavailable', 'Odd.'), name, {
      get: () => assert.fail(`no ${name}`),
    });
  const oddities: readonly (() => unknown)[] = [
    revoked,
    () => undefined,
    () => Symbol('odd'),
    ...['status', 'code', 'headers', 'body', 'message'].map(failing),
    ...[Symbol('odd'), 99, '409'].map((status) => changed({ status })),
    ...[['X-A', 'a\r\nSet-Cookie: a=b'], ['X-A'], null].map((headers) => changed({ headers })),
    () => Object.freeze(changed({ headers: ['X-A', 'a\r\nSet-Cookie: a=b'] })()),
    () =>
      Object.assign(Object.create(PetstoreError.prototype), {
        status: 200,
        headers: ['Set-Cookie', 'a'],
      }),
    // An error is frozen, so this throws a TypeError.
    () => Object.assign(new PetstoreError('unavailable', 'Later.'), { headers: { a: '5' } }),
  ];
  const thrower: Plugin = (host) => {
    const fail = (index: string | undefined): void => {
      if (index !== undefined) throw oddities[Number(index)]?.();
    };
    host.route({
      path: '/odd/{index}',
      methods: { GET: { handler: ({ params }) => (fail(params['index']), okReply('1')) } },
    });
    host.around(async ({ header }, next) => (fail(header('x-odd')), next()));
    host.addHeaders(({ header }) => (fail(header('x-odd-header')), []));
  };
  const { port, lines } = await startLogged(t, { plugins: [thrower] });
  const wrong = '500 internal_error';
  for (const index of oddities.keys()) {
    await Promise.all([
      expectResponse(port, `GET /odd/${index}`, wrong),
      expectResponse(port, 'GET /v1/pets', wrong, { headers: [`X-Odd: ${index}`] }),
      expectResponse(port, 'GET /v1/pets', 200, { headers: [`X-Odd-Header: ${index}`] }),
      ...Array.from({ length: 5 }, () => expectResponse(port, 'GET /v1/pets', 200)),
    ]);
    const faults = lines.splice(0).filter((line) => line.includes("'internal error'"));
    assert.ok(faults.length >= 2, `${index}`);
  }
});

test('awaits a thenable given to waitFor only once', async () => {
  let begun = 0;
  const query: PromiseLike<void> = {
    // biome-ignore lint/suspicious/noThenProperty: as the queries of some databases.
    then: (done, failed) => {
      begun++;
      return Promise.resolve().then(done, failed);
    },
  };
  const petstore = withPlugin(({ waitFor }) => waitFor(query));
  for (let ports = 0; ports < 2; ports++) await petstore.listen({ port: 0 });
  await petstore.close();
  assert.equal(begun, 1);
});

test('passes the query to a plugin’s handler as the client sent it', async (t) => {
  const queryText = routePlugin('/query', ({ query }) => okReply(JSON.stringify(query.text)));
  await expectResponses((await start(t, { plugins: [queryText] })).port, [
    ['GET /query', '200 ""'],
    ['GET /query?', '200 ""'],
    ['GET /query?a=%41', '200 "a=%41"'],
  ]);
});

test('sends only the head of a truncated reply without a body', async (t) => {
  const cut = routePlugin('/cut', () => ({ status: 200, headers: [], cut: 'truncate' }));
  const client = await connectTo(t, await start(t, { plugins: [cut] }));
  client.send(requestBytes('GET', '/cut'));
  await until('the end', () => client.hasEnded);
  assert.match(client.received, /^HTTP\/1.1 200 .*\r\n\r\n$/s);
});
