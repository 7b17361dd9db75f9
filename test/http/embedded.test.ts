/** The petstore as a library: fetch, handler, listen and close, and what they leave behind. */
import assert from 'node:assert/strict';
import { getEventListeners, once } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { test, type TestContext } from 'node:test';
import { atEnd } from '../support/at-end.js';
import {
  createPetstore,
  PetstoreError,
  type Petstore,
  type PetstoreOptions,
  type Plugin,
} from '../../dist/index.js';
import { verifyPetstore } from '../../dist/conformance/index.js';
import { Client, header } from '../support/client.js';
import { ask, bytesOf, emptyStorage, exchange, key, start } from '../support/fixture.js';
import { root, StartedProcess } from '../support/process.js';
import { until } from '../support/waiting.js';

const body = '{"name":"a","categoryId":1}';

/** A petstore behind somebody else's server. */
async function embed(
  t: TestContext,
  wrap: (handler: Petstore['handler']) => RequestListener,
  options: Partial<PetstoreOptions> = {},
): Promise<number> {
  const { handler, close } = createPetstore({
    keys: [key],
    storage: await emptyStorage(),
    ...options,
  });
  const server = createServer(wrap(handler));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  atEnd(t, async () => {
    server.closeAllConnections();
    server.close();
    await close();
  });
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return address.port;
}

const sample: readonly (readonly [
  c: string,
  method: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  body?: string,
])[] = [
  ['C30', 'POST', '/v1/pets', {}, body],
  ['keyed', 'POST', '/v1/pets', { 'Idempotency-Key': 'k' }, body],
  ['keyed', 'POST', '/v1/pets', { 'Idempotency-Key': 'k' }, body],
  ['keyed', 'POST', '/v1/pets', { 'Idempotency-Key': 'k' }, '{}'],
  ['keyed', 'POST', '/v1/pets', { 'Idempotency-Key': 'k' }, `${body} `],
  ['keyed', 'POST', '/v1/pets', { 'Idempotency-Key': 'a b' }, body],
  [
    'C30',
    'POST',
    '/v1/pets',
    { 'Content-Type': 'application/json; charset=utf-8' },
    '{"name":"猫","categoryId":9223372036854775807,"status":"sold"}',
  ],
  ['C8', 'GET', '/v1/pets?status=pending', {}],
  ['C6', 'GET', '/v1/pets?limit=1', {}],
  ['C1', 'GET', '/v1/pets?limit=0', {}],
  ['C3', 'GET', '/v1/pets?limit=1&limit=1', {}],
  ['C9', 'GET', '/v1/pets/2', {}],
  ['C10', 'GET', '/v1/pets/abc', {}],
  ['C11', 'GET', '/v1/pets/', {}],
  ['C12', 'GET', '/v1/%70ets/%31', {}],
  ['C12', 'GET', '/v1/pets?%zz', {}],
  ['C14', 'GET', '/v1/store/orders', {}],
  ['C15', 'PUT', '/v1/pets', {}, body],
  ['C15', 'DELETE', '/v1/pets/1', {}],
  ['C16', 'HEAD', '/v1/pets', {}],
  ['C16', 'HEAD', '/v1/pets/9', {}],
  ['C17', 'OPTIONS', '/v1/pets', {}],
  ['C18', 'FOO', '/v1/pets', {}],
  ['C20', 'POST', '/v1/pets', {}, '{}'],
  ['C26', 'POST', '/v1/pets', {}, '{"a":1,"a":1}'],
  ['C26', 'POST', '/v1/pets', {}, ''],
  ['C28', 'POST', '/v1/pets', { 'Content-Type': 'text/plain' }, body],
  ['C28', 'POST', '/v1/pets', { 'Content-Encoding': 'gzip' }, body],
  ['C29', 'POST', '/v1/pets', {}, ' '.repeat(65_537)],
  ['C36', 'GET', '/v1/pets', { Authorization: '' }],
  ['C37', 'GET', '/v1/pets', { Authorization: 'Bearer wrong' }],
  ['C37', 'GET', '/v1/pets', { Authorization: 'Basic x' }],
  ['C41', 'GET', '/healthz', { Authorization: '' }],
  ['C41', 'GET', '/openapi.json', { Authorization: '' }],
  ['C45', 'GET', '/v1/pets', { Expect: 'x' }],
];

