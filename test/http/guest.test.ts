/**
 * Tests of `handler` with the requests and responses of hosts. `make check-ecosystem` runs similar
 * tests with real frameworks.
 */
import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { EventEmitter, once } from 'node:events';
import { IncomingMessage, ServerResponse, type RequestListener } from 'node:http';
import http2 from 'node:http2';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  createPetstore,
  type Petstore,
  type PetstoreOptions,
  type Plugin,
} from '../../dist/index.js';
import { corsPlugin } from '../../dist/plugins/cors.js';
import { docsPlugin } from '../../dist/plugins/docs.js';
import { atEnd } from '../support/at-end.js';
import { sendRequest, requestBytes, connectTo, key } from '../support/fixture.js';
import { petJson, firstPetJson, blockedKeys, serve } from '../support/scenes.js';

type Handler = Petstore['handler'];
/** Middleware that runs before the petstore, and may change the request and the response. */
type Middleware = (request: IncomingMessage, response: ServerResponse) => void;

function create(t: TestContext, options: Partial<PetstoreOptions> = {}): Petstore {
  const petstore = createPetstore({ keys: [key], ...options });
  atEnd(t, () => petstore.close());
  return petstore;
}

/** Serves a petstore behind middleware; resolves to the port. */
function serveBehind(
  t: TestContext,
  middleware: Middleware,
  options: Partial<PetstoreOptions> = {},
  next?: (error: unknown, response: ServerResponse) => void,
): Promise<number> {
  const { handler } = create(t, options);
  return serve(t, (request, response) => {
    middleware(request, response);
    if (next === undefined) handler(request, response);
    else handler(request, response, (error) => next(error, response));
  });
}

/** Fails the test if an error is uncaught. */
function watchEventLoop(t: TestContext): void {
  const thrown: unknown[] = [];
  process.setUncaughtExceptionCaptureCallback((error) => thrown.push(error));
  atEnd(t, () => {
    process.setUncaughtExceptionCaptureCallback(null);
    assert.deepEqual(thrown, []);
  });
}

/**
 * Wraps `writeHead` as the package on-headers did until 1.1, for morgan and compression. It takes
 * an array of headers as a list of pairs.
 */
function wrapWriteHead(response: ServerResponse, listener: () => void): void {
  const { writeHead } = response;
  Reflect.set(response, 'writeHead', (status: number, ...rest: readonly unknown[]) => {
    const headers = rest.at(-1);
    if (Array.isArray(headers)) for (const pair of headers) response.setHeader(pair[0], pair[1]);
    else
      for (const [name, value] of Object.entries(Object(headers)))
        response.setHeader(name, String(value));
    response.statusCode = status;
    listener();
    return writeHead.call(response, response.statusCode);
  });
}

const json = { 'Content-Type': 'application/json' };
const cat = '{"name":"猫","categoryId":1}';

/** Sends one request with the key, and reads the whole response. */
async function send(port: number, path: string, init: RequestInit = {}) {
  const headers = { Authorization: `Bearer ${key}`, ...init.headers };
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { ...init, headers });
  return { status: response.status, headers: response.headers, body: await response.text() };
}

