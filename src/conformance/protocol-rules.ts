/** The rules on HTTP: C42 to C47, C50 to C52, C56 and C64 of docs/contract.md. */
import { performance } from 'node:perf_hooks';
import { clearInterval, setInterval } from 'node:timers';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCodes } from '../index.js';
import { allSettled } from './all-settled.js';
import type { RawConnection, RawResponse } from './raw-connection.js';
import {
  halfRequests,
  malformedRequests,
  oddRequests,
  type NamedRequests,
} from './malformed-requests.js';
import { expect, Inapplicable, summaryOf } from './outcome.js';
import type { Chapter } from './rule.js';
import {
  expectHeader,
  expectSuccess,
  headerOf,
  jsonOf,
  isPersistent,
  isSuccess,
  requireKeys,
  type TestedServer,
} from './tested-server.js';

/** Expects 400 for each request, and the end of the connection if `mustEnd` returns true. */
async function refuseRequests(
  server: TestedServer,
  requests: NamedRequests,
  mustEnd: (name: string) => boolean,
): Promise<void> {
  await forEachConcurrently(Object.entries(requests), (name, bytes) =>
    server.withConnection(async (connection) => {
      connection.send(bytes);
      const response = await connection.finalResponse();
      // A server may also say that it does not know the transfer coding (RFC 9112 §6.1).
      const isCoding = server.level !== 'full' && name.startsWith('TE ');
      if (!isCoding || response.status !== 501)
        server.expectError(response, 400, 'bad_request', name);
      if (!mustEnd(name)) return;
      const ends = await connection.ends();
      expect(response, ends, 'the end of the connection after 400', 'no end', name);
    }),
  );
}

/** Expects 400 for an incomplete request after which the client closes its sending side. */
async function refuseHalves(server: TestedServer): Promise<void> {
  for (const bytes of halfRequests(server))
    await server.withConnection(async (connection) => {
      connection.send(bytes);
      connection.endSending();
      const response = await connection.finalResponse();
      server.expectError(
        response,
        400,
        'bad_request',
        `${summaryOf(bytes)}, and then nothing more`,
      );
      expect(response, await connection.ends(), 'the end of the connection after 400', 'no end');
    });
}

/** Expects a connection of HTTP/1.0 to end, unless the client sends Connection: keep-alive. */
async function expectPersistence(server: TestedServer): Promise<void> {
  const bytes = (line: string): string =>
    `GET ${server.basePath}/pets HTTP/1.0\r\nAuthorization: Bearer ${server.key}\r\n${line}\r\n`;
  await server.withConnection(async (connection) => {
    connection.send(bytes(''));
    const response = await connection.finalResponse();
    expect(response, await connection.ends(), 'the end of the connection of HTTP/1.0', 'no end');
  });
  await server.withConnection(async (connection) => {
    for (let times = 0; times < 3; times++) {
      connection.send(bytes('Connection: keep-alive\r\n'));
      const response = await connection.finalResponse();
      expectSuccess(response);
      expectHeader(response, 'Connection', /^keep-alive$/i, 'keep-alive');
    }
  });
}

/** Expects the server to ignore Upgrade, and to end the connection after its response. */
async function expectNoUpgrade(server: TestedServer): Promise<void> {
  const settings = 'HTTP2-Settings: AAMAAABkAAQAAP__';
  for (const headers of [
    ['Connection: Upgrade', 'Upgrade: websocket'],
    ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', settings],
  ])
    for (const rest of ['', server.requestBytes('GET', '/pets'), 'garbage\r\n\r\n'])
      await server.withConnection(async (connection) => {
        connection.send(`${server.requestBytes('GET', '/pets?limit=1', { headers })}${rest}`);
        const response = await connection.finalResponse();
        expectSuccess(response, headers.join(', '));
        const expected = 'the end of the connection after Upgrade';
        expect(response, await connection.ends(), expected, 'more, or no end');
      });
}

/**
 * Expects success for a request at a limit, and 431 over it.
 *
 * @param larger Sizes over the limit to try, in addition to `limit + 1`.
 * @param requestBytes Returns a request whose limited part has a size in bytes or lines.
 */
