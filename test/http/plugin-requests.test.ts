/** Tests of the one object per request for all hooks, and of replies made of plain values. */
import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { gunzipSync, gzipSync } from 'node:zlib';
import { test } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { createPetstore, json, type Plugin, type PluginRequest } from '../../dist/index.js';
import { header } from '../support/client.js';
import { connectTo, key, requestBytes, start } from '../support/fixture.js';
import { everyTransport, keyHeaders, routePlugin, serve } from '../support/scenes.js';
import { gate } from '../support/waiting.js';

const headers = { Authorization: 'Bearer secret' };
const jsonHeaders = { ...headers, 'Content-Type': 'application/json' };

/** Gives each request an id, sends it as a header and logs it with the status code. */
function requestIdPlugin(lines: string[]): Plugin {
  const ids = new WeakMap<PluginRequest, string>();
  let count = 0;
  const idOf = (request: PluginRequest) => {
    const id = ids.get(request) ?? `${++count}`;
    ids.set(request, id);
    return id;
  };
  return ({ addHeaders, onReply }) => {
    addHeaders((request) => ({ 'X-Request-Id': idOf(request) }));
    onReply(({ status }, request) => void lines.push(`${idOf(request)} ${status}`));
  };
}

test('gives an X-Request-Id plugin the same request in all hooks, even if it is rejected', async () => {
  const lines: string[] = [];
  const petstore = createPetstore({ keys: ['secret'], plugins: [requestIdPlugin(lines)] });
  const targets = ['/v1/pets', '/v1/pets/1', '/nowhere', '/v1/pets?limit=0', '/healthz'];
  const responses = await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      petstore.fetch(`http://any${targets[index % targets.length]}`, {
        headers: index % 2 === 0 ? headers : {},
      }),
    ),
  );
  const sent = responses.map((each) => `${each.headers.get('x-request-id')} ${each.status}`);
  assert.deepEqual([...lines].sort(), [...sent].sort());
  assert.equal(new Set(sent).size, 20);
});

test('passes the same frozen object for a request to every hook', async () => {
  const seen: PluginRequest[] = [];
  const plugin: Plugin = ({ addHeaders, around, onReply }) => {
    around((request, next) => (seen.push(request), next()));
    addHeaders((request) => (seen.push(request), []));
    onReply((_event, request) => void seen.push(request));
  };
  const petstore = createPetstore({ keys: ['secret'], plugins: [plugin] });
  await petstore.fetch('http://any/v1/pets?limit=1', { headers: { ...headers, 'X-A': '1' } });
  const [first, ...others] = seen;
  assert.equal(others.length, 2);
  for (const other of others) assert.equal(other, first);
  assert.ok(Object.isFrozen(first));
  const { method, path, route, keyName, address } = first ?? {};
  assert.deepEqual(
    [method, path, route, keyName, address, first?.header('x-a')],
    ['GET', '/v1/pets', '/v1/pets', 'key-1', undefined, '1'],
  );
});

test('addHeaders takes an object, Headers, or an array of names and values', async () => {
  const plugin: Plugin = ({ addHeaders }) => {
    addHeaders(() => ({ 'X-A': '1' }));
    addHeaders(() => new Headers({ 'X-B': '2' }));
    addHeaders(() => ['X-C', '3']);
  };
  const petstore = createPetstore({ keys: ['secret'], plugins: [plugin] });
  const { headers: got } = await petstore.fetch('http://any/healthz');
  assert.deepEqual(
    ['x-a', 'x-b', 'x-c'].map((name) => got.get(name)),
    ['1', '2', '3'],
  );
});

/** Serves `POST /v1/echo` and two paths that return the platform's `Response`. */
const plain: Plugin = ({ route }) => {
  route({
    path: '/v1/echo',
    methods: {
      POST: {
        readsBody: true,
        handler: (request) =>
          json({ body: request.json(), at: new Date(0) }, { status: 201, headers: { 'X-A': 'b' } }),
      },
    },
  });
  const page = () =>
    new Response('<p>Müs', {
      status: 203,
      headers: { 'Content-Type': 'text/html; charset=utf-8', 'Cache-Control': 'max-age=9' },
    });
  route({ path: '/page', methods: { GET: { handler: page } } });
  const zipped = () => new Response(gzipSync('<p>'), { headers: { 'Content-Encoding': 'gzip' } });
  route({ path: '/zipped', methods: { GET: { handler: zipped } } });
  const gone = () => new Response(null, { status: 204 });
  route({ path: '/gone', methods: { GET: { handler: gone } } });
};

test('sends plain values of a handler as JSON, and a bigint as an exact integer', async () => {
  const petstore = createPetstore({ keys: ['secret'], plugins: [plain] });
  const body = '{"big":9223372036854775807,"small":1.5,"name":"Müs","list":[null,true]}';
  const init = { method: 'POST', headers: jsonHeaders, body };
  const response = await petstore.fetch('http://any/v1/echo', init);
  assert.equal(response.status, 201);
  assert.equal(response.headers.get('x-a'), 'b');
  assert.equal(await response.text(), `{"body":${body},"at":"1970-01-01T00:00:00.000Z"}`);
});

