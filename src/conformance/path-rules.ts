/** The rules on paths and methods: C10 to C18 of docs/contract.md. */
import type { RawResponse } from './raw-connection.js';
import { expect } from './outcome.js';
import type { Chapter } from './rule.js';
import {
  expectHeader,
  expectList,
  expectSuccess,
  headerOf,
  isPersistent,
  isSuccess,
  listOf,
  nextOnConnection,
  type TestedServer,
  type RequestParts,
} from './tested-server.js';

const allowOfList = 'GET, HEAD, POST, OPTIONS';
const allowOfPet = 'GET, HEAD, OPTIONS';
const noKey = { authorization: null };

/** Standard methods that no path of a petstore supports. */
const otherMethods = ['DELETE', 'PUT', 'PATCH', 'TRACE', 'PROPFIND', 'LINK', 'M-SEARCH', 'CONNECT'];

/** Expects 405 with `allow` for unsupported methods, with any key and with Expect. */
async function expectAllow(
  server: TestedServer,
  target: string,
  allow: string,
  methods = otherMethods,
): Promise<void> {
  const wrong = { authorization: 'Bearer no-key' };
  for (const parts of [{}, noKey, wrong, { headers: ['Expect: 100-continue'] }])
    for (const method of methods) {
      const response = await server.exchange(server.targetBytes(method, target, parts), method);
      server.expectError(response, 405, 'method_not_allowed');
      expectHeader(response, 'Allow', new RegExp(`^${allow}$`), allow);
    }
}

/** Expects Allow, in any number of lines, to list some methods. */
function expectAllowed(response: RawResponse, methods: readonly string[]): void {
  const values = response.headers.get('allow');
  const allowed = listOf(values);
  const came = values === undefined ? 'no Allow' : `Allow: ${values.join(', ')}`;
  const expected = `Allow: ${methods.join(', ').toUpperCase()} and other supported methods`;
  expect(
    response,
    methods.every((method) => allowed.includes(method)),
    expected,
    came,
  );
}

/** Expects HEAD and GET to have the same response head, except for Date. */
async function expectSameHead(
  server: TestedServer,
  target: string,
  parts: RequestParts,
): Promise<void> {
  const [head, get] = [
    await server.exchange(server.targetBytes('HEAD', target, parts), 'HEAD'),
    await server.exchange(server.targetBytes('GET', target, parts)),
  ];
  const length = isSuccess(get) ? String(get.body.length) : '\\d+';
  const came = headerOf(head, 'Content-Length') ?? 'none';
  const isSame = new RegExp(`^${length}$`).test(came);
  const causes = ['S1', 'C34', 'C19', 'C30'];
  expect(head, isSame, `Content-Length: ${length}`, came, undefined, causes);

  const headOf = ({ came }: RawResponse): string =>
    came.replace(/\r\n\r\n.*$/s, '').replace(/\r\n(Date|Content-Length): [^\r]*/gi, '');
  const expected = `the head of GET, ${headOf(get)}`;
  expect(head, headOf(head) === headOf(get), expected, headOf(head));
}

/** Expects HEAD of a pet to have the length of GET, if it has any (RFC 9110 §8.6). */
async function expectLengthOfPet(server: TestedServer): Promise<void> {
  if (await server.isGetPetGone()) return;
  const { id } = await server.add();
  const get = await server.request('GET', `/pets/${id}`);
  const head = await server.request('HEAD', `/pets/${id}`);
  const length = headerOf(head, 'Content-Length');
  if (!isSuccess(get) || !isSuccess(head) || length === undefined) return;
  const expected = `no Content-Length, or ${get.body.length}`;
  const isSame = Number(length) === get.body.length;
  const causes = ['S1', 'C34', 'C19', 'C30'];
  expect(head, isSame, expected, `Content-Length: ${length}`, undefined, causes);
}

/** Expects 404 for each target. */
async function expectNotFound(
  server: TestedServer,
  targets: readonly string[],
  parts?: RequestParts,
): Promise<void> {
  const responses = targets.map((target) =>
    server.exchange(server.targetBytes('GET', target, parts)),
  );
  await server.expectErrors(404, 'not_found', responses);
}