async function expectLimit(
  server: TestedServer,
  limit: number,
  larger: readonly number[],
  requestBytes: (size: number) => string,
): Promise<void> {
  expectSuccess(await server.exchange(requestBytes(limit)), `${limit}`);
  for (const size of [limit + 1, ...larger])
    await server.withConnection(async (connection) => {
      connection.send(requestBytes(size));
      const response = await connection.finalResponse();
      server.expectError(response, 431, 'headers_too_large', `a size of ${size}, over ${limit}`);
      expect(response, await connection.ends(), 'the end of the connection after 431', 'no end');
    });
}

/** Expects a request whose head is wrong to be refused without status 100 before. */
async function expectNoContinue(server: TestedServer): Promise<void> {
  const length = 'Content-Length: 27';
  for (const [method, path, parts] of [
    ['POST', '/pets', { headers: [length], authorization: null }],
    ['POST', '/pets', { headers: [length], authorization: 'Bearer no-key' }],
    ['POST', '/petz', { headers: [length] }],
    ['PUT', '/pets', { headers: [length] }],
    ['POST', '/pets', { headers: [length, 'Content-Type: text/plain'] }],
    ['POST', '/pets', { headers: ['Content-Length: 1099511627776'] }],
  ] as const) {
    const whole = `${server.requestBytes(method, path, parts)}${'x'.repeat(27)}`;
    const alone = await server.exchange(whole).catch(() => undefined);
    // Other rules check that it is refused.
    if (alone === undefined || alone.status < 401) continue;

    const headers = [...parts.headers, 'Expect: 100-continue'];
    const response = await server.request(method, path, { ...parts, headers });
    const expected = `${alone.status}, because the head is wrong`;
    expect(response, response.status === alone.status, expected);
  }
}

/** Expects status 100 before a chunked body, and a connection that is usable afterwards. */
async function expectContinue(server: TestedServer): Promise<void> {
  await server.withConnection(async (connection) => {
    const body = server.json();
    const headers = ['expect: 100-Continue', 'Transfer-Encoding: chunked'];
    connection.send(server.requestBytes('POST', '/pets', { headers }));
    const first = await connection.nextResponse();
    expect(first, first.status === 100, '100');
    connection.send(`${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`);
    expectSuccess(await connection.finalResponse());

    connection.send(server.requestBytes('GET', '/pets?limit=1'));
    expectSuccess(await connection.finalResponse(), 'a GET after a body with Expect');
  });
}

/**
 * Sends requests of all kinds in one packet, and expects for each the status that it gets alone.
 * Other rules check that this status is right.
 */
async function expectOrder(server: TestedServer): Promise<void> {
  const body = server.json();
  const headers = ['Content-Type: application/json'];
  const chunked = server.requestBytes('POST', '/pets', {
    headers: [...headers, 'Transfer-Encoding: chunked'],
  });
  const requests: readonly (readonly [method: string, bytes: string])[] = [
    ['GET', server.requestBytes('GET', '/pets?limit=1')],
    ['POST', server.requestBytes('POST', '/pets', { body, headers })],
    ['POST', server.requestBytes('POST', '/pets', { body: '{', headers })],
    ['OPTIONS', server.requestBytes('OPTIONS', '/pets')],
    ['GET', server.requestBytes('GET', '/pets', { authorization: 'Bearer wrong' })],
    ['POST', server.requestBytes('POST', '/pets', { body, headers: ['Content-Type: a/b'] })],
    ['DELETE', server.requestBytes('DELETE', '/pets')],
    ['POST', `${chunked}${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`],
    ['GET', server.requestBytes('GET', '/petz')],
    ['GET', server.requestBytes('GET', '/pets?limit=0')],
    ['GET', server.requestBytes('GET', '/pets?limit=1', { headers: ['Connection: close'] })],
  ];
  const alone: RawResponse[] = [];
  for (const [method, bytes] of requests) alone.push(await server.exchange(bytes, method));

  await server.withConnection(async (connection) => {
    const ignored = server.requestBytes('GET', '/pets?limit=1');
    connection.send(requests.map(([, bytes]) => bytes).join('') + ignored);
    for (const [index, [method]] of requests.entries()) {
      const response = await connection.finalResponse(method);
      const expected = `${alone[index]?.status}, in its place`;
      expect(response, response.status === alone[index]?.status, expected);
    }
    const silence = { sent: 'GET, with Connection: close', came: '' };
    const expected = 'the end of the connection without a further response';
    expect(silence, await connection.ends(), expected, 'more, or no end');
  });
}

