// The petstore within Express 5 and Fastify 5, as their own users would mount it, beside routes of
// their own.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import express from 'express';
import fastify from 'fastify';
import { docsPlugin } from '../../dist/plugins/docs.js';
import { atEnd } from '../support/at-end.js';
import { petstoreOf, useMounted } from './scene.js';

/** The petstore leaves the host's own route alone. */
async function session(origin: string, mounted: string): Promise<void> {
  await useMounted(origin, mounted);
  const [headers, body] = [{ 'Content-Type': 'application/json' }, '{"name":"Rex"}'];
  const own = await fetch(`${origin}/own`, { method: 'POST', headers, body });
  assert.equal(await own.text(), `{"own":${body}}`);
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
