/** HTTP itself: C42 to C47, C50 to C52, C56 and C64 of docs/contract.md. */
import { performance } from 'node:perf_hooks';
import { clearInterval, setInterval } from 'node:timers';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCodes } from '../index.js';
import type { Answer, Connection } from './raw-connection.js';
import {
  halfRequests,
  malformedRequests,
  oddRequests,
  type MalformedRequests,
} from './malformed.js';
import { expect, summaryOf, Untried } from './outcome.js';
import type { Chapter } from './rule.js';
import {
  expectHeader,
  expectSuccess,
  headerOf,
  jsonOf,
  untried,
  type Server,
} from './server-under-test.js';

/** Expects 400 for each of these requests, and the end of the connection where that is said. */
async function refuseRequests(
  server: Server,
  requests: MalformedRequests,
  endsBehind: (name: string) => boolean,
): Promise<void> {
  await eachAtOnce(Object.entries(requests), (name, bytes) =>
    server.withConnection(async (connection) => {
      connection.send(bytes);
      const answer = await connection.answer();
      server.expectError(answer, 400, 'bad_request', name);
      if (!endsBehind(name)) return;
      const ends = await connection.ends();
      expect(answer, ends, 'the end of the connection behind 400', 'no end', name);
    }),
  );
}

/** Expects 400 for a part of a request behind which nothing more comes. */
async function refuseHalves(server: Server): Promise<void> {
  for (const bytes of halfRequests(server))
    await server.withConnection(async (connection) => {
      connection.send(bytes);
      connection.half();
      const answer = await connection.answer();
      server.expectError(answer, 400, 'bad_request', `${summaryOf(bytes)}, and no more`);
      expect(answer, await connection.ends(), 'the end of the connection behind 400', 'no end');
    });
}

/** Expects HTTP/1.0 to end its connections, unless it asks to keep them. */
async function expectPersistence(server: Server): Promise<void> {
  const bytes = (line: string): string =>
    `GET ${server.basePath}/pets HTTP/1.0\r\nAuthorization: Bearer ${server.key}\r\n${line}\r\n`;
  await server.withConnection(async (connection) => {
    connection.send(bytes(''));
    const answer = await connection.answer();
    expect(answer, await connection.ends(), 'the end of the connection of HTTP/1.0', 'no end');
  });
  await server.withConnection(async (connection) => {
    for (let times = 0; times < 3; times++) {
      connection.send(bytes('Connection: keep-alive\r\n'));
      const answer = await connection.answer();
      expectSuccess(answer);
      expectHeader(answer, 'Connection', /^keep-alive$/i, 'keep-alive');
    }
  });
}

/** Expects a request to become another protocol to be answered as if it were none, and to end. */
async function expectNoUpgrade(server: Server): Promise<void> {
  const settings = 'HTTP2-Settings: AAMAAABkAAQAAP__';
  for (const headers of [
    ['Connection: Upgrade', 'Upgrade: websocket'],
    ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', settings],
  ])
    for (const behind of ['', server.bytesOf('GET', '/pets'), 'garbage\r\n\r\n'])
      await server.withConnection(async (connection) => {
        connection.send(`${server.bytesOf('GET', '/pets?limit=1', { headers })}${behind}`);
        const answer = await connection.answer();
        expectSuccess(answer, headers.join(', '));
        const expected = 'nothing more on a connection with Upgrade';
        expect(answer, await connection.ends(), expected, 'more, or no end');
      });
}

/**
 * Expects what is as long as it may be to be taken, and one byte more, and much more, to be 431.
 *
 * @param bytesOf A request with so many bytes, or lines, of what is limited.
 */
async function expectLimit(
  server: Server,
  limit: number,
  larger: readonly number[],
  bytesOf: (size: number) => string,
): Promise<void> {
  expectSuccess(await server.exchange(bytesOf(limit)), `${limit}`);
  for (const size of [limit + 1, ...larger])
    await server.withConnection(async (connection) => {
      connection.send(bytesOf(size));
      const answer = await connection.answer();
      server.expectError(answer, 431, 'headers_too_large', `${size} in place of ${limit}`);
      expect(answer, await connection.ends(), 'the end of the connection behind 431', 'no end');
    });
}

