/** C52 over a socket: the requests of a connection, one after the other. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { memoryStorage, type PetStorage, type Plugin, toByteString } from '../../dist/index.js';
import { assertError, header } from '../support/client.js';
import { ask, bytesOf, connectTo, exchange, start } from '../support/fixture.js';

const body = '{"name":"a","categoryId":1}';

test('C52 two hundred requests in one packet are answered in order, one at a time', async (t) => {
  let underWay = 0;
  let most = 0;
  const memory = memoryStorage();
  const insert: PetStorage['insert'] = async (draft) => {
    most = Math.max(most, ++underWay);
    // Later ones are quicker.
    await sleep(Math.max(0, 30 - Number(draft.categoryId) / 4));
    underWay--;
    return memory.insert(draft);
  };
  const running = await start(t, {
    storage: { durable: false, insert, get: memory.get, list: memory.list, close: memory.close },
  });
  const client = await connectTo(t, running);
  const count = 200;
  client.send(
    Array.from({ length: count }, (_, i) =>
      bytesOf('POST', '/v1/pets', { body: `{"name":"${i}","categoryId":${i}}` }),
    ).join(''),
  );
  for (let i = 0; i < count; i++)
    assert.match(
      (await client.answer('POST')).body,
      new RegExp(`"name":"${i}","categoryId":${i}\\}`),
    );
  assert.equal(most, 1);
  client.send(bytesOf('GET', '/healthz'));
  assert.equal((await client.answer()).status, 200);
});

test('C52 a request that reads sees what those before it on the socket added, however long that takes', async (t) => {
  const memory = memoryStorage();
  const insert: PetStorage['insert'] = async (draft) => {
    await sleep(20);
    return memory.insert(draft);
  };
  const running = await start(t, {
    storage: { durable: false, insert, get: memory.get, list: memory.list, close: memory.close },
  });
  const client = await connectTo(t, running);
  const [first = '', rest = ''] = [body.slice(0, 5), body.slice(5)];
  const head = bytesOf('POST', '/v1/pets', { headers: [`Content-Length: ${body.length}`] });
  client.send(bytesOf('POST', '/v1/pets', { body }) + bytesOf('GET', '/v1/pets/1') + head + first);
  assert.equal((await client.answer('POST')).status, 201);
  assert.equal((await client.answer()).status, 200);
  client.send(rest + bytesOf('GET', '/v1/pets'));
  assert.equal((await client.answer('POST')).status, 201);
  assert.equal(JSON.parse((await client.answer()).body).length, 2);
});

test('C52 a GET never sees what a later POST of its connection adds, whatever the storage', async (t) => {
  const memory = memoryStorage();
  const storage: PetStorage = {
    durable: false,
    insert: memory.insert,
    get: memory.get,
    // It reads late: what is added meanwhile would be seen.
    list: async (query) => (await sleep(30), memory.list(query)),
    close: memory.close,
  };
  const running = await start(t, { storage });
  const client = await connectTo(t, running);
  client.send(
    bytesOf('GET', '/v1/pets') + bytesOf('POST', '/v1/pets', { body }) + bytesOf('GET', '/v1/pets'),
  );
  assert.equal((await client.answer()).body, '[]');
  assert.equal((await client.answer('POST')).status, 201);
  assert.equal(JSON.parse((await client.answer()).body).length, 1);
});

test('C52 an answer that waited for the one before it says the same of its connection', async (t) => {
  const keys = async (token: string): Promise<string> => (
    await sleep(token === 'slow' ? 30 : 0), token
  );
  const running = await start(t, { keys });
  const client = await connectTo(t, running);
  client.send(
    ['slow', 'quick', 'quick']
      .map((token) => bytesOf('GET', '/v1/pets', { authorization: `Bearer ${token}` }))
      .join(''),
  );
  for (let i = 0; i < 3; i++) {
    const { headers } = await client.answer();
    assert.deepEqual(
      [headers.get('connection'), headers.get('keep-alive')],
      [['keep-alive'], ['timeout=72']],
    );
  }
});

test('C52 a client that reads no answers gets no more made than fit on their way', async (t) => {
  const memory = memoryStorage();
  let lists = 0;
  const list: PetStorage['list'] = (query) => {
    lists++;
    return memory.list(query);
  };
  const running = await start(t, {
    storage: { durable: false, insert: memory.insert, get: memory.get, list, close: memory.close },
  });
  for (let count = 0; count < 50; count++)
    await memory.insert({ name: 'x'.repeat(60_000), categoryId: 1n });
  const client = await connectTo(t, running);
  client.pause();
  client.send(bytesOf('GET', '/v1/pets?limit=50').repeat(12));
  // Those that are made are made within few turns; then nothing happens until the client reads.
  for (let before = -1; before !== lists; await sleep(200)) before = lists;
  assert.ok(lists <= 2, `${lists} answers of 3 MB were made`);
  assert.equal((await ask(running.port, 'GET', '/healthz')).status, 200);
  client.resume();
  for (let index = 0; index < 12; index++) assert.equal((await client.answer()).status, 200);
});

test('C52 over 256 requests that wait on one connection destroy it, and the server reads no further', async (t) => {
  const running = await start(t);
  const asked = bytesOf('GET', '/v1/pets');
  const allowed = (await connectTo(t, running)).send(asked.repeat(257));
  for (let answers = 0; answers < 257; answers++)
    assert.equal((await allowed.answer()).status, 200);
  const flood = (await connectTo(t, running)).send(asked.repeat(100_000));
  await assert.rejects(async () => {
    for (;;) await flood.answer();
  }, /the connection ended/);
  assert.equal((await allowed.send(asked).answer()).status, 200);
});

test('C52 an error behind a good request leaves that request its answer, and then gets its own', async (t) => {
  const running = await start(t);
  const behind: readonly (readonly [number, string, string])[] = [
    [400, 'bad_request', '\0\x01\x02'],
    [400, 'bad_request', 'GARBAGE\r\n\r\n'],
    [400, 'bad_request', 'GET / HTTP/9.9\r\n\r\n'],
    [400, 'bad_request', 'GET / HTTP/1.1\r\n\r\n'],
    [400, 'bad_request', `GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n`],
    [
      400,
      'bad_request',
      bytesOf('POST', '/v1/pets', { headers: ['Transfer-Encoding: chunked'] }).concat('zz\r\n'),
    ],
    [
      400,
      'bad_request',
      `POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n`,
    ],
    [501, 'not_implemented', bytesOf('FOO', '/')],
    [431, 'headers_too_large', bytesOf('GET', `/${'a'.repeat(60_000)}`)],
    [404, 'not_found', bytesOf('CONNECT', 'a:1')],
  ];
  let id = 0;
  for (const slowMs of [0, 20]) {
    const memory = memoryStorage();
    const storage: PetStorage = {
      durable: false,
      insert: async (draft) => (await sleep(slowMs), memory.insert(draft)),
      get: memory.get,
      list: memory.list,
      close: memory.close,
    };
    const slow = await start(t, { storage });
    id = 0;
    for (const [status, code, bytes] of behind) {
      for (const pauseMs of [0, 5]) {
        const client = (await connectTo(t, slow)).send(
          bytesOf('POST', '/v1/pets', { body }) + (pauseMs ? '' : bytes),
        );
        if (pauseMs) {
          await sleep(pauseMs);
          client.send(bytes);
        }
        const first = await client.answer('POST');
        assert.deepEqual(
          [first.status, first.body],
          [201, `{"id":${++id},"name":"a","categoryId":1}`],
        );
        const second = await client.answer();
        assertError(second, status, code);
        assert.equal(header(second, 'Connection'), 'close');
        await client.closed();
      }
    }
  }
  const { port } = running;
  for (const rest of ['garbage\r\n\r\n', bytesOf('GET', '/v1/pets'), '\0', 'x'.repeat(5_000)]) {
    const answer = await exchange(
      port,
      bytesOf('GET', '/v1/pets', { headers: ['Connection: close'] }) + rest,
    );
    assert.deepEqual(
      [answer.status, answer.body, answer.kept],
      [200, '[]', false],
      'nothing behind a close is answered',
    );
  }
});

test('C52 what comes while an answer that closes is on its way is not carried out, and does not count as waiting', async (t) => {
  const long: Plugin = (host) => {
    const body = 'x'.repeat(8_000_000);
    host.route({
      path: '/long',
      methods: { GET: { handler: () => ({ status: 200, headers: [], body: toByteString(body) }) } },
    });
  };
  const running = await start(t, { plugins: [long] });
  for (let rounds = 0; rounds < 10; rounds++) {
    const client = await connectTo(t, running);
    client.pause();
    client.send(bytesOf('GET', '/long', { headers: ['Connection: upgrade', 'Upgrade: x'] }));
    await sleep(20);
    client.send(bytesOf('POST', '/v1/pets', { body }).repeat(250));
    await sleep(20);
    client.resume();
    assert.equal((await client.answer()).status, 200);
    await client.closed();
  }
  assert.equal((await ask(running.port, 'GET', '/v1/pets')).body, '[]');
  // More than may wait on all connections have come: if they still counted, this one would be
  // destroyed.
  const honest = (await connectTo(t, running)).send(bytesOf('GET', '/v1/pets').repeat(3));
  for (let answers = 0; answers < 3; answers++) assert.equal((await honest.answer()).status, 200);
});
