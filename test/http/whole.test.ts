// What a request and a reply are kept from being, a stream and a text anew, is seen by no client.
import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { ask, behindBalancer, bytesOf, start } from '../support/fixture.js';
import { Client } from '../support/client.js';

const body = '{"name":"Rex","categoryId":5}';
const added = '{"id":1,"name":"Rex","categoryId":5}';

/** A verifier that lets in once it is told to. */
function gate() {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  let asked = (): void => undefined;
  const isAsked = new Promise<void>((resolve) => (asked = resolve));
  const keys = async (): Promise<string> => {
    asked();
    await opened;
    return 'me';
  };
  return { keys, open, isAsked };
}

test('whoever observes Node’s responses sees the status of each', {
  skip: behindBalancer,
}, async (t) => {
  const { port } = await start(t);
  const seen: number[] = [];
  const observe = (message: unknown): void => {
    const response =
      typeof message === 'object' && message !== null && 'response' in message
        ? message.response
        : undefined;
    if (response instanceof ServerResponse) seen.push(response.statusCode);
  };
  subscribe('http.server.response.finish', observe);
  atEnd(t, () => unsubscribe('http.server.response.finish', observe));
  for (const target of ['/v1/pets', '/v1/pets/9', '/healthz']) await ask(port, 'GET', target);
  // Each time twice: `ask` tries whether the connection goes on.
  assert.deepEqual(seen, [200, 200, 404, 200, 200, 200]);
});

for (const [when, cut] of [
  ['whole before anybody wants it', body.length],
  ['in part before anybody wants it', 9],
  ['only once somebody wants it', 0],
] as const) {
  test(`a body that comes ${when} is read whole`, { skip: behindBalancer }, async (t) => {
    const { keys, open, isAsked } = gate();
    const { port } = await start(t, { keys });
    const client = await Client.connect(port);
    const bytes = bytesOf('POST', '/v1/pets', {
      body,
      headers: ['Content-Type: application/json'],
    });
    const bodyAt = bytes.length - body.length;
    client.send(bytes.slice(0, bodyAt + cut));
    await isAsked;
    // Another request's answer says that the server has read what came so far.
    await ask(port, 'GET', '/healthz');
    open();
    await new Promise(setImmediate);
    client.send(bytes.slice(bodyAt + cut));
    assert.equal((await client.answer('POST')).body, added);
    // And the connection goes on behind it.
    client.send(bytesOf('GET', '/v1/pets/1'));
    assert.equal((await client.answer()).body, added);
    client.destroy();
  });
}

for (const words of [
  { body: '' },
  {},
  { headers: ['Transfer-Encoding: chunked'], chunked: '0\r\n\r\n' },
]) {
  test(`an empty body is no JSON, and the connection goes on: ${JSON.stringify(words)}`, async (t) => {
    const { port } = await start(t);
    const client = await Client.connect(port);
    const { chunked = '', ...asked } = { chunked: undefined, ...words };
    client.send(bytesOf('POST', '/v1/pets', asked) + chunked);
    const answer = await client.answer('POST');
    assert.equal(answer.status, 400);
    assert.match(answer.body, /"invalid_json"/);
    client.send(bytesOf('GET', '/v1/pets'));
    assert.equal((await client.answer()).body, '[]');
    client.destroy();
  });
}

test('an empty body that ends before anybody wants it is read as one', {
  skip: behindBalancer,
}, async (t) => {
  const { keys, open, isAsked } = gate();
  const { port } = await start(t, { keys });
  const client = await Client.connect(port);
  client.send(bytesOf('POST', '/v1/pets', { body: '' }));
  await isAsked;
  await ask(port, 'GET', '/healthz');
  open();
  assert.match((await client.answer('POST')).body, /"invalid_json"/);
  client.destroy();
});

test('C47 a reply that is kept says the present date, and HEAD of it has no body', {
  skip: behindBalancer,
}, async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: Date.UTC(2026, 10, 21, 12, 0, 0) });
  const { petstore, port } = await start(t);
  for (let i = 0; i < 3; i++)
    await petstore.storage.insert({ name: 'Rex'.repeat(200), categoryId: 5n });
  const asked = async (method: string, target: string, authorization?: null) => {
    const { status, headers, body } = await ask(
      port,
      method,
      target,
      authorization === undefined ? {} : { authorization },
    );
    return { status, date: headers.get('date'), link: headers.get('link'), bytes: body.length };
  };
  const page = { status: 200, link: ['</v1/pets?limit=2&after=2>; rel="next"'], bytes: 1269 };
  for (const second of ['00', '00', '01', '02']) {
    const date = [`Sat, 21 Nov 2026 12:00:${second} GMT`];
    assert.deepEqual(await asked('GET', '/v1/pets?limit=2'), { ...page, date });
    assert.deepEqual(await asked('HEAD', '/v1/pets?limit=2'), { ...page, date, bytes: 0 });
    assert.deepEqual(await asked('GET', '/v1/pets/1', null), {
      status: 401,
      date,
      link: ['</v1/pets>; rel="successor-version"'],
      bytes: 98,
    });
    if (second !== '00') t.mock.timers.tick(1000);
    else t.mock.timers.tick(500);
  }
});