test('sends the status, headers and bytes of a Response that a handler returns', async () => {
  const petstore = createPetstore({ keys: ['secret'], plugins: [plain] });
  const page = await petstore.fetch('http://any/page');
  assert.deepEqual(
    [page.status, page.headers.get('content-type'), page.headers.get('cache-control')],
    [203, 'text/html; charset=utf-8', 'max-age=9'],
  );
  assert.equal(await page.text(), '<p>Müs');
  assert.equal((await petstore.fetch('http://any/gone')).status, 204);
  const zipped = await petstore.fetch('http://any/zipped');
  assert.equal(zipped.headers.get('content-encoding'), 'gzip');
  // Otherwise the bytes would be `application/json`, the default of a reply.
  assert.equal(zipped.headers.get('content-type'), 'application/octet-stream');
  assert.equal(String(gunzipSync(await zipped.arrayBuffer())), '<p>');
});

test('sends the bytes of a Response that are not UTF-8 by port, handler and fetch', async (t) => {
  const bytes = Uint8Array.of(0, 128, 255);
  const plugins = [routePlugin('/bytes', () => new Response(bytes))];
  for (const sendRequest of await everyTransport(t, await start(t, { plugins }))) {
    const response = await sendRequest('/bytes');
    assert.equal(response.headers.get('Content-Type'), 'application/octet-stream');
    assert.deepEqual(new Uint8Array(await response.arrayBuffer()), bytes);
  }
});

test('sends the Response of a fetch with the framing of the petstore and each Set-Cookie', async (t) => {
  const cookies = ['a=1', 'b=2; Expires=Thu, 01 Jan 2099 00:00:00 GMT'];
  const upstream = await serve(t, ({ url }, response) => {
    response.setHeader('Date', 'Thu, 01 Jan 1970 00:00:00 GMT');
    response.setHeader('Cache-Control', 'max-age=9');
    response.setHeader('Content-Type', 'text/plain');
    response.setHeader('Set-Cookie', cookies);
    if (url === '/gzip' || url === '/custom') {
      response.setHeader('Content-Encoding', url.slice(1));
      return void response.end(url === '/gzip' ? gzipSync('one, two') : 'one, two');
    }
    if (url === '/chunked') response.write('one, ');
    response.end(url === '/chunked' ? 'two' : 'one, two');
  });
  const paths = ['/whole', '/chunked', '/gzip', '/custom'];
  const plugins = paths.map((path) =>
    routePlugin(path, () => fetch(`http://127.0.0.1:${upstream}${path}`)),
  );
  const client = await connectTo(t, await start(t, { plugins }));
  for (const path of paths) {
    const response = await client.send(requestBytes('GET', path)).expect('200 one, two');
    assert.deepEqual(response.headers.get('set-cookie'), cookies);
    assert.deepEqual(
      ['Content-Length', 'Content-Type', 'Cache-Control'].map((name) => header(response, name)),
      ['8', 'text/plain', 'max-age=9'],
    );
    // `fetch` decodes no other coding.
    const coding = path === '/custom' ? 'custom' : undefined;
    assert.equal(header(response, 'Content-Encoding'), coding);
    assert.doesNotMatch(header(response, 'Date') ?? '', /1970/);
  }
});

test('C56 moves a plugin’s links below the base URL, in any letter case of the header', async (t) => {
  const links = { Location: '/v1/a', Link: '</v1/b>; rel="next", </v1/c>; rel="prev"' };
  const plugins = [
    routePlugin('/response', () => new Response(null, { headers: links })),
    routePlugin('/lowercase', () => ({
      status: 200,
      headers: Object.entries(links).flatMap(([name, value]) => [name.toLowerCase(), value]),
    })),
    routePlugin('/capitals', () => json(1, { headers: links })),
    routePlugin('/elsewhere', () => new Response(null, { headers: { 'X-Location': '/v1/a' } })),
  ];
  const petstore = createPetstore({ keys: [key], plugins, baseUrl: 'https://a.example/shop/v1' });
  atEnd(t, () => petstore.close());
  for (const path of ['/response', '/lowercase', '/capitals']) {
    const { headers: got } = await petstore.fetch(`http://any${path}`);
    assert.deepEqual(
      [got.get('location'), got.get('link')],
      ['/shop/v1/a', '</shop/v1/b>; rel="next", </shop/v1/c>; rel="prev"'],
      path,
    );
  }
  const { headers: got } = await petstore.fetch('http://any/elsewhere');
  assert.equal(got.get('x-location'), '/v1/a');
});