/** Expects what the head alone shows to be wrong to be refused before the body is asked for. */
async function expectNoContinue(server: Server): Promise<void> {
  const length = 'Content-Length: 27';
  for (const [method, path, words] of [
    ['POST', '/pets', { headers: [length], authorization: null }],
    ['POST', '/pets', { headers: [length], authorization: 'Bearer no-key' }],
    ['POST', '/petz', { headers: [length] }],
    ['PUT', '/pets', { headers: [length] }],
    ['POST', '/pets', { headers: [length, 'Content-Type: text/plain'] }],
    ['POST', '/pets', { headers: ['Content-Length: 1099511627776'] }],
  ] as const) {
    const whole = `${server.bytesOf(method, path, words)}${'x'.repeat(27)}`;
    const alone = await server.exchange(whole).catch(() => undefined);
    // Whether it is refused at all is a matter of other rules.
    if (alone === undefined || alone.status < 401) continue;

    const headers = [...words.headers, 'Expect: 100-continue'];
    const answer = await server.request(method, path, { ...words, headers });
    const expected = `${alone.status}, for what the head alone shows to be wrong`;
    expect(answer, answer.status === alone.status, expected);
  }
}

/** Expects 100 before a body in chunks, and the connection to go on behind its answer. */
async function expectContinue(server: Server): Promise<void> {
  await server.withConnection(async (connection) => {
    const body = server.json();
    const headers = ['expect: 100-Continue', 'Transfer-Encoding: chunked'];
    connection.send(server.bytesOf('POST', '/pets', { headers }));
    const first = await connection.answer();
    expect(first, first.status === 100, '100');
    connection.send(`${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`);
    expectSuccess(await connection.answer());

    connection.send(server.bytesOf('GET', '/pets?limit=1'));
    expectSuccess(await connection.answer(), 'a GET behind a body that was waited for');
  });
}

/**
 * Expects requests of all kinds to be answered in one packet as each is alone, in order. Which
 * answer is right is a matter of other rules.
 */
async function expectOrder(server: Server): Promise<void> {
  const body = server.json();
  const headers = ['Content-Type: application/json'];
  const chunked = server.bytesOf('POST', '/pets', {
    headers: [...headers, 'Transfer-Encoding: chunked'],
  });
  const requests: readonly (readonly [method: string, bytes: string])[] = [
    ['GET', server.bytesOf('GET', '/pets?limit=1')],
    ['POST', server.bytesOf('POST', '/pets', { body, headers })],
    ['POST', server.bytesOf('POST', '/pets', { body: '{', headers })],
    ['OPTIONS', server.bytesOf('OPTIONS', '/pets')],
    ['GET', server.bytesOf('GET', '/pets', { authorization: 'Bearer wrong' })],
    ['POST', server.bytesOf('POST', '/pets', { body, headers: ['Content-Type: a/b'] })],
    ['DELETE', server.bytesOf('DELETE', '/pets')],
    ['POST', `${chunked}${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`],
    ['GET', server.bytesOf('GET', '/petz')],
    ['GET', server.bytesOf('GET', '/pets?limit=0')],
    ['GET', server.bytesOf('GET', '/pets?limit=1', { headers: ['Connection: close'] })],
  ];
  const alone: Answer[] = [];
  for (const [method, bytes] of requests) alone.push(await server.exchange(bytes, method));

  await server.withConnection(async (connection) => {
    const behind = server.bytesOf('GET', '/pets?limit=1');
    connection.send(requests.map(([, bytes]) => bytes).join('') + behind);
    for (const [index, [method]] of requests.entries()) {
      const answer = await connection.answer(method);
      const expected = `${alone[index]?.status}, in its place`;
      expect(answer, answer.status === alone[index]?.status, expected);
    }
    const silence = { sent: 'GET, with Connection: close', came: '' };
    const expected = 'the end of the connection, and no answer behind it';
    expect(silence, await connection.ends(), expected, 'more, or no end');
  });
}