describe('C69 the response of the host', () => {
  test('C69 sends its response through wrappers of writeHead, setHeader and end', async (t) => {
    watchEventLoop(t);
    const seen: unknown[] = [];
    const port = await serveBehind(t, (_, response) => {
      wrapWriteHead(response, () => {
        seen.push(response.statusCode, response.getHeader('Content-Type'));
        response.setHeader('X-Wrapped', 'yes');
      });
      const { end } = response;
      // Like a session that delays the end of a response, and ignores the encoding.
      Reflect.set(response, 'end', (chunk?: string | Buffer) => {
        setImmediate(() => end.call(response, chunk ?? '', 'utf8'));
        return response;
      });
    });
    const added = await send(port, '/v1/pets', { method: 'POST', body: cat, headers: json });
    assert.deepEqual([added.status, added.body], [201, `{"id":1,${cat.slice(1)}`]);
    assert.equal(added.headers.get('Location'), '/v1/pets/1');
    const got = await send(port, '/v1/pets/1');
    assert.deepEqual([got.status, got.body], [200, added.body]);
    assert.equal(got.headers.get('Deprecation'), '@1795132800');
    const head = await send(port, '/v1/pets/1', { method: 'HEAD' });
    assert.deepEqual([head.status, head.headers.get('Content-Type')], [200, 'application/json']);
    const options = await send(port, '/v1/pets', { method: 'OPTIONS' });
    assert.equal(options.headers.get('X-Wrapped'), 'yes');
    const type = 'application/json';
    assert.deepEqual(seen, [201, type, 200, type, 200, type, 204, undefined]);
  });

  test('C69 shows the headers of its response to the host’s listeners and observers', async (t) => {
    const seen: unknown[] = [];
    const see = (response: ServerResponse) => seen.push(response.getHeader('Content-Type'));
    for (const event of ['finish', 'close']) {
      const port = await serveBehind(t, (_, response) => response.on(event, () => see(response)));
      await send(port, '/v1/pets');
    }
    const observe = (message: unknown) => see(Object(message).response);
    subscribe('http.server.response.finish', observe);
    atEnd(t, () => unsubscribe('http.server.response.finish', observe));
    await send(await serveBehind(t, () => undefined), '/v1/pets');
    assert.deepEqual(seen, ['application/json', 'application/json', 'application/json']);
  });

  test('C69 joins a list header that several plugins add', async (t) => {
    const plugins: readonly Plugin[] = ['A', 'B, a'].map(
      (value) => (host) => host.addHeaders(() => ['Vary', value]),
    );
    const port = await serveBehind(t, () => undefined, { plugins });
    const { headers } = await sendRequest(port, 'GET', '/v1/pets');
    assert.deepEqual(headers.get('vary'), ['A, B']);
  });

  test('C69 sends a header that several plugins add, in any letter case of its name', async (t) => {
    const plugins: readonly Plugin[] = ['x-note', 'X-Note', 'X-NOTE'].map(
      (name) => (host) => host.addHeaders(() => [name, name]),
    );
    const port = await serveBehind(t, () => undefined, { plugins });
    const { headers } = await sendRequest(port, 'GET', '/v1/pets');
    assert.deepEqual(headers.get('x-note'), ['x-note', 'X-Note', 'X-NOTE']);
  });

  test('C69 adds to the list headers of the host, and replaces its other headers', async (t) => {
    let hostHeaders: Readonly<Record<string, string | readonly string[]>> = {};
    const port = await serveBehind(
      t,
      (_, response) => {
        for (const [name, value] of Object.entries(hostHeaders)) response.setHeader(name, value);
      },
      {
        plugins: [
          corsPlugin({ origins: ['https://a.example'] }),
          ({ addHeaders }) =>
            addHeaders(() => ['Set-Cookie', 'c=d', 'Server-Timing', 'pets;dur=1']),
        ],
      },
    );
    const valuesOf = async (name: string, path = '/v1/pets/1') => {
      const words = { headers: ['Origin: https://a.example'] };
      return (await sendRequest(port, 'GET', path, words)).headers.get(name);
    };
    for (const [vary, expected] of [
      ['Accept-Encoding', 'Accept-Encoding, Origin'],
      ['accept-encoding, origin', 'accept-encoding, origin'],
      [['Accept', 'Cookie'], 'Accept, Cookie, Origin'],
      ['*', '*'],
    ] as const) {
      hostHeaders = { Vary: vary };
      assert.deepEqual(await valuesOf('vary'), [expected]);
    }
    hostHeaders = {
      Link: '</a.css>; rel="preload"',
      'Set-Cookie': 'a=b',
      'Server-Timing': 'host;dur=2',
      Connection: 'keep-alive',
    };
    assert.deepEqual(await valuesOf('link'), [
      '</a.css>; rel="preload"',
      '</v1/pets>; rel="successor-version"',
    ]);
    assert.deepEqual(await valuesOf('set-cookie'), ['a=b', 'c=d']);
    assert.deepEqual(await valuesOf('server-timing'), ['host;dur=2', 'pets;dur=1']);
    hostHeaders = { 'access-control-expose-headers': 'X-Own, link', 'Cache-Control': 'public' };
    const [exposed = ''] = (await valuesOf('access-control-expose-headers')) ?? [];
    assert.match(exposed, /^X-Own, link, Location, /);
    assert.deepEqual(await valuesOf('cache-control'), ['no-store']);
    assert.deepEqual(await valuesOf('access-control-allow-origin'), ['https://a.example']);
  });

  const thrower = (): never => assert.fail('theirs');
  const members = ['writeHead', 'setHeader', 'end', 'getHeader'] as const;

  test('C69 responds 500 and leaves no error uncaught if the host’s code throws', async (t) => {
    watchEventLoop(t);
    for (const member of members) {
      const logged: unknown[] = [];
      const port = await serveBehind(
        t,
        (_, response) => void Reflect.set(response, member, thrower),
        { log: (_level, ...line) => logged.push(line) },
      );
      const { status, body } = await send(port, '/v1/pets/1');
      assert.equal(status, 500, member);
      assert.equal(Object(JSON.parse(body)).code, 'internal_error');
      assert.match(JSON.stringify(logged), /theirs/, member);
    }
  });

  test('C69 passes an error of the host’s code to next, without the headers of the reply', async (t) => {
    watchEventLoop(t);
    for (const member of members) {
      const port = await serveBehind(
        t,
        (_, response) => {
          response.setHeader('Link', '</own>');
          Reflect.set(response, member, thrower);
        },
        {},
        (error, response) => {
          Reflect.deleteProperty(response, member);
          response.statusCode = 599;
          response.end(String(error));
        },
      );
      const { status, body, headers } = await send(port, '/v1/pets/1');
      assert.equal(status, 599, member);
      assert.match(body, /theirs/);
      assert.equal(headers.get('link'), '</own>');
      assert.equal(headers.has('deprecation'), false);
    }
  });

  test('C69 ends the response with 500 if next throws', async (t) => {
    watchEventLoop(t);
    const port = await serveBehind(
      t,
      (_, response) => void Reflect.set(response, 'writeHead', thrower),
      {},
      thrower,
    );
    const { status, body } = await send(port, '/healthz');
    assert.deepEqual([status, Object(JSON.parse(body)).code], [500, 'internal_error']);
  });

  test('C69 closes the connection if the host’s code throws during the response', async (t) => {
    watchEventLoop(t);
    const port = await serveBehind(t, (_, response) => {
      const { write } = response;
      response.end = () => {
        write.call(response, '{', 'utf8');
        return thrower();
      };
    });
    const client = await connectTo(t, { port }, requestBytes('GET', '/healthz'));
    await assert.rejects(client.nextResponse());
  });

  test('C69 runs the host’s code in the async context of its request', async (t) => {
    const context = new AsyncLocalStorage<number>();
    const seen: (readonly [string | undefined, number | undefined])[] = [];
    const { keys, verifying, unblock } = blockedKeys();
    const { handler } = create(t, { keys });
    let count = 0;
    const port = await serve(t, (request, response) =>
      context.run(++count, () => {
        response.setHeader('X-Count', count);
        wrapWriteHead(response, () =>
          seen.push([String(response.getHeader('X-Count')), context.getStore()]),
        );
        handler(request, response);
      }),
    );
    const responses = [1, 2, 3].map(() => send(port, '/v1/pets'));
    await verifying;
    unblock();
    await Promise.all(responses);
    for (const [counted, store] of seen) assert.equal(counted, String(store));
    assert.equal(seen.length, 3);
  });

  test('C69 ends a request to which the host has responded, without waiting for its body', async (t) => {
    watchEventLoop(t);
    const ways: readonly ((handler: Handler) => RequestListener)[] = [
      (handler) => (request, response) => {
        handler(request, response);
        response.writeHead(202, { 'Content-Length': 0 }).end();
      },
      (handler) => (request, response) => {
        response.writeHead(202, { 'Content-Length': 0 }).end();
        handler(request, response);
      },
      (handler) => (request, response) => {
        response.writeHead(202, { 'Content-Length': 0 }).end();
        response.once('close', () =>
          handler(request, response, () => assert.fail('the host has responded')),
        );
      },
      (handler) => (request, response) => {
        handler(request, response);
        response.writeHead(202, { 'Content-Length': 1 }).write('x');
        setTimeout(() => response.destroy(), 50);
      },
    ];
    for (const way of ways) {
      const statuses: number[] = [];
      const plugin: Plugin = ({ onReply }) => onReply(({ status }) => statuses.push(status));
      const petstore = create(t, { plugins: [plugin] });
      const port = await serve(t, way(petstore.handler));
      const words = { headers: ['Content-Length: 1000'] };
      const client = await connectTo(
        t,
        { port },
        requestBytes('POST', '/v1/pets', words) + petJson,
      );
      await client
        .send('')
        .nextResponse()
        .catch(() => undefined);
      client.destroy();
      const since = performance.now();
      await petstore.close();
      assert.ok(performance.now() - since < 4_000, 'close waits for requests up to 8 s');
      assert.deepEqual(statuses, [400]);
      assert.equal((await petstore.fetch('http://a/healthz')).status, 200);
    }
  });
});