test('around gets the body only of an operation that reads a body', async () => {
  const bodies: unknown[] = [];
  const watching: Plugin = ({ around, route }) => {
    around(({ body }, next) => {
      bodies.push(body);
      return next();
    });
    const handler = () => json({});
    for (const readsBody of [undefined, false, true, 'optional'] as const)
      route({
        path: `/v1/${readsBody}`,
        methods: { POST: readsBody === undefined ? { handler } : { handler, readsBody } },
      });
  };
  const petstore = createPetstore({ keys: ['secret'], plugins: [watching] });
  for (const name of ['undefined', 'false', 'true', 'optional']) {
    const init = { method: 'POST', headers: jsonHeaders, body: '{}' };
    assert.equal((await petstore.fetch(`http://any/v1/${name}`, init)).status, 200);
  }
  assert.deepEqual(bodies, [undefined, undefined, '{}', '{}']);
});

test('C60 json of a request rejects over 65,536 values', async (t) => {
  const petstore = createPetstore({ keys: ['secret'], plugins: [plain], maxBodyBytes: 2 ** 20 });
  atEnd(t, () => petstore.close());
  for (const [values, status] of [
    [65_535, 201],
    [65_536, 400],
  ] as const) {
    const body = `[${Array(values).fill(0).join()}]`;
    const init = { method: 'POST', headers: jsonHeaders, body };
    assert.equal((await petstore.fetch('http://any/v1/echo', init)).status, status);
  }
});

test('json rejects a value without JSON, a bigint beyond int64 and a cycle', () => {
  const cycle: Record<string, unknown> = {};
  cycle['self'] = cycle;
  for (const value of [undefined, () => 1, 2n ** 63n, { a: -(2n ** 63n) - 1n }, cycle])
    assert.throws(() => json(value), TypeError);
  for (const value of [null, 'a', 1, [undefined], new Array(2), { a: undefined, b: [1n] }])
    assert.equal(
      json(value).body,
      JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? Number(each) : each)),
    );
});

test('fetch waits until the plugins are open, and ready resolves then', async () => {
  const [plugins, records] = [gate(), gate()];
  const plugin: Plugin = async ({ route, waitFor }) => {
    await plugins.opened;
    const adding = () =>
      route({ path: '/late', methods: { GET: { handler: () => json('there') } } });
    waitFor(records.opened.then(adding));
  };
  const petstore = createPetstore({ keys: ['secret'], plugins: [plugin] });
  let isReady = false;
  const ready = petstore.ready().then(() => (isReady = true));
  const response = petstore.fetch('http://any/late');
  assert.equal(isReady, false);
  plugins.open();
  await nextTurn();
  assert.equal(isReady, false);
  records.open();
  assert.equal(await (await response).text(), '"there"');
  await ready;
});

test('rejects ready if a plugin fails to open, and serves fetch without the plugin', async () => {
  const plugin: Plugin = async () => {
    throw new Error('no disk');
  };
  const petstore = createPetstore({ keys: ['secret'], plugins: [plugin] });
  await assert.rejects(petstore.ready(), /no disk/);
  assert.equal((await petstore.fetch('http://any/v1/pets', { headers })).status, 200);
});

test('ends requests at close that wait for a plugin that never opens', async () => {
  const plugin: Plugin = () => new Promise(() => undefined);
  const petstore = createPetstore({ keys: ['secret'], plugins: [plugin] });
  const response = petstore.fetch('http://any/v1/pets', { headers });
  await petstore.close();
  assert.equal((await response).status, 503);
});

test('onAbandoned calls back neither at the end of a client nor at close after the response', async (t) => {
  let callbacks = 0;
  const delaying: Plugin = ({ around }) =>
    around(async ({ onAbandoned }, next) => {
      onAbandoned(() => void callbacks++);
      await nextTurn();
      return next();
    });
  const running = await start(t, { plugins: [delaying] });
  for (const send of await everyTransport(t, running))
    assert.equal((await send('/v1/pets', { headers: keyHeaders })).status, 200);
  const client = await connectTo(t, running, requestBytes('GET', '/v1/pets'));
  await client.expect(200);
  client.endSending();
  await client.closed();
  await running.petstore.close();
  assert.equal(callbacks, 0);
});

test('await using closes the petstore at the end of its block', async () => {
  const petstore = createPetstore({ keys: ['secret'] });
  await petstore[Symbol.asyncDispose]();
  assert.equal((await petstore.fetch('http://any/v1/pets', { headers })).status, 503);
});

test('around sends the reply of next unchanged, and checks a reply that the plugin makes', async () => {
  const replies: Plugin = ({ around }) =>
    around(async (request, next) => {
      const reply = await next();
      const kind = request.header('x-kind');
      if (kind === 'changed') return { ...reply, headers: [...reply.headers, 'X-A', '1'] };
      if (kind === 'response') return new Response('mine', { status: 202 });
      if (kind === 'bad') return { ...reply, status: 99 };
      return reply;
    });
  const petstore = createPetstore({ keys: ['secret'], plugins: [replies] });
  const get = async (kind: string) => {
    const response = await petstore.fetch('http://any/v1/pets', {
      headers: { ...headers, 'X-Kind': kind },
    });
    return `${response.status} ${response.headers.get('x-a')} ${await response.text()}`;
  };
  assert.equal(await get('same'), '200 null []');
  assert.equal(await get('changed'), '200 1 []');
  assert.equal(await get('response'), '202 null mine');
  assert.match(await get('bad'), /^500 /);
});