test('fetch answers what the port answers, in status, headers and body, over the contract', async (t) => {
  const { port } = await start(t);
  const { fetch, close } = createPetstore({ keys: [key], storage: await emptyStorage() });
  atEnd(t, close);
  for (const [number, method, path, headers, text] of sample) {
    const { Authorization: authorization = `Bearer ${key}`, ...others } = headers;
    const words = {
      authorization: authorization === '' ? null : authorization,
      headers: Object.entries(others).map(([name, value]) => `${name}: ${value}`),
    };
    const overPort = await ask(
      port,
      method,
      path,
      text === undefined ? words : { ...words, body: Buffer.from(text).toString('latin1') },
    );
    const init: RequestInit = {
      method,
      headers: authorization === '' ? others : { ...others, Authorization: authorization },
    };
    // A body of bytes, so that the platform adds no Content-Type of its own.
    const response = await fetch(
      new Request(
        `http://petstore${path}`,
        text === undefined ? init : { ...init, body: Buffer.from(text) },
      ),
    );
    const where = `${number} ${method} ${path}`;
    assert.equal(response.status, overPort.status, where);
    assert.equal(
      Buffer.from(await response.arrayBuffer()).toString('latin1'),
      overPort.body,
      where,
    );
    if (method === 'HEAD' || response.status === 204) assert.equal(response.body, null, where);
    const expected = Object.fromEntries(
      [...overPort.headers]
        .filter(([name]) => !['date', 'keep-alive', 'connection'].includes(name))
        .map(([name, values]) => [name, values.join(', ')]),
    );
    const actual = Object.fromEntries(
      [...response.headers].filter(([name]) => name !== 'connection'),
    );
    assert.deepEqual(actual, expected, where);
  }
});

