/** HTTP itself: C42 to C47, C50 to C52, C56 and C64 of docs/contract.md. */
import { errorCodes } from '../index.js';
import { malformedRequests, type MalformedRequests } from './malformed.js';
import { expect, Untried } from './outcome.js';
import type { Chapter } from './rule.js';
import { expectHeader, expectSuccess, headerOf, jsonOf, type Server } from './server.js';

/** Expects 400 and the end of the connection for each of these requests. */
async function refuseRequests(server: Server, requests: MalformedRequests): Promise<void> {
  await eachAtOnce(Object.entries(requests), (name, bytes) =>
    server.withConnection(async (connection) => {
      connection.send(bytes);
      const answer = await connection.answer();
      server.expectError(answer, 400, 'bad_request', name);
      const ends = await connection.ends();
      expect(answer, ends, 'the end of the connection behind 400', 'no end', name);
    }),
  );
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
  await Promise.all(Array.from({ length: 16 }, worker));
}

/** Expects 408 within a time, in milliseconds, for a request that never ends. */
async function expectTimeout(server: Server, bytes: string, withinMs: number): Promise<void> {
  await server.withConnection(async (connection) => {
    connection.send(bytes);
    const answer = await connection.answer('GET', withinMs);
    server.expectError(answer, 408, 'request_timeout');
    expect(answer, await connection.ends(), 'the end of the connection behind 408');
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
  if (typeof url !== 'string') throw new Untried('it needs /openapi.json with servers: see C41');
  return new URL(url, server.url).pathname.replace(/\/$/, '');
}

export const protocol: Chapter = {
  name: 'Protocol',
  rules: [
    {
      number: 'C42',
      sentence: 'what is no HTTP is 400, and ends the connection',
      cost: "a gateway and the server see two ends of one request: one client's becomes another's",
      http: (server) => refuseRequests(server, malformedRequests(server).http),
      full: (server) => refuseRequests(server, malformedRequests(server).full),
    },
    {
      number: 'C43',
      sentence: 'a target or a header block over 16 KiB, and more than 100 header lines, are 431',
      cost: 'a client fills the memory, or its last headers are dropped in silence',
      full: async (server) => {
        for (const bytes of [
          server.bytesOf('GET', `/pets?x=${'a'.repeat(16_384)}`),
          server.bytesOf('GET', '/pets', { headers: [`X: ${'a'.repeat(16_384)}`] }),
          server.bytesOf('GET', '/pets', { headers: Array<string>(99).fill('x: 1') }),
        ])
          server.expectError(await server.exchange(bytes), 431, 'headers_too_large');

        for (const path of [`/pets?limit=1&x=${'a'.repeat(16_000)}`, '/pets?limit=1']) {
          const headers = Array<string>(98).fill('x: 1');
          const answer = await server.request('GET', path, { headers });
          expectSuccess(answer);
        }
      },
    },
    {
      number: 'C44',
      sentence: 'headers that do not come in 10 s, and a request that does not in 30 s, are 408',
      cost: 'a few slow clients hold all connections',
      isSlow: true,
      full: async (server) => {
        const headers = ['Content-Length: 10'];
        await Promise.all([
          expectTimeout(server, `GET ${server.basePath}/pets HTTP/1.1\r\nHost: a\r\n`, 13_000),
          expectTimeout(server, `${server.bytesOf('POST', '/pets', { headers })}{`, 33_000),
          server.withConnection(async (connection) => {
            const isOver = await connection.ends(14_000);
            const silence = { sent: '', came: '' };
            expect(silence, isOver, 'the end of a silent connection within 11 s', 'no end');
          }),
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
        const headers = ['Content-Length: 10', 'Content-Type: text/plain', 'Expect: 100-continue'];
        const typed = await server.request('POST', '/pets', { headers });
        expect(typed, typed.status >= 400, 'an error, for what the head alone shows to be wrong');

        const other = await server.request('GET', '/pets', { headers: ['Expect: miracles'] });
        server.expectError(other, 417, 'expectation_failed');
      },
    },
    {
      number: 'C46',
      sentence: 'Accept is ignored: there is JSON alone',
      cost: 'a browser or a simple client gets 406 for what it could read',
      full: async (server) => {
        for (const accept of ['text/html', 'application/xml', '*/*;q=0', '']) {
          const words = { headers: [`Accept: ${accept}`] };
          const answer = await server.request('GET', '/pets?limit=1', words);
          expectSuccess(answer, `Accept: ${accept}`);
        }
      },
    },
    {
      number: 'C47',
      sentence: 'answers are not kept by caches, and their type is not guessed',
      cost: 'a cache shows an old catalogue, or one client the answer of another',
      full: async (server) => {
        for (const answer of [
          await server.request('GET', '/pets?limit=1'),
          await server.post(server.json()),
          await server.request('GET', '/pets?limit=0'),
          await server.request('GET', '/pets', { authorization: null }),
          await server.request('DELETE', '/pets'),
        ]) {
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
        for (const answer of [
          await server.request('GET', '/pets', { authorization: null }),
          await server.request('GET', '/pets?limit=0'),
          await server.request('GET', `/pets/${2n ** 63n - 1n}`),
          await server.request('DELETE', '/pets'),
          await server.post('{}'),
          await server.post('{'),
        ]) {
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
      full: (server) =>
        server.withConnection(async (connection) => {
          const headers = ['Content-Length: 60000'];
          connection.send(server.bytesOf('POST', '/pets', { authorization: null, headers }));
          connection.send('x'.repeat(60_000));
          const answer = await connection.answer();
          expect(answer, answer.status !== 100, 'the answer');
        }),
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
      full: (server) =>
        server.withConnection(async (connection) => {
          connection.send(`${server.bytesOf('GET', '/pets?limit=1')}garbage\r\n\r\n`);
          const good = await connection.answer();
          expectSuccess(good, 'a GET, and garbage behind it');
          server.expectError(await connection.answer(), 400, 'bad_request');
        }),
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
        for (const answer of [
          await server.request('GET', '/pets?limit=1'),
          await server.request('GET', '/pets', { authorization: null }),
        ])
          expectHeader(
            answer,
            'Date',
            /^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/,
            'a date of HTTP (RFC 9110 §5.6.7)',
          );
      },
    },
  ],
};
