/**
 * The inner hooks of Node that `http/node` lists: its list, and those that no other test sees. What
 * a request is kept from being, a stream, is seen by no client.
 */
import assert from 'node:assert/strict';
import { createHook } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import { IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { atEnd, type Ending } from '../support/at-end.js';
import { createPetstore } from '../../dist/index.js';
import { assertError } from '../support/client.js';
import { ask, bytesOf, connectTo, exchange, key, start } from '../support/fixture.js';
import { animal, expectAnswers, firstAnimal, heldKeys } from '../support/scenes.js';
import { ruleNames } from './rule-names.js';

const read = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const list = bytesOf('GET', '/v1/pets');

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

test('whoever observes Node’s responses sees the status of each, that its request is let go of, and that no stream was begun', async (t) => {
  const { port } = await start(t);
  const answered = observed(t, 'response.finish');
  await expectAnswers(port, [
    ['GET /v1/pets', 200],
    ['POST /v1/pets', 201, { body: animal }],
    ['GET /v1/pets/9', 404],
  ]);
  // Each time two: `ask` tries whether the connection goes on.
  assert.deepEqual(
    answered.map(({ response }) => response.statusCode),
    [200, 200, 201, 200, 404, 200],
  );
  for (const { request, response } of answered) {
    assert.equal(request.listenerCount('end'), 0);
    assert.equal(request.readableFlowing, null);
    assert.equal(response.writableEnded, true);
  }
});

for (const [when, body, cut] of [
  ['whole before anybody wants it', animal, animal.length],
  ['in part before anybody wants it', animal, 9],
  ['only once somebody wants it', animal, 0],
  ['as an empty one, and ends before anybody wants it', '', 0],
] as const) {
  test(`a body that comes ${when} is read whole`, async (t) => {
    const { keys, letIn, asked } = heldKeys();
    const { port } = await start(t, { keys });
    const client = await connectTo(t, { port });
    const bytes = bytesOf('POST', '/v1/pets', { body });
    const cutAt = bytes.length - body.length + cut;
    client.send(bytes.slice(0, cutAt));
    await asked;
    // Another request's answer says that the server has read what came so far.
    await ask(port, 'GET', '/healthz');
    letIn();
    await nextTurn();
    client.send(bytes.slice(cutAt));
    const isEmpty = body === '';
    await client.expect(isEmpty ? '400 invalid_json' : `201 ${firstAnimal}`);
    // And the connection goes on behind it.
    await client.send(list).expect(`200 [${isEmpty ? '' : firstAnimal}]`);
  });
}

test('an empty body is no JSON, and the connection goes on', async (t) => {
  const { port } = await start(t);
  const chunked = { headers: ['Transfer-Encoding: chunked'] };
  for (const bytes of [
    bytesOf('POST', '/v1/pets', { body: '' }),
    bytesOf('POST', '/v1/pets'),
    `${bytesOf('POST', '/v1/pets', chunked)}0\r\n\r\n`,
  ]) {
    const answer = await exchange(port, bytes, 'POST');
    assertError(answer, 400, 'invalid_json');
    assert.ok(answer.kept);
  }
});

test('C52 while a request waits for the answer to the one before it, no more is read', async (t) => {
  const { keys, letIn } = heldKeys();
  const running = await start(t, { keys });
  const begun = observed(t, 'request.start');
  const client = await connectTo(t, running);
  for (let sent = 0; sent < 10; sent++) {
    client.send(list);
    await sleep(5);
  }
  assert.equal(begun.length, 2);
  letIn();
  await client.expect(...Array<number>(10).fill(200));
});

test('C52 nothing is parsed behind the request for which a connection is destroyed', async (t) => {
  const { keys, letIn } = heldKeys();
  const running = await start(t, { keys });
  const begun = observed(t, 'request.start');
  await (await connectTo(t, running, list.repeat(500))).closed();
  // One under way, 256 that wait, and the one too many.
  assert.equal(begun.length, 258);
  letIn();
});

test('C51 nothing is parsed behind an answer that closes', async (t) => {
  const running = await start(t);
  const begun = observed(t, 'request.start');
  const client = await connectTo(t, running);
  await client.send('GET /v1/pets HTTP/1.1\r\n\r\n').expect('400 bad_request');
  client.send(list);
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