/** Expects 404 without a key, unless the server breaks C14, which is checked on its own. */
async function expectNotFoundKeyless(
  server: TestedServer,
  targets: readonly string[],
): Promise<void> {
  const { status } = await server.request('GET', '/store', noKey);
  if (status === 404) await expectNotFound(server, targets, noKey);
}

// biome-ignore format: many short values; one per line would hide the rules.
const wrongIds = [
  'abc', '007', '01', '1.0', '-0', '+1', '1e0', '%201', '1%20', '1%0A', '0x1', '%00',
  '9223372036854775808', '-9223372036854775809', '9'.repeat(9_000), '%EF%BC%91', 'NaN', 'null',
  '1,2', '1;a', "'", '__proto__', 'constructor',
];
// biome-ignore format: as above.
const otherPaths = [
  '', '/', '/pets/', '/pets//', '//pets', '/./pets', '/x/../pets', '/pets/.', '/pets/..',
  '/pets/%2e', '/pets/%2E%2e', '/Pets', '/PETS', '/pets/1/', '/pets;a=b', '/pets.json', '/pets%20',
  '%5cpets', '/pets\\1',
];

// biome-ignore format: as above.
const wronglyEscaped = [
  '%2Fpets', '%2fpets/1', '/pets%2F1', '/pets/1%2F', '/pets/%2F1', '/%7', '/p%zzts', '/pets/%',
  '/pets/%zz', '/pets/%3', '/pets/%ff', '/pets/%C0%AE', '/pets/%ED%A0%80', '/%2570ets',
];

// biome-ignore format: as above.
const unknownMethods = [
  'BREW', 'get', 'Get', 'GETS', 'GE', 'G', 'POSTT', 'PLAY', 'FLUSH', 'X-Y', "!#$%&'*+-.^_`|~09",
  'PO', 'OPTION', 'CONNECTT', 'Q'.repeat(3_000),
];

