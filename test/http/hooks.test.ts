/** The inner hooks of Node that `http/node` lists: its list, and those that no other test sees. */
import assert from 'node:assert/strict';
import { createHook } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import { IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { atEnd, type Ending } from '../support/at-end.js';
import { createPetstore } from '../../dist/index.js';
import { ask, behindBalancer, bytesOf, connectTo, key, start } from '../support/fixture.js';
import { ruleNames } from './rule-names.js';

const read = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

/** What Node says of its own requests as this test goes on. */
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

test('http/node says of each hook which test holds it', () => {
  const words = read('src/http/node.ts').replace(/\n *(?:\*|\/\/) /g, ' ');
  const tests = [...words.matchAll(/([a-z-]+): "([^"]+)"/g)];
  assert.ok(tests.length >= 20, `${tests.length}`);
  for (const [, file, name = ''] of tests) {
    const isRule = file === 'conformance' && ruleNames.some((rule) => rule.startsWith(name));
    const inFile = new RegExp(`\\btest\\(\\s*['\`]${name}`);
    assert.ok(isRule || inFile.test(read(`test/http/${file}.test.ts`)), name);
  }
});

test('Node lets go of an answered request, and begins no stream', {
  skip: behindBalancer,
}, async (t) => {
  const { port } = await start(t);
  const answered = observed(t, 'response.finish');
  await ask(port, 'GET', '/v1/pets');
  await ask(port, 'POST', '/v1/pets', { body: '{"name":"Rex","categoryId":5}' });

  // Each time two: `ask` tries whether the connection goes on.
  assert.equal(answered.length, 4);
  for (const { request, response } of answered) {
    assert.equal(request.listenerCount('end'), 0);
    assert.equal(request.readableFlowing, null);
    assert.equal(response.writableEnded, true);
  }
});

test('C52 while a request waits for the answer to the one before it, no more is read', {
  skip: behindBalancer,
}, async (t) => {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  const running = await start(t, { keys: () => opened.then(() => 'me') });
  const begun = observed(t, 'request.start');
  const client = await connectTo(t, running);
  for (let sent = 0; sent < 10; sent++) {
    client.send(bytesOf('GET', '/v1/pets'));
    await sleep(5);
  }
  assert.equal(begun.length, 2);
  open();
  for (let answers = 0; answers < 10; answers++) assert.equal((await client.answer()).status, 200);
});

test('C52 nothing is parsed behind the request for which a connection is destroyed', {
  skip: behindBalancer,
}, async (t) => {
  const running = await start(t, { keys: () => new Promise(() => undefined) });
  const begun = observed(t, 'request.start');
  const client = await connectTo(t, running);
  client.send(bytesOf('GET', '/v1/pets').repeat(500));
  await client.closed();
  // One under way, 256 that wait, and the one too many.
  assert.equal(begun.length, 258);
});

test('C51 nothing is parsed behind an answer that closes', { skip: behindBalancer }, async (t) => {
  const running = await start(t);
  const begun = observed(t, 'request.start');
  const client = await connectTo(t, running);
  client.send('GET /v1/pets HTTP/1.1\r\n\r\n');
  assert.equal((await client.answer()).status, 400);
  client.send(bytesOf('GET', '/v1/pets'));
  // Another request's answer says that the server has read what came so far.
  await ask(running.port, 'GET', '/healthz', { headers: ['Connection: close'] });
  assert.equal(begun.length, 2);
});

test('C48 a port that is closed leaves no timer behind', async () => {
  const timers = new Set<number>();
  const hook = createHook({
    init: (id, type) => {
      if (type === 'Timeout') timers.add(id);
    },
    destroy: (id) => timers.delete(id),
  }).enable();
  const petstore = createPetstore({ keys: [key] });
  const { port } = await petstore.listen({ port: 0 });
  await ask(port, 'GET', '/v1/pets');
  await petstore.close();
  // A timer's end is told in the turn behind it.
  for (let turns = 0; turns < 3; turns++) await nextTurn();
  hook.disable();
  assert.deepEqual([...timers], []);
});
