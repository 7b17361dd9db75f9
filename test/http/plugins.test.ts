/**
 * The plugin host: routes, watching, describing, closing, and what a plugin's mistakes may not do.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { atEnd } from '../support/at-end.js';
import {
  createPetstore,
  emptyReply,
  jsonReply,
  memoryStorage,
  PetstoreError,
  type Plugin,
  type PluginHost,
  type Reply,
  type ReplyEvent,
  type ReplySource,
  toByteString,
} from '../../dist/index.js';
import { assertCommonHeaders, assertError, Client, header } from '../support/client.js';
import { ask, bytesOf, exchange, key, start } from '../support/fixture.js';

const body = '{"name":"a","categoryId":1}';
const noKey = { authorization: null };

test('a plugin’s route needs the key inside /v1 and none outside, and has HEAD, OPTIONS and 405 of itself', async (t) => {
  const seen: unknown[] = [];
  const plugin: Plugin = (host) => {
    const handler = (request: {
      params: object;
      keyName: string | undefined;
      body: string;
    }): Reply => {
      seen.push([request.params, request.keyName, request.body]);
      return jsonReply(200, toByteString('{"ok":true}'));
    };
    host.route({
      path: '/v1/store/orders',
      methods: { GET: { handler }, PUT: { handler, readsBody: true } },
    });
    host.route({ path: '/stats/{day}', methods: { GET: { handler } } });
    host.route({
      path: '/text',
      methods: {
        GET: {
          handler: () => ({
            status: 200,
            headers: ['X-A', '1'],
            body: toByteString('plain'),
            contentType: 'text/plain',
          }),
        },
        DELETE: { handler: () => emptyReply(204, []) },
      },
    });
  };
  const { port } = await start(t, { plugins: [plugin] });
  assertError(await ask(port, 'GET', '/v1/store/orders', noKey), 401, 'unauthorized');
  assert.equal((await ask(port, 'GET', '/v1/store/orders')).body, '{"ok":true}');
  assert.equal((await ask(port, 'PUT', '/v1/store/orders', { body: 'any text' })).status, 200);
  assertError(
    await ask(port, 'PUT', '/v1/store/orders', { body: 'x', headers: ['Content-Type: a/b'] }),
    415,
    'unsupported_media_type',
  );
  assert.equal((await ask(port, 'GET', '/stats/2030%2D01', noKey)).status, 200);
  assert.deepEqual(seen, [
    [{}, 'key-1', ''],
    [{}, 'key-1', 'any text'],
    [{ day: '2030-01' }, undefined, ''],
  ]);
  assert.equal((await ask(port, 'HEAD', '/stats/x', noKey)).status, 200);
  assert.equal(
    header(await ask(port, 'OPTIONS', '/v1/store/orders', noKey), 'Allow'),
    'GET, HEAD, PUT, OPTIONS',
  );
  assertError(await ask(port, 'POST', '/v1/store/orders', noKey), 405, 'method_not_allowed');
  const text = await ask(port, 'GET', '/text', noKey);
  assert.deepEqual(
    [text.body, header(text, 'Content-Type'), header(text, 'X-A')],
    ['plain', 'text/plain', '1'],
  );
  assertCommonHeaders(text);
  assert.equal((await ask(port, 'DELETE', '/text', noKey)).status, 204);
});

test('a plugin’s handler may throw the errors of the contract, with headers; anything else is a 500', async (t) => {
  const logged: unknown[] = [];
  const plugin: Plugin = (host) => {
    const failing = (error: unknown): { handler: () => never } => ({
      handler: () => {
        throw error;
      },
    });
    host.route({
      path: '/limited',
      methods: {
        GET: failing(
          new PetstoreError('too_many_requests', 'Later.', { headers: ['Retry-After', '7'] }),
        ),
      },
    });
    host.route({ path: '/broken', methods: { GET: failing(new Error('secret')) } });
    const split = () => {
      throw new PetstoreError('too_many_requests', 'Later.', { headers: ['X-A', 'a\r\nX-B: b'] });
    };
    host.route({ path: '/split', methods: { GET: { handler: split } } });
  };
  const { port } = await start(t, { plugins: [plugin], log: (...line) => logged.push(line) });
  const limited = await ask(port, 'GET', '/limited');
  assertError(limited, 429, 'too_many_requests');
  assert.equal(header(limited, 'Retry-After'), '7');
  assert.ok(
    !assertError(await ask(port, 'GET', '/broken'), 500, 'internal_error').includes('secret'),
  );
  assert.equal(logged.length, 1);
  assertError(await ask(port, 'GET', '/split'), 500, 'internal_error');
});

test('a plugin’s reply that is none becomes a 500 and harms no other answer, over the port and through fetch', async (t) => {
  const logged: unknown[] = [];
  // biome-ignore format: short ones by the dozen, a line for each would hide the test.
  const nonsense: readonly string[] = ['null', '7', '"text"', '{}', '{"status":99,"headers":[]}', '{"status":"200","headers":null}', '{"status":1000,"headers":[]}', '{"status":299.5,"headers":[]}', '{"status":200,"headers":["Set-Cookie",["a=1","b=2"]]}', '{"status":200,"headers":["X",null]}', '{"status":200,"headers":["X","a\\nb"]}', '{"status":200,"headers":["X y","a"]}', '{"status":200,"headers":["X","\\u732b"]}', '{"status":200,"headers":[],"body":42}', '{"status":200,"headers":[],"body":["a"]}', '{"status":200,"headers":[],"cut":"short"}'];
  const plugin: Plugin = (host) =>
    nonsense.forEach((json, index) =>
      host.route({
        path: `/odd/${index}`,
        methods: { GET: { handler: (): Reply => JSON.parse(json) } },
      }),
    );
  const { port, petstore } = await start(t, {
    plugins: [plugin],
    log: (...line) => logged.push(line),
  });
  const client = await Client.connect(port);
  atEnd(t, () => client.destroy());
  for (const index of nonsense.keys()) {
    client.send(
      bytesOf('GET', '/v1/pets') + bytesOf('GET', `/odd/${index}`) + bytesOf('GET', '/v1/pets'),
    );
    assert.equal((await client.answer()).status, 200);
    assertError(await client.answer(), 500, 'internal_error');
    assert.equal((await client.answer()).status, 200);
    assert.equal(
      (await petstore.fetch(new Request(`http://a/odd/${index}`))).status,
      500,
      nonsense[index],
    );
  }
  assert.ok(logged.length >= 2 * nonsense.length);
});

test('headers that a plugin changes behind its reply are sent as they were', async (t) => {
  const headers = ['X-A', 'a'];
  const handler = (): Reply => {
    setImmediate(() => headers.push('X-B', 'a\r\nX-C: b'));
    return jsonReply(200, toByteString('{}'), headers);
  };
  const slow: Plugin = (host) => {
    host.route({ path: '/a', methods: { GET: { handler } } });
    host.around(async (_request, next) => {
      const reply = await next();
      return sleep(30, reply);
    });
  };
  const { port } = await start(t, { plugins: [slow] });
  const { head } = await ask(port, 'GET', '/a');
  assert.match(head, /^X-A: a$/m);
  assert.doesNotMatch(head, /^X-[BC]:/m);
});

test('a reply that cannot be sent counts once: what comes behind it on the connection is served, and garbage is answered', async (t) => {
  const slow: Plugin = (host) =>
    host.route({
      path: '/slow',
      methods: { GET: { handler: () => sleep(30, jsonReply(200, toByteString('"slow"'))) } },
    });
  const bad: Plugin = (host) =>
    host.route({
      path: '/bad',
      methods: { GET: { handler: () => jsonReply(200, toByteString('"bad"'), ['X-A', 'a\nb']) } },
    });
  const { port } = await start(t, { plugins: [slow, bad] });
  const client = (await Client.connect(port)).send(
    bytesOf('GET', '/slow') + bytesOf('GET', '/bad'),
  );
  atEnd(t, () => client.destroy());
  assert.equal((await client.answer()).status, 200);
  assertError(await client.answer(), 500, 'internal_error');
  client.send(bytesOf('POST', '/v1/pets', { body }) + bytesOf('GET', '/v1/pets'));
  assert.equal((await client.answer('POST')).status, 201);
  assert.equal((await client.answer()).status, 200);
  client.send('garbage\r\n\r\n');
  assertError(await client.answer(), 400, 'bad_request');
});

test('onReply hears of the reply that left, where another one took its place', async (t) => {
  const statuses: number[] = [];
  const bad: Plugin = (host) =>
    host.route({
      path: '/bad',
      methods: { GET: { handler: () => jsonReply(200, toByteString('"bad"'), ['X-A', 'a\nb']) } },
    });
  const { port, petstore } = await start(t, {
    plugins: [bad, (host) => host.onReply(({ status }) => statuses.push(status))],
  });
  await exchange(
    port,
    `${bytesOf('GET', '/healthz', { headers: ['Transfer-Encoding: chunked'] })}x\r\n`,
  );
  await ask(port, 'GET', '/bad');
  await petstore.fetch(new Request('http://a/bad'));
  assert.deepEqual(
    statuses.filter((status) => status !== 200),
    [400, 500, 500],
  );
});

test('onReply hears method, route template, status, milliseconds and key name of every answer, of what was no HTTP too', async (t) => {
  const events: ReplyEvent[] = [];
  const { port, petstore } = await start(t, {
    plugins: [(host) => host.onReply((event) => events.push(event))],
  });
  const heard = async (): Promise<readonly unknown[]> => {
    await sleep(5);
    return events.splice(0).map(({ milliseconds, ...event }) => {
      assert.ok(milliseconds >= 0 && milliseconds < 5_000);
      return event;
    });
  };
  const one = async (bytes: string, method: string): Promise<readonly unknown[]> => {
    const client = (await Client.connect(port)).send(bytes);
    await client.answer(method);
    client.destroy();
    return await heard();
  };
  const keyName = 'key-1';
  assert.deepEqual(await one(bytesOf('GET', '/v1/pets?limit=3'), 'GET'), [
    { method: 'GET', route: '/v1/pets', status: 200, keyName },
  ]);
  assert.deepEqual(await one(bytesOf('POST', '/v1/pets', { body }), 'POST'), [
    { method: 'POST', route: '/v1/pets', status: 201, keyName },
  ]);
  assert.deepEqual(await one(bytesOf('GET', '/v1/%70ets/77'), 'GET'), [
    { method: 'GET', route: '/v1/pets/{petId}', status: 404, keyName },
  ]);
  assert.deepEqual(await one(bytesOf('HEAD', '/v1/pets', noKey), 'HEAD'), [
    { method: 'HEAD', route: '/v1/pets', status: 401 },
  ]);
  assert.deepEqual(await one(bytesOf('PUT', '/v1/pets'), 'PUT'), [
    { method: 'PUT', route: '/v1/pets', status: 405 },
  ]);
  assert.deepEqual(await one(bytesOf('GET', '/secret/path'), 'GET'), [
    { method: 'GET', status: 404 },
  ]);
  assert.deepEqual(await one('GET / HTTP/1.1\r\n\r\n', 'GET'), [{ method: 'GET', status: 400 }]);
  assert.deepEqual(await one('garbage\r\n\r\n', 'GET'), [{ method: '', status: 400 }]);
  assert.deepEqual(await one(bytesOf('FOO', '/'), 'FOO'), [{ method: '', status: 501 }]);
  assert.deepEqual(await one(bytesOf('GET', `/${'a'.repeat(60_000)}`), 'GET'), [
    { method: '', status: 431 },
  ]);
  assert.deepEqual(await one(bytesOf('CONNECT', 'a:1'), 'CONNECT'), [
    { method: 'CONNECT', status: 404 },
  ]);
  assert.deepEqual(
    await one(`${bytesOf('GET', '/healthz', { headers: ['Connection: close'] })}garbage`, 'GET'),
    [{ method: 'GET', route: '/healthz', status: 200 }],
  );
  await petstore.fetch(new Request('http://a/healthz'));
  assert.deepEqual(await heard(), [{ method: 'GET', route: '/healthz', status: 200 }]);
});

test('onReply hears besides what the client asked for, as it came but without the query, and its address', async (t) => {
  const sources: ReplySource[] = [];
  const watch: Plugin = (host) => host.onReply((_event, source) => sources.push(source));
  const { port, petstore } = await start(t, { plugins: [watch] });
  for (const target of [
    '/v1/%70ets/77?key=secret',
    '/a//b?',
    'http://user:secret@x/readyz?key=secret',
  ])
    await ask(port, 'GET', target);
  await exchange(port, 'garbage\r\n\r\n');
  const mounted = createServer(petstore.handler).listen(0, '127.0.0.1');
  atEnd(t, () => mounted.close());
  await new Promise((resolve) => mounted.once('listening', resolve));
  const { port: other } = Object(mounted.address());
  await (await fetch(`http://127.0.0.1:${other}/readyz`)).text();
  await petstore.fetch('http://a/b?c');
  const address = '127.0.0.1';
  // Whether a connection is kept is tried by asking for /healthz.
  assert.deepEqual(
    sources.filter(({ path }) => path !== '/healthz'),
    [
      { path: '/v1/%70ets/77', address },
      { path: '/a//b', address },
      { path: '/readyz', address },
      { path: '' },
      { path: '/readyz', address },
      { path: '/b' },
    ],
  );
});

test('a watcher that throws changes nothing, and the others still hear', async (t) => {
  const heard: number[] = [];
  const logged: unknown[] = [];
  const plugin: Plugin = (host) => {
    host.onReply(() => {
      throw new Error('watcher');
    });
    host.onReply(({ status }) => heard.push(status));
  };
  const { port } = await start(t, { plugins: [plugin], log: (...line) => logged.push(line) });
  assert.equal((await ask(port, 'GET', '/v1/pets')).status, 200);
  assertError(await exchange(port, 'garbage\r\n\r\n'), 400, 'bad_request');
  // One of the three is the fixture's own look whether the connection is kept.
  assert.deepEqual([heard, logged.length], [[200, 200, 400], 3]);
});

test('addHeaders adds to every reply to a request, in the plugins’ order, from the headers that came; elsewhere it is not asked', async (t) => {
  const asked: (string | undefined)[] = [];
  const first: Plugin = (host) =>
    host.addHeaders(({ method, header: sent }) => {
      asked.push(`${method} ${sent('x-a')}`);
      return ['X-First', sent('x-a') ?? 'none'];
    });
  const { port, petstore } = await start(t, {
    plugins: [first, (host) => host.addHeaders(() => ['X-Second', '2'])],
  });
  for (const [method, target, status] of [
    ['GET', '/v1/pets', 200],
    ['GET', '/v1/pets/9', 404],
    ['PUT', '/v1/pets', 405],
    ['OPTIONS', '/v1/pets', 204],
    ['GET', '/no', 404],
    ['POST', '/v1/pets', 400],
  ] as const) {
    const headers = ['x-A: 1', 'X-a: 2'];
    if (method === 'POST') headers.push('Transfer-Encoding: chunked');
    const answer = await exchange(
      port,
      `${bytesOf(method, target, { headers })}${method === 'POST' ? 'no chunk' : ''}`,
      method,
    );
    assert.deepEqual(
      [answer.status, header(answer, 'X-First'), header(answer, 'X-Second')],
      [status, '1, 2', '2'],
    );
    assertCommonHeaders(answer);
  }
  const response = await petstore.fetch(
    new Request('http://a/v1/pets', { headers: { 'X-A': '3' } }),
  );
  assert.deepEqual([response.status, response.headers.get('X-First')], [401, '3']);
  assert.ok(
    asked.includes('GET 3') && asked.includes('PUT 1, 2') && asked.includes('GET undefined'),
  );
  asked.length = 0;
  const client = (await Client.connect(port)).send('garbage\r\n\r\n');
  assert.ok(!(await client.answer()).headers.has('x-first'));
  client.destroy();
  assert.deepEqual(asked, []);
});

test('headers that fail to be made, or would frame a reply, are left out and logged; the answer goes', async (t) => {
  const logged: unknown[] = [];
  const plugin: Plugin = (host) => {
    host.addHeaders(() => {
      throw new Error('no headers today');
    });
    host.addHeaders(() => {
      // What has no text of its own.
      throw Object.create(null);
    });
    host.addHeaders(() => ['Content-Length', '3']);
    host.addHeaders(() => ['X-Odd']);
    host.addHeaders(() => JSON.parse('null'));
    host.addHeaders(() => ['X-Fine', '1']);
  };
  const { petstore } = await start(t, { plugins: [plugin], log: (...line) => logged.push(line) });
  const response = await petstore.fetch(new Request('http://a/healthz'));
  assert.deepEqual(
    [
      response.status,
      response.headers.get('X-Fine'),
      response.headers.get('X-Odd'),
      await response.text(),
    ],
    [200, '1', null, '{"status":"ok"}'],
  );
  assert.equal(logged.length, 5);
});

test('waitFor keeps listen waiting, and from it where what is opened fails; an answer without a port does not wait', async (t) => {
  let open = (): void => undefined;
  const order: string[] = [];
  const opening = new Promise<void>((resolve) => (open = () => (order.push('opened'), resolve())));
  const petstore = createPetstore({ keys: [key], plugins: [(host) => host.waitFor(opening)] });
  atEnd(t, () => petstore.close());
  const listening = petstore.listen({ port: 0 }).then(() => order.push('listening'));
  assert.equal((await petstore.fetch(new Request('http://a/healthz'))).status, 200);
  open();
  await listening;
  assert.deepEqual(order, ['opened', 'listening']);
  const failing = createPetstore({
    keys: [key],
    plugins: [(host) => host.waitFor(Promise.reject(new RangeError('not today')))],
  });
  atEnd(t, () => failing.close());
  await sleep(0);
  await assert.rejects(failing.listen({ port: 0 }), { name: 'RangeError', message: 'not today' });
});

test('describe adds to this petstore’s document alone, once each time that it is made', async (t) => {
  let now = Date.UTC(2030, 0, 1);
  const plugin: Plugin = (host) => {
    host.route({
      path: '/v1/store/orders',
      methods: {
        GET: {
          handler: () => jsonReply(200, toByteString('[]')),
          document: { operationId: 'listOrders', responses: { 200: { description: 'Orders.' } } },
        },
      },
    });
    host.route({
      path: '/stats',
      methods: {
        GET: {
          handler: () => jsonReply(200, toByteString('{}')),
          document: { operationId: 'stats', responses: { 200: { description: 'Stats.' } } },
        },
      },
    });
    host.describe((document) => {
      document['x-ours'] = true;
      const { components } = document;
      assert.ok(typeof components === 'object' && components !== null && 'schemas' in components);
      Object.assign(components.schemas ?? {}, { Order: { type: 'object' } });
    });
    host.describe((document) => void (document['x-seen'] = typeof document['x-ours']));
  };
  const [with_, without] = [
    await start(t, { plugins: [plugin], clock: () => now }),
    await start(t),
  ];
  const document = async (port: number) =>
    JSON.parse((await ask(port, 'GET', '/openapi.json', noKey)).body);
  const described = await document(with_.port);
  assert.deepEqual([described['x-ours'], described['x-seen']], [true, 'boolean']);
  assert.equal(described['paths']['/store/orders'].get.operationId, 'listOrders');
  assert.deepEqual(described['paths']['/stats'].servers, [{ url: '/' }]);
  assert.ok('Order' in described['components'].schemas);
  const plain = await document(without.port);
  assert.ok(
    !('x-ours' in plain) && !('Order' in plain['components'].schemas),
    'another petstore’s document is its own',
  );
  now = Date.UTC(2031, 0, 1);
  assert.ok('Order' in (await document(with_.port))['components'].schemas);
});

test('a path that is taken or malformed, an unknown method or none is a TypeError that names it', () => {
  const operation = { handler: () => jsonReply(200, toByteString('{}')) };
  const adding =
    (...paths: readonly string[]): (() => unknown) =>
    () =>
      createPetstore({
        keys: [key],
        plugins: [
          (host) => paths.forEach((path) => host.route({ path, methods: { GET: operation } })),
        ],
      });
  for (const path of ['/v1/pets', '/v1/pets/{petId}', '/healthz', '/readyz', '/openapi.json'])
    assert.throws(adding(path), { name: 'TypeError', message: `route ${path} is taken` });
  for (const path of [
    '',
    'x',
    '//',
    '/a//',
    '//a',
    '/a//b',
    '/a b',
    '/a?b',
    '/{}',
    '/{a',
    '/a{b}',
    '/%61',
    '/ä',
    '*',
  ])
    assert.throws(adding(path), { name: 'TypeError', message: /^route .*is not a path/ }, path);
  for (const path of ['/.', '/a/..', '/./b', '/./'])
    assert.throws(
      adding(path),
      { name: 'TypeError', message: /is not a path/ },
      `${path} could never match`,
    );
  assert.throws(adding('/a/{b}', '/a/{c}'), { name: 'TypeError', message: /\{b\}/ });
  assert.throws(adding('/a/{b}', '/a/{b}'), { name: 'TypeError', message: /taken/ });
  assert.throws(
    () =>
      createPetstore({ keys: [key], plugins: [(host) => host.route({ path: '/a', methods: {} })] }),
    {
      name: 'TypeError',
      message: /no methods/,
    },
  );
  assert.throws(
    () =>
      createPetstore({
        keys: [key],
        plugins: [(host) => host.route({ path: '/a', methods: { get: operation } })],
      }),
    {
      name: 'TypeError',
      message: /unknown method get/,
    },
  );
  const deprecation = { since: 0, sunset: 1, successor: '/b\r\nX: y' };
  const split: Plugin = (host) =>
    host.route({ path: '/a', methods: { GET: operation }, deprecation });
  assert.throws(() => createPetstore({ keys: [key], plugins: [split] }), {
    name: 'TypeError',
    message: /successor of route \/a/,
  });
  assert.doesNotThrow(adding('/', '/a', '/a/', '/a/{b}', '/a/{b}/', '/a/{b}/c', '/a/b'));
});

test('plugins are called in their order, closed in their order before the storage, and one that fails to close keeps nothing open', async () => {
  const order: string[] = [];
  const memory = memoryStorage();
  const logged: unknown[] = [];
  const named =
    (name: string): Plugin =>
    (host) => {
      order.push(name);
      host.onClose(async () => {
        await sleep(5);
        order.push(`close ${name}`);
        if (name === 'b') throw new Error('b fails');
      });
    };
  const petstore = createPetstore({
    keys: [key],
    plugins: [named('a'), named('b'), named('c')],
    storage: { ...memory, close: async () => (order.push('close storage'), memory.close()) },
    log: (...line) => logged.push(line),
  });
  await petstore.close();
  assert.deepEqual(order, ['a', 'b', 'c', 'close a', 'close b', 'close c', 'close storage']);
  assert.match(JSON.stringify(logged), /b fails/);
});

test('the host gives a plugin storage, clock and log, and its errors come out of createPetstore', async () => {
  let given: PluginHost | undefined;
  const storage = memoryStorage();
  const { close } = createPetstore({
    keys: [key],
    storage,
    clock: () => 7,
    plugins: [(host) => void (given = host)],
  });
  assert.equal(given?.storage, storage);
  assert.equal(given?.clock(), 7);
  assert.doesNotThrow(() => given?.log('info', 'silence'));
  await close();
  const failing: Plugin = () => {
    throw new RangeError('not with me');
  };
  assert.throws(() => createPetstore({ keys: [key], plugins: [failing] }), {
    name: 'RangeError',
    message: 'not with me',
  });
});

test('a plugin’s reply without a body says so; its header lines are read anew; what frames an answer is not its to say', async (t) => {
  const framing = ['Connection', 'content-length', 'Transfer-Encoding', 'Date', 'cache-control'];
  const lines = ['X-Count', '0'];
  let count = 0;
  const running = await start(t, {
    plugins: [
      (host) => {
        host.route({
          path: '/empty',
          methods: { GET: { handler: () => ({ status: 200, headers: [] }) } },
        });
        host.route({
          path: '/same',
          methods: { GET: { handler: () => ({ status: 304, headers: [] }) } },
        });
        host.route({
          path: '/count',
          methods: {
            GET: {
              handler: () => {
                lines[1] = String(++count);
                return { status: 204, headers: lines };
              },
            },
          },
        });
        for (const name of framing) {
          host.route({
            path: `/${name}`,
            methods: {
              GET: {
                handler: () => ({ status: 200, headers: [name, '1'], body: toByteString('{}') }),
              },
            },
          });
        }
      },
    ],
  });
  const empty = await ask(running.port, 'GET', '/empty');
  assert.deepEqual([empty.status, header(empty, 'Content-Length')], [200, '0']);
  assert.equal(header(empty, 'Content-Type'), undefined);
  const same = await ask(running.port, 'GET', '/same');
  assert.deepEqual([same.status, header(same, 'Content-Length')], [304, undefined]);
  for (const expected of ['1', '2'])
    assert.equal(header(await ask(running.port, 'GET', '/count'), 'X-Count'), expected);
  for (const name of framing) {
    assertError(await ask(running.port, 'GET', `/${name}`), 500, 'internal_error');
  }
});

test('C47 no-store is what a reply says that says nothing else of caching: over the port, by handler and by fetch', async (t) => {
  const reply = (cacheControl: string) => ({
    status: 200,
    headers: [],
    body: toByteString('{}'),
    cacheControl,
  });
  const running = await start(t, {
    plugins: [
      (host) => {
        host.route({
          path: '/day',
          methods: { GET: { handler: () => reply('public, max-age=86400') } },
        });
        host.route({
          path: '/split',
          methods: { GET: { handler: () => reply('a\r\nX-Evil: 1') } },
        });
      },
    ],
  });
  const foreign = createServer(running.petstore.handler).listen(0, '127.0.0.1');
  atEnd(t, () => foreign.close());
  await once(foreign, 'listening');
  const { port } = Object(foreign.address());
  for (const [path, expected] of [
    ['/day', 'public, max-age=86400'],
    ['/healthz', 'no-store'],
  ] as const) {
    for (const answer of [await ask(running.port, 'GET', path), await ask(port, 'GET', path)])
      assert.equal(header(answer, 'Cache-Control'), expected);
    assert.equal(
      (await running.petstore.fetch(`http://any${path}`)).headers.get('Cache-Control'),
      expected,
    );
  }
  assertError(await ask(running.port, 'GET', '/split'), 500, 'internal_error');
});

test('onReply counts the time that a request waits for the one before it', async (t) => {
  const events: ReplyEvent[] = [];
  let workedMs = Infinity;
  const slow: Plugin = (host) => {
    const handler = async (): Promise<Reply> => {
      // Both requests come in one piece, and by the next turn both have begun.
      await nextTurn();
      const since = performance.now();
      await sleep(60);
      workedMs = performance.now() - since;
      return jsonReply(200, toByteString('1'));
    };
    host.route({ path: '/slow', methods: { GET: { handler } } });
    host.onReply((event) => events.push(event));
  };
  const { port } = await start(t, { plugins: [slow] });
  const client = (await Client.connect(port)).send(
    bytesOf('GET', '/slow') + bytesOf('GET', '/healthz'),
  );
  atEnd(t, () => client.destroy());
  await client.answer();
  await client.answer();
  assert.equal(events.length, 2);
  for (const { milliseconds } of events)
    assert.ok(milliseconds >= workedMs, `${milliseconds} of ${workedMs}`);
});

test('hooks that are async and fail are logged, and change nothing', async (t) => {
  const logged: string[] = [];
  const reject = (what: string) => async (): Promise<never> =>
    Promise.reject(new Error(`${what} failed`));
  // What a plugin without types may hand in.
  const plugin = (host: PluginHost): void => {
    host.onReply(reject('watching'));
    host.addHeaders(Object(reject('headers')));
    host.describe(reject('describing'));
    host.onClose(reject('closing'));
    host.storage.onCommit?.(reject('commit'));
  };
  const running = await start(t, {
    plugins: [plugin],
    log: (_level, message, fields) => logged.push(`${message}: ${fields?.['error']}`),
  });
  assert.equal((await ask(running.port, 'POST', '/v1/pets', { body })).status, 201);
  assert.equal((await ask(running.port, 'GET', '/openapi.json')).status, 200);
  await running.petstore.close();
  for (const what of ['watching', 'headers', 'describing', 'closing']) {
    assert.ok(
      logged.some((line) => /^a plugin failed to/.test(line) && line.endsWith(`${what} failed`)),
      `${what}: ${logged.join('\n')}`,
    );
  }
});

test('an async plugin is awaited by listen, and its failure is listen’s own', async (t) => {
  const late: Plugin = async (host) => {
    await sleep(20);
    host.route({
      path: '/late',
      methods: { GET: { handler: () => jsonReply(200, toByteString('1')) } },
    });
  };
  const { port } = await start(t, { plugins: [late] });
  assert.equal((await ask(port, 'GET', '/late')).status, 200);
  const failure = new Error('the licence has run out');
  const failing = createPetstore({ keys: [key], plugins: [async () => Promise.reject(failure)] });
  await assert.rejects(failing.listen({ port: 0 }), failure);
  await failing.close();
});

test('a log that throws, a field and an error that cannot be read: the request is a 500, the line says so', async (t) => {
  const unreadable = new Error('odd');
  Object.defineProperty(unreadable, 'stack', {
    get: () => {
      throw new Error('no stack');
    },
  });
  const lines: string[] = [];
  const plugin: Plugin = (host) => {
    const cyclic: Record<string, unknown> = {};
    cyclic['self'] = cyclic;
    const failing = (): never => {
      host.log('info', 'cyclic', cyclic);
      throw unreadable;
    };
    host.route({ path: '/odd', methods: { GET: { handler: failing } } });
  };
  const { port } = await start(t, {
    plugins: [plugin],
    log: (level, message, fields) => lines.push(`${level} ${message} ${JSON.stringify(fields)}`),
  });
  assertError(await ask(port, 'GET', '/odd', noKey), 500, 'internal_error');
  assert.match(lines[0] ?? '', /^info cyclic .*could not be logged/);
  assert.match(lines[1] ?? '', /^error internal error .*odd/);
  const mute = await start(t, {
    plugins: [plugin],
    log: () => {
      throw new Error('no disk');
    },
  });
  assertError(await ask(mute.port, 'GET', '/odd', noKey), 500, 'internal_error');
  assert.equal((await ask(mute.port, 'GET', '/v1/pets')).status, 200);
});

test('a wrapper that changes the reply it was given changes it for its own request alone', async (t) => {
  const greedy: Plugin = (host) => {
    host.around(async (request, next) => {
      const reply = await next();
      const { headers, body: taken } = reply;
      // JavaScript keeps nobody from trying.
      const changeable: unknown = headers;
      if (Array.isArray(changeable)) changeable.push('X-Seen', request.keyName ?? 'nobody');
      if (typeof taken === 'object')
        assert.throws(() => Object.assign(taken, { texts: ['mine'] }), TypeError);
      Object.assign(reply, { body: '["of one key"]' });
      if (request.header('x-mine') !== undefined || taken === undefined) return reply;
      return { ...reply, body: taken };
    });
  };
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
    const first = await ask(port, 'GET', path);
    const mine = await ask(port, 'GET', path, { headers: ['X-Mine: 1'] });
    assert.equal(mine.body, '["of one key"]', path);
    for (let count = 0; count < 3; count++) {
      const again = await ask(port, 'GET', path);
      assert.equal(again.body, first.body, path);
      assert.equal(again.headers.get('x-seen')?.length, 1, path);
    }
  }
});

test('a text in the place of a byte string is a 500 and a line of the log, never broken bytes', async (t) => {
  const words = 'Größe 猫';
  // As JavaScript may write it; the compiler refuses it.
  const replies: Readonly<Record<string, object>> = {
    json: { status: 200, headers: [], body: JSON.stringify({ name: words }) },
    latin1: { status: 200, headers: [], body: JSON.stringify({ name: 'Größe' }) },
    html: { status: 200, headers: [], body: words, contentType: 'text/html; charset=UTF-8' },
    problem: { status: 200, headers: [], body: '"ü"', contentType: 'application/problem+json' },
    plain: { status: 200, headers: [], body: words, contentType: 'text/plain' },
    // Its low byte alone would be the sign +.
    beyond: { status: 200, headers: [], body: '"猫"' },
  };
  const fine: Readonly<Record<string, object>> = {
    bytes: jsonReply(200, toByteString(JSON.stringify({ name: words }))),
    // Of other media types nothing is known.
    image: { status: 200, headers: [], body: toByteString('\u00ff'), contentType: 'image/png' },
    text: { status: 200, headers: [], body: '\u00ff', contentType: 'text/plain' },
  };
  const lines: unknown[] = [];
  const plugin: Plugin = (host) => {
    for (const [name, reply] of Object.entries({ ...fine, ...replies }))
      host.route({ path: `/${name}`, methods: { GET: { handler: () => Object(reply) } } });
  };
  const { port } = await start(t, {
    plugins: [plugin],
    log: (_level, _message, fields) => lines.push(fields?.['error']),
  });
  for (const name of Object.keys(replies))
    assertError(await ask(port, 'GET', `/${name}`, noKey), 500, 'internal_error');
  assert.equal(lines.length, Object.keys(replies).length);
  for (const line of lines)
    assert.match(String(line), /bytes of UTF-8: make them of a text by toByteString/);
  const answer = await fetch(`http://127.0.0.1:${port}/bytes`);
  assert.deepEqual(await answer.json(), { name: words });
  for (const name of ['image', 'text'])
    assert.equal((await ask(port, 'GET', `/${name}`, noKey)).status, 200);
});

test('C49 whatever is thrown, wherever, is a 500 and a line of the log; its neighbours and the process do not notice', async (t) => {
  class Odd extends PetstoreError {
    override readonly status: number | undefined = 409;
  }
  const revoked = (): object => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    return proxy;
  };
  const changed = (members: object): Error =>
    Object.assign(new Odd('unavailable', 'Odd.'), members);
  const failing = (name: string): Error =>
    Object.defineProperty(new Odd('unavailable', 'Odd.'), name, {
      get: () => {
        throw new Error(`no ${name}`);
      },
    });
  const oddities: Readonly<Record<string, () => unknown>> = {
    revoked,
    nothing: () => undefined,
    symbol: () => Symbol('odd'),
    'status-getter': () => failing('status'),
    'code-getter': () => failing('code'),
    'headers-getter': () => failing('headers'),
    'body-getter': () => failing('body'),
    'message-getter': () => failing('message'),
    'symbol-status': () => changed({ status: Symbol('odd') }),
    'status-99': () => changed({ status: 99 }),
    'status-text': () => changed({ status: '409' }),
    'frozen-header': () => Object.freeze(changed({ headers: ['X-A', 'a\r\nSet-Cookie: a=b'] })),
    'injected-header': () => changed({ headers: ['X-A', 'a\r\nSet-Cookie: a=b'] }),
    'half-a-header': () => changed({ headers: ['X-A'] }),
    'headers-null': () => changed({ headers: null }),
    'made-up': () =>
      Object.assign(Object.create(PetstoreError.prototype), {
        status: 200,
        headers: ['Set-Cookie', 'a'],
      }),
  };
  const lines: string[] = [];
  const thrower: Plugin = (host) => {
    const thrown = (name: string): unknown => oddities[name]?.();
    host.route({
      path: '/odd/{name}',
      methods: {
        GET: {
          handler: ({ params }) => {
            throw thrown(params['name'] ?? '');
          },
        },
      },
    });
    host.around(async ({ header }, next) => {
      const name = header('x-odd');
      if (name !== undefined) throw thrown(name);
      return next();
    });
    host.addHeaders(({ header }) => {
      const name = header('x-odd-header');
      if (name !== undefined) throw thrown(name);
      return [];
    });
  };
  const { port } = await start(t, {
    plugins: [thrower],
    log: (level, message) => lines.push(`${level} ${message}`),
  });
  for (const name of Object.keys(oddities)) {
    const before = lines.length;
    const good = Array.from({ length: 5 }, () => ask(port, 'GET', '/v1/pets'));
    const [thrown, wrapped, headed] = await Promise.all([
      ask(port, 'GET', `/odd/${name}`, noKey),
      ask(port, 'GET', '/v1/pets', { headers: [`X-Odd: ${name}`] }),
      ask(port, 'GET', '/v1/pets', { headers: [`X-Odd-Header: ${name}`] }),
    ]);
    for (const answer of [thrown, wrapped]) assertError(answer, 500, 'internal_error');
    assert.equal(headed.status, 200);
    for (const answer of await Promise.all(good)) assert.equal(answer.status, 200, name);
    assert.ok(
      lines.slice(before).filter((line) => line === 'error internal error').length >= 2,
      name,
    );
  }
});

test('an error is not changed after it was made: a route that tries is a 500, and the process goes on', async (t) => {
  const changed = (): never => {
    throw Object.assign(new PetstoreError('unavailable', 'Later.'), {
      headers: { 'Retry-After': '5' },
    });
  };
  const { port } = await start(t, {
    plugins: [({ route }) => route({ path: '/odd', methods: { GET: { handler: changed } } })],
  });
  assertError(await ask(port, 'GET', '/odd', noKey), 500, 'internal_error');
  assert.equal((await ask(port, 'GET', '/healthz', noKey)).status, 200);
});

test('what a plugin waits for is begun once, though it is a query that begins at each then', async () => {
  let begun = 0;
  const query: PromiseLike<void> = {
    // biome-ignore lint/suspicious/noThenProperty: the queries of some databases are such.
    then: (done, failed) => {
      begun++;
      return Promise.resolve().then(done, failed);
    },
  };
  const petstore = createPetstore({ keys: [key], plugins: [({ waitFor }) => waitFor(query)] });
  await petstore.listen({ port: 0 });
  await petstore.listen({ port: 0 });
  await petstore.close();
  assert.equal(begun, 1);
});
