/** The rules on API keys: C36 to C41 of docs/contract.md. */
import { randomUUID } from 'node:crypto';
import { allSettled } from './all-settled.js';
import type { RawResponse } from './raw-connection.js';
import { expect } from './outcome.js';
import type { Chapter } from './rule.js';
import {
  expectHeader,
  expectSuccess,
  headerOf,
  jsonOf,
  memberText,
  isSuccess,
  requireKeys,
  type TestedServer,
} from './tested-server.js';

/** Returns the response of each operation to a value of Authorization. */
async function eachOperation(
  server: TestedServer,
  authorization: string | null,
): Promise<readonly RawResponse[]> {
  const body = server.json();
  const headers = ['Content-Type: application/json'];
  return [
    await server.request('GET', '/pets', { authorization }),
    await server.request('POST', '/pets', { authorization, headers, body }),
    await server.request('GET', '/pets/1', { authorization }),
  ].slice(0, (await server.isGetPetGone()) ? 2 : 3);
}

/** Returns the responses to wrong requests, for which a server may look before the key. */
async function wrongRequests(
  server: TestedServer,
  authorization: string | null,
): Promise<readonly RawResponse[]> {
  const json = 'Content-Type: application/json';
  const responses: RawResponse[] = [];
  for (const body of ['{', '{}', '{"name":5,"categoryId":"1","status":"gone"}', '', '[]'])
    responses.push(await server.request('POST', '/pets', { authorization, headers: [json], body }));
  const text = { authorization, headers: ['Content-Type: text/plain'], body: 'text' };
  responses.push(await server.request('POST', '/pets', text));
  responses.push(await server.request('POST', '/pets', { authorization, body: server.json() }));
  if (!(await server.isGetPetGone()))
    responses.push(await server.request('GET', `/pets/${2n ** 61n + 7n}`, { authorization }));
  return responses;
}

/** True if a challenge is for Bearer. It may stand in any line of a list of challenges. */
function hasBearerChallenge({ headers }: RawResponse): boolean {
  const values = headers.get('www-authenticate') ?? [];
  return values.some((value) => /(^|,)[ \t]*Bearer\b/i.test(value));
}

/** A key that is not valid on any server. */
const unknownKey = `no-key-${randomUUID()}`;

/** Returns a key in the other letter case, or another key if it has no letters. */
function otherCase(key: string): string {
  const changed = key === key.toUpperCase() ? key.toLowerCase() : key.toUpperCase();
  return changed === key ? unknownKey : changed;
}

/** Returns values of Authorization with the scheme Bearer and an invalid key. */
// biome-ignore format: many short values; one per line would hide the rules.
const wrongBearers = (key: string): readonly string[] => [
  `Bearer ${unknownKey}`, `bearer ${unknownKey}`, 'Bearer', 'bearer  ', 'Bearer a b',
  `Bearer ${key}x`, `Bearer ${otherCase(key)}`,
  `Bearer ${key.slice(1)}`, `Bearer ${key.slice(0, -1)}`, `Bearer ${key.slice(0, 1)}~`,
  `Bearer "${key}"`, `Bearer ${key},`, `Bearer ${key} x`,
  `Bearer ${key}, Bearer ${key}`, `Bearer =${key}`, 'Bearer \xe9',
];
// biome-ignore format: as above.
const otherSchemes = (key: string): readonly string[] => [
  `Basic ${Buffer.from(`${key}:`).toString('base64')}`, key, `Token ${key}`, `Bearer${key}`,
  `Bearer:${key}`, 'Digest username="a"', '', `X Bearer ${key}`,
];

/** Expects 401 for a wrong key. C36 checks the response to a request without a key. */
function expectRefusal(server: TestedServer, response: RawResponse, sent: string): void {
  const causes = isSuccess(response) ? [] : ['C36', 'S3'];
  server.expectError(response, 401, 'unauthorized', sent, causes);
}

/** Expects the response to a wrong key to have the WWW-Authenticate `challenge`. */
async function expectChallenge(
  server: TestedServer,
  authorization: string,
  challenge: string,
): Promise<void> {
  const response = await server.request('GET', '/pets', { authorization });
  const value = headerOf(response, 'WWW-Authenticate');
  const sent = `Authorization: ${authorization}`;
  expect(response, value === challenge, `WWW-Authenticate: ${challenge}`, value ?? 'none', sent);
}

