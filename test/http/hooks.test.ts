/**
 * Tests of the undocumented behaviour of Node that `http/node.ts` lists, as far as no other test
 * notices it.
 */
import assert from 'node:assert/strict';
import { createHook } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import { IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate as nextTick, setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { atEnd, type Ending } from '../support/at-end.js';
import { createPetstore } from '../../dist/index.js';
import { assertError } from '../support/client.js';
import { sendRequest, requestBytes, connectTo, exchange, key, start } from '../support/fixture.js';
import { nodeEntries } from '../support/node-entries.js';
import {
  blockedKeys,
  expectResponse,
  expectResponses,
  firstPetJson,
  petJson,
} from '../support/scenes.js';
import { ruleNames } from './rule-names.js';

const read = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const list = requestBytes('GET', '/v1/pets');

/** Collects the requests and responses that Node publishes on a diagnostics channel. */
function observed(t: Ending, moment: 'request.start' | 'response.finish') {
  const seen: { readonly request: IncomingMessage; readonly response: ServerResponse }[] = [];
  const observe = (message: unknown): void => {
    const { request, response } = Object(message);
    if (request instanceof IncomingMessage && response instanceof ServerResponse)
      seen.push({ request, response });
  };
  subscribe(`http.server.${moment}`, observe);
  atEnd(t, () => unsubscribe(`http.server.${moment}`, observe));
  return seen;
}

test('http/node.ts names the function, versions and an existing test for each behaviour', () => {
  const entries = nodeEntries();
  assert.ok(entries.length >= 15, `found only ${entries.length} entries`);
  for (const { text, heldBy } of entries) {
    assert.match(text, /Node: .*\b(?:lib\/|deps\/|functions).* in 20, 22, 24, 26\. Held by /);
    assert.ok(heldBy.length > 0, `no test is quoted: ${text}`);
    for (const { file, name } of heldBy) {
      const isRule = file === 'conformance' && ruleNames.some((rule) => rule.startsWith(name));
      const inFile = new RegExp(`\\btest\\(\\s*['\`]${name}`);
      assert.ok(isRule || inFile.test(read(`test/http/${file}.test.ts`)), `no such test: ${name}`);
    }
  }
});

test('publishes each response to Node’s observers, and never starts the stream of a request', async (t) => {
  const { port } = await start(t);
  const finished = observed(t, 'response.finish');
  await expectResponses(port, [
    ['GET /v1/pets', 200],
    ['POST /v1/pets', 201, { body: petJson }],
    ['GET /v1/pets/9', 404],
  ]);
  // Each time two, because `sendRequest` checks if the connection stays open.
  assert.deepEqual(
    finished.map(({ response }) => response.statusCode),
    [200, 200, 201, 200, 404, 200],
  );
  for (const { request, response } of finished) {
    assert.equal(request.listenerCount('end'), 0);
    assert.equal(request.readableFlowing, null);
    assert.equal(response.writableEnded, true);
  }
});

for (const [when, body, cut] of [
  ['before it is read', petJson, petJson.length],
  ['partly before it is read', petJson, 9],
  ['while it is read', petJson, 0],
  ['empty, before it is read', '', 0],
] as const) {
  test(`reads a whole body that arrives ${when}`, async (t) => {
    const { keys, unblock, verifying } = blockedKeys();
    const { port } = await start(t, { keys });
    const client = await connectTo(t, { port });
    const bytes = requestBytes('POST', '/v1/pets', { body });
    const cutAt = bytes.length - body.length + cut;
    client.send(bytes.slice(0, cutAt));
    await verifying;
    // Once this request is served, the server has read the bytes above.
    await sendRequest(port, 'GET', '/healthz');
    unblock();
    await nextTick();
    client.send(bytes.slice(cutAt));
    const isEmpty = body === '';
    await client.expect(isEmpty ? '400 invalid_json' : `201 ${firstPetJson}`);
    // The connection stays open.
    await client.send(list).expect(`200 [${isEmpty ? '' : firstPetJson}]`);
  });
}

test('reads at most 256 KiB of a body until its key is verified, and then all of it', async (t) => {
  const { keys, unblock, verifying } = blockedKeys();
  const { port } = await start(t, { keys, maxBodyBytes: 2 ** 21 });
  const begun = observed(t, 'request.start');
  const client = await connectTo(t, { port });
  client.send(requestBytes('POST', '/v1/pets', { body: petJson.padEnd(2 ** 21) }));
  await verifying;
  const { socket } = begun[0]?.request ?? assert.fail('no request');
  for (let before = -1; before !== socket.bytesRead; ) {
    before = socket.bytesRead;
    // Once these are served, the server has read what had arrived before.
    for (let i = 0; i < 3; i++) await expectResponse(port, 'GET /healthz', 200);
  }
  assert.ok(socket.bytesRead < 2 ** 18, `${socket.bytesRead} bytes were read`);
  unblock();
  await client.expect(`201 ${firstPetJson}`);
});

test('rejects an empty body as JSON, and keeps the connection open', async (t) => {
  const { port } = await start(t);
  const chunked = { headers: ['Transfer-Encoding: chunked'] };
  for (const bytes of [
    requestBytes('POST', '/v1/pets', { body: '' }),
    requestBytes('POST', '/v1/pets'),
    `${requestBytes('POST', '/v1/pets', chunked)}0\r\n\r\n`,
  ]) {
    const response = await exchange(port, bytes, 'POST');
    assertError(response, 400, 'invalid_json');
    assert.ok(response.kept);
  }
});

test('C52 stops reading the socket while a request is queued', async (t) => {
  const { keys, unblock } = blockedKeys();
  const running = await start(t, { keys });
  const begun = observed(t, 'request.start');
  const client = await connectTo(t, running);
  for (let sent = 0; sent < 10; sent++) {
    client.send(list);
    await sleep(5);
  }
  assert.equal(begun.length, 2);
  unblock();
  await client.expect(...Array<number>(10).fill(200));
});

test('C52 parses nothing after the request that overflows the queue', async (t) => {
  const { keys, unblock } = blockedKeys();
  const running = await start(t, { keys });
  const begun = observed(t, 'request.start');
  await (await connectTo(t, running, list.repeat(500))).closed();
  // One in flight, 256 in the queue, and one more.
  assert.equal(begun.length, 258);
  unblock();
});

test('C51 parses nothing after a response that closes the connection', async (t) => {
  const running = await start(t);
  const begun = observed(t, 'request.start');
  const client = await connectTo(t, running);
  await client.send('GET /v1/pets HTTP/1.1\r\n\r\n').expect('400 bad_request');
  client.send(list);
  // Once this request is served, the server has read the bytes above.
  await sendRequest(running.port, 'GET', '/healthz', { headers: ['Connection: close'] });
  assert.equal(begun.length, 2);
});

test('C48 leaves no timer once a port is closed', async () => {
  const timers = new Set<number>();
  const hook = createHook({
    init: (id, type) => {
      if (type === 'Timeout') timers.add(id);
    },
    destroy: (id) => timers.delete(id),
  }).enable();
  const petstore = createPetstore({ keys: [key] });
  const { port } = await petstore.listen({ port: 0 });
  await sendRequest(port, 'GET', '/v1/pets');
  await petstore.close();
  // The hook reports the end of a timer on the next tick.
  for (let ticks = 0; ticks < 3; ticks++) await nextTick();
  hook.disable();
  assert.deepEqual([...timers], []);
});
