// Tests the petstore in Express 5, Fastify 5 and other frameworks, as their users mount it: beside
// other routes, after packages that wrap the response, and in a serverless function.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import middie from '@fastify/middie';
import compression from 'compression';
import connect from 'connect';
import express from 'express';
import fastify from 'fastify';
import { createApp, fromNodeMiddleware, toNodeListener } from 'h3';
import morgan from 'morgan';
import polka from 'polka';
import serverless from 'serverless-http';
import { createServer as createVite } from 'vite';
import type { Petstore } from '../../dist/index.js';
import { docsPlugin } from '../../dist/plugins/docs.js';
import { atEnd } from '../support/at-end.js';
import { folder, root } from '../support/process.js';
import { serve } from '../support/scenes.js';
import { key, petstoreOf, run, useMounted } from './scene.js';

/** Uses the petstore, and checks that a route of the host still works. */
async function session(origin: string, mounted: string): Promise<void> {
  await useMounted(origin, mounted);
  const [headers, body] = [{ 'Content-Type': 'application/json' }, '{"name":"Rex"}'];
  const own = await fetch(`${origin}/own`, { method: 'POST', headers, body });
  assert.equal(await own.text(), `{"own":${body}}`);
}

/** Checks that the page is served with a slash after the mount path, which its links need (C58). */
async function expectPage(origin: string, mounted: string): Promise<void> {
  const page = await fetch(origin + mounted);
  assert.deepEqual([page.status, page.url], [200, `${origin}${mounted}/`]);
  assert.match(await page.text(), /<title>Petstore<\/title>/);
}

for (const mounted of ['', '/shop']) {
  test(`Express 5 serves the petstore at ${mounted === '' ? 'its root' : mounted}`, async (t) => {
    const app = express();
    app.post(
      '/own',
      express.json(),
      (request, response) => void response.json({ own: request.body }),
    );
    app.use(mounted, petstoreOf(t, [docsPlugin()]).handler);
    const server = app.listen(0, '127.0.0.1');
    atEnd(t, () => server.close());
    await new Promise((resolve) => server.once('listening', resolve));
    const address = server.address();
    assert.ok(typeof address === 'object' && address !== null);
    const origin = `http://127.0.0.1:${address.port}`;
    await session(origin, mounted);
    await expectPage(origin, mounted);
  });
}

test('Fastify 5 serves the petstore for every path that Fastify has no route for', async (t) => {
  const { handler } = petstoreOf(t);
  const app = fastify();
  atEnd(t, () => app.close());
  app.post('/own', (request) => ({ own: request.body }));
  // In this hook, because Fastify reads the body later.
  app.addHook('onRequest', (request, reply, done) => {
    if (!request.is404) return done();
    reply.hijack();
    handler(request.raw, reply.raw);
  });
  await session(await app.listen({ port: 0, host: '127.0.0.1' }), '');
});

/** Functions that mount a handler under `/shop`, as the documentation of each framework says. */
const mounts: Readonly<
  Record<
    string,
    (handler: Petstore['handler'], t: TestContext) => RequestListener | Promise<RequestListener>
  >
> = {
  connect: (handler) => connect().use('/shop', handler),
  polka: (handler) => {
    const app = polka().use('/shop', handler);
    return (request, response) => void app.handler(Object(request), response);
  },
  'h3 1': (handler) => toNodeListener(createApp().use('/shop', fromNodeMiddleware(handler))),
  'Fastify with middie': async (handler, t) => {
    const app = fastify();
    atEnd(t, () => app.close());
    await app.register(middie);
    app.use('/shop', handler);
    await app.ready();
    return (request, response) => void app.routing(request, response);
  },
  Vite: async (handler, t) => {
    const vite = await createVite({
      root: folder(t),
      configFile: false,
      logLevel: 'silent',
      server: { middlewareMode: true, hmr: false, ws: false },
      plugins: [
        {
          name: 'petstore',
          configureServer: ({ middlewares }) => void middlewares.use('/shop', handler),
        },
      ],
    });
    atEnd(t, () => vite.close());
    return vite.middlewares;
  },
  'Express behind connect': (handler) => connect().use(express().use('/shop', handler)),
};
for (const [name, mount] of Object.entries(mounts)) {
  test(`${name} serves the petstore at /shop, and its links lead there`, async (t) => {
    const listener = await mount(petstoreOf(t, [docsPlugin()]).handler, t);
    const origin = `http://127.0.0.1:${await serve(t, listener)}`;
    await useMounted(origin, '/shop');
    await expectPage(origin, '/shop');
  });
}

