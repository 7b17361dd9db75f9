/** Tests of the petstore as a library: `fetch`, `handler`, `listen` and `close`. */
import assert from 'node:assert/strict';
import { getEventListeners, once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { describe, test, type TestContext } from 'node:test';
import { atEnd } from '../support/at-end.js';
import {
  createPetstore,
  type Petstore,
  type PetstoreOptions,
  type Plugin,
} from '../../dist/index.js';
import { verifyPetstore } from '../../dist/conformance/index.js';
import { Client, header } from '../support/client.js';
import {
  sendRequest,
  requestBytes,
  connectTo,
  key,
  start,
  type RequestParts,
} from '../support/fixture.js';
import { root, StartedProcess } from '../support/process.js';
import {
  petJson,
  expectResponse,
  expectResponses,
  firstPetJson,
  blockedKeys,
  keyHeaders,
  okReply,
  plainStorage,
  serve,
} from '../support/scenes.js';
import { mockTimeouts } from '../support/timers.js';
import { gate, until } from '../support/waiting.js';

const adding = { method: 'POST', headers: keyHeaders, body: petJson };
const post = requestBytes('POST', '/v1/pets', { body: petJson });
const target = 'http://a/v1/pets';

/** Creates a petstore, which is closed at the end of the test. */
function create(t: TestContext, options: Partial<PetstoreOptions> = {}): Petstore {
  const petstore = createPetstore({ keys: [key], ...options });
  atEnd(t, () => petstore.close());
  return petstore;
}

/** Serves a petstore by the `handler` of a host; resolves to the host's port. */
async function embed(
  t: TestContext,
  wrap: (handler: Petstore['handler']) => RequestListener = (handler) => handler,
  options?: Partial<PetstoreOptions>,
): Promise<number> {
  return serve(t, wrap(create(t, options).handler));
}

const sold = '{"name":"猫","categoryId":9223372036854775807,"status":"sold"}';
/**
 * One request of each kind. One body stands for all invalid pets, which take the same code path.
 */
const requests: readonly (readonly [request: string, words?: RequestParts])[] = [
  ...[sold, '', ' '.repeat(65_537)].map((body) => ['POST /v1/pets', { body }] as const),
  ...[
    ...['Idempotency-Key: k', 'Idempotency-Key: k', 'Idempotency-Key: k, k'],
    ...['Content-Type: text/plain', 'Content-Encoding: gzip', 'Content-Type: application/json'],
  ].map((line) => ['POST /v1/pets', { headers: [line], body: petJson }] as const),
  // biome-ignore format: one line for each value would hide the test.
  ...['GET /v1/pets?limit=1', 'GET /v1/pets?limit=1&limit=1', 'GET /v1/pets?%zz', 'GET /v1/%70ets/%31', 'GET /v1/pets/', 'HEAD /v1/pets', 'HEAD /v1/pets/9', 'DELETE /v1/pets/1', 'OPTIONS /v1/pets', 'FOO /v1/pets', 'GET /healthz', 'GET /openapi.json'].map((request) => [request] as const),
  ...[null, 'Bearer wrong'].map((authorization) => ['GET /v1/pets', { authorization }] as const),
  ['GET /v1/pets', { headers: ['Expect: x'] }],
];

test('fetch returns the same status, headers and body as the port', async (t) => {
  const { port } = await start(t);
  const { fetch } = create(t);
  for (const [request, { headers = [], authorization = `Bearer ${key}`, body } = {}] of requests) {
    const [method = '', path = ''] = request.split(' ');
    // A body of bytes, so that the platform adds no Content-Type of its own.
    const bytes = body === undefined ? undefined : Buffer.from(body);
    const overPort = await sendRequest(port, method, path, {
      headers,
      authorization,
      ...(bytes && { body: bytes.toString('latin1') }),
    });
    const lines = headers.map((line) => line.split(/: (.*)/, 2));
    if (authorization !== null) lines.push(['Authorization', authorization]);
    const init = { method, headers: Object.fromEntries(lines), ...(bytes && { body: bytes }) };
    const response = await fetch(`http://petstore${path}`, init);

    const text = Buffer.from(await response.arrayBuffer()).toString('latin1');
    assert.deepEqual([response.status, text], [overPort.status, overPort.body], request);
    if (text === '') assert.equal(response.body, null, request);
    const expected = new Map(
      Array.from(overPort.headers, ([name, values]) => [name, values.join(', ')]),
    );
    const actual = new Map(response.headers);
    for (const name of ['date', 'keep-alive', 'connection']) expected.delete(name);
    actual.delete('connection');
    assert.deepEqual(new Map([...actual].sort()), new Map([...expected].sort()), request);
  }
});

/** Returns a POST with a stream as its body. */
const streamed = (body: ReadableStream, more: RequestInit = {}): Request =>
  new Request(target, { ...adding, body, duplex: 'half', ...more });

test('fetch resolves with an error response if a body or the storage fails, or after close', async (t) => {
  const { fetch, close } = create(t);
  const statusOf = async (request: Request | string) => (await fetch(request)).status;
  const failing = new ReadableStream({
    pull: (controller) => controller.error(new Error('the peer is gone')),
  });
  assert.equal(await statusOf(streamed(failing)), 400);
  let cancelled = false;
  const endless = new ReadableStream({
    pull: (controller) => controller.enqueue(new Uint8Array(10_000)),
    cancel: () => void (cancelled = true),
  });
  assert.equal(await statusOf(streamed(endless)), 413);
  assert.equal(cancelled, true);
  await close();
  const stopped = await fetch(target, adding);
  assert.deepEqual([stopped.status, stopped.headers.get('retry-after')], [503, '1']);
  assert.equal(await statusOf('http://a/healthz'), 200);
  assert.equal(await statusOf('http://a/readyz'), 503);

  const storage = plainStorage(() => ({ list: () => Promise.reject(null) }));
  const broken = create(t, { storage });
  assert.equal((await broken.fetch(target, { headers: keyHeaders })).status, 500);
});

test('fetch rejects a request whose body was read or is locked, and adds nothing', async (t) => {
  const { fetch, storage } = create(t);
  const used = new Request(target, adding);
  await used.text();
  const begun = streamed(new Response(petJson).body ?? assert.fail());
  const reader = begun.body?.getReader();
  await reader?.read();
  reader?.releaseLock();
  const locked = new Request(target, adding);
  locked.body?.getReader();
  const branched = new Request(target, adding);
  branched.body?.tee();
  const read = { headers: keyHeaders, body: petJson, method: 'POST' };
  for (const request of [used, begun, locked, branched]) {
    for (const more of [[], [{ port: 80 }], [{ headers: keyHeaders }]])
      await assert.rejects(Reflect.apply(fetch, undefined, [request, ...more]), TypeError);
    assert.equal((await fetch(request, read)).status, 201, 'another body takes its place');
  }
  const kept = new Request(target, adding);
  assert.equal((await fetch(kept.clone())).status, 201);
  assert.equal((await fetch(kept)).status, 201);
  await assert.rejects(fetch(kept), TypeError);
  assert.equal((await storage.list({ limit: 9 })).length, 6);
});

/** The rules that a host's server decides: malformed requests, CONNECT, Expect, unknown methods. */
const ofServer = ['P3', 'C15', 'C18', 'C33', 'C42', 'C43', 'C45', 'C47', 'C52', 'C64'];

describe('tests that wait for seconds', { concurrency: true }, () => {
  test('handler follows the contract under http.createServer, except for the rules of the host', async (t) => {
    const port = await embed(t);
    const failed: string[] = [];
    for await (const { number, outcome } of verifyPetstore({
      url: `http://127.0.0.1:${port}`,
      key,
    }))
      if (outcome === 'failed' && !ofServer.includes(number)) failed.push(number);
    assert.deepEqual(failed, []);

    const headers = ['Expect: 100-continue', `Content-Length: ${petJson.length}`];
    const client = await connectTo(t, { port }, requestBytes('POST', '/v1/pets', { headers }));
    await client.expect(100);
    await client.send(petJson).expect(201);
  });

  test('close closes plugins and storage although a request never ends', async () => {
    const script = `
      import { createPetstore } from ${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)};
      const petstore = createPetstore({ keys: ['k'], plugins: [(host) => host.onClose(() => console.log('closed'))] });
      const headers = { Authorization: 'Bearer k' };
      void petstore.fetch('http://a/v1/pets', { method: 'POST', headers, body: new ReadableStream(), duplex: 'half' });
      await petstore.close();`;
    const args = ['--input-type=module', '--eval', script];
    const { code, stdout } = await new StartedProcess(process.execPath, args, { cwd: root }).ended;
    assert.deepEqual([code, stdout], [0, 'closed\n']);
  });

  test('fetch rejects with the reason of an aborted signal, and undoes nothing', async (t) => {
    const unblock: (() => void)[] = [];
    const statuses: number[] = [];
    const plugin: Plugin = ({ around, onReply }) => {
      around(async (_, next) => {
        await new Promise<void>((resolve) => unblock.push(resolve));
        return next();
      });
      onReply(({ status }) => statuses.push(status));
    };
    const { fetch, close, storage } = create(t, { plugins: [plugin] });
    const ways: readonly ((signal: AbortSignal) => Promise<Response>)[] = [
      (signal) => fetch(target, { ...adding, signal }),
      (signal) => fetch(new Request(target, { ...adding, signal })),
      (signal) => fetch(new Request(target, { ...adding, signal }), { headers: keyHeaders }),
      (signal) => fetch(new Request(target, adding), { signal }),
    ];
    const reason = new Error('too late');
    for (const [index, way] of ways.entries()) {
      await assert.rejects(way(AbortSignal.abort()), { name: 'AbortError' });
      await assert.rejects(way(AbortSignal.abort(reason)), reason);
      assert.equal(statuses.length, index, 'nothing was begun');
      const aborting = new AbortController();
      const pending = way(aborting.signal);
      await until('the operation', () => unblock.length > index);
      aborting.abort(reason);
      await assert.rejects(pending, reason);
      assert.equal(statuses.length, index, 'at once, not when the operation ends');
      unblock[index]?.();
      await until('the pet', () => statuses.length > index);
    }
    assert.deepEqual(statuses, [201, 201, 201, 201]);
    assert.equal((await storage.list({ limit: 9 })).length, 4);

    const aborting = new AbortController();
    const pending = fetch(streamed(new ReadableStream(), { signal: aborting.signal }));
    await nextTurn();
    aborting.abort();
    await assert.rejects(pending, { name: 'AbortError' });
    await close();
    assert.equal(statuses[4], 400, 'a body that never ends holds nothing up');
  });
});

test('handler serves the rest of the target that a framework passes on', async (t) => {
  const port = await embed(t, (handler) => (request, response) => {
    if (!request.url?.startsWith('/shop/')) return void response.writeHead(418).end();
    request.url = request.url.slice('/shop'.length);
    response.setHeader('X-Powered-By', 'us');
    handler(request, response);
  });
  const client = await connectTo(
    t,
    { port },
    requestBytes('POST', '/shop/v1/pets', { body: petJson }) + requestBytes('GET', '/shop/v1/pets'),
  );
  const response = await client.expect(201, 200);
  const values = ['X-Powered-By', 'Content-Type'].map((name) => header(response, name));
  assert.deepEqual(values, ['us', 'application/json']);
});

test('C56 begins links and servers with the mount path in baseUrl, if it is a plain path', async (t) => {
  let baseUrl: unknown = '/shop';
  let now = Date.UTC(2026, 0);
  const mount =
    (handler: Petstore['handler']): RequestListener =>
    (request, response) =>
      handler(Object.assign(request, { baseUrl }), response);
  const document = { operationId: 'stats', responses: { 200: { description: 'Some.' } } };
  const stats: Plugin = ({ route }) =>
    route({ path: '/stats', methods: { GET: { handler: () => okReply('[]'), document } } });
  const port = await embed(t, mount, { clock: () => now, plugins: [stats] });
  const bodyOf = async (path: string) => (await sendRequest(port, 'GET', path)).body;
  const words = { body: petJson };
  await expectResponses(port, [
    ['POST /v1/pets', 201, words, { Location: '/shop/v1/pets/1' }],
    ['GET /v1/pets/1', 200, {}, { Link: '</shop/v1/pets>; rel="successor-version"' }],
  ]);
  assert.match(await bodyOf('/openapi.json'), /"servers":\[\{"url":"\/shop\/v1"\}\]/);
  assert.match(await bodyOf('/openapi.json'), /"\/stats":\{"servers":\[\{"url":"\/shop"\}\]/);
  now = Date.UTC(2030, 11, 6);
  assert.match(await bodyOf('/v1/pets/1'), /; use GET \/shop\/v1\/pets\./);
  now = Date.UTC(2026, 0);
  for (baseUrl of ['', '//else.example', 'shop', '/a b', '/a/', 5, undefined]) {
    const location = header(await expectResponse(port, 'POST /v1/pets', 201, words), 'Location');
    assert.match(location ?? '', /^\/v1\/pets\/\d+$/, String(baseUrl));
  }
  assert.match(await bodyOf('/openapi.json'), /"servers":\[\{"url":"\/v1"\}\]/);
});

test('C51 handler responds before a body is complete, and closes the connection', async (t) => {
  const port = await embed(t);
  for (const [status, authorization] of [
    [413, `Bearer ${key}`],
    [401, null],
  ] as const) {
    const words = { headers: ['Content-Length: 50000000'], authorization };
    const client = await connectTo(t, { port }, requestBytes('POST', '/v1/pets', words));
    assert.equal(header(await client.expect(status), 'Connection'), 'close');
    for (let pieces = 0; pieces < 10; pieces++) client.send('x'.repeat(10_000));
    assert.ok((await client.closed()) < 4_000);
  }
});

test('handler writes no body for HEAD or 204, even while the request still arrives', async (t) => {
  const { handler } = create(t);
  const server = createServer({ rejectNonStandardBodyWrites: true }, handler);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  atEnd(t, () => server.close());
  for (const [method, path, status] of [
    ['HEAD', '/healthz', 200],
    ['OPTIONS', '/v1/pets', 204],
  ] as const) {
    const client = await connectTo(t, Object(server.address()));
    client.send(requestBytes(method, path, { headers: ['Content-Length: 100'] }));
    assert.equal((await client.nextResponse(method)).status, status);
  }
});

test('handler sends nothing if the framework has already responded', async (t) => {
  const port = await embed(t, (handler) => (request, response) => {
    handler(request, response);
    response.writeHead(202, { 'Content-Length': 0 }).end();
  });
  const client = await connectTo(t, { port });
  await client.send(requestBytes('GET', '/v1/pets').repeat(3)).expect(202, 202, 202);
});

test('handler sends nothing if the framework has begun a response', async (t) => {
  const port = await embed(t, (handler) => (request, response) => {
    handler(request, response);
    response.writeHead(202, { 'Content-Length': 2 }).write('o');
    setTimeout(() => response.end('k'), 50);
  });
  const client = (await connectTo(t, { port })).send(requestBytes('GET', '/v1/pets'));
  const { status, body } = await client.nextResponse();
  assert.deepEqual([status, body], [202, 'ok']);
});

test('C69 handler sends the other responses of a tick if a framework throws', async (t) => {
  const held: (() => void)[] = [];
  const port = await embed(t, (handler) => (request, response) => {
    if (held.length === 0) response.writeHead = () => assert.fail('theirs');
    held.push(() => handler(request, response));
    if (held.length === 2) for (const each of held) each();
  });
  const responses = [1, 2].map(async () =>
    (await connectTo(t, { port }, requestBytes('GET', '/healthz'))).nextResponse(),
  );
  const statuses = (await Promise.all(responses)).map(({ status }) => status);
  assert.deepEqual(statuses.sort(), [200, 500]);
});

/** Serves `handler` to a client that leaves while its key is verified; returns what is reported. */
async function leaveDuringKeyCheck(t: TestContext, request: string) {
  const { keys, verifying, unblock } = blockedKeys();
  const { options, reports } = delayingUntilGone();
  const closed = gate();
  const watch = (handler: Petstore['handler']): RequestListener => {
    return (each, response) => handler(each, response.once('close', closed.open));
  };
  const client = await connectTo(t, { port: await embed(t, watch, { keys, ...options }) }, request);
  await verifying;
  client.destroy();
  await closed.opened;
  unblock();
  await until('the report', () => reports.length > 0);
  return reports;
}

/** Returns options with a plugin that delays each request until its client is gone. */
function delayingUntilGone() {
  const reports: unknown[] = [];
  const plugin: Plugin = ({ around, onReply }) => {
    around(async ({ onAbandoned }, next) => {
      await new Promise<void>(onAbandoned);
      return next();
    });
    onReply(({ status, cut }) => reports.push([status, cut]));
  };
  return { options: { plugins: [plugin] }, reports };
}

test('handler does not wait for the body of a client that left during a slow key check', async (t) => {
  const request = requestBytes('POST', '/v1/pets', { headers: ['Content-Length: 1000'] });
  assert.deepEqual(await leaveDuringKeyCheck(t, request), [[400, 'client']]);
});

test('C53 C90 handler ends the delay of a client that left before, and reports the cut', async (t) => {
  const reports = await leaveDuringKeyCheck(t, requestBytes('GET', '/v1/pets'));
  assert.deepEqual(reports, [[200, 'client']]);
});

test('fetch, handler, listen and close work unbound, and close can be called repeatedly', async (t) => {
  const { fetch, listen, close, storage } = create(t);
  const [first, second] = [await listen({ port: 0 }), await listen({ port: 0 })];
  assert.notEqual(first.port, second.port);
  assert.equal(first.url, `http://127.0.0.1:${first.port}`);
  assert.equal((await globalThis.fetch(`${second.url}/healthz`)).status, 200);
  assert.equal((await fetch('http://a/healthz')).status, 200);
  const closing = [close(), close()];
  assert.equal(closing[0], closing[1]);
  await Promise.all([...closing, close()]);
  await assert.rejects(storage.get(1n), { code: 'unavailable' });
});

test('close waits until handler has sent its responses', async (t) => {
  const { keys, verifying, unblock } = blockedKeys();
  const order: string[] = [];
  const plugin: Plugin = ({ onReply, onClose }) => {
    onReply(() => order.push('left'));
    onClose(() => void order.push('closed'));
  };
  const { handler, close } = create(t, { keys, plugins: [plugin] });
  const client = await connectTo(
    t,
    { port: await serve(t, handler) },
    requestBytes('GET', '/v1/pets'),
  );
  await verifying;
  const closed = close();
  unblock();
  await closed;
  assert.deepEqual(order, ['left', 'closed']);
  assert.equal(header(await client.expect(200), 'Connection'), 'close');
});

test('close waits for requests of fetch in flight', async (t) => {
  const { fetch, close } = create(t);
  const rest = gate();
  const body = new ReadableStream({
    start: async (controller) => {
      controller.enqueue(Buffer.from(petJson.slice(0, 9)));
      await rest.opened;
      controller.enqueue(Buffer.from(petJson.slice(9)));
      controller.close();
    },
  });
  const pending = fetch(streamed(body));
  await nextTurn();
  const closed = close();
  rest.open();
  assert.equal((await pending).status, 201);
  await closed;
  assert.equal((await fetch(target, { headers: keyHeaders })).status, 503);
});

test('C75 close waits 8 s for a request that never ends', async (t) => {
  let isClosed = false;
  const plugin: Plugin = ({ onClose }) => onClose(() => void (isClosed = true));
  const { fetch, close } = create(t, { plugins: [plugin] });
  const timeouts = mockTimeouts(t);
  const aborting = new AbortController();
  const pending = fetch(streamed(new ReadableStream(), { signal: aborting.signal }));
  await nextTurn();
  const closed = close();
  timeouts.tick(7_999);
  await nextTurn();
  assert.equal(isClosed, false);
  timeouts.tick(1);
  await closed;
  assert.equal(isClosed, true);
  aborting.abort();
  await assert.rejects(pending, { name: 'AbortError' });
});

test('listen rejects a port in use, an invalid port, and any port once the petstore is closed', async (t) => {
  const { port } = await start(t);
  const { listen, close } = create(t);
  for (const wrong of [3456, '3456', null]) {
    await assert.rejects(Reflect.apply(listen, undefined, [wrong]), {
      name: 'TypeError',
      message: /listen\(\{ port: 3000 \}\)/,
    });
  }
  await assert.rejects(listen({ port }), { code: 'EADDRINUSE' });
  const { port: own } = await listen({ port: 0 });
  const unavailable = { name: 'PetstoreError', code: 'unavailable' };
  const refusal = assert.rejects(listen({ port: 0 }), unavailable);
  await close();
  await refusal;
  for (const each of [0, port]) await assert.rejects(listen({ port: each }), unavailable);
  await assert.rejects(Client.connect(own), { code: 'ECONNREFUSED' });
});

test('listen rejects and leaves no port open if close is called while a port opens', async (t) => {
  const ports = () =>
    process.getActiveResourcesInfo().filter((name) => name === 'TCPServerWrap').length;
  const before = ports();
  const { listen, close } = create(t);
  const refusal = assert.rejects(listen({ port: 0, host: 'localhost' }), { code: 'unavailable' });
  // Only promises, so that the lookup of the host begins and cannot end.
  for (let count = 0; count < 50; count++) await undefined;
  await close();
  await refusal;
  assert.equal(ports(), before);
});

test('two hundred petstores in one process leave no handle, no listener and no output', async (t) => {
  // biome-ignore format: one line for each value would hide the test.
  const events = ['uncaughtException', 'unhandledRejection', 'SIGTERM', 'SIGINT', 'SIGHUP', 'exit', 'beforeExit', 'warning'];
  const listeners = (): readonly number[] => events.map((event) => process.listenerCount(event));
  const counted = (): number =>
    process.getActiveResourcesInfo().filter((name) => /TCP|Timeout|Immediate/.test(name)).length;
  const written: unknown[] = [];
  for (const method of ['log', 'info', 'warn', 'error', 'debug'] as const)
    t.mock.method(console, method, (...words: unknown[]) => written.push(words));
  const onWarning = (warning: Error): void => void written.push(warning);
  process.on('warning', onWarning);
  const [listenersBefore, before] = [listeners(), counted()];
  const petstores = Array.from({ length: 200 }, () => createPetstore({ keys: [key] }));
  await Promise.all(
    petstores.map(async ({ listen, fetch }, index) => {
      const { port } = await listen({ port: 0 });
      const added = await fetch(target, adding);
      assert.equal(await added.text(), firstPetJson, 'each has its own pets');
      if (index % 10 === 0) await expectResponse(port, 'GET /v1/pets', `200 [${firstPetJson}]`);
    }),
  );
  assert.deepEqual(listeners(), listenersBefore);
  await Promise.all(petstores.map(({ close }) => close()));
  await sleep(50);
  process.off('warning', onWarning);
  const left = process.getActiveResourcesInfo().join(' ');
  assert.ok(counted() <= before + 1, `${counted()} handles, ${before} before: ${left}`);
  assert.deepEqual(written, []);
});

const reading =
  (handler: Petstore['handler'], next?: (error?: unknown) => void): RequestListener =>
  (request, response) =>
    request.resume().once('end', () => setImmediate(() => handler(request, response, next)));
const hint = /mount the petstore before any body parser/;

test('handler reads a paused body, and logs a hint with a 500 if the body was read before', async (t) => {
  const logged: unknown[] = [];
  const log: PetstoreOptions['log'] = (_level, ...line) => logged.push(line);
  for (const [wrap, status] of [
    [
      (handler) => (request, response) => {
        request.pause();
        setImmediate(() => handler(request, response));
      },
      201,
    ],
    [(handler) => (request, response) => handler(request.setEncoding('utf8'), response), 500],
    [reading, 500],
  ] as const satisfies readonly (readonly [Parameters<typeof embed>[1], number])[]) {
    const port = await embed(t, wrap, { log });
    await expectResponses(port, [
      ['POST /v1/pets', status, { body: petJson }],
      ['GET /v1/pets', `200 [${status === 201 ? firstPetJson : ''}]`],
    ]);
  }
  assert.match(JSON.stringify(logged[1]), hint);
  assert.equal(logged.length, 2);
});

test('handler passes the error of a body that was read before to next', async (t) => {
  const { handler } = create(t);
  const errors: unknown[] = [];
  const port = await serve(t, (request, response) =>
    reading(handler, (error) => {
      errors.push(error);
      response.writeHead(599, { 'Content-Length': 0 }).end();
    })(request, response),
  );
  await (await connectTo(t, { port }, post)).expect(599);
  assert.match(String(errors[0]), hint);
});

test('handler responds 404 or 405 itself, and passes nothing to next', async (t) => {
  const passedOn: unknown[] = [];
  const port = await embed(t, (handler) => (request, response) => {
    handler(request, response, (error) => void passedOn.push(error));
  });
  await expectResponses(port, [
    ...['/', '/own', '/v1', '/v1/pets/1/own'].map((path) => [`GET ${path}`, 404] as const),
    ['DELETE /v1/pets', 405],
  ]);
  assert.deepEqual(passedOn, []);
});

test('fetch accepts strings, URLs and init as the platform’s fetch does', async (t) => {
  const { fetch } = create(t);
  const init = { headers: keyHeaders };
  for (const [verifying, status] of [
    [fetch('http://a/healthz'), 200],
    // A fragment is not sent to a server.
    [fetch('http://a/healthz#pets'), 200],
    [fetch('http://a/v1/pets?limit=1#pets', init), 200],
    [fetch(new URL(target), init), 200],
    [fetch(new Request(target), init), 200],
    [fetch(target, adding), 201],
  ] as const)
    assert.equal((await verifying).status, status);
  await assert.rejects(fetch('/v1/pets'), TypeError);
});

test('C53 C90 fetch ends a request that was aborted during a slow key check, and reports the cut', async (t) => {
  for (const [init, expected] of [
    [{ headers: keyHeaders }, [200, 'client']],
    // The body fails before it is read.
    [adding, [400, 'client']],
  ] as const) {
    const { keys, verifying, unblock } = blockedKeys();
    const { options, reports } = delayingUntilGone();
    const { fetch } = create(t, { keys, ...options });
    const controller = new AbortController();
    const { signal } = controller;
    const aborted = assert.rejects(fetch(target, { ...init, signal }), { name: 'AbortError' });
    await verifying;
    controller.abort();
    await aborted;
    unblock();
    await until('the report', () => reports.length > 0);
    assert.deepEqual(reports, [expected]);
  }
});

test('fetch leaves no listener on the signal of a request', async (t) => {
  const { fetch } = create(t);
  const request = new Request('http://a/healthz', { signal: new AbortController().signal });
  const before = getEventListeners(request.signal, 'abort').length;
  for (let i = 0; i < 3; i++) assert.equal((await fetch(request)).status, 200);
  await nextTurn();
  assert.equal(getEventListeners(request.signal, 'abort').length, before);
});

test('C56 fetch uses baseUrl of a request, and ignores a second argument that is not an init', async (t) => {
  class Server {
    readonly port = 80;
    get url(): URL {
      return assert.fail('read');
    }
  }
  // Compiles only if a runtime can take `fetch` as it is.
  const serve: (
    request: Request,
    given: Server | { readonly completed: Promise<void> },
  ) => Promise<Response> = create(t).fetch;
  for (const given of [new Server(), { completed: Promise.resolve() }, Object.create(null), null]) {
    // A copy of the request would not have `baseUrl`.
    const request = Object.assign(new Request(target, adding), { baseUrl: '/shop' });
    assert.match(
      (await serve(request, given)).headers.get('location') ?? '',
      /^\/shop\/v1\/pets\//,
    );
  }
});

test('listen opens no port on Bun and Deno, and says what to use instead', async (t) => {
  const { listen } = create(t);
  for (const runtime of ['Bun', 'Deno']) {
    atEnd(t, () => Reflect.deleteProperty(globalThis, runtime));
    Reflect.set(globalThis, runtime, {});
    await assert.rejects(listen({ port: 0 }), {
      name: 'TypeError',
      message:
        'listen works only on Node.js; pass petstore.fetch to Bun.serve or Deno.serve instead',
    });
    Reflect.deleteProperty(globalThis, runtime);
  }
});
