/** Tests of pipelined requests (C52). */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { header } from '../support/client.js';
import { requestBytes, connectTo, start } from '../support/fixture.js';
import {
  petJson,
  expectResponse,
  firstPetJson,
  okReply,
  plainStorage,
  routePlugin,
  startWith,
} from '../support/scenes.js';
import { gate, until } from '../support/waiting.js';

const list = requestBytes('GET', '/v1/pets');
const add = requestBytes('POST', '/v1/pets', { body: petJson });

test('C52 serves two hundred requests of one packet in order, one at a time', async (t) => {
  let inFlight = 0;
  let most = 0;
  const storage = plainStorage(({ insert }) => ({
    insert: async (draft) => {
      most = Math.max(most, ++inFlight);
      // Later requests are faster.
      await sleep(Math.max(0, 30 - Number(draft.categoryId) / 4));
      inFlight--;
      return insert(draft);
    },
  }));
  const client = await connectTo(t, await start(t, { storage }));
  const bodies = Array.from({ length: 200 }, (_, i) => `{"name":"${i}","categoryId":${i}}`);
  client.send(bodies.map((body) => requestBytes('POST', '/v1/pets', { body })).join(''));
  for (const body of bodies) assert.ok((await client.nextResponse()).body.endsWith(body.slice(1)));
  assert.equal(most, 1);
  await client.send(list).expect(200);
});

test('C52 never shows a GET the pet of a later POST on its connection', async (t) => {
  // The storage reads late, so that a pet added meanwhile would be in the list.
  const storage = plainStorage((memory) => ({
    list: async (query) => (await sleep(30), memory.list(query)),
  }));
  const client = await connectTo(t, await start(t, { storage }), list + add + list);
  await client.expect('200 []', 201, `200 [${firstPetJson}]`);
});

test('C52 sends keep-alive headers with the responses to queued requests', async (t) => {
  const keys = (token: string): Promise<string> => sleep(token === 'slow' ? 30 : 0, token);
  const client = await connectTo(t, await start(t, { keys }));
  const tokens = ['slow', 'quick', 'quick'].map((token) => ({ authorization: `Bearer ${token}` }));
  client.send(tokens.map((words) => requestBytes('GET', '/v1/pets', words)).join(''));
  for (const _ of tokens) {
    const response = await client.nextResponse();
    assert.equal(header(response, 'Connection'), 'keep-alive');
    assert.equal(header(response, 'Keep-Alive'), 'timeout=72');
  }
});

test('C52 stops handling requests when the client does not read responses', async (t) => {
  let lists = 0;
  const storage = plainStorage((memory) => ({ list: (query) => (lists++, memory.list(query)) }));
  for (let count = 0; count < 50; count++)
    await storage.insert({ name: 'x'.repeat(60_000), categoryId: 1n });
  const running = await start(t, { storage });
  const client = await connectTo(t, running);
  client.pause();
  client.send(requestBytes('GET', '/v1/pets?limit=50').repeat(6));
  // The responses are made within a few ticks. Then nothing happens until the client reads.
  for (let before = -1; before !== lists; await sleep(200)) before = lists;
  assert.ok(lists <= 2, `${lists} responses of 3 MB were made`);
  await expectResponse(running.port, 'GET /healthz', 200);
  client.resume();
  await client.expect(...Array<number>(6).fill(200));
});

test('C52 destroys a connection with over 256 queued requests', async (t) => {
  const running = await start(t);
  const allowed = await connectTo(t, running, list.repeat(257));
  await allowed.expect(...Array<number>(257).fill(200));
  const flood = await connectTo(t, running, list.repeat(20_000));
  await assert.rejects(async () => {
    for (;;) await flood.nextResponse();
  }, /closed the connection|the connection ended/);
  await allowed.send(list).expect(200);
});

