/**
 * The contract of what is HTTP and what is none, C42 and C43, over a socket: whole, byte by byte
 * and half-closed.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { assertError, Client, header } from '../support/client.js';
import { ask, bytesOf, exchange, key, start, stored, type Running } from '../support/fixture.js';

const head = `Host: a\r\nAuthorization: Bearer ${key}\r\n`;
const body = '{"name":"a","categoryId":1}';
const chunks = `1b\r\n${body}\r\n0\r\n\r\n`;
const get = (lines: string): string => `GET /v1/pets HTTP/1.1\r\n${head}${lines}\r\n`;
const post = (lines: string, rest: string): string =>
  `POST /v1/pets HTTP/1.1\r\n${head}${lines}\r\n\r\n${rest}`;
const target = (text: string): string => `GET ${text} HTTP/1.1\r\n${head}\r\n`;
const hosts = (lines: string): string =>
  `GET /v1/pets HTTP/1.1\r\nAuthorization: Bearer ${key}\r\n${lines}\r\n`;

const noHttp: Readonly<Record<string, string>> = {
  'no Host': hosts(''),
  'two Hosts': hosts('Host: a\r\nHost: a\r\n'),
  'two Hosts, one empty': hosts('Host: a\r\nHost:\r\n'),
  'a Host with a path': hosts('Host: a/b\r\n'),
  'a Host with a scheme': hosts('Host: http://a\r\n'),
  'a Host with a user': hosts('Host: u@a\r\n'),
  'a Host with a space': hosts('Host: a b\r\n'),
  'a Host with a bad port': hosts('Host: a:b\r\n'),
  'a Host with two ports': hosts('Host: a:1:2\r\n'),
  'a Host with half a bracket': hosts('Host: [::1\r\n'),
  'a Host with no IPv6': hosts('Host: [zz]\r\n'),
  'a Host with a bad escape': hosts('Host: a%zz\r\n'),
  'a Host list': hosts('Host: a, b\r\n'),
  'a Host beyond ASCII': hosts('Host: \xe9\r\n'),
  'no Host in absolute form': `GET http://a/v1/pets HTTP/1.1\r\nAuthorization: Bearer ${key}\r\n\r\n`,
  'no Host on a path that is not there': 'GET /nowhere HTTP/1.1\r\n\r\n',
  'no Host with a method that is not allowed': 'DELETE /v1/pets HTTP/1.1\r\n\r\n',
  'CONNECT without a Host': 'CONNECT a:443 HTTP/1.1\r\n\r\n',

  'CL.TE': post('Content-Length: 6\r\nTransfer-Encoding: chunked', '0\r\n\r\nG'),
  'TE.CL': post(
    'Transfer-Encoding: chunked\r\nContent-Length: 4',
    '5c\r\nGPOST / HTTP/1.1\r\n\r\n0\r\n\r\n',
  ),
  'TE.TE': post('Transfer-Encoding: chunked\r\nTransfer-Encoding: x', chunks),
  'TE twice': post('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked', chunks),
  'TE empty and chunked': post('Transfer-Encoding:\r\nTransfer-Encoding: chunked', chunks),
  'TE empty': post('Transfer-Encoding:', chunks),
  'TE gzip, chunked': post('Transfer-Encoding: gzip, chunked', chunks),
  'TE chunked, gzip': post('Transfer-Encoding: chunked, gzip', chunks),
  'TE chunked, identity': post('Transfer-Encoding: chunked, identity', chunks),
  'TE identity': post('Transfer-Encoding: identity', ''),
  'TE identity with CL': post('Transfer-Encoding: identity\r\nContent-Length: 27', body),
  'TE xchunked': post('Transfer-Encoding: xchunked', chunks),
  'TE chunked;q=1': post('Transfer-Encoding: chunked;q=1', chunks),
  'TE "chunked"': post('Transfer-Encoding: "chunked"', chunks),
  'TE with a vertical tab': post('Transfer-Encoding: \x0bchunked', chunks),
  'TE by obs-fold': post('Transfer-Encoding:\r\n chunked', chunks),
  'TE with a space before the colon': post('Transfer-Encoding : chunked', chunks),
  'TE of a GET': get('Transfer-Encoding: gzip\r\n'),
  'TE in HTTP/1.0': `POST /v1/pets HTTP/1.0\r\n${head}Transfer-Encoding: chunked\r\n\r\n${chunks}`,

  'two CL, equal': post('Content-Length: 27\r\nContent-Length: 27', body),
  'two CL, different': post('Content-Length: 27\r\nContent-Length: 5', body),
  'CL list': post('Content-Length: 27, 27', body),
  'CL +27': post('Content-Length: +27', body),
  'CL -27': post('Content-Length: -27', body),
  'CL -0': post('Content-Length: -0', ''),
  'CL hexadecimal': post('Content-Length: 0x1b', body),
  'CL 2 7': post('Content-Length: 2 7', body),
  'CL 27.0': post('Content-Length: 27.0', body),
  'CL empty': post('Content-Length:', body),
  'CL over 2^64': post('Content-Length: 18446744073709551616', body),
  'CL over 2^70': post('Content-Length: 1180591620717411303424', body),
  'CL with a space before the colon': post('Content-Length : 27', body),
  'CL of a GET, bad': get('Content-Length: x\r\n'),

  'chunk size empty': post('Transfer-Encoding: chunked', `\r\n${body}\r\n0\r\n\r\n`),
  'chunk size 0x1b': post('Transfer-Encoding: chunked', `0x1b\r\n${body}\r\n0\r\n\r\n`),
  'chunk size -1': post('Transfer-Encoding: chunked', `-1\r\n${body}\r\n0\r\n\r\n`),
  'chunk size +1b': post('Transfer-Encoding: chunked', `+1b\r\n${body}\r\n0\r\n\r\n`),
  'chunk size with a space': post('Transfer-Encoding: chunked', `1b \r\n${body}\r\n0\r\n\r\n`),
  'chunk size over 2^64': post(
    'Transfer-Encoding: chunked',
    `10000000000000000\r\n${body}\r\n0\r\n\r\n`,
  ),
  'chunk size behind LF': post('Transfer-Encoding: chunked', `1b\n${body}\r\n0\r\n\r\n`),
  'chunk data behind LF': post('Transfer-Encoding: chunked', `1b\r\n${body}\n0\r\n\r\n`),
  'chunk too long': post('Transfer-Encoding: chunked', `1a\r\n${body}\r\n0\r\n\r\n`),
  'chunk too short': post('Transfer-Encoding: chunked', `1c\r\n${body}\r\n0\r\n\r\n`),
  'chunk extension with LF': post('Transfer-Encoding: chunked', `1b;a\nb\r\n${body}\r\n0\r\n\r\n`),
  'chunk extension without end': post('Transfer-Encoding: chunked', `1b;${'a'.repeat(20_000)}`),
  'trailer that is none': post(
    'Transfer-Encoding: chunked',
    `1b\r\n${body}\r\n0\r\nfoo bar\r\n\r\n`,
  ),
  'trailer Content-Length': post(
    'Transfer-Encoding: chunked',
    `1b\r\n${body}\r\n0\r\nContent-Length: 5\r\n\r\n`,
  ),

  'obs-fold': get('X: a\r\n b\r\n'),
  'obs-fold by tab': get('X: a\r\n\tb\r\n'),
  'a space before the first header': `GET /v1/pets HTTP/1.1\r\n ${head}\r\n`,
  'a space before the colon': get('X : a\r\n'),
  'a space in a name': get('X Y: a\r\n'),
  'no colon': get('XY\r\n'),
  'no name': get(': a\r\n'),
  'a name beyond ASCII': get('X\xe9: a\r\n'),
  'a name with brackets': get('X[]: a\r\n'),
  'NUL in a name': get('X\0: a\r\n'),
  'NUL in a value': get('X: a\0b\r\n'),
  'a control character in a value': get('X: a\x01b\r\n'),
  'DEL in a value': get('X: a\x7fb\r\n'),
  'bare CR in a value': get('X: a\rb\r\n'),
  'bare CR for a line end': get('X: a\rY: b\r\n'),
  'bare LF for a line end': get('X: a\nY: b\r\n'),
  'bare LF behind the request line': `GET /v1/pets HTTP/1.1\n${head}\r\n`,
  'bare LF at the end': `GET /v1/pets HTTP/1.1\r\n${head}\n`,
  'bare LF everywhere': `GET /v1/pets HTTP/1.1\nHost: a\nAuthorization: Bearer ${key}\n\n`,

  'a tab in the target': target('/v1/pe\tts'),
  'a form feed in the target': target('/v1/pe\x0cts'),
  'a space in the target': target('/v1/pe ts'),
  'NUL in the target': target('/v1/pe\0ts'),
  'DEL in the target': target('/v1/pe\x7fts'),
  'Latin-1 in the target': target('/v1/pe\xe9ts'),
  'UTF-8 in the query': target('/v1/pets?a=\xc3\xa9'),
  'a target with no slash': target('v1/pets'),
  'no target': target(''),
  'a tab for a space': `GET\t/v1/pets HTTP/1.1\r\n${head}\r\n`,
  'a space behind the version': `GET /v1/pets HTTP/1.1 \r\n${head}\r\n`,
  'a space before the method': ` GET /v1/pets HTTP/1.1\r\n${head}\r\n`,

  'HTTP/0.9': `GET /v1/pets\r\n${head}\r\n`,
  'HTTP/0.9 of the root': 'GET /\r\n\r\n',
  'HTTP/0.9 in words': `GET /v1/pets HTTP/0.9\r\n${head}\r\n`,
  'HTTP/1.2': `GET /v1/pets HTTP/1.2\r\n${head}\r\n`,
  'HTTP/1.10': `GET /v1/pets HTTP/1.10\r\n${head}\r\n`,
  'HTTP/1': `GET /v1/pets HTTP/1\r\n${head}\r\n`,
  'HTTP/2.0': `GET /v1/pets HTTP/2.0\r\n${head}\r\n`,
  'HTTP/9.9': `GET /v1/pets HTTP/9.9\r\n${head}\r\n`,
  'http/1.1': `GET /v1/pets http/1.1\r\n${head}\r\n`,
  'HTTPS/1.1': `GET /v1/pets HTTPS/1.1\r\n${head}\r\n`,
  'the preface of HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'PRI in HTTP/1.1': `PRI * HTTP/1.1\r\n${head}\r\n`,
  'a TLS hello': '\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03',
  garbage: '\0\xff\xfe\r\n\r\n',
  'garbage that ends in a line': 'hello\r\n\r\n',
  JSON: body,
};

test('C42 what is no HTTP answers 400 bad_request and closes, whole and byte by byte, and stores nothing', async (t) => {
  const running = await start(t);
  for (const send of ['whole', 'drip'] as const) {
    await Promise.all(
      Object.entries(noHttp).map(async ([name, bytes]) => {
        if (send === 'drip' && bytes.length > 2_000) return;
        try {
          const answer = await exchange(running.port, bytes, 'GET', send);
          assertError(answer, 400, 'bad_request');
          assert.equal(answer.kept, false);
          assert.equal(header(answer, 'Allow'), undefined);
        } catch (error) {
          throw new Error(`${name}, ${send}`, { cause: error });
        }
      }),
    );
  }
  assert.deepEqual(await stored(running), []);
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
        for (const { length } of before)
          assert.equal((await client.answer()).status, length === get('').length ? 200 : 201);
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

test('C42 a client that closes its sending side behind half a request still gets its 400', async (t) => {
  const running = await start(t);
  // biome-ignore format: short ones by the dozen, a line for each would hide the test.
  const halves = ['G', 'GET', 'GET /', 'GET /\r\n', 'GET /v1/pets HTTP/1.1', `GET /v1/pets HTTP/1.1\r\n${head}`, 'FOO', 'FOO /', 'FOO / HTTP/1.', post('Content-Length: 28', body), post('Transfer-Encoding: chunked', chunks.slice(0, -2)), 'hello'];
  for (const bytes of halves) {
    const client = (await Client.connect(running.port)).send(bytes).half();
    assertError(await client.answer('GET'), 400, 'bad_request');
    assert.ok((await client.closed()) < 4_000, bytes);
    client.destroy();
  }
  assert.deepEqual(await stored(running), []);
});

test('C42 a target in absolute form without a host answers 400 (RFC 9110 section 4.2.1)', async (t) => {
  const { port } = await start(t);
  for (const target of [
    'http:///healthz',
    'https:///healthz',
    'HTTP://',
    'http://:80/healthz',
    'http://?a',
  ]) {
    assertError(await ask(port, 'GET', target), 400, 'bad_request');
  }
  assert.equal((await ask(port, 'GET', 'http://a/healthz')).status, 200);
});

test('C42 what is odd but well-formed is served', async (t) => {
  const running = await start(t);
  const fine: Readonly<Record<string, string>> = {
    'a Host with a port': hosts('Host: a:80\r\n'),
    'a Host of IPv6': hosts('Host: [::1]:8080\r\n'),
    'a Host in Unicode by escapes': hosts('Host: %C3%A9.example\r\n'),
    'a Host with an underscore': hosts('Host: my_service\r\n'),
    'a header of obs-text': get('X: \xe9\xff\r\n'),
    'an empty header': get('X:\r\n'),
    'no space behind the colon': get('X:a\r\n'),
    'tabs around a value': get('X: \t a \t \r\n'),
    'lines before the request': `\r\n\r\n${get('')}`,
  };
  for (const [name, bytes] of Object.entries(fine)) {
    for (const send of ['whole', 'drip'] as const) {
      const answer = await exchange(running.port, bytes, 'GET', send);
      assert.deepEqual([answer.status, answer.body, answer.kept], [200, '[]', true], name);
    }
  }
  const posts: Readonly<Record<string, string>> = {
    chunked: post('Transfer-Encoding: chunked', chunks),
    'chunked in any case': post('transfer-encoding: ChunKed', chunks.replace('1b', '1B')),
    'chunks of a byte': post(
      'Transfer-Encoding: chunked',
      `${[...body].map((byte) => `1\r\n${byte}\r\n`).join('')}0\r\n\r\n`,
    ),
    'chunk extensions': post(
      'Transfer-Encoding: chunked',
      `1b;a=b;c="d;e"\r\n${body}\r\n0;x\r\n\r\n`,
    ),
    'chunk size with zeros': post(
      'Transfer-Encoding: chunked',
      `0000000000000000001b\r\n${body}\r\n000\r\n\r\n`,
    ),
    trailers: post(
      'Transfer-Encoding: chunked',
      `1b\r\n${body}\r\n0\r\nHost: b\r\nAuthorization: x\r\n\r\n`,
    ),
    'CL with zeros': post('Content-Length: 0027', body),
    'CL without a space': post('Content-Length:27', body),
  };
  for (const [name, bytes] of Object.entries(posts)) {
    for (const send of ['whole', 'drip'] as const)
      assert.equal((await exchange(running.port, bytes, 'POST', send)).status, 201, name);
  }
});

test('C42 an upgrade that is not taken is answered as if it were none, and nothing behind it is carried out, as Node drops some of that', async (t) => {
  const running = await start(t);
  const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\n';
  const inner = post('Content-Length: 27', body);
  for (const [bytes, status] of [
    [get(upgrade), 200],
    [
      get(
        'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n',
      ),
      200,
    ],
    [post(`${upgrade}Content-Length: 27`, body), 201],
  ] as const) {
    for (const send of ['whole', 'drip'] as const) {
      const answer = await exchange(running.port, bytes, 'GET', send);
      assert.deepEqual([answer.status, answer.kept], [status, false], bytes);
    }
  }
  assert.equal((await stored(running)).length, 2);
  for (const behind of [
    inner,
    get(''),
    'garbage\r\n\r\n',
    `POST /v1/pets HTTP/1.1\r\n${head}Content-Length: ${inner.length}\r\n\r\n`,
  ]) {
    const client = (await Client.connect(running.port)).send(get(upgrade) + behind);
    atEnd(t, () => client.destroy());
    // What is the body of a request that Node dropped must not become one.
    client.send(inner);
    assert.equal((await client.answer()).status, 200);
    await client.closed();
  }
  assert.equal((await stored(running)).length, 2);
});

test('C42 CONNECT opens no tunnel: 404 for an authority, and its end does the server no harm', async (t) => {
  const running = await start(t);
  const connect = `CONNECT petstore:443 HTTP/1.1\r\n${head}\r\n`;
  for (const send of ['whole', 'drip'] as const) {
    const answer = await exchange(running.port, connect, 'CONNECT', send);
    assertError(answer, 404, 'not_found');
    assert.equal(answer.kept, false);
  }
  const client = (await Client.connect(running.port)).send(get('') + connect + 'x'.repeat(100_000));
  assert.equal((await client.answer()).body, '[]');
  assertError(await client.answer('CONNECT'), 404, 'not_found');
  await client.closed();
  client.destroy();
  for (const pauseMs of [0, 1, 5, 30]) {
    const gone = (await Client.connect(running.port)).send(connect);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    gone.reset();
  }
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal((await ask(running.port, 'GET', '/v1/pets')).status, 200);
});

test('C42 HTTP/1.0 needs no Host, closes unless it asks to be kept, and knows no Expect', async (t) => {
  const { port } = await start(t);
  const plain = `GET /v1/pets HTTP/1.0\r\nAuthorization: Bearer ${key}\r\n`;
  const closing = await Client.connect(port);
  closing.send(`${plain}\r\n`);
  const answer = await closing.answer();
  assert.deepEqual(
    [answer.status, answer.body, header(answer, 'Connection')],
    [200, '[]', 'close'],
  );
  await closing.closed();

  const keeping = await Client.connect(port);
  atEnd(t, () => keeping.destroy());
  for (let i = 0; i < 3; i++) {
    keeping.send(`${plain}Connection: keep-alive\r\n\r\n`);
    assert.equal(header(await keeping.answer(), 'Connection'), 'keep-alive');
  }
  keeping.send(`${plain}Connection: keep-alive\r\nExpect: miracles\r\n\r\n`);
  assert.equal((await keeping.answer()).status, 200);
  keeping.send(
    `POST /v1/pets HTTP/1.0\r\nAuthorization: Bearer ${key}\r\nExpect: 100-continue\r\nContent-Length: 27\r\n\r\n${body}`,
  );
  assert.equal((await keeping.answer('POST')).status, 201);
});

test('C43 the target is read to 16384 bytes, and one more answers 431', async (t) => {
  const { port } = await start(t);
  const ofLength = (length: number): string => `/v1/pets?x=${'a'.repeat(length - 11)}`;
  assert.equal((await ask(port, 'GET', ofLength(16_384))).status, 200);
  for (const length of [16_385, 20_000, 39_000, 41_000, 100_000]) {
    const answer = await ask(port, 'GET', ofLength(length));
    assertError(answer, 431, 'headers_too_large');
    assert.equal(answer.kept, false);
  }
});

test('C43 the header block is read to 16384 bytes, and one more answers 431', async (t) => {
  const { port } = await start(t);
  const ofBytes = (bytes: number): string => get(`X: ${'a'.repeat(bytes - head.length - 5)}\r\n`);
  assert.equal((await exchange(port, ofBytes(16_384))).status, 200);
  for (const bytes of [16_385, 20_000, 39_000, 41_000, 200_000])
    assertError(await exchange(port, ofBytes(bytes)), 431, 'headers_too_large');
  // Both at their limit at once.
  const both = `GET /v1/pets?x=${'a'.repeat(16_384 - 11)} HTTP/1.1\r\n${head}X: ${'a'.repeat(16_384 - head.length - 5)}\r\n\r\n`;
  assert.equal((await exchange(port, both)).status, 200);
});

test('C43 there may be 100 header lines, and one more answers 431, thousands included', async (t) => {
  const { port } = await start(t);
  const lines = (count: number): string =>
    get(Array.from({ length: count - 2 }, (_, index) => `x${index}: 1\r\n`).join(''));
  assert.equal((await exchange(port, lines(100))).status, 200);
  for (const count of [101, 200, 1_001, 2_001, 5_000])
    assertError(await exchange(port, lines(count)), 431, 'headers_too_large');
  // The last of thousands must not be dropped in silence, but count.
  assertError(
    await exchange(port, `GET /v1/pets HTTP/1.1\r\n${'x:\r\n'.repeat(3_000)}${head}\r\n`),
    431,
    'headers_too_large',
  );
  assertError(
    await exchange(
      port,
      post('Transfer-Encoding: chunked', `1b\r\n${body}\r\n0\r\nX: ${'a'.repeat(50_000)}\r\n\r\n`),
      'POST',
    ),
    431,
    'headers_too_large',
  );
});

test('C43 a head without end answers 431 while it still comes', async (t) => {
  const { port } = await start(t);
  for (const start of [
    'GET /',
    `GET /v1/pets HTTP/1.1\r\nX: `,
    'GET /v1/pets HTTP/1.1\r\n',
    'GET /v1/pets HTTP/1.1\r\nX',
  ]) {
    const client = (await Client.connect(port))
      .send(start)
      .send((start.endsWith('1\r\n') ? 'a: b\r\n' : 'a').repeat(60_000));
    assertError(await client.answer(), 431, 'headers_too_large');
    client.destroy();
  }
});