/** Does the work for each entry, sixteen of them at a time. */
async function eachAtOnce<T>(
  entries: readonly (readonly [name: string, value: T])[],
  work: (name: string, value: T) => Promise<void>,
): Promise<void> {
  const rest = entries.values();
  const worker = async () => {
    for (const [name, value] of rest) await work(name, value);
  };
  await allEnded(Array.from({ length: 16 }, worker));
}

/** Waits for all of these to end, so that none goes on beside the next rule; throws their first. */
async function allEnded(work: readonly Promise<unknown>[]): Promise<void> {
  await Promise.allSettled(work);
  await Promise.all(work);
}

/** How much later than it must a server may be, on a machine that is busy, in milliseconds. */
const lateMs = 5_000;

/**
 * Expects 408 after so many seconds, and not before, for a request that never ends.
 *
 * @param piece What is sent again and again behind its beginning.
 */
async function expectTimeout(
  connection: Connection,
  server: Server,
  seconds: number,
  begin: string,
  piece = '',
): Promise<void> {
  const since = performance.now();
  connection.send(begin);
  const timer = setInterval(() => connection.send(piece), 500);

  try {
    const answer = await connection.answer('GET', seconds * 1_000 + lateMs);
    server.expectError(answer, 408, 'request_timeout');
    // Timers of two processes differ by some milliseconds.
    const ms = performance.now() - since;
    const expected = `408 after ${seconds} s`;
    expect(answer, ms > seconds * 1_000 - 300, expected, `408 after ${Math.round(ms)} ms`);
    expect(answer, await connection.ends(), 'the end of the connection behind 408');
  } finally {
    clearInterval(timer);
  }
}

/** Expects a connection that is kept to be there after 12 s, and the next head to have 10 s. */
async function expectKept(server: Server): Promise<void> {
  await server.withConnection(async (connection) => {
    const list = server.bytesOf('GET', '/pets?limit=1');
    connection.send(list);
    const first = await connection.answer();
    if (headerOf(first, 'Connection')?.toLowerCase() === 'close') return;

    await sleep(12_000);
    connection.send(list);
    expectSuccess(await connection.answer(), 'a GET behind 12 s of silence');
    await expectTimeout(connection, server, 10, 'GET /pets HTTP/1.1\r\n');
  });
}

/** Expects a body that takes 12 s to be added. */
async function expectPatience(server: Server): Promise<void> {
  await server.withConnection(async (connection) => {
    const headers = ['Content-Type: application/json'];
    const bytes = server.bytesOf('POST', '/pets', { headers, body: server.json() });
    connection.send(bytes.slice(0, -8));
    for (const byte of bytes.slice(-8)) {
      await sleep(1_500);
      connection.send(byte);
    }
    expectSuccess(await connection.answer(), 'a body that takes 12 s');
  });
}

/** Expects a connection that says nothing to end. */
async function expectSilenceEnded(server: Server): Promise<void> {
  await server.withConnection(async (connection) => {
    const isOver = await connection.ends(11_000 + lateMs);
    const silence = { sent: '', came: '' };
    expect(silence, isOver, 'the end of a silent connection within 11 s', 'no end');
  });
}

/** The relative address that the server's own document gives, such as `/v1`. */
async function linkPathOf(server: Server): Promise<string> {
  const target = `${server.rootPath}/openapi.json`;
  const document = jsonOf(await server.exchange(server.bytesTo('GET', target)));
  const servers = document instanceof Map ? document.get('servers') : undefined;
  // Absolute addresses that are configured come before it.
  const last: unknown = Array.isArray(servers) ? servers.at(-1) : undefined;
  const url: unknown = last instanceof Map ? last.get('url') : undefined;
  // An address may have variables in braces, which a client fills in.
  if (typeof url !== 'string' || !URL.canParse(url, server.url.href))
    throw new Untried('it needs /openapi.json with an address in servers: see C41');
  return new URL(url, server.url).pathname.replace(/\/$/, '');
}

