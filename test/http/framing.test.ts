/**
 * Tests of valid and malformed requests (C13, C18, C42) that arrive byte by byte, or after a
 * response that closes the connection.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectTls } from 'node:tls';
import { test } from 'node:test';
import { malformedRequests, oddRequests } from '../../dist/conformance/malformed-requests.js';
import { atEnd } from '../support/at-end.js';
import { newCertificate } from '../support/certificate.js';
import { assertError, Client, header } from '../support/client.js';
import {
  requestBytes,
  connectTo,
  exchange,
  key,
  sendRequest,
  start,
  storedPets,
  type Running,
} from '../support/fixture.js';
import { expectResponse, okReply, routePlugin, startWith } from '../support/scenes.js';

const head = `Host: a\r\nAuthorization: Bearer ${key}\r\n`;
const body = '{"name":"a","categoryId":1}';
const get = (lines: string): string => `GET /v1/pets HTTP/1.1\r\n${head}${lines}\r\n`;
const post = (lines: string, rest: string): string =>
  `POST /v1/pets HTTP/1.1\r\n${head}${lines}\r\n\r\n${rest}`;

const { http, full } = malformedRequests({ basePath: '/v1', key });
const malformed = { ...http, ...full };

test('C42 rejects malformed requests that arrive byte by byte, and stores nothing', async (t) => {
  const running = await start(t);
  await Promise.all(
    Object.entries(malformed).map(async ([name, bytes]) => {
      if (bytes.length > 2_000) return;
      try {
        const response = await exchange(running.port, bytes, 'GET', 'drip');
        assertError(response, 400, 'bad_request');
        assert.equal(response.kept, false);
        assert.equal(header(response, 'Allow'), undefined);
      } catch (error) {
        throw new Error(name, { cause: error });
      }
    }),
  );
  assert.deepEqual(await storedPets(running), []);
});

test('C42 C52 serves unusual but valid requests that arrive byte by byte on one connection', async (t) => {
  const client = await connectTo(t, await start(t));
  const { lists, adds } = oddRequests({ basePath: '/v1', key });
  const all = [...Object.values(lists), ...Object.values(adds)];
  // A request of HTTP/1.0 closes its connection.
  const kept = all.filter((bytes) => !bytes.includes('HTTP/1.0'));
  await client.drip(kept.join(''));
  for (const bytes of kept) await client.expect(bytes.startsWith('POST') ? 201 : 200);
});

test('C18 responds 501 or 400 to an unknown method that arrives byte by byte', async (t) => {
  const { port } = await start(t);
  for (const method of ['FOO', 'get', 'GETS', 'G', 'POSTT', 'X-Y', 'OPTION', 'CONNECTT']) {
    const bytes = `${method} /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n`;
    const response = await exchange(port, bytes, method, 'drip');
    // The parser stops at the first letter that no method has. The bytes of that packet decide.
    assert.ok([400, 501].includes(response.status), response.body);
    assert.equal(response.kept, false);
  }
});

test('C42 accepts tabs and spaces around the values of headers', async (t) => {
  const running = await start(t);
  const client = await connectTo(t, running);
  const length = body.length;
  for (const lines of [
    `Content-Length:\t${length}`,
    `Content-Length: ${length}\t`,
    `Content-Length:\t \t${length} \t\t `,
    `CONTENT-LENGTH:${length}\t\r\nX:\ty\t`,
    `Content-Length: ${length}\r\nContent-Type:\tapplication/json\t`,
    `Content-Length: ${length}\r\nIdempotency-Key:\tkey\t`,
    `Content-Length: ${length}\t\r\nConnection: keep-alive\t`,
  ])
    await client.send(post(lines, body)).expect(201);
  // The body arrives later, and keeps its tabs.
  client.send(post(`Content-Length: ${length + 2}\t`, '\t'));
  client.send(`${body}\t`);
  await client.expect(201);
  await client.send(post('Transfer-Encoding:\tchunked', `1b\r\n${body}\r\n0\r\n\r\n`)).expect(201);
  client.send(post(`Expect:\t100-continue\t\r\nContent-Length: ${length}`, ''));
  await client.expect(100);
  await client.send(body).expect(201);
  await client
    .send(`GET /v1/pets HTTP/1.1\r\nHost:\ta\t\r\nAuthorization:\tBearer ${key}\t\r\n\r\n`)
    .expect(200);

  for (const lines of ['Connection: close\t', 'Connection: x\t,\tCLOSE\t, y']) {
    const closing = await connectTo(t, running, get(`${lines}\r\n`));
    assert.equal(header(await closing.expect(200), 'Connection'), 'close');
    await closing.closed();
  }
  for (const lines of [
    'Content-Length: 2\t7',
    'Content-Length: 2 7\t',
    `Content-Length: ${length}\t\r\nContent-Length: ${length}\t`,
    `Content-Length: ${length}\t\r\nTransfer-Encoding: chunked`,
  ])
    assertError(await exchange(running.port, post(lines, body)), 400, 'bad_request');
});

test('C42 accepts a tab after a Content-Length under HTTPS', async (t) => {
  const { port } = await start(t, {}, { tls: newCertificate() });
  const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
  atEnd(t, () => socket.destroy());
  await once(socket, 'secureConnect');
  for (let times = 0; times < 2; times++) {
    socket.write(post(`Content-Length: ${body.length}\t`, body));
    const [response] = await once(socket, 'data');
    assert.match(String(response), /^HTTP\/1\.1 201 /);
  }
});

test('C42 keeps a connection of HTTP/1.0 open only if its client requests that', async (t) => {
  const { port } = await start(t);
  for (const [value, kept] of [
    ['keep-alive', true],
    ['Keep-Alive', true],
    ['X, KEEP-ALIVE', true],
    ['Keep-Alive, Close', false],
    ['X', false],
  ] as const) {
    const parts = { version: '1.0', headers: [`Connection: ${value}`] };
    const response = await sendRequest(port, 'GET', '/v1/pets', parts);
    assert.deepEqual([response.status, response.kept], [200, kept], value);
  }
});

test('C13 serves / for a target in absolute form without a path', async (t) => {
  const { port } = await startWith(
    t,
    routePlugin('/', () => okReply('1')),
  );
  for (const target of ['/', 'http://any', 'http://any/', 'http://any?a=b', '/?a=b'])
    await expectResponse(port, `GET ${target}`, 200);
});

for (const [how, keys] of [
  ['in a list', [key]],
  ['by a promise', async (token: string) => (token === key ? 'a' : undefined)],
] as const) {
  test(`C29 C42 C43 ignores the rest of a packet after a response that closes, with keys ${how}`, async (t) => {
    await sendAfterRejected(await start(t, { keys }));
  });
}

async function sendAfterRejected(running: Running): Promise<void> {
  const others: Readonly<Record<string, string>> = {
    '101 header lines': get('X: y\r\n'.repeat(101)),
    'a body over the limit': requestBytes('POST', '/v1/pets', { body: ' '.repeat(70_000) }),
    'a streamed body over the limit': post(
      'Transfer-Encoding: chunked',
      `11170\r\n${' '.repeat(70_000)}\r\n0\r\n\r\n`,
    ),
  };
  const adding = (name: string): string =>
    requestBytes('POST', '/v1/pets', { body: JSON.stringify({ name, categoryId: 1 }) });
  // After these requests it is queued, and the rest of the packet is parsed before its response.
  const few = [[], [adding('before')]];
  const many = [
    ...few,
    [adding('before'), get('')],
    Array.from({ length: 33 }, () => adding('before')),
  ];
  await Promise.all(
    Object.entries({ ...malformed, ...others }).flatMap(([name, bytes]) =>
      (name in malformed ? few : many).map(async (before) => {
        const client = await Client.connect(running.port);
        client.send(before.join('') + bytes + adding(`after ${name}`));
        for (const { length } of before) await client.expect(length === get('').length ? 200 : 201);
        const { status } = await client.nextResponse();
        await client.closed();
        assert.ok(status === 400 || status === 413 || status === 431, `${name}: ${status}`);
      }),
    ),
  );
  const names = (await storedPets(running)).map((pet) => pet.replace(/^\d+ | 1 -$/g, ''));
  assert.deepEqual(
    names,
    Array.from(
      { length: Object.keys(malformed).length + 35 * Object.keys(others).length },
      () => 'before',
    ),
  );
}

test('C42 ignores Upgrade, and closes the connection after the response', async (t) => {
  const running = await start(t);
  const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\n';
  const inner = post('Content-Length: 27', body);
  for (const after of [
    inner,
    get(''),
    'garbage\r\n\r\n',
    `POST /v1/pets HTTP/1.1\r\n${head}Content-Length: ${inner.length}\r\n\r\n`,
  ]) {
    const client = await connectTo(t, running, get(upgrade) + after);
    // Node dropped the head of a request, so its body must not be parsed as a request.
    client.send(inner);
    await client.expect(200);
    await client.closed();
  }
  assert.deepEqual(await storedPets(running), []);
});

test('C42 opens no tunnel for CONNECT, and survives the reset of its client', async (t) => {
  const running = await start(t);
  const connect = `CONNECT petstore:443 HTTP/1.1\r\n${head}\r\n`;
  for (const send of ['whole', 'drip'] as const) {
    const response = await exchange(running.port, connect, 'CONNECT', send);
    assertError(response, 404, 'not_found');
    assert.equal(response.kept, false);
  }
  const client = await connectTo(t, running, get('') + connect + 'x'.repeat(100_000));
  await client.expect('200 []', '404 not_found');
  await client.closed();
  for (const pauseMs of [0, 1, 5, 30]) {
    const gone = (await Client.connect(running.port)).send(connect);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    gone.reset();
  }
  await new Promise((resolve) => setTimeout(resolve, 50));
  await expectResponse(running.port, 'GET /v1/pets', 200);
});

test('C18 C42 rejects garbage after a long word in time that is linear in its length', async (t) => {
  const { port } = await start(t);
  const begin = performance.now();
  for (let times = 0; times < 5; times++) {
    const run = 'a'.repeat(60_000);
    // The whole body is read, so that the response cannot close before the garbage arrives.
    const headers = ['Content-Type: application/json'];
    const bytes = `${requestBytes('POST', '/v1/pets', { headers, body: `${run}"` })}{}`;
    const client = await connectTo(t, { port }, bytes);
    await client.expect('400 invalid_json', '400 bad_request');
  }
  // Quadratic time took 15 s for each request.
  assert.ok(performance.now() - begin < 15_000);
});