describe('C70 the request of the host', () => {
  /** Changes by middleware, and the status that each causes. */
  const rows: readonly (readonly [
    change: Middleware,
    status: number,
    request: string,
    headers: readonly string[],
  ])[] = [
    [({ headers }) => (headers.authorization = `Bearer ${key}`), 200, 'GET /v1/pets', []],
    [({ headers }) => delete headers.authorization, 401, 'GET /v1/pets', [`Bearer ${key}`]],
    [() => undefined, 401, 'GET /v1/pets', [`Bearer ${key}`, `Bearer ${key}`]],
    [
      ({ headers }) => (headers.authorization = `bearer ${key}`),
      200,
      'GET /v1/pets',
      ['Bearer a', 'Bearer b'],
    ],
    [
      (request) => (request.headers = { authorization: `Bearer ${key}` }),
      200,
      'GET /v1/pets',
      ['Bearer wrong'],
    ],
    [(request) => (request.url = '/v1/pets'), 200, 'GET /animals', [`Bearer ${key}`]],
    [(request) => (request.method = 'DELETE'), 405, 'GET /v1/pets', [`Bearer ${key}`]],
    [({ headers }) => delete headers.host, 200, 'GET /v1/pets', [`Bearer ${key}`]],
  ];
  test('C70 uses the request as middleware has changed it', async (t) => {
    for (const [index, [change, status, request, authorizations]] of rows.entries()) {
      const port = await serveBehind(t, change);
      const [method = '', path = ''] = request.split(' ');
      const headers = authorizations.map((value) => `Authorization: ${value}`);
      const bytes = requestBytes(method, path, { authorization: null, headers });
      const client = await connectTo(t, { port }, bytes);
      assert.equal((await client.nextResponse()).status, status, `row ${index}`);
    }
  });

  test('C70 reads the body by the headers that middleware has changed', async (t) => {
    const post = { headers: ['Content-Encoding: gzip', 'Idempotency-Key: a'], body: petJson };
    for (const [change, status] of [
      [() => undefined, 415],
      [({ headers }) => delete headers['content-encoding'], 201],
      [({ headers }) => (headers['content-encoding'] = 'identity'), 201],
      [({ headers }) => Object.assign(headers, { 'content-encoding': undefined }), 201],
      [
        ({ headers }) =>
          Object.assign(headers, { 'content-encoding': 'identity', 'content-length': 70_000 }),
        413,
      ],
      [
        ({ headers }) =>
          Object.assign(headers, { 'content-encoding': null, 'idempotency-key': ['a', 'b'] }),
        400,
      ],
    ] as const satisfies readonly (readonly [Middleware, number])[]) {
      const client = await connectTo(
        t,
        { port: await serveBehind(t, change) },
        requestBytes('POST', '/v1/pets', post),
      );
      assert.equal((await client.nextResponse()).status, status);
    }
  });

  test('C70 sends no body for HEAD, even if middleware changes the method', async (t) => {
    for (const [sent, method, body] of [
      ['POST', 'HEAD', '[]'],
      ['HEAD', 'GET', ''],
    ] as const) {
      const port = await serveBehind(t, (request) =>
        Object.assign(request, { originalMethod: request.method, method }),
      );
      const { status, body: received } = await send(port, '/v1/pets', { method: sent });
      assert.deepEqual([status, received], [200, body]);
    }
  });

  /** A response with only the members that every framework's mock has. */
  class MockResponse extends EventEmitter {
    statusCode = 200;
    headersSent = false;
    body = '';
    readonly headers = new Map<string, unknown>();
    setHeader(name: string, value: unknown): void {
      this.headers.set(name.toLowerCase(), value);
    }
    getHeader(name: string): unknown {
      return this.headers.get(name.toLowerCase());
    }
    end(chunk: string | Buffer = ''): void {
      this.body = String(chunk);
      this.headersSent = true;
      this.emit('finish');
    }
  }

  /** Passes a mock request to a petstore; resolves to the status and the body. */
  async function mocked(handler: Handler, request: object): Promise<string> {
    const response = new MockResponse();
    const finished = once(response, 'finish');
    Reflect.apply(handler, undefined, [request, response]);
    await finished;
    return `${response.statusCode} ${response.body}`;
  }

  const headers = { authorization: `Bearer ${key}` };
  const post = { method: 'POST', url: '/v1/pets', headers };

  test('C70 serves mock requests without a socket and rawHeaders', async (t) => {
    async function* chunks() {
      yield Buffer.from(cat.slice(0, 10));
      yield cat.slice(10);
    }
    const sources: readonly object[] = [
      { ...post, [Symbol.asyncIterator]: chunks },
      Object.assign(Readable.from(chunks()), post),
      { ...post, body: Readable.from(chunks()) },
      { ...post, body: new Response(cat).body },
      { ...post, body: cat },
      { ...post, body: Buffer.from(cat) },
      { ...post, rawBody: Buffer.from(cat), body: JSON.parse(cat) },
      { ...post, rawBody: cat, readableEnded: true, readableDidRead: true },
      {
        ...post,
        headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
        body: cat,
      },
    ];
    for (const [index, request] of sources.entries()) {
      const { handler } = create(t);
      assert.equal(await mocked(handler, request), `201 {"id":1,${cat.slice(1)}`, `${index}`);
    }
    const { handler } = create(t);
    assert.equal(await mocked(handler, { method: 'GET', url: '/v1/pets', headers }), '200 []');
    assert.match(await mocked(handler, { method: 'GET', url: '/v1/pets' }), /^401 /);
    assert.match(await mocked(handler, { ...post, headers: null, socket: null }), /^401 /);
    assert.match(await mocked(handler, post), /^400 .*invalid_json/);
    assert.match(await mocked(handler, { ...post, body: 'x'.repeat(70_000) }), /^413 /);
    const failing = new Readable({ read: () => void failing.destroy(new Error('gone')) });
    assert.match(await mocked(handler, Object.assign(failing, post)), /^400 .*bad_request/);
  });

  test('C70 serves Node’s request and response without a connection, as on serverless platforms', async (t) => {
    const { handler } = create(t);
    const request = Object.assign(Readable.from([Buffer.from(cat)]), { ...post, rawHeaders: [] });
    const response = new ServerResponse(new IncomingMessage(Object(new EventEmitter())));
    const written: Buffer[] = [];
    const socket = new (class extends EventEmitter {
      readonly writable = true;
      cork = (): void => undefined;
      uncork = (): void => undefined;
      write = (chunk: string | Buffer, ...rest: readonly unknown[]): boolean => {
        // Such a socket ignores the encoding.
        written.push(Buffer.from(chunk));
        for (const each of rest) if (typeof each === 'function') each();
        return true;
      };
      destroySoon = (): void => undefined;
    })();
    response.assignSocket(Object(socket));
    Reflect.apply(handler, undefined, [request, response]);
    await once(response, 'finish');
    const sent = Buffer.concat(written).toString();
    assert.match(sent, /^HTTP\/1\.1 201 Created\r\n/);
    assert.ok(sent.includes(`{"id":1,${cat.slice(1)}`), sent);
  });

  test('C42 C70 detects a repeated header that only rawHeaders shows', async (t) => {
    const { handler } = create(t);
    const sent = (...more: readonly string[]) => ({
      ...post,
      body: petJson,
      headers: { ...headers, 'idempotency-key': 'a', 'content-type': 'application/json' },
      rawHeaders: ['Host', 'a', 'Authorization', `Bearer ${key}`, ...more],
    });
    for (const [more, expected] of [
      [['authorization', `Bearer ${key}`], /^401 /],
      [['Idempotency-Key', 'a', 'Idempotency-Key', 'a'], /^400 .*invalid_parameter/],
      [['Content-Type', 'application/json', 'content-type', 'application/json'], /^415 /],
      [['Content-Length', '27', 'Content-Length', '27'], /^400 .*bad_request/],
      [['Content-Length', '27', 'Transfer-Encoding', 'chunked'], /^400 .*bad_request/],
      [['Host', 'b'], /^400 .*bad_request/],
      [['Idempotency-Key', 'a'], /^201 /],
    ] as const)
      assert.match(await mocked(handler, sent(...more)), expected, more.join());
  });

  test('C70 reads the bytes that a body parser stored, or says how to store them', async (t) => {
    const errors: string[] = [];
    /** A body parser that may store the bytes. */
    const parsing =
      (handler: Handler, keep: (bytes: Buffer) => object): RequestListener =>
      async (request, response) => {
        const bytes = Buffer.from(await text(request));
        Object.assign(request, { body: JSON.parse(bytes.toString()) }, keep(bytes));
        handler(request, response, (error) => {
          errors.push(String(error));
          response.writeHead(599, { 'Content-Length': 0 }).end();
        });
      };
    for (const [keep, status] of [
      [(bytes: Buffer) => ({ rawBody: bytes }), 201],
      [(bytes: Buffer) => ({ rawBody: bytes.toString() }), 201],
      [(bytes: Buffer) => ({ body: bytes }), 201],
      [() => ({}), 599],
      [() => ({ body: petJson }), 599],
    ] as const) {
      const port = await serve(t, parsing(create(t).handler, keep));
      const init = { method: 'POST', body: petJson, headers: json };
      const { status: came, body } = await send(port, '/v1/pets', init);
      assert.equal(came, status);
      if (status === 201) assert.equal(body, firstPetJson);
    }
    assert.equal(errors.length, 2);
    assert.match(errors[0] ?? '', /express\.json\(\{ verify: .*request\.rawBody = bytes/);
    const port = await serve(
      t,
      parsing(create(t, { maxBodyBytes: 20 }).handler, (rawBody) => ({ rawBody })),
    );
    const init = { method: 'POST', body: '{"name":    "Rexxxxxxxxx"}', headers: json };
    assert.equal((await send(port, '/v1/pets', init)).status, 413);
  });

  test('C70 logs arguments that are not a request and a response', async (t) => {
    watchEventLoop(t);
    const logged: unknown[] = [];
    const { handler } = create(t, { log: (_level, ...line) => logged.push(line) });
    for (const wrong of [[], [{}, undefined], [undefined, new MockResponse()]])
      assert.equal(Reflect.apply(handler, undefined, wrong), undefined);
    await sleep(1);
    assert.equal(logged.length, 3);
  });

  test('C70 serves HTTP/2 by Node’s compatibility API', async (t) => {
    const server = http2.createServer((request, response) => {
      Reflect.apply(create(t).handler, undefined, [request, response]);
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const client = http2.connect(`http://127.0.0.1:${Object(server.address()).port}`);
    atEnd(t, () => {
      client.destroy();
      server.close();
    });
    for (const [status, authorization, body] of [
      [201, `Bearer ${key}`, cat],
      [401, 'Bearer wrong', cat],
      [413, `Bearer ${key}`, 'x'.repeat(200_000)],
    ] as const) {
      const stream = client.request({ ':path': '/v1/pets', ':method': 'POST', authorization });
      stream.on('error', () => undefined).end(body);
      const [received] = await once(stream, 'response');
      assert.equal(received[':status'], status);
      const whole = await text(stream);
      if (status === 201) assert.equal(whole, `{"id":1,${cat.slice(1)}`);
    }
  });
});

describe('C56 C58 the mount path', () => {
  /** Removes a prefix from the target as frameworks do. */
  const mounts: Readonly<Record<string, Middleware>> = {
    'connect, h3, middie and Vite': (request) => {
      const { url = '' } = request;
      const rest = url.slice('/x'.length);
      Object.assign(request, {
        originalUrl: url,
        url: rest.startsWith('/') ? rest : `/${rest}`,
      });
    },
    'polka, which keeps a lone query': (request) => {
      const { url = '' } = request;
      Object.assign(request, { originalUrl: url, url: url.slice('/x'.length) || '/' });
    },
    'Express in Express': (request) => {
      const { url = '' } = request;
      const rest = url.slice('/x'.length);
      Object.assign(request, {
        baseUrl: '/x',
        originalUrl: url,
        url: rest.startsWith('/') ? rest : `/${rest}`,
      });
    },
    'connect in Express': (request) => {
      const { url = '' } = request;
      const rest = url.slice('/x'.length);
      Object.assign(request, {
        baseUrl: '',
        originalUrl: url,
        url: rest.startsWith('/') ? rest : `/${rest}`,
      });
    },
  };
  for (const [name, mount] of Object.entries(mounts)) {
    test(`C56 C58 begins links and redirects with the path that ${name} removed`, async (t) => {
      const port = await serveBehind(t, mount, { plugins: [docsPlugin()] });
      const init = { method: 'POST', body: petJson, headers: json };
      const added = await send(port, '/x/v1/pets', init);
      assert.deepEqual([added.status, added.headers.get('Location')], [201, '/x/v1/pets/1']);
      await send(port, '/x/v1/pets', init);
      const page = await send(port, '/x/v1/pets?limit=1');
      assert.equal(page.headers.get('Link'), '</x/v1/pets?limit=1&after=1>; rel="next"');
      for (const target of ['/x', '/x?a=b']) {
        const { status, headers } = await send(port, target, { redirect: 'manual' });
        assert.deepEqual([status, headers.get('Location')], [308, '/x/'], target);
      }
      assert.match((await send(port, '/x/')).body, /<title>Petstore<\/title>/);
      assert.match((await send(port, '/x/openapi.json')).body, /"url":"\/x\/v1"/);
    });
  }

  test('C56 begins no link with a path that leads to another server or that the host did not remove', async (t) => {
    for (const [fields, prefix] of [
      [{ originalUrl: '//else.example/v1/pets' }, ''],
      [{ originalUrl: '/a b/v1/pets' }, ''],
      [{ originalUrl: '/v1/pets' }, ''],
      [{ originalUrl: '/other' }, ''],
      [{ originalUrl: '/other', baseUrl: '/shop' }, '/shop'],
      [{ originalUrl: 5, baseUrl: 5 }, ''],
      // As node-mocks-http sets it.
      [{ originalUrl: '/v1/pets', baseUrl: '/v1/pets' }, ''],
      // A host behind a proxy that removes a path.
      [{ originalUrl: '/v1/pets', baseUrl: '/shop' }, '/shop'],
      [{ originalUrl: '/shop/v1/pets', baseUrl: '/public/shop' }, '/public/shop'],
      [{ originalUrl: '/x/shop/v1/pets', baseUrl: '/shop' }, '/x/shop'],
      [{ originalUrl: 'http://any/x/v1/pets?a=b' }, '/x'],
    ] as const) {
      const port = await serveBehind(t, (request) => Object.assign(request, fields));
      const { headers } = await send(port, '/v1/pets', {
        method: 'POST',
        body: petJson,
        headers: json,
      });
      assert.equal(headers.get('Location'), `${prefix}/v1/pets/1`, JSON.stringify(fields));
    }
  });
});
