/** Tests that the time limits of C44 depend on no timer and on no undocumented member of Node. */
import assert from 'node:assert/strict';
import http from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { test, type TestContext } from 'node:test';
import type { PetstoreOptions } from '../../dist/index.js';
import { atEnd } from '../support/at-end.js';
import type { Client } from '../support/client.js';
import { sendRequest, requestBytes, connectTo, start } from '../support/fixture.js';
import { petJson, blockedKeys } from '../support/scenes.js';

/**
 * Starts a petstore on a Node whose server has no timers, and returns a function that advances its
 * clock.
 */
async function startWithoutTimers(t: TestContext, options: Partial<PetstoreOptions> = {}) {
  const { createServer } = http;
  http.createServer = (...given: readonly unknown[]) => {
    const server: http.Server = Reflect.apply(createServer, http, given);
    return Object.assign(server, { headersTimeout: 0, requestTimeout: 0 });
  };
  syncBuiltinESMExports();
  const running = await start(t, options);
  http.createServer = createServer;
  syncBuiltinESMExports();

  const real = performance.now.bind(performance);
  let ahead = 0;
  t.mock.method(performance, 'now', () => real() + ahead);
  const advance = async (seconds: number): Promise<void> => {
    // The petstore sweeps twice a second, and counts from its first sweep.
    await sleep(1_100);
    ahead += 1_000 * seconds;
  };
  return { ...running, advance };
}

async function expectTimeout(client: Client): Promise<void> {
  await client.expect('408 request_timeout');
  await client.closed();
}

const headers = ['Content-Type: application/json'];
const post = requestBytes('POST', '/v1/pets', { headers, body: petJson });
const get = requestBytes('GET', '/v1/pets');

test('C44 ends late heads and silence without a timer of Node', async (t) => {
  const running = await startWithoutTimers(t);
  const silent = await connectTo(t, running);
  const first = await connectTo(t, running, 'GET /v1/pets HTTP/1.1\r\n');
  const idle = await connectTo(t, running, get);
  const kept = await connectTo(t, running, get);
  for (const client of [idle, kept]) await client.expect('200 []');
  kept.send('GET /v1/pets HTTP/1.1\r\nX: ');

  await running.advance(7);
  kept.send('a');
  await running.advance(2);
  await idle.send(get).expect('200 []');
  await Promise.all([silent.closed(), expectTimeout(first), expectTimeout(kept)]);
  await idle.send(get).expect('200 []');
});

test('C44 gives a head 10 s from the previous response if it began before that response', async (t) => {
  const { keys, unblock, verifying } = blockedKeys();
  const running = await startWithoutTimers(t, { keys });
  const client = await connectTo(t, running, get);
  await verifying;
  client.send('GET /v1/pets');
  // Once this request is served, the server has read the bytes above.
  await sendRequest(running.port, 'GET', '/healthz');
  unblock();
  await client.expect('200 []');
  await running.advance(10);
  await expectTimeout(client);
});

test('C44 gives a queued request 30 s from the previous response', async (t) => {
  const { keys, unblock, verifying } = blockedKeys();
  const running = await startWithoutTimers(t, { keys });
  const client = await connectTo(t, running, get + post.slice(0, -1));
  await verifying;
  // Once this request is served, the server has read the bytes above.
  await sendRequest(running.port, 'GET', '/healthz');
  await running.advance(40);
  unblock();
  await client.expect('200 []');
  // The next sweeps give the queued request its time.
  await running.advance(20);
  await client.send(post.slice(-1)).expect(201);
});

test('C44 ends late bodies without a timer of Node, whatever `complete` is', async (t) => {
  const running = await startWithoutTimers(t);
  const { complete } = http.IncomingMessage.prototype;
  assert.equal(complete, undefined);
  for (const value of [false, true]) {
    Object.defineProperty(http.IncomingMessage.prototype, 'complete', {
      configurable: true,
      // Node puts the headers of a complete request among its trailers.
      get() {
        return value && this.rawHeaders.length > 0;
      },
      set: () => undefined,
    });
    atEnd(t, () => Reflect.deleteProperty(http.IncomingMessage.prototype, 'complete'));
    const chunked = requestBytes('POST', '/v1/pets', {
      headers: [...headers, 'Transfer-Encoding: chunked'],
    });
    const late = await Promise.all(
      [post.slice(0, -1), post.slice(0, -petJson.length), `${chunked}1\r\n{\r\n`].map((bytes) =>
        connectTo(t, running, bytes),
      ),
    );
    const whole = await connectTo(t, running, post.slice(0, -1));
    await running.advance(28);
    await whole.send(post.slice(-1)).expect(201);
    await running.advance(2);
    await Promise.all(late.map(expectTimeout));
    // The server does not wait for a request that it has responded to.
    await whole.send(post).expect(201);
  }
});