export const paths: Chapter = {
  name: 'Paths and methods',
  rules: [
    {
      number: 'C10',
      sentence: 'an id that is not a canonical int64 is 404',
      cost: 'one pet has many URLs, or a mistyped URL returns another pet',
      full: async (server) => {
        await expectNotFound(
          server,
          wrongIds.map((id) => `${server.basePath}/pets/${id}`),
        );
      },
    },
    {
      number: 'C11',
      sentence: 'a path with an extra slash, a dot segment or other letter case is 404',
      cost: 'a gateway that guards one path lets an equivalent path through',
      full: async (server) => {
        const { basePath, rootPath } = server;
        const targets = [
          ...otherPaths.map((path) => `${basePath}${path}`),
          `/${basePath}/pets`,
          `/%2e${basePath}/pets`,
          `/.${basePath}/pets`,
          ...['/healthz/', '/Healthz', '/openapi.json/'].map((path) => `${rootPath}${path}`),
        ];
        // A base path without letters has no other case.
        if (/[a-z]/.test(basePath)) targets.push(`${basePath.toUpperCase()}/pets`);
        // Without a base path, some begin without a slash and are malformed targets (C42).
        const paths = targets.filter((target) => target.startsWith('/'));
        await expectNotFound(server, paths);
        await expectNotFoundKeyless(server, paths);
      },
    },
    {
      number: 'C12',
      sentence: 'a path is split at its slashes before each segment is decoded',
      cost: 'a client that escapes more than it must gets 404, or an escaped slash splits the path',
      sources: { should: 'RFC 9110 §4.2.3: unreserved characters are equivalent to their escapes' },
      should: async (server) => {
        const target = `${server.basePath}/%70ets?%6Cimit=1`;
        expectList(await server.exchange(server.targetBytes('GET', target)));
      },
      full: async (server) => {
        const base = server.basePath;
        await expectNotFound(
          server,
          wronglyEscaped.map((path) => `${base}${path}`),
        );
        await expectNotFoundKeyless(server, [`${base}/%zz`]);
        const queries = ['%zz', 'limit=%', 'limit=5%3', 'x=%ff', '%=1', 'limit=5&x=%C0%80'];
        // An escaped name is the same name.
        const plain = await server.request('GET', '/pets?limit=0');
        if (plain.status === 400) queries.push('limit=%30', '%6cimit=0');
        const requests = queries.map((query) => server.request('GET', `/pets?${query}`));
        await server.expectErrors(400, 'invalid_parameter', requests);
        const adding = await server.request('POST', '/pets?%zz', { body: 'not JSON' });
        server.expectError(adding, 400, 'invalid_parameter');
        if (await server.isGetPetGone()) return;

        const { id } = await server.add();
        const escaped = String(id).replace(/\d$/, (digit) => `%3${digit}`);
        const response = await server.request('GET', `/pets/${escaped}`);
        expectSuccess(response);
      },
    },
    {
      number: 'C13',
      sentence: 'a request target in absolute form is served',
      cost: 'a client behind a proxy gets an error for a valid request',
      sources: { http: 'RFC 9112 §3.2.2: MUST accept the absolute-form' },
      http: async (server) => {
        const target = `http://${server.url.host}${server.basePath}/pets?limit=1`;
        expectList(await server.exchange(server.targetBytes('GET', target)));
      },
      full: async (server) => {
        const at = (origin: string, path: string) =>
          server.exchange(server.targetBytes('GET', `${origin}${server.basePath}${path}`));
        for (const origin of ['http://a:8080', 'HTTP://a', 'https://a', 'http://[::1]:80']) {
          expectList(await at(origin, '/pets?limit=1'));
          for (const path of ['/pets?limit=0', '/petz']) {
            const { status } = await server.request('GET', path);
            const response = await at(origin, path);
            expect(response, response.status === status, `${status}, as for the path alone`);
          }
        }
        expectList(await at('http://user:password@a', '/pets'));
        server.expectError(await at('ftp://a', '/pets'), 404, 'not_found');
      },
    },
    {
      number: 'C14',
      sentence: 'an unknown path is 404',
      cost: 'a misspelt URL looks like a valid one',
      sources: { http: 'RFC 9110 §15.5.5: 404 (Not Found)' },
      http: (server) =>
        expectNotFound(server, [`${server.basePath}/petz`, `${server.basePath}/pets/1/owner`]),
      full: async (server) => {
        for (const path of ['/store', '/orders', '/user', '/pets/1/photos'])
          for (const method of ['GET', 'POST', 'DELETE', 'OPTIONS']) {
            const response = await server.request(method, path, noKey);
            server.expectError(response, 404, 'not_found');
            expect(response, !response.headers.has('allow'), 'no Allow', 'Allow');
          }
      },
    },
    {
      number: 'C15',
      sentence: 'a method that a path does not support is 405, and Allow lists the supported ones',
      cost: 'a client cannot tell a wrong method from a wrong URL',
      sources: { http: 'RFC 9110 §15.5.6: MUST generate Allow; §9.1: 405 or 501' },
      http: async (server) => {
        for (const method of ['DELETE', 'PUT', 'PATCH']) {
          const response = await server.request(method, '/pets');
          // A server may not know the method at all.
          if (server.level !== 'full' && response.status === 501) continue;
          server.expectError(response, 405, 'method_not_allowed');
          expectAllowed(response, ['get', 'post']);
        }
        // A server may have more methods of one pet than the specification has.
        const one = await server.request('DELETE', `/pets/${2n ** 63n - 1n}`);
        if (one.status === 405) expectAllowed(one, ['get']);
      },
      full: async (server) => {
        const { basePath, rootPath } = server;
        await expectAllow(server, `${basePath}/pets`, allowOfList);
        await expectAllow(server, `${rootPath}/healthz`, allowOfPet, ['POST', 'DELETE']);
        if (await server.isGetPetGone()) return;
        for (const id of ['1', 'no-id', '-0'])
          await expectAllow(server, `${basePath}/pets/${id}`, allowOfPet, [
            ...otherMethods,
            'POST',
          ]);
      },
    },
    {
      number: 'C16',
      sentence: 'HEAD returns the head of GET without the body',
      cost: 'a client hangs, or takes a body for the next response',
      sources: { http: 'RFC 9110 §9.3.2: MUST NOT send content' },
      http: async (server) => {
        await expectLengthOfPet(server);
        await server.withConnection(async (connection) => {
          const list = server.requestBytes('GET', '/pets?limit=1');
          connection.send(server.requestBytes('HEAD', '/pets?limit=1'));
          const head = await connection.finalResponse('HEAD');
          expectSuccess(head);
          const exchange = () => ({ ...head, came: head.came + connection.received });
          if (!isPersistent(head)) {
            await connection.ends();
            expect(exchange(), connection.received === '', 'a response without a body');
            return;
          }

          const response = await nextOnConnection(connection, list).catch((error: unknown) => {
            expect(exchange(), connection.received === '', 'a response without a body');
            throw error;
          });
          const isList = response.status === 200 && response.body.trimStart().startsWith('[');
          expect(response, isList || response.status !== 200, 'the list, after a HEAD');
          expectList(response);
        });
      },
      full: async (server) => {
        const { basePath, rootPath } = server;
        const { id } = await server.add({ name: '"Ünal"', status: 'sold' });
        const list = `${basePath}/pets`;
        // biome-ignore format: two short lines.
        const targets = [
          `${list}?limit=1`, `${list}?limit=0`, `${list}/${id}`, `${list}/no-id`,
          `${basePath}/petz`,
        ];
        for (const target of [...targets, `${rootPath}/healthz`])
          for (const parts of (await server.requiresKey()) ? [{}, noKey] : [{}])
            await expectSameHead(server, target, parts);
      },
    },
    {
      number: 'C17',
      sentence: 'OPTIONS is 204 with Allow, and needs no key',
      cost: 'a gateway or a browser cannot find out which methods a path supports',
      full: async (server) => {
        const { basePath, rootPath } = server;
        const isGone = await server.isGetPetGone();
        for (const [target, allow] of [
          [`${basePath}/pets`, allowOfList],
          [`http://petstore.example${basePath}/pets`, allowOfList],
          [`${rootPath}/healthz`, allowOfPet],
          ...(isGone
            ? []
            : ['1', 'no-id'].map((id) => [`${basePath}/pets/${id}`, allowOfPet] as const)),
        ] as const)
          for (const parts of [{}, noKey]) {
            const response = await server.exchange(server.targetBytes('OPTIONS', target, parts));
            expect(response, response.status === 204, '204');
            expectHeader(response, 'Allow', new RegExp(`^${allow}$`), allow);
            expect(response, !response.headers.has('content-length'), 'no Content-Length');
          }

        const all = await server.exchange(server.targetBytes('OPTIONS', '*', noKey));
        expect(all, all.status === 204, '204');
        expect(all, headerOf(all, 'Allow') !== undefined, 'Allow', 'no Allow');
        const targets = [server.targetBytes('GET', '*'), server.requestBytes('OPTIONS', '/petz')];
        const responses = targets.map((bytes) => server.exchange(bytes));
        await server.expectErrors(404, 'not_found', responses);
      },
    },
    {
      number: 'C18',
      sentence: 'an unknown method is 501',
      cost: 'a client cannot tell an unknown method from a malformed request',
      sources: { should: 'RFC 9110 §9.1: SHOULD respond with 501' },
      should: async (server) => {
        server.expectError(await server.request('BREW', '/pets'), 501, 'not_implemented');
      },
      full: async (server) => {
        for (const method of unknownMethods)
          for (const target of [`${server.basePath}/pets`, `${server.basePath}/petz`, '*'])
            await server.withConnection(async (connection) => {
              connection.send(server.targetBytes(method, target, noKey));
              const response = await connection.finalResponse();
              server.expectError(response, 501, 'not_implemented');
              expect(response, await connection.ends(), 'the end of the connection after 501');
            });
      },
    },
  ],
};
