/**
 * What is HTTP and what is none, C13, C18 and C42, as nobody outside tries it: byte by byte, and
 * behind answers that close.
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
  bytesOf,
  connectTo,
  exchange,
  key,
  start,
  stored,
  type Running,
} from '../support/fixture.js';
import { expectAnswer, okReply, serving, startWith } from '../support/scenes.js';

const head = `Host: a\r\nAuthorization: Bearer ${key}\r\n`;
const body = '{"name":"a","categoryId":1}';
const get = (lines: string): string => `GET /v1/pets HTTP/1.1\r\n${head}${lines}\r\n`;
const post = (lines: string, rest: string): string =>
  `POST /v1/pets HTTP/1.1\r\n${head}${lines}\r\n\r\n${rest}`;

const { http, full } = malformedRequests({ basePath: '/v1', key });
const noHttp = { ...http, ...full };

test('C42 what is no HTTP answers 400 bad_request and closes byte by byte too, and stores nothing', async (t) => {
  const running = await start(t);
  await Promise.all(
    Object.entries(noHttp).map(async ([name, bytes]) => {
      if (bytes.length > 2_000) return;
      try {
        const answer = await exchange(running.port, bytes, 'GET', 'drip');
        assertError(answer, 400, 'bad_request');
        assert.equal(answer.kept, false);
        assert.equal(header(answer, 'Allow'), undefined);
      } catch (error) {
        throw new Error(name, { cause: error });
      }
    }),
  );
  assert.deepEqual(await stored(running), []);
});

test('C42 C52 what is odd but well-formed is served byte by byte, one behind the other on a connection', async (t) => {
  const client = await connectTo(t, await start(t));
  const { lists, adds } = oddRequests({ basePath: '/v1', key });
  const all = [...Object.values(lists), ...Object.values(adds)];
  // HTTP/1.0 ends its connection.
  const kept = all.filter((bytes) => !bytes.includes('HTTP/1.0'));
  await client.drip(kept.join(''));
  for (const bytes of kept) await client.expect(bytes.startsWith('POST') ? 201 : 200);
});

test('C18 a method that nobody knows answers 501 or 400, where its letters come one by one', async (t) => {
  const { port } = await start(t);
  for (const method of ['FOO', 'get', 'GETS', 'G', 'POSTT', 'X-Y', 'OPTION', 'CONNECTT']) {
    const bytes = `${method} /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n`;
    const answer = await exchange(port, bytes, method, 'drip');
    // The parser gives up at the first letter that no method has; the first packet then decides.
    assert.ok([400, 501].includes(answer.status), answer.body);
    assert.equal(answer.kept, false);
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
  // The body comes later, and its tabs stay.
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

test('C42 accepts a tab behind a Content-Length under HTTPS too', async (t) => {
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

test('C13 a target in absolute form without a path is the path /', async (t) => {
  const { port } = await startWith(
    t,
    serving('/', () => okReply('1')),
  );
  for (const target of ['/', 'http://any', 'http://any/', 'http://any?a=b', '/?a=b'])
    await expectAnswer(port, `GET ${target}`, 200);
});

for (const [how, keys] of [
  ['at once', [key]],
  ['by a promise', async (token: string) => (token === key ? 'a' : undefined)],
] as const) {
  test(`C29 C42 C43 what the same packet brings behind an answer that closes is not carried out, keys being known ${how}`, async (t) => {
    await sendBehind(await start(t, { keys }));
  });
}

async function sendBehind(running: Running): Promise<void> {
  const others: Readonly<Record<string, string>> = {
    '101 header lines': get('X: y\r\n'.repeat(101)),
    'a body over the limit': bytesOf('POST', '/v1/pets', { body: ' '.repeat(70_000) }),
    'a streamed body over the limit': post(
      'Transfer-Encoding: chunked',
      `11170\r\n${' '.repeat(70_000)}\r\n0\r\n\r\n`,
    ),
  };
  const adding = (name: string): string =>
    bytesOf('POST', '/v1/pets', { body: JSON.stringify({ name, categoryId: 1 }) });
  // Behind those it waits, and what follows is taken in before it is answered.
  const few = [[], [adding('before')]];
  const many = [
    ...few,
    [adding('before'), get('')],
    Array.from({ length: 33 }, () => adding('before')),
  ];
  await Promise.all(
    Object.entries({ ...noHttp, ...others }).flatMap(([name, bytes]) =>
      (name in noHttp ? few : many).map(async (before) => {
        const client = await Client.connect(running.port);
        client.send(before.join('') + bytes + adding(`behind ${name}`));
        for (const { length } of before) await client.expect(length === get('').length ? 200 : 201);
        const { status } = await client.answer();
        await client.closed();
        assert.ok(status === 400 || status === 413 || status === 431, `${name}: ${status}`);
      }),
    ),
  );
  const names = (await stored(running)).map((pet) => pet.replace(/^\d+ | 1 -$/g, ''));
  assert.deepEqual(
    names,
    Array.from(
      { length: Object.keys(noHttp).length + 35 * Object.keys(others).length },
      () => 'before',
    ),
  );
}

test('C42 nothing behind an upgrade that is not taken is carried out, as Node drops some of that', async (t) => {
  const running = await start(t);
  const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\n';
  const inner = post('Content-Length: 27', body);
  for (const behind of [
    inner,
    get(''),
    'garbage\r\n\r\n',
    `POST /v1/pets HTTP/1.1\r\n${head}Content-Length: ${inner.length}\r\n\r\n`,
  ]) {
    const client = await connectTo(t, running, get(upgrade) + behind);
    // What is the body of a request that Node dropped must not become one.
    client.send(inner);
    await client.expect(200);
    await client.closed();
  }
  assert.deepEqual(await stored(running), []);
});

test('C42 CONNECT opens no tunnel: 404 for an authority, and its end does the server no harm', async (t) => {
  const running = await start(t);
  const connect = `CONNECT petstore:443 HTTP/1.1\r\n${head}\r\n`;
  for (const send of ['whole', 'drip'] as const) {
    const answer = await exchange(running.port, connect, 'CONNECT', send);
    assertError(answer, 404, 'not_found');
    assert.equal(answer.kept, false);
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
  await expectAnswer(running.port, 'GET /v1/pets', 200);
});

test('C18 C42 garbage after a long run of letters takes no time that grows faster than its length', async (t) => {
  const { port } = await start(t);
  const begin = performance.now();
  for (let times = 0; times < 5; times++) {
    const run = 'a'.repeat(60_000);
    // A body that is waited for, so that its answer does not close before the garbage came.
    const headers = ['Content-Type: application/json'];
    const bytes = `${bytesOf('POST', '/v1/pets', { headers, body: `${run}"` })}{}`;
    const client = await connectTo(t, { port }, bytes);
    await client.expect('400 invalid_json', '400 bad_request');
  }
  // A search of quadratic time took 15 s for each.
  assert.ok(performance.now() - begin < 15_000);
});
