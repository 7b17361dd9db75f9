/** Keys: C36 to C41 of docs/contract.md. */
import { randomUUID } from 'node:crypto';
import type { Answer } from './raw-connection.js';
import { expect } from './outcome.js';
import type { Chapter } from './rule.js';
import {
  expectHeader,
  expectSuccess,
  headerOf,
  jsonOf,
  memberText,
  untried,
  type Server,
} from './server-under-test.js';

/** The answers of each operation to this value of Authorization. */
async function eachOperation(
  server: Server,
  authorization: string | null,
): Promise<readonly Answer[]> {
  const body = server.json();
  const headers = ['Content-Type: application/json'];
  return [
    await server.request('GET', '/pets', { authorization }),
    await server.request('POST', '/pets', { authorization, headers, body }),
    await server.request('GET', '/pets/1', { authorization }),
  ].slice(0, (await server.isGetPetGone()) ? 2 : 3);
}

/** A key that no server has. */
const noKey = `no-key-${randomUUID()}`;

/** Values of Authorization of the scheme Bearer that hold no key of the server. */
// biome-ignore format: short ones by the dozen, a line for each would hide the rules.
const wrongBearers = (key: string): readonly string[] => [
  `Bearer ${noKey}`, `bearer ${noKey}`, 'Bearer', 'bearer  ', 'Bearer a b', `Bearer ${key}x`,
  `Bearer ${key.slice(1)}`, `Bearer "${key}"`, `Bearer ${key},`, `Bearer ${key} x`,
  `Bearer ${key}, Bearer ${key}`, `Bearer =${key}`, 'Bearer \xe9',
];
// biome-ignore format: as above.
const otherSchemes = (key: string): readonly string[] => [
  `Basic ${Buffer.from(`${key}:`).toString('base64')}`, key, `Token ${key}`, `Bearer${key}`,
  `Bearer:${key}`, 'Digest username="a"', '', `X Bearer ${key}`,
];

/** Expects the challenge of an answer to a wrong key. */
async function expectChallenge(
  server: Server,
  authorization: string,
  challenge: string,
): Promise<void> {
  const answer = await server.request('GET', '/pets', { authorization });
  const value = headerOf(answer, 'WWW-Authenticate');
  const sent = `Authorization: ${authorization}`;
  expect(answer, value === challenge, `WWW-Authenticate: ${challenge}`, value ?? 'none', sent);
}