function expectDate(answer: Answer): void {
  const form = /^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/;
  expectHeader(answer, 'Date', form, 'a date of HTTP (RFC 9110 §5.6.7)');
}

export const protocol: Chapter = {
  name: 'Protocol',
  rules: [
    {
      number: 'C42',
      sentence: 'what is no HTTP is 400, and ends the connection',
      cost: "a gateway and the server see two ends of one request: one client's becomes another's",
      // Where a request ends is known of one whose Host alone is wrong.
      http: (server) =>
        refuseRequests(server, malformedRequests(server).http, (name) => !name.includes('Host')),
      full: async (server) => {
        const { http, full } = malformedRequests(server);
        await refuseRequests(server, { ...http, ...full }, () => true);
        await refuseHalves(server);

        const { lists, adds } = oddRequests(server);
        for (const [name, bytes] of Object.entries({ ...lists, ...adds }))
          expectSuccess(await server.exchange(bytes), name);
        await expectPersistence(server);
        await expectNoUpgrade(server);

        const tunnel = server.bytesTo('CONNECT', 'petstore.example:443');
        server.expectError(await server.exchange(tunnel, 'CONNECT'), 404, 'not_found');
      },
    },
    {
      number: 'C43',
      sentence: 'a target or a header block over 16 KiB, and more than 100 header lines, are 431',
      cost: 'a client fills the memory, or its last headers are dropped in silence',
      full: async (server) => {
        const path = '/pets?limit=1&x=';
        const before = `${server.basePath}${path}`.length;
        const target = (size: number): string => `${path}${'a'.repeat(size - before)}`;
        // Of what comes behind, a server reads 64 KiB before it ends the connection (C51).
        const larger = [20_000, 39_000, 41_000, 70_000];
        await expectLimit(server, 16_384, larger, (size) => server.bytesOf('GET', target(size)));

        const bare = server.bytesOf('GET', '/pets?limit=1');
        const head = bare.slice(bare.indexOf('\r\n') + 2, -2);
        const header = (size: number): string => `X: ${'a'.repeat(size - head.length - 5)}`;
        await expectLimit(server, 16_384, larger, (size) =>
          server.bytesOf('GET', '/pets?limit=1', { headers: [header(size)] }),
        );
        // Host and Authorization are two of the lines.
        await expectLimit(server, 100, [200, 1_001, 5_000], (lines) =>
          server.bytesOf('GET', '/pets?limit=1', {
            headers: Array<string>(lines - 2).fill('x: 1'),
          }),
        );
        const words = { headers: [header(16_384)] };
        const both = await server.request('GET', target(16_384), words);
        expectSuccess(both, 'a target and a header block of 16 KiB each');

        const line = `GET ${server.basePath}/pets HTTP/1.1\r\n`;
        const headers = ['Transfer-Encoding: chunked'];
        for (const bytes of [
          // The last of thousands must not be dropped in silence, but count.
          `${line}${'x:\r\n'.repeat(3_000)}${head}\r\n`,
          `${server.bytesOf('POST', '/pets', { headers })}0\r\nX: ${'a'.repeat(50_000)}\r\n\r\n`,
          ...['GET /', `${line}X: `, `${line}X`].map((begin) => begin + 'a'.repeat(60_000)),
          line + `x: ${'a'.repeat(60)}\r\n`.repeat(900),
        ])
          server.expectError(await server.exchange(bytes), 431, 'headers_too_large');
      },
    },
    {
      number: 'C44',
      sentence: 'headers that do not come in 10 s, and a request that does not in 30 s, are 408',
      cost: 'a few slow clients hold all connections',
      isSlow: true,
      full: async (server) => {
        const head = `GET ${server.basePath}/pets HTTP/1.1\r\n`;
        const bodies = ['Content-Length: 60000', 'Transfer-Encoding: chunked'].map((framing) =>
          server.bytesOf('POST', '/pets', { headers: ['Content-Type: application/json', framing] }),
        );
        const timeout = (...rest: readonly [seconds: number, begin: string, piece?: string]) =>
          server.withConnection((connection) => expectTimeout(connection, server, ...rest));

        await allEnded([
          ...['GE', '\r\n\r\n', 'GET /\r\n', head].map((begin) => timeout(10, begin)),
          timeout(10, `${head}X: `, 'a'),
          ...bodies.map((begin, index) => timeout(30, begin, index === 0 ? 'x' : '1\r\nx\r\n')),
          expectKept(server),
          expectPatience(server),
          expectSilenceEnded(server),
        ]);
      },
    },
    {
      number: 'C45',
      sentence: 'Expect: 100-continue is answered by 100, or by the final answer',
      cost: 'a client sends a large body for nothing, or waits for ever before it',
      http: (server) =>
        server.withConnection(async (connection) => {
          const body = server.json();
          const headers = ['Content-Type: application/json', 'Expect: 100-continue'];
          connection.send(
            server.bytesOf('POST', '/pets', {
              headers: [...headers, `Content-Length: ${body.length}`],
            }),
          );
          const first = await connection.answer();
          expect(first, first.status === 100 || first.status >= 200, '100, or the final answer');
          if (first.status !== 100) return;

          connection.send(body);
          const answer = await connection.answer();
          expectSuccess(answer);
        }),
      full: async (server) => {
        await expectNoContinue(server);
        const noKey = { authorization: null };
        const isKeyNeeded = await server.isKeyNeeded();
        for (const value of [
          'miracles',
          '100-continue, x',
          '100',
          '100-continue; a=b',
          '200-ok',
          '',
        ])
          for (const [method, more] of [
            ['GET', {}],
            ['POST', { body: server.json() }],
          ] as const) {
            const words = { headers: [`Expect: ${value}`], ...more };
            const answer = await server.request(method, '/pets', words);
            server.expectError(answer, 417, 'expectation_failed');

            const other = await server.request(method, '/petz', words);
            expect(other, other.status !== 417, 'the answer of the path, first');
            const keyless = await server.request(method, '/pets', { ...words, ...noKey });
            expect(keyless, keyless.status !== 417 || !isKeyNeeded, 'the answer of the key, first');
          }

        await expectContinue(server);
        const headers = ['Expect: 100-continue'];
        expectSuccess(await server.request('GET', '/pets?limit=1', { headers }));
      },
    },
    {
      number: 'C46',
      sentence: 'Accept is ignored: there is JSON alone',
      cost: 'a browser or a simple client gets 406 for what it could read',
      full: async (server) => {
        const values = ['text/html', 'application/xml;q=1', '*/*;q=0', '', 'nonsense'];
        for (const accept of [...values, 'application/json;q=0']) {
          const headers = [`Accept: ${accept}`, 'Accept-Encoding: gzip', 'Accept-Charset: x'];
          const answer = await server.request('GET', '/pets?limit=1', { headers });
          expectSuccess(answer, `Accept: ${accept}`);
          const isPlain = !answer.headers.has('content-encoding');
          expect(answer, isPlain, 'a body without a coding', 'Content-Encoding');
        }
      },
    },
    {
      number: 'C47',
      sentence: 'answers are not kept by caches, and their type is not guessed',
      cost: 'a cache shows an old catalogue, or one client the answer of another',
      full: async (server) => {
        for (const answer of await server.answersOfEachKind()) {
          expectHeader(answer, 'Cache-Control', /^no-store$/, 'no-store');
          expectHeader(answer, 'X-Content-Type-Options', /^nosniff$/, 'nosniff');
        }
      },
    },
    {
      number: 'C50',
      sentence: 'the code of an error is one of those that the contract lists',
      cost: 'a client that chooses by `code` has no branch for it',
      full: async (server) => {
        for (const answer of await server.answersOfEachKind()) {
          const body = jsonOf(answer);
          const code = body instanceof Map ? body.get('code') : undefined;
          // An error without a code is a matter of P3 alone.
          if (typeof code !== 'string') continue;
          const isKnown = Object.hasOwn(errorCodes, code);
          expect(answer, isKnown, 'a code of the contract', code);
        }
      },
    },
    {
      number: 'C51',
      sentence: 'an answer that comes before the body was read reaches its client',
      cost: 'a client gets a broken connection in place of the error that says why',
      full: async (server) => {
        if (!(await server.isKeyNeeded())) untried('a request without a key to be refused', 'C36');
        await server.withConnection(async (connection) => {
          const headers = ['Content-Length: 10000000'];
          connection.send(server.bytesOf('POST', '/pets', { authorization: null, headers }));
          connection.send('x'.repeat(60_000));
          const answer = await connection.answer();
          expect(answer, answer.status !== 100, 'the answer');
          expect(answer, await connection.ends(), 'the end of the connection behind it', 'no end');
        });
      },
    },
    {
      number: 'C52',
      sentence: 'requests of one connection are answered one after the other',
      cost: "one client gets another's answer through a gateway that shares connections",
      http: (server) =>
        server.withConnection(async (connection) => {
          const body = server.json();
          const requests = [
            server.bytesOf('POST', '/pets', { headers: ['Content-Type: application/json'], body }),
            server.bytesOf('GET', '/petz'),
            server.bytesOf('GET', '/pets?limit=1'),
          ];
          connection.send(requests.join(''));
          const [added, missing, list] = [
            await connection.answer(),
            await connection.answer(),
            await connection.answer(),
          ];
          expect(added, added.body.startsWith('{'), 'the animal that was added, first');
          expect(missing, missing.status >= 400, 'the error, second');
          expect(list, list.body.startsWith('['), 'the list, third');
        }),
      full: async (server) => {
        await expectOrder(server);
        for (const bytes of [
          'garbage\r\n\r\n',
          '\0\x01\x02',
          server.bytesOf('BREW', '/pets'),
          server.bytesOf('GET', `/${'a'.repeat(60_000)}`),
        ])
          await server.withConnection(async (connection) => {
            connection.send(`${server.bytesOf('GET', '/pets?limit=1')}${bytes}`);
            const good = await connection.answer();
            expectSuccess(good, `a GET, and behind it ${summaryOf(bytes)}`);
            const answer = await connection.answer();
            expect(answer, answer.status >= 400, 'an error, second');
          });
      },
    },
    {
      number: 'C56',
      sentence: 'links begin with the path of the address that the document of the API gives',
      cost: 'a client behind a gateway follows a link out of the API',
      full: async (server) => {
        const path = await linkPathOf(server);
        const { id, answer } = await server.add();
        await server.add();
        const location = headerOf(answer, 'Location');
        if (location !== undefined) {
          const expected = `${path}/pets/${id}`;
          expect(answer, location === expected, `Location: ${expected}`, `Location: ${location}`);
        }

        const list = await server.request('GET', '/pets?limit=1');
        const link = headerOf(list, 'Link');
        if (link !== undefined)
          expect(list, link.startsWith(`<${path}/pets?`), `Link: <${path}/pets?…`, `Link: ${link}`);
      },
    },
    {
      number: 'C64',
      sentence: 'every answer has a Date',
      cost: 'a cache or a client cannot tell how old an answer is',
      http: async (server) => {
        expectDate(await server.request('GET', '/pets?limit=1'));
        expectDate(await server.request('GET', '/pets', { authorization: null }));
      },
      full: async (server) => {
        for (const answer of await server.answersOfEachKind()) expectDate(answer);
      },
    },
  ],
};