test('C52 destroys a connection whose request is over the total of 2,048 queued requests', async (t) => {
  let asking = 0;
  const letIn = gate();
  const keys = async (): Promise<string> => {
    asking++;
    await letIn.opened;
    return 'me';
  };
  const running = await start(t, { keys });
  const connect = () => connectTo(t, running);
  // On each connection, one request is in flight and 256 are queued.
  const full = await Promise.all(Array.from({ length: 8 }, connect));
  for (const client of full) client.send(list.repeat(257));
  await until('eight full connections', () => asking === 8);
  await (await connect()).send(list.repeat(2)).closed();
  letIn.open();
  const all = Array<number>(257).fill(200);
  for (const client of full) await client.expect(...all);
  await (await connect()).send(list.repeat(257)).expect(...all);
});

test('C52 responds to a good request, then to the malformed request after it', async (t) => {
  const headers = ['Transfer-Encoding: chunked'];
  const following: readonly (readonly [error: string, bytes: string])[] = [
    ...[
      ...['\0\x01\x02', 'GARBAGE\r\n\r\n', 'GET / HTTP/9.9\r\n\r\n', 'GET / HTTP/1.1\r\n\r\n'],
      'GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n',
      `${requestBytes('POST', '/v1/pets', { headers })}zz\r\n`,
      requestBytes('POST', '/v1/pets', { headers: [...headers, 'Content-Length: 5'] }),
    ].map((bytes) => ['400 bad_request', bytes] as const),
    ['501 not_implemented', requestBytes('FOO', '/')],
    ['431 headers_too_large', requestBytes('GET', `/${'a'.repeat(60_000)}`)],
    ['404 not_found', requestBytes('CONNECT', 'a:1')],
  ];
  await Promise.all(
    [0, 20].flatMap((slowMs) =>
      following.flatMap(([error, bytes]) =>
        [0, 5].map(async (pauseMs) => {
          const storage = plainStorage(({ insert }) => ({
            insert: async (draft) => (await sleep(slowMs), insert(draft)),
          }));
          const client = await connectTo(
            t,
            await start(t, { storage }),
            add + (pauseMs ? '' : bytes),
          );
          await sleep(pauseMs);
          if (pauseMs) client.send(bytes);
          const second = await client.expect(201, error);
          assert.equal(header(second, 'Connection'), 'close');
          await client.closed();
        }),
      ),
    ),
  );
  const { port } = await start(t);
  for (const rest of ['garbage\r\n\r\n', list, '\0', 'x'.repeat(5_000)]) {
    const closing = requestBytes('GET', '/v1/pets', { headers: ['Connection: close'] });
    const client = await connectTo(t, { port }, closing + rest);
    await client.expect('200 []');
    await client.closed();
  }
});

test('C52 ignores requests that arrive before or during a response that closes', async (t) => {
  const reply = okReply(`"${'x'.repeat(5_000_000)}"`);
  let made = gate();
  const long = routePlugin('/long', () => made.opened.then(() => reply));
  const running = await startWith(t, long);
  // If ignored requests still counted, the second round would exceed the total limit.
  for (let rounds = 0; rounds < 2; rounds++) {
    made = gate();
    const connecting = Array.from({ length: 8 }, () => connectTo(t, running));
    const clients = await Promise.all(connecting);
    const sendEach = async (bytes: string): Promise<void> => {
      for (const client of clients) client.send(bytes);
      // Once this request is served, the server has read the bytes above.
      await expectResponse(running.port, 'GET /healthz', 200);
    };
    for (const client of clients) client.pause();
    await sendEach(
      requestBytes('GET', '/long', { headers: ['Connection: upgrade', 'Upgrade: x'] }),
    );
    await sendEach(add.repeat(200));
    made.open();
    await sendEach(add.repeat(50));
    for (const client of clients) {
      client.resume();
      await client.expect(200);
      await client.closed();
    }
  }
  await expectResponse(running.port, 'GET /v1/pets', '200 []');
});
