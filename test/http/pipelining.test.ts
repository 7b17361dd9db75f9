/** C52 over a socket: the requests of a connection, one after the other. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { header } from '../support/client.js';
import { bytesOf, connectTo, start } from '../support/fixture.js';
import {
  animal,
  expectAnswer,
  firstAnimal,
  okReply,
  plainStorage,
  serving,
  startWith,
} from '../support/scenes.js';
import { gate, until } from '../support/waiting.js';

const list = bytesOf('GET', '/v1/pets');
const add = bytesOf('POST', '/v1/pets', { body: animal });

test('C52 two hundred requests in one packet are answered in order, one at a time', async (t) => {
  let underWay = 0;
  let most = 0;
  const storage = plainStorage(({ insert }) => ({
    insert: async (draft) => {
      most = Math.max(most, ++underWay);
      // Later ones are quicker.
      await sleep(Math.max(0, 30 - Number(draft.categoryId) / 4));
      underWay--;
      return insert(draft);
    },
  }));
  const client = await connectTo(t, await start(t, { storage }));
  const bodies = Array.from({ length: 200 }, (_, i) => `{"name":"${i}","categoryId":${i}}`);
  client.send(bodies.map((body) => bytesOf('POST', '/v1/pets', { body })).join(''));
  for (const body of bodies) assert.ok((await client.answer()).body.endsWith(body.slice(1)));
  assert.equal(most, 1);
  await client.send(list).expect(200);
});

test('C52 a GET never sees what a later POST of its connection adds, whatever the storage', async (t) => {
  // It reads late: what is added meanwhile would be seen.
  const storage = plainStorage((memory) => ({
    list: async (query) => (await sleep(30), memory.list(query)),
  }));
  const client = await connectTo(t, await start(t, { storage }), list + add + list);
  await client.expect('200 []', 201, `200 [${firstAnimal}]`);
});

test('C52 an answer that waited for the one before it says the same of its connection', async (t) => {
  const keys = (token: string): Promise<string> => sleep(token === 'slow' ? 30 : 0, token);
  const client = await connectTo(t, await start(t, { keys }));
  const tokens = ['slow', 'quick', 'quick'].map((token) => ({ authorization: `Bearer ${token}` }));
  client.send(tokens.map((words) => bytesOf('GET', '/v1/pets', words)).join(''));
  for (const _ of tokens) {
    const answer = await client.answer();
    assert.equal(header(answer, 'Connection'), 'keep-alive');
    assert.equal(header(answer, 'Keep-Alive'), 'timeout=72');
  }
});

test('C52 a client that reads no answers gets no more made than fit on their way', async (t) => {
  let lists = 0;
  const storage = plainStorage((memory) => ({ list: (query) => (lists++, memory.list(query)) }));
  for (let count = 0; count < 50; count++)
    await storage.insert({ name: 'x'.repeat(60_000), categoryId: 1n });
  const running = await start(t, { storage });
  const client = await connectTo(t, running);
  client.pause();
  client.send(bytesOf('GET', '/v1/pets?limit=50').repeat(6));
  // Those that are made are made within few turns; then nothing happens until the client reads.
  for (let before = -1; before !== lists; await sleep(200)) before = lists;
  assert.ok(lists <= 2, `${lists} answers of 3 MB were made`);
  await expectAnswer(running.port, 'GET /healthz', 200);
  client.resume();
  await client.expect(...Array<number>(6).fill(200));
});

test('C52 over 256 requests that wait on one connection destroy it, and the server reads no further', async (t) => {
  const running = await start(t);
  const allowed = await connectTo(t, running, list.repeat(257));
  await allowed.expect(...Array<number>(257).fill(200));
  const flood = await connectTo(t, running, list.repeat(20_000));
  await assert.rejects(async () => {
    for (;;) await flood.answer();
  }, /the connection ended/);
  await allowed.send(list).expect(200);
});

test('C52 over 2,048 requests that wait on all connections destroy the one that brings more', async (t) => {
  let asking = 0;
  const letIn = gate();
  const keys = async (): Promise<string> => {
    asking++;
    await letIn.opened;
    return 'me';
  };
  const running = await start(t, { keys });
  const connect = () => connectTo(t, running);
  // Of each, one is under way and 256 wait.
  const full = await Promise.all(Array.from({ length: 8 }, connect));
  for (const client of full) client.send(list.repeat(257));
  await until('eight that are full', () => asking === 8);
  await (await connect()).send(list.repeat(2)).closed();
  letIn.open();
  const all = Array<number>(257).fill(200);
  for (const client of full) await client.expect(...all);
  await (await connect()).send(list.repeat(257)).expect(...all);
});

test('C52 an error behind a good request leaves that request its answer, and then gets its own', async (t) => {
  const headers = ['Transfer-Encoding: chunked'];
  const behind: readonly (readonly [error: string, bytes: string])[] = [
    ...[
      ...['\0\x01\x02', 'GARBAGE\r\n\r\n', 'GET / HTTP/9.9\r\n\r\n', 'GET / HTTP/1.1\r\n\r\n'],
      'GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n',
      `${bytesOf('POST', '/v1/pets', { headers })}zz\r\n`,
      bytesOf('POST', '/v1/pets', { headers: [...headers, 'Content-Length: 5'] }),
    ].map((bytes) => ['400 bad_request', bytes] as const),
    ['501 not_implemented', bytesOf('FOO', '/')],
    ['431 headers_too_large', bytesOf('GET', `/${'a'.repeat(60_000)}`)],
    ['404 not_found', bytesOf('CONNECT', 'a:1')],
  ];
  await Promise.all(
    [0, 20].flatMap((slowMs) =>
      behind.flatMap(([error, bytes]) =>
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
    const closing = bytesOf('GET', '/v1/pets', { headers: ['Connection: close'] });
    const client = await connectTo(t, { port }, closing + rest);
    await client.expect('200 []');
    await client.closed();
  }
});

test('C52 what comes while an answer that closes is made, or on its way, is not carried out, and does not count as waiting', async (t) => {
  const reply = okReply(`"${'x'.repeat(5_000_000)}"`);
  let made = gate();
  const long = serving('/long', () => made.opened.then(() => reply));
  const running = await startWith(t, long);
  // If those of one round still counted in the next, more would wait than may on all connections.
  for (let rounds = 0; rounds < 2; rounds++) {
    made = gate();
    const connecting = Array.from({ length: 8 }, () => connectTo(t, running));
    const clients = await Promise.all(connecting);
    const sendEach = async (bytes: string): Promise<void> => {
      for (const client of clients) client.send(bytes);
      // Another request's answer says that the server has read what came so far.
      await expectAnswer(running.port, 'GET /healthz', 200);
    };
    for (const client of clients) client.pause();
    await sendEach(bytesOf('GET', '/long', { headers: ['Connection: upgrade', 'Upgrade: x'] }));
    await sendEach(add.repeat(200));
    made.open();
    await sendEach(add.repeat(50));
    for (const client of clients) {
      client.resume();
      await client.expect(200);
      await client.closed();
    }
  }
  await expectAnswer(running.port, 'GET /v1/pets', '200 []');
});