export const keys: Chapter = {
  name: 'Keys',
  rules: [
    {
      number: 'C36',
      sentence: 'a request without a key is 401',
      cost: 'the catalogue is open to everybody',
      specification: async (server) => {
        for (const answer of await eachOperation(server, null))
          server.expectError(answer, 401, 'unauthorized');
      },
      http: async (server) => {
        for (const answer of await eachOperation(server, null))
          expectHeader(answer, 'WWW-Authenticate', /^Bearer\b/i, 'Bearer, as RFC 6750 says');
      },
      full: async (server) => {
        const challenge = 'Bearer realm="petstore"';
        const targets = ['/pets?limit=0', '/pets?%zz', '/pets/no-id'];
        if (await server.isGetPetGone()) targets.pop();
        const odd = await Promise.all(
          targets.map((path) => server.request('GET', path, { authorization: null })),
        );
        for (const answer of odd) server.expectError(answer, 401, 'unauthorized');
        for (const answer of [...odd, ...(await eachOperation(server, null))])
          expectHeader(answer, 'WWW-Authenticate', new RegExp(`^${challenge}$`), challenge);
      },
    },
    {
      number: 'C37',
      sentence: 'a key that is unknown, malformed, of another scheme or given twice is 401',
      cost: 'a guessed key opens the catalogue',
      specification: async (server) => {
        for (const authorization of [...wrongBearers(server.key), ...otherSchemes(server.key)])
          for (const answer of await eachOperation(server, authorization))
            server.expectError(answer, 401, 'unauthorized', `Authorization: ${authorization}`);
      },
      full: async (server) => {
        const challenge = 'Bearer realm="petstore"';
        const invalid = `${challenge}, error="invalid_token"`;
        // These are longer, and odder, than some servers read a header.
        const odd = [`Bearer ${'x'.repeat(9_000)}`, `Bearer\t${server.key}`];
        for (const authorization of odd) {
          const answer = await server.request('GET', '/pets', { authorization });
          server.expectError(answer, 401, 'unauthorized');
        }

        for (const authorization of wrongBearers(server.key))
          await expectChallenge(server, authorization, invalid);
        for (const authorization of otherSchemes(server.key)) {
          const answer = await server.request('GET', '/pets', { authorization });
          const isPlain = headerOf(answer, 'WWW-Authenticate')?.includes('error') !== true;
          expect(answer, isPlain, 'no error="invalid_token" for what is no Bearer');
        }

        const good = `Bearer ${server.key}`;
        for (const second of [good, 'Bearer no-key', '', 'Basic x'])
          for (const [authorization, other] of [
            [good, second],
            [second, good],
          ] as const) {
            const words = { authorization, headers: [`authorization: ${other}`] };
            const twice = await server.request('GET', '/pets', words);
            server.expectError(twice, 401, 'unauthorized', 'two headers Authorization');
          }
      },
    },
    {
      number: 'C38',
      sentence: 'the scheme is written in any case, and spaces follow it',
      cost: 'a right key is refused for how a client writes Bearer',
      http: async (server) => {
        for (const scheme of ['bearer ', 'BEARER ', 'bEaReR    ', 'Bearer  ']) {
          const authorization = `${scheme}${server.key}  `;
          const answer = await server.request('GET', '/pets?limit=1', { authorization });
          const sent = `Authorization: ${scheme}KEY`;
          expectSuccess(answer, sent);
        }
      },
    },
    {
      number: 'C39',
      sentence: 'a key in the query or the body is not read',
      cost: 'keys stand in logs, histories and caches',
      http: async (server) => {
        if (!(await server.isKeyNeeded())) untried('a request without a key to be refused', 'C36');

        const key = encodeURIComponent(server.key);
        for (const name of ['access_token=', 'api_key=', 'key=', 'authorization=Bearer%20']) {
          const path = `/pets?${name}${key}`;
          const answer = await server.request('GET', path, { authorization: null });
          server.expectError(answer, 401, 'unauthorized', `GET /pets?${name}KEY`);
        }
      },
      full: async (server) => {
        const body = `{"access_token":${JSON.stringify(server.key)},${server.json().slice(1)}`;
        const adding = await server.request('POST', '/pets', { authorization: null, body });
        server.expectError(adding, 401, 'unauthorized', 'access_token in the body');

        const names = ['X-Api-Key: ', 'Cookie: key=', 'Proxy-Authorization: Bearer '];
        const headers = names.map((name) => `${name}${server.key}`);
        const other = await server.request('GET', '/pets', { authorization: null, headers });
        server.expectError(other, 401, 'unauthorized', 'the key in other headers');
      },
    },
    {
      number: 'C40',
      sentence: 'a key is in no answer',
      cost: 'a key that was mistyped stands in the log of whoever logs errors',
      full: async (server) => {
        for (const path of ['/pets?limit=0', '/petz']) {
          const refused = await server.request('GET', path, { authorization: `Bearer ${noKey}` });
          const what = 'an answer that does not repeat the key';
          expect(refused, !refused.came.includes(noKey), what);

          // A key may be a word that stands in any answer.
          const answer = await server.request('GET', path);
          const isWord = refused.came.includes(server.key);
          expect(answer, isWord || !answer.came.includes(server.key), what);
        }
      },
    },
    {
      number: 'C41',
      sentence: '/healthz, /readyz and /openapi.json need no key',
      cost: 'who watches the server, or generates a client, needs a key for it',
      full: async (server) => {
        const at = (path: string, authorization: string | null) =>
          server.exchange(server.bytesTo('GET', `${server.rootPath}${path}`, { authorization }));
        for (const path of ['/healthz', '/readyz', '/openapi.json'])
          for (const authorization of [null, 'Bearer no-key', 'nonsense']) {
            const answer = await at(path, authorization);
            expect(answer, answer.status === 200, '200');
          }

        const document = await at('/openapi.json', null);
        const json = jsonOf(document);
        const version =
          json instanceof Map ? memberText({ members: json }, 'openapi') : 'no object';
        expect(document, /^"3\.1\./.test(version), 'a document of OpenAPI 3.1', version);
        const operations = [
          '"listPets"',
          '"createPet"',
          ...((await server.isGetPetGone()) ? [] : ['"getPet"']),
        ];
        for (const operation of operations)
          expect(document, document.body.includes(operation), `the operation ${operation}`, 'none');
      },
    },
  ],
};
