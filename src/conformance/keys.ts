/** Keys: C36 to C41 of docs/contract.md. */
import type { Answer } from './connection.js';
import { expect } from './outcome.js';
import type { Chapter } from './rule.js';
import {
  expectHeader,
  expectSuccess,
  isSuccess,
  jsonOf,
  memberText,
  untried,
  type Server,
} from './server.js';

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

/** Values of Authorization that hold no key of the server, and which of them are Bearer's. */
const wrongBearers = ['Bearer no-such-key', 'bearer x', 'Bearer', 'Bearer a b'];
const otherSchemes = (key: string): readonly string[] => [
  `Basic ${Buffer.from(`${key}:`).toString('base64')}`,
  key,
  `Bearer${key}`,
];

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
        for (const answer of await eachOperation(server, null))
          expectHeader(answer, 'WWW-Authenticate', new RegExp(`^${challenge}$`), challenge);
      },
    },
    {
      number: 'C37',
      sentence: 'a key that is unknown, malformed, of another scheme or given twice is 401',
      cost: 'a guessed key opens the catalogue',
      specification: async (server) => {
        for (const authorization of [...wrongBearers, ...otherSchemes(server.key)])
          for (const answer of await eachOperation(server, authorization))
            server.expectError(answer, 401, 'unauthorized', `Authorization: ${authorization}`);
      },
      full: async (server) => {
        for (const authorization of wrongBearers) {
          const answer = await server.request('GET', '/pets', { authorization });
          expectHeader(
            answer,
            'WWW-Authenticate',
            /error="invalid_token"/,
            'error="invalid_token"',
          );
        }
        const headers = [`Authorization: Bearer ${server.key}`];
        const twice = await server.request('GET', '/pets', { headers });
        server.expectError(twice, 401, 'unauthorized', 'two headers Authorization');
      },
    },
    {
      number: 'C38',
      sentence: 'the scheme is written in any case, and spaces follow it',
      cost: 'a right key is refused for how a client writes Bearer',
      http: async (server) => {
        for (const scheme of ['bearer ', 'BEARER ', 'Bearer  ']) {
          const authorization = `${scheme}${server.key}`;
          const answer = await server.request('GET', '/pets?limit=1', { authorization });
          const sent = `Authorization: ${scheme}KEY`;
          expectSuccess(answer, sent);
        }
      },
    },
    {
      number: 'C39',
      sentence: 'a key in the query is not read',
      cost: 'keys stand in logs, histories and caches',
      http: async (server) => {
        const keyless = await server.request('GET', '/pets', { authorization: null });
        if (isSuccess(keyless)) untried('a request without a key to be refused', 'C36');

        const key = encodeURIComponent(server.key);
        for (const name of ['access_token', 'api_key', 'key']) {
          const path = `/pets?${name}=${key}`;
          const answer = await server.request('GET', path, { authorization: null });
          server.expectError(answer, 401, 'unauthorized', `GET /pets?${name}=KEY`);
        }
      },
    },
    {
      number: 'C40',
      sentence: 'a key is in no answer',
      cost: 'a key that was mistyped stands in the log of whoever logs errors',
      full: async (server) => {
        const wrong = 'no-key-8c1f0f6e';
        const answer = await server.request('GET', '/pets', { authorization: `Bearer ${wrong}` });
        expect(answer, !answer.came.includes(wrong), 'an error that does not repeat the key');
      },
    },
    {
      number: 'C41',
      sentence: '/healthz, /readyz and /openapi.json need no key',
      cost: 'who watches the server, or generates a client, needs a key for it',
      full: async (server) => {
        const words = { authorization: null };
        const at = (path: string) =>
          server.exchange(server.bytesTo('GET', `${server.rootPath}${path}`, words));
        for (const path of ['/healthz', '/readyz']) {
          const answer = await at(path);
          expect(answer, answer.status === 200, '200');
        }

        const document = await at('/openapi.json');
        expect(document, document.status === 200, '200');
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
