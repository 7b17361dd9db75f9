// The petstore within Express 5 and Fastify 5, as their own users would mount it, beside routes of
// their own.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import express from 'express';
import fastify from 'fastify';
import { docsPlugin } from '../../dist/plugins/docs.js';
import { atEnd } from '../support/at-end.js';
import { key, petstoreOf } from './scene.js';

const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
const animal = { name: 'Rex 🐕', categoryId: 5 };

/** Adds, lists, fetches and errs, and leaves the host's own routes alone. */
async function session(origin: string, mounted: string): Promise<void> {
  const home = origin + mounted;
  const added = await fetch(`${home}/v1/pets`, {
    method: 'POST',
    headers,
    body: JSON.stringify(animal),
  });
  assert.deepEqual([added.status, await added.json()], [201, { id: 1, ...animal }]);
  assert.equal(added.headers.get('Location'), `${mounted}/v1/pets/1`);
  const listed = await fetch(`${home}/v1/pets?limit=1`, { headers });
  assert.deepEqual(await listed.json(), [{ id: 1, ...animal }]);
  assert.equal(listed.headers.get('Cache-Control'), 'no-store');
  assert.equal((await fetch(`${home}/v1/pets/1`, { method: 'HEAD', headers })).status, 200);
  assert.equal((await fetch(`${home}/healthz`)).status, 200);

  const codes: unknown[] = [];
  for (const [path, init] of [
    ['/v1/pets', { headers: {} }],
    ['/v1/pets/2', { headers }],
    ['/v1/pets', { method: 'DELETE', headers }],
    ['/v1/pets', { method: 'POST', headers, body: '{"name":' }],
    ['/v1/pets', { method: 'POST', headers, body: 'x'.repeat(70_000) }],
  ] as const) {
    const { code, status } = Object(await (await fetch(home + path, init)).json());
    codes.push([status, code]);
  }
  assert.deepEqual(codes, [
    [401, 'unauthorized'],
    [404, 'not_found'],
    [405, 'method_not_allowed'],
    [400, 'invalid_json'],
    [413, 'content_too_large'],
  ]);

  const own = await fetch(`${origin}/own`, {
    method: 'POST',
    headers,
    body: JSON.stringify(animal),
  });
  assert.deepEqual(await own.json(), { own: animal });
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
    // The page has relative links, and so a slash behind the mount path (C58).
    const page = await fetch(origin + mounted);
    assert.deepEqual([page.status, page.url], [200, `${origin}${mounted}/`]);
    assert.match(await page.text(), /<title>Petstore<\/title>/);
  });
}

test('Fastify 5 serves the petstore for all that it does not know itself', async (t) => {
  const { handler } = petstoreOf(t);
  const app = fastify();
  atEnd(t, () => app.close());
  app.post('/own', (request) => ({ own: request.body }));
  // Before Fastify reads the body, which is ours to read.
  app.addHook('onRequest', (request, reply, done) => {
    if (!request.is404) return done();
    reply.hijack();
    handler(request.raw, reply.raw);
  });
  await session(await app.listen({ port: 0, host: '127.0.0.1' }), '');
});
