/** C52 over a socket: the requests of a connection, one after the other. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { assertError, type Client, header } from '../support/client.js';
import { bytesOf, connectTo, exchange, start } from '../support/fixture.js';
import { animal, expectAnswer, okReply, plainStorage, serving } from '../support/scenes.js';
import { gate, until } from '../support/waiting.js';

const list = bytesOf('GET', '/v1/pets');
const add = bytesOf('POST', '/v1/pets', { body: animal });

/** Expects the statuses of the next answers. */
async function expectNext(client: Client, ...statuses: readonly number[]): Promise<void> {
  for (const status of statuses) assert.equal((await client.answer()).status, status);
}

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
  await expectNext(client.send(list), 200);
});

test('C52 a request that reads sees what those before it on the socket added, however long that takes', async (t) => {
  const storage = plainStorage(({ insert }) => ({
    insert: async (draft) => (await sleep(20), insert(draft)),
  }));
  const client = await connectTo(t, await start(t, { storage }));
  const cut = add.length - 20;
  client.send(add + bytesOf('GET', '/v1/pets/1') + add.slice(0, cut));
  await expectNext(client, 201, 200);
  await expectNext(client.send(add.slice(cut) + list), 201);
  assert.equal(JSON.parse((await client.answer()).body).length, 2);
});

test('C52 a GET never sees what a later POST of its connection adds, whatever the storage', async (t) => {
  // It reads late: what is added meanwhile would be seen.
  const storage = plainStorage((memory) => ({
    list: async (query) => (await sleep(30), memory.list(query)),
  }));
  const client = (await connectTo(t, await start(t, { storage }))).send(list + add + list);
  assert.equal((await client.answer()).body, '[]');
  await expectNext(client, 201);
  assert.equal(JSON.parse((await client.answer()).body).length, 1);
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
  await expectNext(client, ...Array<number>(6).fill(200));
});

test('C52 over 256 requests that wait on one connection destroy it, and the server reads no further', async (t) => {
  const running = await start(t);
  const allowed = (await connectTo(t, running)).send(list.repeat(257));
  await expectNext(allowed, ...Array<number>(257).fill(200));
  const flood = (await connectTo(t, running)).send(list.repeat(20_000));
  await assert.rejects(async () => {
    for (;;) await flood.answer();
  }, /the connection ended/);
  await expectNext(allowed.send(list), 200);
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
  for (const client of full) await expectNext(client, ...Array<number>(257).fill(200));
  await expectNext((await connect()).send(list.repeat(257)), ...Array<number>(257).fill(200));
});

test('C52 an error behind a good request leaves that request its answer, and then gets its own', async (t) => {
  const headers = ['Transfer-Encoding: chunked'];
  const behind: readonly (readonly [number, string, string])[] = [
    ...[
      ...['\0\x01\x02', 'GARBAGE\r\n\r\n', 'GET / HTTP/9.9\r\n\r\n', 'GET / HTTP/1.1\r\n\r\n'],
      'GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n',
      `${bytesOf('POST', '/v1/pets', { headers })}zz\r\n`,
      bytesOf('POST', '/v1/pets', { headers: [...headers, 'Content-Length: 5'] }),
    ].map((bytes) => [400, 'bad_request', bytes] as const),
    [501, 'not_implemented', bytesOf('FOO', '/')],
    [431, 'headers_too_large', bytesOf('GET', `/${'a'.repeat(60_000)}`)],
    [404, 'not_found', bytesOf('CONNECT', 'a:1')],
  ];
  await Promise.all(
    [0, 20].flatMap((slowMs) =>
      behind.flatMap(([status, code, bytes]) =>
        [0, 5].map(async (pauseMs) => {
          const storage = plainStorage(({ insert }) => ({
            insert: async (draft) => (await sleep(slowMs), insert(draft)),
          }));
          const client = await connectTo(t, await start(t, { storage }));
          client.send(add + (pauseMs ? '' : bytes));
          if (pauseMs) {
            await sleep(pauseMs);
            client.send(bytes);
          }
          await expectNext(client, 201);
          const second = await client.answer();
          assertError(second, status, code);
          assert.equal(header(second, 'Connection'), 'close');
          await client.closed();
        }),
      ),
    ),
  );
  const { port } = await start(t);
  for (const rest of ['garbage\r\n\r\n', list, '\0', 'x'.repeat(5_000)]) {
    const closing = bytesOf('GET', '/v1/pets', { headers: ['Connection: close'] });
    const { status, body, kept } = await exchange(port, closing + rest);
    const nothingMore = 'nothing behind a close is answered';
    assert.deepEqual([status, body, kept], [200, '[]', false], nothingMore);
  }
});

test('C52 what comes while an answer that closes is on its way is not carried out, and does not count as waiting', async (t) => {
  const long = serving('/long', () => okReply(`"${'x'.repeat(5_000_000)}"`));
  const running = await start(t, { plugins: [long] });
  await Promise.all(
    Array.from({ length: 10 }, async () => {
      const client = await connectTo(t, running);
      client.pause();
      client.send(bytesOf('GET', '/long', { headers: ['Connection: upgrade', 'Upgrade: x'] }));
      await sleep(20);
      client.send(add.repeat(250));
      await sleep(20);
      client.resume();
      await expectNext(client, 200);
      await client.closed();
    }),
  );
  await expectAnswer(running.port, 'GET /v1/pets', '200 []');
  // More than may wait on all connections have come: if they still counted, this one would be
  // destroyed.
  await expectNext((await connectTo(t, running)).send(list.repeat(3)), 200, 200, 200);
});
