/** Tests of responses that are sent before the body was read (C9, C51). */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { test, type TestContext } from 'node:test';
import { header } from '../support/client.js';
import {
  requestBytes,
  connectTo,
  key,
  start,
  storedPets,
  type Running,
} from '../support/fixture.js';
import type { Plugin } from '../../dist/index.js';
import { corsPlugin } from '../../dist/plugins/cors.js';
import { expectResponse, noKey, petJson } from '../support/scenes.js';
import { gate } from '../support/waiting.js';

const length = 'Content-Length: 10000000';
const post = (...headers: readonly string[]) => requestBytes('POST', '/v1/pets', { headers });

/** Requests with a body that the server does not read, and the errors that they get. */
const early = [
  [
    '401 unauthorized',
    requestBytes('POST', '/v1/pets', { headers: [length], authorization: null }),
  ],
  ['404 not_found', requestBytes('POST', '/v1/nothing', { headers: [length] })],
  ['405 method_not_allowed', requestBytes('PUT', '/v1/pets', { headers: [length] })],
  ['413 content_too_large', post(length)],
  ['415 unsupported_media_type', post(length, 'Content-Type: a/b')],
  ['417 expectation_failed', post(length, 'Expect: x')],
  ['400 bad_request', `POST /v1/pets HTTP/1.1\r\n${length}\r\n\r\n`],
  [
    '401 unauthorized',
    `${requestBytes('POST', '/v1/pets', { headers: ['Transfer-Encoding: chunked'], authorization: null })}f4240\r\n`,
  ],
] as const;

/**
 * Sends a request and then bytes of its body, until the server closes the connection. Returns how
 * many ms the server went on reading, which are those until the reset.
 */
async function readingMs(
  t: TestContext,
  running: Running,
  [error, bytes]: (typeof early)[number],
  bytesEach: number,
  everyMs: number,
): Promise<number> {
  const client = await connectTo(t, running);
  // Taken before the response is read, because a busy machine reads it late.
  const since = performance.now();
  client.send(bytes);
  await client.expect(error);
  while (!client.isClosed && performance.now() - since < 10_000) {
    client.send('x'.repeat(bytesEach));
    await sleep(everyMs);
  }
  return performance.now() - since;
}

test('C51 delivers an early response whole, then closes within 1 s', async (t) => {
  const running = await start(t);
  await Promise.all(
    early.map(async (request) => {
      const [error, bytes] = request;
      const waiting = async (): Promise<void> => {
        const client = await connectTo(t, running, bytes);
        assert.equal(header(await client.expect(error), 'Connection'), 'close');
        assert.ok((await client.closed()) < 4_000);
      };
      const [slowly] = await Promise.all([readingMs(t, running, request, 100, 20), waiting()]);
      assert.ok(slowly > 900 && slowly < 9_000, `${error} closed after ${slowly} ms`);
    }),
  );
  assert.deepEqual(await storedPets(running), []);
});

test('C51 closes after 64 KiB that follow an early response, before the second is over', async (t) => {
  const running = await start(t);
  await Promise.all(
    early.map(async (request) => {
      const [slowly, fast] = await Promise.all([
        readingMs(t, running, request, 100, 20),
        readingMs(t, running, request, 10_000, 1),
      ]);
      assert.ok(fast < slowly, `64 KiB must end it before the second does, not after ${fast} ms`);
    }),
  );
});

test('C51 does not reset a client that still sends before it reads its last response', async (t) => {
  const running = await start(t);
  const bytes = `POST /v1/pets HTTP/1.1\r\nAuthorization: Bearer ${key}\r\n\r\n${petJson}${petJson}`;
  await Promise.all(
    Array.from({ length: 20 }, async () => {
      const client = await (await connectTo(t, running)).drip(bytes);
      await client.expect('400 bad_request');
    }),
  );
});

test('C9 responds at once to a GET with a body over the limit, then closes the connection', async (t) => {
  const client = await connectTo(
    t,
    await start(t),
    requestBytes('GET', '/v1/pets', { headers: ['Content-Length: 1000000'] }),
  );
  assert.equal(header(await client.expect('200 []'), 'Connection'), 'close');
  client.send('x'.repeat(80_000));
  assert.ok((await client.closed()) < 900, '64 KiB must end it before the second does');
});

test('C33 a request whose body fails while it runs keeps the headers of its route', async (t) => {
  const origin = 'https://app.example';
  const [reached, released] = [gate(), gate()];
  const waiting: Plugin = ({ around }) =>
    around(async ({ path }, next) => {
      if (path !== '/v1/pets/1') return next();
      reached.open();
      await released.opened;
      return next();
    });
  const running = await start(t, { plugins: [corsPlugin({ origins: [origin] }), waiting] });
  const headers = ['Transfer-Encoding: chunked', `Origin: ${origin}`];
  const client = await connectTo(t, running, requestBytes('GET', '/v1/pets/1', { headers }));
  await reached.opened;
  client.send('not a chunk\r\n');
  // The server reads those bytes before these requests, which arrive later.
  for (let count = 0; count < 2; count++)
    await expectResponse(running.port, 'GET /healthz', 200, noKey);
  released.open();

  const response = await client.expect('400 bad_request');
  for (const name of ['Deprecation', 'Sunset', 'Link'])
    assert.notEqual(header(response, name), undefined, name);
  assert.equal(header(response, 'Access-Control-Allow-Origin'), origin);
});
