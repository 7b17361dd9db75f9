/** Tests of a storage that rejects writes, of draining and of the shutdown (C48). */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { PetstoreError } from '../../dist/index.js';
import { atEnd, type Ending } from '../support/at-end.js';
import { newCertificate } from '../support/certificate.js';
import { Client, header } from '../support/client.js';
import { requestBytes, connectTo, key, start, type Running } from '../support/fixture.js';
import {
  petJson,
  expectResponse,
  expectResponses,
  blockedStorage,
  noKey,
  plainStorage,
} from '../support/scenes.js';

const add = requestBytes('POST', '/v1/pets', { body: petJson });
const later = { 'Retry-After': '1' };

/** Checks the status and the Connection header of the next response. */
async function expectNext(client: Client, status: number, connection: string): Promise<void> {
  assert.equal(header(await client.expect(status), 'Connection'), connection);
}

test('C48 responds 503 with Retry-After if the storage rejects writes, and serves reads', async (t) => {
  const cause = new Error('ENOSPC at /secret');
  const refusing = (): Promise<never> =>
    Promise.reject(new PetstoreError('unavailable', 'The disk is full.', { cause }));
  const storage = plainStorage(() => ({ insert: refusing, ready: refusing }));
  const { port } = await start(t, { storage });
  const adding = { body: petJson };
  const refusal = '{"code":"unavailable","message":"The disk is full.","status":503}';
  const response = await expectResponse(port, 'POST /v1/pets', `503 ${refusal}`, adding, later);
  assert.equal(response.kept, true);
  await expectResponses(port, [
    ['GET /v1/pets', '200 []'],
    ['GET /v1/pets/1', '404 not_found'],
    ['GET /readyz', '503 unavailable', noKey, later],
    ['GET /healthz', 200],
  ]);
});

test('C77 checks the storage once a second, however many probes arrive', async (t) => {
  let checks = 0;
  // Each check takes as long as twenty probes need to arrive, and the second one fails.
  const storage = plainStorage(() => ({
    ready: async () => {
      checks++;
      await sleep(100);
      if (checks === 2) throw new PetstoreError('unavailable', 'The disk is full.');
    },
  }));
  const { port } = await start(t, { storage });
  const begun = performance.now();
  const statuses = new Set<number>();
  const probe = async () => {
    const { status } = await fetch(`http://127.0.0.1:${port}/readyz`);
    statuses.add(status);
  };

  while (checks < 3) {
    await Promise.all(Array.from({ length: 20 }, probe));
    assert.ok(checks <= 1 + (performance.now() - begun) / 1_000, `${checks} checks`);
  }
  assert.deepEqual([...statuses], [200, 503]);
});

test('C48 responds 503 to /readyz while it drains, and serves all other requests', async (t) => {
  const { port, petstore } = await start(t);
  const { drain } = petstore;
  await expectResponse(port, 'GET /readyz', 200, noKey);
  for (let times = 0; times < 2; times++) drain();
  await expectResponses(port, [
    ['GET /readyz', '503 unavailable', noKey, later],
    ['GET /healthz', 200],
    ['GET /v1/pets', 200],
    ['POST /v1/pets', 201, { body: petJson }],
  ]);
});

test('C48 finishes requests on open connections during shutdown, and closes the port', async (t) => {
  const { storage, inserting, release } = blockedStorage();
  const running = await start(t, { storage });
  const [busy, half, idle] = [
    await connectTo(t, running),
    await connectTo(t, running),
    await connectTo(t, running),
  ];
  await expectNext(idle.send(requestBytes('GET', '/healthz')), 200, 'keep-alive');
  busy.send(add.repeat(3));
  half.send('GET /v1/pets HTTP/1.1\r\nHo');
  await inserting;
  await sleep(30);
  const closing = running.petstore.close();
  half.send(`st: a\r\nAuthorization: Bearer ${key}\r\n\r\n`);
  await idle.closed();
  await expectNext(half, 200, 'close');
  await half.closed();
  await assert.rejects(Client.connect(running.port), { code: 'ECONNREFUSED' });
  release();
  for (const connection of ['keep-alive', 'keep-alive', 'close'])
    await expectNext(busy, 201, connection);
  await busy.closed();
  await closing;
});

test('C48 serves a request that arrives on an idle connection during shutdown', async (t) => {
  const running = await start(t);
  const client = await connectTo(t, running, requestBytes('GET', '/healthz'));
  await expectNext(client, 200, 'keep-alive');
  const closing = running.petstore.close();
  await sleep(50);
  await expectNext(client.send(requestBytes('GET', '/v1/pets')), 200, 'close');
  await client.closed();
  await closing;
});

/** The limit for a close without requests in flight. With a request, close waits up to 8 s. */
const promptlyMs = 4_000;

/** Closes the petstore, and asserts that it does not wait for any client. */
async function closesPromptly({ petstore }: Running): Promise<void> {
  const startedAt = performance.now();
  await petstore.close();
  assert.ok(performance.now() - startedAt < promptlyMs);
}

test('C48 responds 503 to an incomplete head at shutdown, without waiting for the rest', async (t) => {
  const get = requestBytes('GET', '/v1/pets');
  const halves = ['G', 'GET /v1/pets HTTP/1.1\r\nHost: ', '\r\n', get.slice(0, -1)];
  await Promise.all(
    halves.flatMap((half) =>
      // On a new connection, and after a response on a kept-alive connection.
      [half, get].map(async (first) => {
        const running = await start(t);
        const client = await connectTo(t, running, first);
        if (first === get) {
          await client.expect(200);
          client.send(half);
        }
        await sleep(50);
        const closing = closesPromptly(running);
        await client.expect('503 unavailable');
        await client.closed();
        await closing;
      }),
    ),
  );
});

test('C48 closes a connection whose incomplete head came with the previous request', async (t) => {
  const running = await start(t);
  const client = await connectTo(t, running, `${requestBytes('GET', '/v1/pets')}GET /v1`);
  await client.expect(200);
  const closing = closesPromptly(running);
  await client.closed();
  await closing;
});

test('C48 closes TLS connections at shutdown in the middle of their handshake', async (t) => {
  const hello = Buffer.from('16030102000100 01fc0303'.replace(' ', ''), 'hex');
  for (const bytes of ['', hello.subarray(0, 1), hello]) {
    const running = await start(t, {}, { tls: newCertificate() });
    const socket = connect({ port: running.port, host: '127.0.0.1', allowHalfOpen: true });
    atEnd(t, () => socket.destroy());
    socket.on('error', () => undefined);
    await once(socket, 'connect');
    socket.write(bytes);
    await sleep(50);
    await closesPromptly(running);
  }
});

test('C48 responds 503 to an incomplete head under TLS, and serves a request in flight', async (t) => {
  const { storage, inserting, release } = blockedStorage();
  const running = await start(t, { storage }, { tls: newCertificate() });
  const open = async (ending: Ending, bytes: string) => {
    const socket = connectTls({
      port: running.port,
      host: '127.0.0.1',
      rejectUnauthorized: false,
    });
    atEnd(ending, () => socket.destroy());
    await once(socket, 'secureConnect');
    socket.write(bytes);
    return socket;
  };
  const half = await open(t, 'GET /v1');
  const busy = await open(t, add);
  await inserting;
  const closing = running.petstore.close();
  const [refusal] = await once(half, 'data');
  assert.match(String(refusal), /^HTTP\/1\.1 503 /);
  await once(half, 'close');
  release();
  const [created] = await once(busy, 'data');
  assert.match(String(created), /^HTTP\/1\.1 201 /);
  await closing;
});