test('fetch rejects for nothing of the request or ours: a body that fails, that was read or that is endless, a storage that throws, a closed petstore', async () => {
  const { fetch, close } = createPetstore({ keys: [key], storage: await emptyStorage() });
  const post = (text: NonNullable<RequestInit['body']>): Request =>
    new Request('http://a/v1/pets', {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}` },
      body: text,
      duplex: 'half',
    });
  const failing = new ReadableStream({
    pull: (controller) => controller.error(new Error('the peer is gone')),
  });
  assert.equal((await fetch(post(failing))).status, 400);
  const used = post(Buffer.from(body));
  await used.text();
  assert.equal((await fetch(used)).status, 400);
  let cancelled = false;
  const endless = new ReadableStream({
    pull: (controller) => controller.enqueue(new Uint8Array(10_000)),
    cancel: () => void (cancelled = true),
  });
  assert.equal((await fetch(post(endless))).status, 413);
  assert.equal(cancelled, true);
  await close();
  const stopped = await fetch(post(Buffer.from(body)));
  assert.deepEqual([stopped.status, stopped.headers.get('retry-after')], [503, '1']);
  assert.equal((await fetch(new Request('http://a/healthz'))).status, 200);
  assert.equal((await fetch(new Request('http://a/readyz'))).status, 503);

  const no = (): Promise<never> => Promise.reject(null);
  const broken = createPetstore({
    keys: [key],
    storage: { durable: false, insert: no, get: no, list: no, close: async () => undefined },
  });
  const request = new Request('http://a/v1/pets', { headers: { Authorization: `Bearer ${key}` } });
  assert.equal((await broken.fetch(request)).status, 500);
  await broken.close();
});

/** What a foreign server answers by itself: damaged requests, CONNECT, Expect, unknown methods. */
const ofServer = ['P3', 'C15', 'C18', 'C33', 'C42', 'C43', 'C45', 'C47', 'C52', 'C64'];

test('handler serves behind a plain http.createServer all of the contract that this leaves to it', async (t) => {
  const port = await embed(t, (handler) => handler);
  const failed: string[] = [];
  for await (const { number, outcome } of verifyPetstore({ url: `http://127.0.0.1:${port}`, key }))
    if (outcome === 'failed') failed.push(number);
  assert.deepEqual(
    failed.filter((number) => !ofServer.includes(number)),
    [],
  );

  const expecting = (await Client.connect(port)).send(
    bytesOf('POST', '/v1/pets', {
      headers: ['Expect: 100-continue', `Content-Length: ${body.length}`],
    }),
  );
  assert.equal((await expecting.answer('POST')).status, 100);
  assert.equal((await expecting.send(body).answer('POST')).status, 201);
  expecting.destroy();
});

test('handler serves behind a wrapper like Express, under the path that it has left of the target', async (t) => {
  const port = await embed(t, (handler) => (request: IncomingMessage, response: ServerResponse) => {
    if (!request.url?.startsWith('/shop/')) return void response.writeHead(418).end();
    request.url = request.url.slice('/shop'.length);
    response.setHeader('X-Powered-By', 'us');
    handler(request, response);
  });
  const client = (await Client.connect(port)).send(
    bytesOf('POST', '/shop/v1/pets', { body }) + bytesOf('GET', '/shop/v1/pets'),
  );
  assert.equal((await client.answer('POST')).status, 201);
  const answer = await client.answer();
  assert.deepEqual(
    [answer.status, header(answer, 'X-Powered-By'), header(answer, 'Content-Type')],
    [200, 'us', 'application/json'],
  );
  client.destroy();
});

test('C56 links and servers begin with the mount path that a framework says in baseUrl, unless it is none', async (t) => {
  let baseUrl: unknown = '/shop';
  let now = Date.UTC(2026, 0);
  const port = await embed(
    t,
    (handler) => (request: IncomingMessage, response: ServerResponse) => {
      handler(Object.assign(request, { baseUrl }), response);
    },
    { clock: () => now },
  );
  assert.equal(
    header(await ask(port, 'POST', '/v1/pets', { body }), 'Location'),
    '/shop/v1/pets/1',
  );
  assert.equal(
    header(await ask(port, 'GET', '/v1/pets/1'), 'Link'),
    '</shop/v1/pets>; rel="successor-version"',
  );
  assert.match(
    (await ask(port, 'GET', '/openapi.json')).body,
    /"servers":\[\{"url":"\/shop\/v1"\}\]/,
  );
  now = Date.UTC(2030, 11, 6);
  assert.match((await ask(port, 'GET', '/v1/pets/1')).body, /; use GET \/shop\/v1\/pets\./);
  now = Date.UTC(2026, 0);
  for (baseUrl of ['', '//else.example', 'shop', '/a b', '/a/', 5, undefined]) {
    const answer = await ask(port, 'POST', '/v1/pets', { body });
    assert.match(header(answer, 'Location') ?? '', /^\/v1\/pets\/\d+$/, String(baseUrl));
  }
  assert.match((await ask(port, 'GET', '/openapi.json')).body, /"servers":\[\{"url":"\/v1"\}\]/);

  const { fetch } = createPetstore({ keys: [key] });
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  const request = new Request('http://any/v1/pets', { method: 'POST', headers, body });
  const added = await fetch(Object.assign(request, { baseUrl: '/shop' }));
  assert.equal(added.headers.get('location'), '/shop/v1/pets/1');
});

test('handler behind a reader of bodies answers 500 with a hint in the log, and never hangs', async (t) => {
  const logged: unknown[] = [];
  const reading =
    (handler: RequestListener): RequestListener =>
    (request, response) => {
      request.resume().once('end', () => setImmediate(() => handler(request, response)));
    };
  const port = await embed(t, reading, {
    log: (_level, message, fields) => logged.push(message, fields),
  });
  assert.equal((await exchange(port, bytesOf('POST', '/v1/pets', { body }), 'POST')).status, 500);
  assert.match(JSON.stringify(logged), /mount the petstore before any body parser/);
  assert.equal((await ask(port, 'GET', '/v1/pets')).status, 200);
});

test('C51 handler answers before a body has come whole, and its connection ends though more of it comes', async (t) => {
  const port = await embed(t, (handler) => handler);
  for (const [status, authorization] of [
    [413, `Bearer ${key}`],
    [401, null],
  ] as const) {
    const words = { headers: ['Content-Length: 50000000'], authorization };
    const client = (await Client.connect(port)).send(bytesOf('POST', '/v1/pets', words));
    atEnd(t, () => client.destroy());
    const answer = await client.answer('POST');
    assert.deepEqual([answer.status, header(answer, 'Connection')], [status, 'close']);
    for (let pieces = 0; pieces < 10; pieces++) client.send('x'.repeat(10_000));
    assert.ok((await client.closed()) < 4_000);
  }
});

test('handler writes no body where none may be, to a server too that refuses one, although the request still comes', async (t) => {
  const { handler } = createPetstore({ keys: [key] });
  const server = createServer({ rejectNonStandardBodyWrites: true }, handler).listen(
    0,
    '127.0.0.1',
  );
  atEnd(t, () => server.close());
  await once(server, 'listening');
  const { port } = Object(server.address());
  for (const [method, path, status] of [
    ['HEAD', '/healthz', 200],
    ['OPTIONS', '/v1/pets', 204],
  ] as const) {
    const client = (await Client.connect(port)).send(
      bytesOf(method, path, { headers: ['Content-Length: 100'] }),
    );
    atEnd(t, () => client.destroy());
    assert.equal((await client.answer(method)).status, status);
  }
});

test('handler whose framework has answered meanwhile stays quiet', async (t) => {
  const port = await embed(t, (handler) => (request, response) => {
    handler(request, response);
    response.writeHead(202, { 'Content-Length': 0 }).end();
  });
  const client = (await Client.connect(port)).send(bytesOf('GET', '/v1/pets').repeat(3));
  for (let i = 0; i < 3; i++) assert.equal((await client.answer()).status, 202);
  client.destroy();
});

test('handler whose framework throws as an answer is written leaves the other answers of that moment alone', async (t) => {
  const thrown: unknown[] = [];
  process.setUncaughtExceptionCaptureCallback((error) => thrown.push(error));
  atEnd(t, () => process.setUncaughtExceptionCaptureCallback(null));
  const held: (() => void)[] = [];
  const port = await embed(t, (handler) => (request, response) => {
    if (held.length === 0) response.writeHead = () => assert.fail('theirs');
    held.push(() => handler(request, response));
    if (held.length === 2) for (const each of held) each();
  });
  const clients = await Promise.all([Client.connect(port), Client.connect(port)]);
  atEnd(t, () => clients.forEach((client) => client.destroy()));
  for (const client of clients) client.send(bytesOf('GET', '/healthz'));
  assert.equal(
    await Promise.race(clients.map((client) => client.answer().then(({ status }) => status))),
    200,
  );
  assert.match(String(thrown), /theirs/);
});

test('handler hears of a client that vanished before a slow key check ended, and never waits for its body', async (t) => {
  const statuses: number[] = [];
  const port = await embed(t, (handler) => handler, {
    keys: async () => (await sleep(30), 'somebody'),
    plugins: [(host) => host.onReply(({ status }) => statuses.push(status))],
  });
  const client = (await Client.connect(port)).send(
    bytesOf('POST', '/v1/pets', { headers: ['Content-Length: 1000'] }),
  );
  await sleep(10);
  client.destroy();
  await sleep(80);
  assert.deepEqual(statuses, [400]);
});

test('fetch, handler, listen and close work unbound, and close may be called again and again', async () => {
  const { fetch, listen, close, storage } = createPetstore({
    keys: [key],
    storage: await emptyStorage(),
  });
  const [first, second] = [await listen({ port: 0 }), await listen({ port: 0 })];
  assert.notEqual(first.port, second.port);
  assert.equal(first.url, `http://127.0.0.1:${first.port}`);
  assert.equal((await globalThis.fetch(`${second.url}/healthz`)).status, 200);
  assert.equal((await fetch(new Request('http://a/healthz'))).status, 200);
  const closing = [close(), close()];
  assert.equal(closing[0], closing[1]);
  await Promise.all([...closing, close()]);
  await assert.rejects(storage.get(1n), { code: 'unavailable' });
});

test('close waits until what handler answers has left', async (t) => {
  let letIn = (): void => undefined;
  let asked = (): void => undefined;
  const isAsked = new Promise<void>((resolve) => (asked = resolve));
  const keys = (): Promise<string> => {
    asked();
    return new Promise((resolve) => (letIn = () => resolve('me')));
  };
  let left = 0;
  let leftAtClose = -1;
  const plugin: Plugin = (host) => {
    host.onReply(() => left++);
    host.onClose(() => void (leftAtClose = left));
  };
  const petstore = createPetstore({ keys, storage: await emptyStorage(), plugins: [plugin] });
  const server = createServer(petstore.handler);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  atEnd(t, () => server.close());
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const client = await Client.connect(address.port);
  atEnd(t, () => client.destroy());
  client.send(bytesOf('GET', '/v1/pets'));
  await isAsked;
  const closed = petstore.close();
  letIn();
  await closed;
  assert.deepEqual([left, leftAtClose], [1, 1]);
  const answer = await client.answer();
  assert.deepEqual([answer.status, header(answer, 'Connection')], [200, 'close']);
});

test('close waits for requests of fetch that are under way', async () => {
  const petstore = createPetstore({ keys: [key], storage: await emptyStorage() });
  let finish = (): void => undefined;
  const bodyStream = new ReadableStream({
    start(controller) {
      controller.enqueue(Buffer.from('{"name":"Rex",'));
      finish = () => {
        controller.enqueue(Buffer.from('"categoryId":1}'));
        controller.close();
      };
    },
  });
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  const answered = petstore.fetch(
    new Request('http://any/v1/pets', {
      method: 'POST',
      headers,
      body: bodyStream,
      duplex: 'half',
    }),
  );
  await new Promise((resolve) => setImmediate(resolve));
  const closed = petstore.close();
  finish();
  assert.equal((await answered).status, 201);
  await closed;
  assert.equal((await petstore.fetch(new Request('http://any/v1/pets', { headers }))).status, 503);
});

test('close closes plugins and storage behind a request that never ends, though nothing else keeps the process alive', async () => {
  const script = `
    import { createPetstore } from ${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)};
    const petstore = createPetstore({ keys: ['k'], plugins: [(host) => host.onClose(() => console.log('closed'))] });
    const headers = { Authorization: 'Bearer k' };
    void petstore.fetch(new Request('http://a/v1/pets', { method: 'POST', headers, body: new ReadableStream(), duplex: 'half' }));
    await petstore.close();`;
  const { code, stdout } = await new StartedProcess(
    process.execPath,
    ['--input-type=module', '--eval', script],
    { cwd: root },
  ).ended;
  assert.deepEqual([code, stdout], [0, 'closed\n']);
});

test('listen refuses a port that is taken, and any port once closed, even half-way', async (t) => {
  const { port } = await start(t);
  const other = createPetstore({ keys: [key], storage: await emptyStorage() });
  await assert.rejects(other.listen({ port }), { code: 'EADDRINUSE' });
  const { port: own } = await other.listen({ port: 0 });
  const halfWay = other.listen({ port: 0 });
  const refusal = assert.rejects(
    halfWay,
    (error) => error instanceof PetstoreError && error.code === 'unavailable',
  );
  await other.close();
  await refusal;
  await assert.rejects(other.listen({ port: 0 }), { code: 'unavailable' });
  await assert.rejects(Client.connect(own), { code: 'ECONNREFUSED' });
});

test('two hundred petstores in one process leave no handle, no listener and no word behind', async (t) => {
  const events = [
    'uncaughtException',
    'unhandledRejection',
    'SIGTERM',
    'SIGINT',
    'SIGHUP',
    'exit',
    'beforeExit',
    'warning',
  ];
  const listeners = (): readonly number[] => events.map((event) => process.listenerCount(event));
  const counted = (): number =>
    process.getActiveResourcesInfo().filter((name) => /TCP|Timeout|Immediate/.test(name)).length;
  const written: unknown[] = [];
  for (const method of ['log', 'info', 'warn', 'error', 'debug'] as const)
    t.mock.method(console, method, (...words: unknown[]) => written.push(words));
  const warnings: Error[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning);
  process.on('warning', onWarning);
  const [listenersBefore, before] = [listeners(), counted()];
  const petstores = Array.from({ length: 200 }, () => createPetstore({ keys: [key] }));
  await Promise.all(
    petstores.map(async (petstore, index) => {
      const { port } = await petstore.listen({ port: 0 });
      const response = await petstore.fetch(
        new Request('http://a/v1/pets', {
          method: 'POST',
          headers: { Authorization: `Bearer ${key}` },
          body: Buffer.from(body),
        }),
      );
      assert.equal(
        await response.text(),
        '{"id":1,"name":"a","categoryId":1}',
        'each has its own animals',
      );
      if (index % 10 > 0) return;
      assert.equal(
        (await ask(port, 'GET', '/v1/pets')).body,
        '[{"id":1,"name":"a","categoryId":1}]',
      );
    }),
  );
  assert.deepEqual(listeners(), listenersBefore);
  await Promise.all(petstores.map(({ close }) => close()));
  await sleep(50);
  process.off('warning', onWarning);
  assert.ok(
    counted() <= before + 1,
    `${counted()} handles, ${before} before: ${process.getActiveResourcesInfo().join(' ')}`,
  );
  assert.deepEqual([written, warnings], [[], []]);
});

test('handler reads a body right after pause, and says the mend where it was decoded or read before', async (t) => {
  const paused = await embed(t, (handler) => (request, response) => {
    request.pause();
    setImmediate(() => handler(request, response));
  });
  assert.equal((await exchange(paused, bytesOf('POST', '/v1/pets', { body }), 'POST')).status, 201);
  const decode =
    (handler: RequestListener): RequestListener =>
    (request, response) =>
      handler(request.setEncoding('utf8'), response);
  const decoded = await embed(t, decode);
  assert.equal(
    (await exchange(decoded, bytesOf('POST', '/v1/pets', { body }), 'POST')).status,
    500,
  );
  assert.equal((await ask(decoded, 'GET', '/v1/pets')).body, '[]');
});

test('handler gives its framework the error where that gave next', async (t) => {
  const petstore = createPetstore({ keys: [key] });
  const errors: unknown[] = [];
  const server = createServer((request, response) => {
    request.resume().once('end', () =>
      petstore.handler(request, response, (error) => {
        errors.push(error);
        response.writeHead(599, { 'Content-Length': 0 }).end();
      }),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  atEnd(t, async () => {
    server.closeAllConnections();
    server.close();
    await petstore.close();
  });
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const client = (await Client.connect(address.port)).send(bytesOf('POST', '/v1/pets', { body }));
  atEnd(t, () => client.destroy());
  assert.equal((await client.answer('POST')).status, 599);
  assert.match(String(errors[0]), /mount the petstore before any body parser/);
});

test('handler answers what it does not know with 404 or 405, and passes nothing on', async (t) => {
  const passedOn: unknown[] = [];
  const port = await embed(t, (handler: Petstore['handler']) => (request, response) => {
    handler(request, response, (error) => void passedOn.push(error));
  });
  for (const [path, status] of [
    ['/', 404],
    ['/own', 404],
    ['/v1', 404],
    ['/v1/pets/1/own', 404],
  ] as const)
    assert.equal((await ask(port, 'GET', path)).status, status, path);
  assert.equal((await ask(port, 'DELETE', '/v1/pets')).status, 405);
  assert.deepEqual(passedOn, []);
});

test('fetch takes strings, URLs and init as the platform’s does, and rejects what that rejects', async () => {
  const petstore = createPetstore({ keys: [key] });
  const headers = { Authorization: `Bearer ${key}` };
  assert.equal((await petstore.fetch('http://a/healthz')).status, 200);
  assert.equal((await petstore.fetch(new URL('http://a/v1/pets'), { headers })).status, 200);
  assert.equal((await petstore.fetch(new Request('http://a/v1/pets'), { headers })).status, 200);
  const json = { ...headers, 'Content-Type': 'application/json' };
  assert.equal(
    (await petstore.fetch('http://a/v1/pets', { method: 'POST', headers: json, body })).status,
    201,
  );
  await assert.rejects(petstore.fetch('/v1/pets'), TypeError);
  await petstore.close();
});

test('fetch rejects with the reason of a signal, aborted before or while it answers, and undoes nothing', async () => {
  const letIn: (() => void)[] = [];
  const statuses: number[] = [];
  const plugin: Plugin = (host) => {
    host.around(async (_, next) => {
      await new Promise<void>((resolve) => letIn.push(resolve));
      return next();
    });
    host.onReply(({ status }) => statuses.push(status));
  };
  const { fetch, close, storage } = createPetstore({ keys: [key], plugins: [plugin] });
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  const init = { method: 'POST', headers, body };
  const url = 'http://a/v1/pets';
  const ways: readonly ((signal: AbortSignal) => Promise<Response>)[] = [
    (signal) => fetch(url, { ...init, signal }),
    (signal) => fetch(new Request(url, { ...init, signal })),
    (signal) => fetch(new Request(url, { ...init, signal }), { headers }),
    (signal) => fetch(new Request(url, init), { signal }),
  ];
  const reason = new Error('too late');
  for (const [index, way] of ways.entries()) {
    await assert.rejects(
      way(AbortSignal.abort()),
      (error) => error instanceof DOMException && error.name === 'AbortError',
    );
    await assert.rejects(way(AbortSignal.abort(reason)), (error) => error === reason);
    assert.equal(statuses.length, index, 'nothing was begun');
    const aborting = new AbortController();
    const answered = way(aborting.signal);
    await until('the operation', () => letIn.length > index);
    aborting.abort(reason);
    await assert.rejects(answered, (error) => error === reason);
    assert.equal(statuses.length, index, 'at once, not when the operation ends');
    letIn[index]?.();
    await until('the animal', () => statuses.length > index);
  }
  assert.deepEqual(statuses, [201, 201, 201, 201]);
  assert.equal((await storage.list({ limit: 9 })).length, 4);

  const aborting = new AbortController();
  const silent = {
    ...init,
    body: new ReadableStream(),
    duplex: 'half',
    signal: aborting.signal,
  } as const;
  const answered = fetch(url, silent);
  await new Promise((resolve) => setImmediate(resolve));
  aborting.abort();
  await assert.rejects(answered, { name: 'AbortError' });
  await close();
  assert.equal(statuses[4], 400, 'a body that never ends holds nothing up');
});

test('fetch leaves no listener on the signal of a request that is kept', async () => {
  const { fetch } = createPetstore({ keys: [key] });
  const request = new Request('http://a/healthz', { signal: new AbortController().signal });
  const before = getEventListeners(request.signal, 'abort').length;
  for (let i = 0; i < 3; i++) assert.equal((await fetch(request)).status, 200);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(getEventListeners(request.signal, 'abort').length, before);
});

test('fetch heeds no server and no word of the client that comes where an init could', async () => {
  class Server {
    readonly port = 80;
    get url(): URL {
      return assert.fail('read');
    }
  }
  const { fetch } = createPetstore({ keys: [key] });
  // Compiles only where a runtime takes it as it is.
  const serve: (
    request: Request,
    given: Server | { readonly completed: Promise<void> },
  ) => Promise<Response> = fetch;
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  for (const given of [new Server(), { completed: Promise.resolve() }, Object.create(null), null]) {
    const request = new Request('http://a/v1/pets', { method: 'POST', headers, body });
    // On a copy this would be missing.
    const added = await serve(Object.assign(request, { baseUrl: '/shop' }), given);
    assert.match(added.headers.get('location') ?? '', /^\/shop\//);
  }
});

test('listen opens no port where node:http is not Node’s, and says what to do instead', async (t) => {
  const { listen, close } = createPetstore({ keys: [key] });
  atEnd(t, close);
  for (const runtime of ['Bun', 'Deno']) {
    atEnd(t, () => Reflect.deleteProperty(globalThis, runtime));
    Reflect.set(globalThis, runtime, {});
    await assert.rejects(listen({ port: 0 }), {
      name: 'TypeError',
      message:
        'node:http here lacks what listen needs; give petstore.fetch to Bun.serve or Deno.serve',
    });
    Reflect.deleteProperty(globalThis, runtime);
  }
});

test('listen says its form where it is called with a port, and unavailable once closed though the port is taken', async () => {
  const petstore = createPetstore({ keys: [key] });
  for (const wrong of [3456, '3456', null]) {
    await assert.rejects(Reflect.apply(petstore.listen, undefined, [wrong]), {
      name: 'TypeError',
      message: /listen\(\{ port: 3000 \}\)/,
    });
  }
  const other = createPetstore({ keys: [key] });
  const { port } = await other.listen({ port: 0 });
  await petstore.close();
  await assert.rejects(petstore.listen({ port }), { code: 'unavailable' });
  await other.close();
});