/** Expects a response to a second request, unless the first closes the connection. */
async function expectSecond(server: TestedServer): Promise<void> {
  await server.withConnection(async (connection) => {
    for (const path of ['/pets?limit=1', '/petz', '/pets?limit=1']) {
      connection.send(server.requestBytes('GET', path));
      const response = await connection.finalResponse();
      if (!isPersistent(response)) return;
    }
  });
}

/** Expects a chunked body to be read, or refused because it has no length (RFC 9112 §6.3). */
async function expectChunked(server: TestedServer): Promise<void> {
  const body = server.json();
  const headers = ['Content-Type: application/json', 'Transfer-Encoding: chunked'];
  const half = Math.floor(body.length / 2);
  const chunks = [body.slice(0, half), body.slice(half), ''].map(
    (chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`,
  );
  const request = server.requestBytes('POST', '/pets', { headers });
  const response = await server.exchange(`${request}${chunks.join('')}`);
  const isRight = isSuccess(response) || response.status === 411;
  const causes = ['P3', 'C30'];
  const expected = 'the pet of a chunked body, or 411';
  expect(response, isRight, expected, undefined, 'a chunked body', causes);
}

/** Does `work` for each entry, sixteen at a time. */
async function forEachConcurrently<T>(
  entries: readonly (readonly [name: string, value: T])[],
  work: (name: string, value: T) => Promise<void>,
): Promise<void> {
  const rest = entries.values();
  const worker = async () => {
    for (const [name, value] of rest) await work(name, value);
  };
  await allSettled(Array.from({ length: 16 }, worker));
}

/** The delay in milliseconds that a server on a busy machine may have. */
const toleranceMs = 5_000;

/**
 * Expects 408 after a number of seconds, and not before, for a request that never ends.
 *
 * @param piece Bytes that are sent every 500 ms after the start of the request.
 */
async function expectTimeout(
  connection: RawConnection,
  server: TestedServer,
  seconds: number,
  begin: string,
  piece = '',
): Promise<void> {
  const since = performance.now();
  connection.send(begin);
  const timer = setInterval(() => connection.send(piece), 500);

  try {
    const response = await connection.finalResponse('GET', seconds * 1_000 + toleranceMs);
    server.expectError(response, 408, 'request_timeout');
    // The clocks of two processes differ by some milliseconds.
    const ms = performance.now() - since;
    const expected = `408 after ${seconds} s`;
    expect(response, ms > seconds * 1_000 - 300, expected, `408 after ${Math.round(ms)} ms`);
    expect(response, await connection.ends(), 'the end of the connection after 408');
  } finally {
    clearInterval(timer);
  }
}

/** Expects an idle connection to stay open for 12 s, and its next request to have 10 s. */
async function expectKept(server: TestedServer): Promise<void> {
  await server.withConnection(async (connection) => {
    const list = server.requestBytes('GET', '/pets?limit=1');
    connection.send(list);
    const first = await connection.finalResponse();
    if (!isPersistent(first)) return;

    await sleep(12_000);
    connection.send(list);
    expectSuccess(await connection.finalResponse(), 'a GET after 12 idle seconds');
    await expectTimeout(connection, server, 10, 'GET /pets HTTP/1.1\r\n');
  });
}

/** Expects success for a body that takes 12 s. */
async function expectPatience(server: TestedServer): Promise<void> {
  await server.withConnection(async (connection) => {
    const headers = ['Content-Type: application/json'];
    const bytes = server.requestBytes('POST', '/pets', { headers, body: server.json() });
    connection.send(bytes.slice(0, -8));
    for (const byte of bytes.slice(-8)) {
      await sleep(1_500);
      connection.send(byte);
    }
    expectSuccess(await connection.finalResponse(), 'a body that takes 12 s');
  });
}

/** Expects a connection to end if the client sends nothing. */
async function expectSilenceEnded(server: TestedServer): Promise<void> {
  await server.withConnection(async (connection) => {
    const isOver = await connection.ends(11_000 + toleranceMs);
    const silence = { sent: '', came: '' };
    expect(silence, isOver, 'the end of a silent connection within 11 s', 'no end');
  });
}

/** Returns the path of the last server URL in the OpenAPI document, such as `/v1`. */
async function linkPathOf(server: TestedServer): Promise<string> {
  const target = `${server.rootPath}/openapi.json`;
  const document = jsonOf(await server.exchange(server.targetBytes('GET', target)));
  const servers = document instanceof Map ? document.get('servers') : undefined;
  // The last one is the server itself; other deployments come before it.
  const last: unknown = Array.isArray(servers) ? servers.at(-1) : undefined;
  const url: unknown = last instanceof Map ? last.get('url') : undefined;
  // A URL may have variables in braces, which a client fills in.
  if (typeof url !== 'string' || !URL.canParse(url, server.url.href))
    throw new Inapplicable('/openapi.json has no URL in servers');
  return new URL(url, server.url).pathname.replace(/\/$/, '');
}

function expectDate(response: RawResponse): void {
  const form = /^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/;
  expectHeader(response, 'Date', form, 'an HTTP date (RFC 9110 §5.6.7)');
}

export const protocol: Chapter = {
  name: 'Protocol',
  rules: [
    {
      number: 'C42',
      sentence: 'a request that is not valid HTTP is 400, and the connection ends',
      cost: "a gateway takes part of one client's request for another client's request",
      sources: { http: 'RFC 9112 §3.2, §5.1, §6.1 and §6.3: MUST respond with 400; §7.1: chunked' },
      // With a wrong Host the end of the request is still known, so the connection may go on.
      http: async (server) => {
        await expectChunked(server);
        const { http } = malformedRequests(server);
        await refuseRequests(server, http, (name) => !name.includes('Host'));
      },
      full: async (server) => {
        const { http, full } = malformedRequests(server);
        await refuseRequests(server, { ...http, ...full }, () => true);
        await refuseHalves(server);

        const { lists, adds } = oddRequests(server);
        for (const [name, bytes] of Object.entries({ ...lists, ...adds }))
          expectSuccess(await server.exchange(bytes), name);
        await expectPersistence(server);
        await expectNoUpgrade(server);

        const tunnel = server.targetBytes('CONNECT', 'petstore.example:443');
        server.expectError(await server.exchange(tunnel, 'CONNECT'), 404, 'not_found');
      },
    },
    {
      number: 'C43',
      sentence: 'a target or header block over 16 KiB, or over 100 header lines, is 431',
      cost: 'a client fills the memory, or its last headers are dropped silently',
      full: async (server) => {
        const path = '/pets?limit=1&x=';
        const before = `${server.basePath}${path}`.length;
        const target = (size: number): string => `${path}${'a'.repeat(size - before)}`;
        // A server reads at most 64 KiB more before it ends the connection (C51).
        const larger = [20_000, 39_000, 41_000, 70_000];
        await expectLimit(server, 16_384, larger, (size) =>
          server.requestBytes('GET', target(size)),
        );

        const bare = server.requestBytes('GET', '/pets?limit=1');
        const head = bare.slice(bare.indexOf('\r\n') + 2, -2);
        const header = (size: number): string => `X: ${'a'.repeat(size - head.length - 5)}`;
        await expectLimit(server, 16_384, larger, (size) =>
          server.requestBytes('GET', '/pets?limit=1', { headers: [header(size)] }),
        );
        // Host and Authorization count too.
        await expectLimit(server, 100, [200, 1_001, 5_000], (lines) =>
          server.requestBytes('GET', '/pets?limit=1', {
            headers: Array<string>(lines - 2).fill('x: 1'),
          }),
        );
        const parts = { headers: [header(16_384)] };
        const both = await server.request('GET', target(16_384), parts);
        expectSuccess(both, 'a target and a header block of 16 KiB each');

        const line = `GET ${server.basePath}/pets HTTP/1.1\r\n`;
        const headers = ['Transfer-Encoding: chunked'];
        const chunked = server.requestBytes('POST', '/pets', { headers });
        for (const bytes of [
          // Node drops the last of thousands of lines silently.
          `${line}${'x:\r\n'.repeat(3_000)}${head}\r\n`,
          `${chunked}0\r\nX: ${'a'.repeat(50_000)}\r\n\r\n`,
          ...['GET /', `${line}X: `, `${line}X`].map((begin) => begin + 'a'.repeat(60_000)),
          line + `x: ${'a'.repeat(60)}\r\n`.repeat(900),
        ])
          server.expectError(await server.exchange(bytes), 431, 'headers_too_large');
      },
    },
    {
      number: 'C44',
      sentence: 'headers that take over 10 s, or a request that takes over 30 s, are 408',
      cost: 'a few slow clients hold all connections',
      isSlow: true,
      full: async (server) => {
        const head = `GET ${server.basePath}/pets HTTP/1.1\r\n`;
        const bodies = ['Content-Length: 60000', 'Transfer-Encoding: chunked'].map((framing) =>
          server.requestBytes('POST', '/pets', {
            headers: ['Content-Type: application/json', framing],
          }),
        );
        const timeout = (...rest: readonly [seconds: number, begin: string, piece?: string]) =>
          server.withConnection((connection) => expectTimeout(connection, server, ...rest));

        await allSettled([
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
      sentence: 'Expect: 100-continue gets status 100 or the final response',
      cost: 'a client sends a large body in vain, or waits forever before it',
      sources: { http: 'RFC 9110 §10.1.1: MUST send 100 or a final response' },
      http: (server) =>
        server.withConnection(async (connection) => {
          const body = server.json();
          const headers = ['Content-Type: application/json', 'Expect: 100-continue'];
          connection.send(
            server.requestBytes('POST', '/pets', {
              headers: [...headers, `Content-Length: ${body.length}`],
            }),
          );
          const first = await connection.nextResponse();
          expect(first, first.status === 100 || first.status >= 200, '100, or the final response');
          if (first.status !== 100) return;

          connection.send(body);
          const response = await connection.finalResponse();
          expectSuccess(response);
        }),
      full: async (server) => {
        await expectNoContinue(server);
        const noKey = { authorization: null };
        const requiresKey = await server.requiresKey();
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
            const parts = { headers: [`Expect: ${value}`], ...more };
            const response = await server.request(method, '/pets', parts);
            server.expectError(response, 417, 'expectation_failed');

            const other = await server.request(method, '/petz', parts);
            expect(other, other.status !== 417, 'the error of the path, before that of Expect');
            const keyless = await server.request(method, '/pets', { ...parts, ...noKey });
            expect(
              keyless,
              keyless.status !== 417 || !requiresKey,
              'the error of the key, before that of Expect',
            );
          }

        await expectContinue(server);
        const headers = ['Expect: 100-continue'];
        expectSuccess(await server.request('GET', '/pets?limit=1', { headers }));
      },
    },
    {
      number: 'C46',
      sentence: 'Accept is ignored, because every body is JSON',
      cost: 'a browser or a simple client gets 406 for a response that it could read',
      full: async (server) => {
        const values = ['text/html', 'application/xml;q=1', '*/*;q=0', '', 'nonsense'];
        for (const accept of [...values, 'application/json;q=0']) {
          const headers = [`Accept: ${accept}`, 'Accept-Encoding: gzip', 'Accept-Charset: x'];
          const response = await server.request('GET', '/pets?limit=1', { headers });
          expectSuccess(response, `Accept: ${accept}`);
          const isPlain = !response.headers.has('content-encoding');
          expect(response, isPlain, 'no Content-Encoding', 'Content-Encoding');
        }
      },
    },
    {
      number: 'C47',
      sentence: 'every response forbids caching and guessing its type',
      cost: "a cache serves an old catalogue, or one client's response to another",
      full: async (server) => {
        for (const response of await server.responsesOfEachKind()) {
          expectHeader(response, 'Cache-Control', /^no-store$/, 'no-store');
          expectHeader(response, 'X-Content-Type-Options', /^nosniff$/, 'nosniff');
        }
      },
    },
    {
      number: 'C50',
      sentence: 'the code of an error is one that the contract lists',
      cost: 'a client that branches on `code` has no branch for it',
      full: async (server) => {
        for (const response of await server.responsesOfEachKind()) {
          const body = jsonOf(response);
          const code = body instanceof Map ? body.get('code') : undefined;
          // P3 checks that an error has a code.
          if (typeof code !== 'string') continue;
          const isKnown = Object.hasOwn(errorCodes, code);
          expect(response, isKnown, 'a code of the contract', code);
        }
      },
    },
    {
      number: 'C51',
      sentence: 'a response that is sent before the body was read reaches the client',
      cost: 'a client gets a broken connection instead of the error',
      full: async (server) => {
        await requireKeys(server);
        await server.withConnection(async (connection) => {
          const headers = ['Content-Length: 10000000'];
          connection.send(server.requestBytes('POST', '/pets', { authorization: null, headers }));
          connection.send('x'.repeat(60_000));
          const response = await connection.nextResponse();
          expect(response, response.status !== 100, 'the error, not 100');
          expect(
            response,
            await connection.ends(),
            'the end of the connection afterwards',
            'no end',
          );
        });
      },
    },
    {
      number: 'C52',
      sentence: 'pipelined requests get their responses in order',
      cost: "a client gets another client's response through a gateway that shares connections",
      sources: {
        http: 'RFC 9112 §9.3: MUST send close if it closes; §9.3.2: MUST send responses in order',
      },
      http: async (server) => {
        await expectSecond(server);
        await server.withConnection(async (connection) => {
          const body = server.json();
          const headers = ['Content-Type: application/json'];
          const requests = [
            server.requestBytes('POST', '/pets', { headers, body }),
            server.requestBytes('GET', '/petz'),
            server.requestBytes('GET', '/pets?limit=1'),
          ];
          connection.send(requests.join(''));
          const expected = [
            [(text: string) => /^\{.*"id"/s.test(text), 'the added pet, first'],
            [(text: string) => !/^\[|"id"/.test(text), 'the error, second'],
            [(text: string) => text.startsWith('['), 'the list, third'],
          ] as const;
          for (const [isRight, words] of expected) {
            const response = await connection.finalResponse();
            const causes = ['P3', 'C14', 'C30', 'S1'];
            const isInPlace = isRight(response.body.trimStart());
            expect(response, isInPlace, words, undefined, undefined, causes);
            // No response follows one that closes the connection.
            if (!isPersistent(response)) return;
          }
        });
      },
      full: async (server) => {
        await expectOrder(server);
        for (const bytes of [
          'garbage\r\n\r\n',
          '\0\x01\x02',
          server.requestBytes('BREW', '/pets'),
          server.requestBytes('GET', `/${'a'.repeat(60_000)}`),
        ])
          await server.withConnection(async (connection) => {
            connection.send(`${server.requestBytes('GET', '/pets?limit=1')}${bytes}`);
            const good = await connection.finalResponse();
            expectSuccess(good, `a GET, followed by ${summaryOf(bytes)}`);
            const response = await connection.finalResponse();
            expect(response, response.status >= 400, 'an error, second');
          });
      },
    },
    {
      number: 'C56',
      sentence: 'links begin with the path of the last server in the OpenAPI document',
      cost: 'a client behind a gateway follows a link out of the API',
      full: async (server) => {
        const path = await linkPathOf(server);
        const { id, response } = await server.add();
        await server.add();
        const location = headerOf(response, 'Location');
        if (location !== undefined) {
          const expected = `${path}/pets/${id}`;
          expect(response, location === expected, `Location: ${expected}`, `Location: ${location}`);
        }

        const list = await server.request('GET', '/pets?limit=1');
        const link = headerOf(list, 'Link');
        if (link !== undefined)
          expect(list, link.startsWith(`<${path}/pets?`), `Link: <${path}/pets?…`, `Link: ${link}`);
      },
    },
    {
      number: 'C64',
      sentence: 'every response has a Date',
      cost: 'a client or a cache cannot tell how old a response is',
      sources: { http: 'RFC 9110 §6.6.1: MUST generate Date' },
      http: async (server) => {
        expectDate(await server.request('GET', '/pets?limit=1'));
        expectDate(await server.request('GET', '/pets', { authorization: null }));
      },
      full: async (server) => {
        for (const response of await server.responsesOfEachKind()) expectDate(response);
      },
    },
  ],
};