test('morgan 1.10.0 and compression 1.7.4 process the responses of the petstore', async (t) => {
  const logged: string[] = [];
  const app = express();
  app.use(morgan('tiny', { stream: { write: (line) => void logged.push(line) } }));
  app.use(compression({ threshold: 0 }));
  app.use('/shop', petstoreOf(t, [docsPlugin()]).handler);
  const origin = `http://127.0.0.1:${await serve(t, app)}`;
  await useMounted(origin, '/shop');
  await expectPage(origin, '/shop');
  assert.ok(logged.length >= 10, logged.join(''));
  assert.match(logged[0] ?? '', /^POST \/shop\/v1\/pets 201 /);

  const headers = { Authorization: `Bearer ${key}`, 'Accept-Encoding': 'gzip' };
  const compressed = await fetch(`${origin}/shop/v1/pets`, { headers });
  assert.equal(compressed.headers.get('Content-Encoding'), 'gzip');
  assert.match(compressed.headers.get('Vary') ?? '', /Accept-Encoding/);
});

test('serverless-http serves the petstore in a function of AWS Lambda', async (t) => {
  const call = serverless(petstoreOf(t).handler);
  const event = (method: string, body?: string, authorization = `Bearer ${key}`) => ({
    version: '2.0',
    rawPath: '/v1/pets',
    rawQueryString: 'limit=1',
    headers: { authorization, 'content-type': 'application/json' },
    requestContext: { http: { method, path: '/v1/pets', sourceIp: '192.0.2.1' } },
    ...(body === undefined ? {} : { body, isBase64Encoded: false }),
  });
  const pet = '{"name":"Réx 🐕","categoryId":1}';
  for (const [input, status, body] of [
    [event('POST', pet), 201, `{"id":1,${pet.slice(1)}`],
    [event('GET'), 200, `[{"id":1,${pet.slice(1)}]`],
    [event('GET', undefined, 'Bearer wrong'), 401, undefined],
    [event('POST', '{'), 400, undefined],
  ] as const) {
    const result = Object(await call(input, {}));
    assert.equal(result.statusCode, status);
    if (body !== undefined) assert.equal(result.body, body);
  }
});

test('express-openapi-validator runs before the petstore, as docs/extending.md shows', async (t) => {
  const document = readFileSync(join(root, 'docs/extending.md'), 'utf8');
  const code = /^```javascript\n(\/\/ validated\.mjs\n.*?)^```$/ms.exec(document)?.[1];
  assert.ok(code !== undefined);
  const here = folder(t);
  mkdirSync(join(here, 'node_modules'));
  symlinkSync(root, join(here, 'node_modules/petstore'));
  for (const name of ['express', 'express-openapi-validator'])
    symlinkSync(join(root, 'test/ecosystem/node_modules', name), join(here, 'node_modules', name));
  writeFileSync(join(here, 'validated.mjs'), code);

  const expected = [...code.matchAll(/console\.log\(.*\); \/\/ (.*)$/gm)].map(([, line]) => line);
  const printed = await run(t, here, process.execPath, 'validated.mjs');
  assert.ok(expected.length >= 2);
  assert.deepEqual(printed.trim().split('\n'), expected);
});
