/** Tests of clients that close their sending side, or leave (C52, C53). */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { test } from 'node:test';
import { newCertificate } from '../support/certificate.js';
import type { Plugin } from '../../dist/index.js';
import { atEnd } from '../support/at-end.js';
import { sendRequest, requestBytes, connectTo, start, storedPets } from '../support/fixture.js';
import { petJson, blockedKeys, blockedStorage, startLogged } from '../support/scenes.js';
import { until } from '../support/waiting.js';

const add = requestBytes('POST', '/v1/pets', { body: petJson });
const tls = newCertificate();
const ways = ['destroy', 'reset', 'endSending'] as const;

test('C52 sends all responses to a client that closed its sending side', async (t) => {
  const running = await start(t);
  for (const count of [0, 1, 100]) {
    const client = (await connectTo(t, running, add.repeat(count))).endSending();
    for (let i = 0; i < count; i++) await client.expect(201);
    assert.ok((await client.closed()) < 4_000);
  }
});

test('C52 C53 sends the response to a TLS client that closed its sending side', async (t) => {
  const { port } = await start(t, {}, { tls });
  for (const [bytes, status] of [
    [add, 201],
    [add.slice(0, -1), 400],
  ] as const) {
    const options = { port, host: '127.0.0.1', rejectUnauthorized: false, allowHalfOpen: true };
    const socket = connectTls(options);
    atEnd(t, () => socket.destroy());
    socket.end(bytes);
    const response = await new Promise((resolve) =>
      socket.once('data', resolve).once('end', resolve),
    );
    assert.match(String(response), new RegExp(`^HTTP/1\\.1 ${status} `));
  }
});

test('C48 closes promptly although TLS clients left right after their handshake', async (t) => {
  const { petstore, port } = await start(t, {}, { tls });
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
  assert.ok(performance.now() - from < 8_000, 'close waited for its time limit');
});

test('C53 stores a pet only if its whole body arrived before the client left', async (t) => {
  const running = await startLogged(t);
  const head = requestBytes('POST', '/v1/pets', { headers: ['Transfer-Encoding: chunked'] });
  const chunked = `${head}1b\r\n${petJson}\r\n0\r\n\r\n`;
  const parts = [add.slice(0, -1), add.slice(0, -20), chunked.slice(0, add.length)];
  for (const left of [1, 3, 20]) parts.push(chunked.slice(0, -left));
  for (const part of parts)
    for (const how of ways) {
      const client = await connectTo(t, running, part);
      await sleep(3);
      client[how]();
    }
  await sleep(50);
  assert.deepEqual(await storedPets(running), []);
  for (const [index, how] of ways.entries()) {
    const isStored = async (): Promise<boolean> => (await storedPets(running)).length > index;
    const client = await connectTo(t, running, add);
    // A reset drops the bytes that the server has not read yet.
    if (how === 'reset') await until('the pet of a client that waits', isStored);
    client[how]();
    await until('the pet of a client that is gone', isStored);
    if (how === 'endSending') await client.expect(201);
  }
  await sendRequest(running.port, 'POST', '/v1/pets', { body: petJson });
  assert.equal((await storedPets(running)).length, 4);
  assert.deepEqual(running.lines, []);
});

test('C53 ends a request whose client left in the middle of its body', async (t) => {
  const { keys, verifying, unblock } = blockedKeys();
  const statuses: number[] = [];
  const watching: Plugin = ({ onReply }) => onReply(({ status }) => void statuses.push(status));
  const running = await start(t, { keys, plugins: [watching] });
  const client = await connectTo(t, running, add.slice(0, -1));
  await verifying;
  client.reset();
  unblock();
  await until('its end', () => statuses.length > 0);
  assert.deepEqual(statuses, [400]);
});

test('C53 carries out complete queued requests although their client has left', async (t) => {
  for (const how of ways) {
    const { storage, inserting, release } = blockedStorage();
    const running = await start(t, { storage });
    // The second POST waits for the GET, which waits for the first POST.
    const client = await connectTo(t, running, add + requestBytes('GET', '/v1/pets') + add);
    await inserting;
    client[how]();
    release();
    await until(`both pets (${how})`, async () => (await storedPets(running)).length === 2);
  }
});
