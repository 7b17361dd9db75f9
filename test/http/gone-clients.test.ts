/** C52 and C53 over a socket: clients that end their side, or go away. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { test } from 'node:test';
import { newCertificate } from '../support/certificate.js';
import { createPetstore, memoryStorage, type PetStorage } from '../../dist/index.js';
import { atEnd } from '../support/at-end.js';
import { add, ask, bytesOf, connectTo, key, start, stored } from '../support/fixture.js';
import { until } from '../support/waiting.js';

const body = '{"name":"a","categoryId":1}';

test('C52 a client that closes its sending side behind its requests gets all answers', async (t) => {
  const running = await start(t);
  const one = (await connectTo(t, running)).send(bytesOf('POST', '/v1/pets', { body })).half();
  assert.equal((await one.answer('POST')).status, 201);
  assert.ok((await one.closed()) < 4_000);
  const many = (await connectTo(t, running))
    .send(bytesOf('POST', '/v1/pets', { body }).repeat(100))
    .half();
  for (let i = 0; i < 100; i++) assert.equal((await many.answer('POST')).status, 201);
  assert.ok((await many.closed()) < 4_000);
  const silent = (await connectTo(t, running)).half();
  assert.ok((await silent.closed()) < 4_000);
});

test('C52 C53 under HTTPS too a client that closes its sending side gets its answer', async (t) => {
  const petstore = createPetstore({ keys: [key] });
  const { port } = await petstore.listen({ port: 0, tls: newCertificate() });
  atEnd(t, () => petstore.close());
  const whole = bytesOf('POST', '/v1/pets', { body });
  for (const [bytes, status] of [
    [whole, 201],
    [whole.slice(0, -1), 400],
  ] as const) {
    const options = { port, host: '127.0.0.1', rejectUnauthorized: false, allowHalfOpen: true };
    const socket = connectTls(options);
    atEnd(t, () => socket.destroy());
    socket.end(bytes);
    const answer = await new Promise((resolve) =>
      socket.once('data', resolve).once('end', resolve),
    );
    assert.match(String(answer), new RegExp(`^HTTP/1\\.1 ${status} `));
  }
});

test('C48 a TLS client that goes as soon as it has shaken hands does not hold up close', async () => {
  const petstore = createPetstore({ keys: [key] });
  const { port } = await petstore.listen({ port: 0, tls: newCertificate() });
  for (let i = 0; i < 10; i++) {
    await new Promise((resolve) => {
      const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false }, () =>
        socket.destroy(),
      );
      socket.on('error', () => undefined).once('close', resolve);
    });
  }
  const from = performance.now();
  await petstore.close();
  assert.ok(performance.now() - from < 8_000, 'close waited for its last resort');
});

test('C53 a client gone in the middle of a body stores nothing, one gone behind it is stored, and nothing crashes', async (t) => {
  const logged: unknown[] = [];
  const running = await start(t, { log: (...line) => logged.push(line) });
  const whole = bytesOf('POST', '/v1/pets', { body });
  const chunked = bytesOf('POST', '/v1/pets', { headers: ['Transfer-Encoding: chunked'] }).concat(
    `1b\r\n${body}\r\n0\r\n\r\n`,
  );
  for (const bytes of [whole, chunked]) {
    for (const how of ['destroy', 'reset', 'half'] as const) {
      for (const cut of [whole.length, bytes.length - 1, bytes.length - 3, bytes.length - 20]) {
        if (cut >= bytes.length) continue;
        const client = (await connectTo(t, running)).send(bytes.slice(0, cut));
        await sleep(3);
        client[how]();
      }
    }
  }
  await sleep(50);
  assert.deepEqual(await stored(running), []);
  for (const [index, how] of (['destroy', 'reset', 'half'] as const).entries()) {
    const isStored = async (): Promise<boolean> => (await stored(running)).length > index;
    const client = (await connectTo(t, running)).send(whole);
    // A reset takes along what was not read yet.
    if (how === 'reset') await until('the animal of a client that waits', isStored);
    client[how]();
    await until('the animal of a client that is gone', isStored);
    if (how === 'half') assert.equal((await client.answer('POST')).status, 201);
  }
  await add(running.port, body);
  assert.equal((await stored(running)).length, 4);
  assert.deepEqual(logged, []);
});

test('C53 a client gone while its animal is being stored does no harm', async (t) => {
  const memory = memoryStorage();
  const storage: PetStorage = {
    durable: false,
    insert: async (draft) => (await sleep(40), memory.insert(draft)),
    get: memory.get,
    list: memory.list,
    close: memory.close,
  };
  const running = await start(t, { storage });
  for (const how of ['destroy', 'reset'] as const) {
    const client = (await connectTo(t, running)).send(
      bytesOf('POST', '/v1/pets', { body }).repeat(5),
    );
    await sleep(10);
    client[how]();
  }
  await until('all animals', async () => (await stored(running)).length === 10);
  assert.equal((await ask(running.port, 'GET', '/v1/pets')).status, 200);
});

test('C53 requests that came whole and wait for those before them are carried out though their client has gone', async (t) => {
  for (const how of ['destroy', 'reset', 'half'] as const) {
    const memory = memoryStorage();
    let arrived = (): void => undefined;
    let release = (): void => undefined;
    const inserting = new Promise<void>((resolve) => (arrived = resolve));
    const released = new Promise<void>((resolve) => (release = resolve));
    const insert: PetStorage['insert'] = (draft) => (
      arrived(), released.then(() => memory.insert(draft))
    );
    const running = await start(t, {
      storage: { durable: false, insert, get: memory.get, list: memory.list, close: memory.close },
    });
    const client = await connectTo(t, running);
    // The second adding waits for the reading, which waits for the first.
    client.send(
      bytesOf('POST', '/v1/pets', { body }) +
        bytesOf('GET', '/v1/pets') +
        bytesOf('POST', '/v1/pets', { body }),
    );
    await inserting;
    client[how]();
    release();
    await until(`both animals (${how})`, async () => (await stored(running)).length === 2);
  }
});