export const keys: Chapter = {
  name: 'Keys',
  rules: [
    {
      number: 'C36',
      sentence: 'a request without a key is 401',
      cost: 'the catalogue is open to everybody',
      sources: {
        specification: 'the specification, Authentication, 3.',
        http: 'RFC 9110 §15.5.2: MUST send WWW-Authenticate',
      },
      specification: async (server) => {
        for (const response of await eachOperation(server, null))
          server.expectError(response, 401, 'unauthorized');
        // The key is checked before the body and the parameters.
        for (const path of ['/pets?limit=0', '/pets?limit=x', '/pets?status=gone'])
          server.expectError(
            await server.request('GET', path, { authorization: null }),
            401,
            'unauthorized',
          );
        for (const response of await wrongRequests(server, null))
          server.expectError(response, 401, 'unauthorized', undefined, ['S3']);
      },
      http: async (server) => {
        const noKey = { authorization: null };
        const head = await server.request('HEAD', '/pets?limit=1', noKey);
        // C16 checks a server that does not know HEAD.
        const expected = '401 for HEAD without a key';
        expect(head, !isSuccess(head), expected, undefined, undefined, ['C16']);
        for (const response of await eachOperation(server, null)) {
          const came = (response.headers.get('www-authenticate') ?? ['none']).join(', ');
          expect(response, hasBearerChallenge(response), 'WWW-Authenticate: Bearer', came);
        }
      },
      full: async (server) => {
        const challenge = 'Bearer realm="petstore"';
        const targets = ['/pets?limit=0', '/pets?%zz', '/pets/no-id'];
        if (await server.isGetPetGone()) targets.pop();
        const odd = await allSettled(
          targets.map((path) => server.request('GET', path, { authorization: null })),
        );
        for (const response of odd) server.expectError(response, 401, 'unauthorized');
        for (const response of [...odd, ...(await eachOperation(server, null))])
          expectHeader(response, 'WWW-Authenticate', new RegExp(`^${challenge}$`), challenge);
      },
    },
    {
      number: 'C37',
      sentence: 'an unknown, malformed or repeated key, or another scheme, is 401',
      cost: 'a guessed key opens the catalogue',
      sources: {
        specification: 'the specification, Authentication, 3.',
        http: 'RFC 9110 §15.5.2: MUST send WWW-Authenticate',
      },
      specification: async (server) => {
        for (const authorization of [...wrongBearers(server.key), ...otherSchemes(server.key)])
          for (const response of await eachOperation(server, authorization))
            expectRefusal(server, response, `Authorization: ${authorization}`);
        for (const response of await wrongRequests(server, `Bearer ${unknownKey}`))
          expectRefusal(
            server,
            response,
            `a wrong request with Authorization: Bearer ${unknownKey}`,
          );
      },
      http: async (server) => {
        for (const response of await eachOperation(server, `Bearer ${unknownKey}`)) {
          // C36 checks a server that never sends a challenge.
          const causes = ['C36'];
          const came = (response.headers.get('www-authenticate') ?? ['none']).join(', ');
          const expected = 'WWW-Authenticate: Bearer';
          expect(response, hasBearerChallenge(response), expected, came, undefined, causes);
        }
      },
      full: async (server) => {
        const challenge = 'Bearer realm="petstore"';
        const invalid = `${challenge}, error="invalid_token"`;
        // Some servers reject headers of this length or form before they look for a key.
        const odd = [`Bearer ${'x'.repeat(9_000)}`, `Bearer\t${server.key}`];
        for (const authorization of odd) {
          const response = await server.request('GET', '/pets', { authorization });
          server.expectError(response, 401, 'unauthorized');
        }

        for (const authorization of wrongBearers(server.key))
          await expectChallenge(server, authorization, invalid);
        for (const authorization of otherSchemes(server.key)) {
          const response = await server.request('GET', '/pets', { authorization });
          const isPlain = headerOf(response, 'WWW-Authenticate')?.includes('error') !== true;
          expect(response, isPlain, 'no error="invalid_token" for another scheme');
        }

        const good = `Bearer ${server.key}`;
        for (const second of [good, 'Bearer no-key', '', 'Basic x'])
          for (const [authorization, other] of [
            [good, second],
            [second, good],
          ] as const) {
            const parts = { authorization, headers: [`authorization: ${other}`] };
            const twice = await server.request('GET', '/pets', parts);
            server.expectError(twice, 401, 'unauthorized', 'two headers Authorization');
          }
      },
    },
    {
      number: 'C38',
      sentence: 'the scheme Bearer may be in any letter case, with several spaces after it',
      cost: 'a valid key is refused because of how the client writes Bearer',
      sources: { http: 'RFC 9110 §11.1 and §11.4: case-insensitive, 1*SP' },
      http: async (server) => {
        for (const scheme of ['bearer ', 'BEARER ', 'bEaReR    ', 'Bearer  ']) {
          const authorization = `${scheme}${server.key}  `;
          const response = await server.request('GET', '/pets?limit=1', { authorization });
          const sent = `Authorization: ${scheme}KEY`;
          expectSuccess(response, sent);
        }
      },
    },
    {
      number: 'C39',
      sentence: 'a key in the query or in the body is not read',
      cost: 'keys are left in logs, histories and caches',
      sources: { should: 'RFC 6750 §2.3: SHOULD NOT' },
      should: async (server) => {
        await requireKeys(server);

        const key = encodeURIComponent(server.key);
        for (const name of ['access_token=', 'api_key=', 'key=', 'authorization=Bearer%20']) {
          const path = `/pets?${name}${key}`;
          const response = await server.request('GET', path, { authorization: null });
          server.expectError(response, 401, 'unauthorized', `GET /pets?${name}KEY`);
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
      sentence: 'no response contains a key',
      cost: 'a mistyped key is left in logs of errors',
      full: async (server) => {
        for (const path of ['/pets?limit=0', '/petz']) {
          const refused = await server.request('GET', path, {
            authorization: `Bearer ${unknownKey}`,
          });
          const what = 'a response that does not repeat the key';
          expect(refused, !refused.came.includes(unknownKey), what);

          // A key such as `pets` may be part of any response.
          const response = await server.request('GET', path);
          const isWord = refused.came.includes(server.key);
          expect(response, isWord || !response.came.includes(server.key), what);
        }
      },
    },
    {
      number: 'C41',
      sentence: '/healthz, /readyz and /openapi.json need no key',
      cost: 'a monitor or a client generator needs a key',
      full: async (server) => {
        const at = (path: string, authorization: string | null) =>
          server.exchange(
            server.targetBytes('GET', `${server.rootPath}${path}`, { authorization }),
          );
        for (const path of ['/healthz', '/readyz', '/openapi.json'])
          for (const authorization of [null, 'Bearer no-key', 'nonsense']) {
            const response = await at(path, authorization);
            expect(response, response.status === 200, '200');
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
