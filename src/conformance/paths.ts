/** Paths and methods: C10 to C18 of docs/contract.md. */
import type { Answer } from './raw-connection.js';
import { expect } from './outcome.js';
import type { Chapter } from './rule.js';
import {
  expectHeader,
  expectSuccess,
  headerOf,
  isSuccess,
  type Server,
  type Words,
} from './server-under-test.js';

const ofList = 'GET, HEAD, POST, OPTIONS';
const ofOne = 'GET, HEAD, OPTIONS';
const noKey = { authorization: null };

/** Methods that HTTP or another standard knows, and no path of a petstore has. */
const otherMethods = ['DELETE', 'PUT', 'PATCH', 'TRACE', 'PROPFIND', 'LINK', 'M-SEARCH', 'CONNECT'];

/** Expects that methods are not allowed for a target, whatever else is asked, and what is. */
async function expectAllow(
  server: Server,
  target: string,
  allow: string,
  methods = otherMethods,
): Promise<void> {
  const wrong = { authorization: 'Bearer no-key' };
  for (const words of [{}, noKey, wrong, { headers: ['Expect: 100-continue'] }])
    for (const method of methods) {
      const answer = await server.exchange(server.bytesTo(method, target, words), method);
      server.expectError(answer, 405, 'method_not_allowed');
      expectHeader(answer, 'Allow', new RegExp(`^${allow}$`), allow);
    }
}

/** Expects the head of an answer to HEAD to be that of GET, but for the time. */
async function expectSameHead(server: Server, target: string, words: Words): Promise<void> {
  const [head, get] = [
    await server.exchange(server.bytesTo('HEAD', target, words), 'HEAD'),
    await server.exchange(server.bytesTo('GET', target, words)),
  ];
  const length = isSuccess(get) ? String(get.body.length) : '\\d+';
  expectHeader(head, 'Content-Length', new RegExp(`^${length}$`), length);

  const headOf = ({ came }: Answer): string =>
    came.replace(/\r\n\r\n.*$/s, '').replace(/\r\n(Date|Content-Length): [^\r]*/gi, '');
  expect(head, headOf(head) === headOf(get), `the head of GET, ${headOf(get)}`, headOf(head));
}

/** Expects 404 for each of these targets. */
async function expectNotFound(
  server: Server,
  targets: readonly string[],
  words?: Words,
): Promise<void> {
  const answers = targets.map((target) => server.exchange(server.bytesTo('GET', target, words)));
  await server.expectErrors(404, 'not_found', answers);
}

/** The same without a key; that a path which is not there needs none is a matter of C14. */
async function expectNotFoundKeyless(server: Server, targets: readonly string[]): Promise<void> {
  const { status } = await server.request('GET', '/store', noKey);
  if (status === 404) await expectNotFound(server, targets, noKey);
}

/** Expects the animals of a list, for a target that is one and the same by the standards. */
function expectList(answer: Answer): void {
  expect(answer, isSuccess(answer) && answer.body.startsWith('['), '200 and a list');
}

// biome-ignore format: short ones by the dozen, a line for each would hide the rules.
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
      sentence: 'an id that is no canonical int64 is 404',
      cost: 'one animal has many addresses, or a mistyped one answers another animal',
      full: async (server) => {
        await expectNotFound(
          server,
          wrongIds.map((id) => `${server.basePath}/pets/${id}`),
        );
      },
    },
    {
      number: 'C11',
      sentence: 'slashes, dot segments and case make another path, which is 404',
      cost: 'a gateway that guards one path is passed by another that means the same',
      full: async (server) => {
        const { basePath, rootPath } = server;
        const targets = [
          ...otherPaths.map((path) => `${basePath}${path}`),
          `/${basePath}/pets`,
          `/%2e${basePath}/pets`,
          `/.${basePath}/pets`,
          ...['/healthz/', '/Healthz', '/openapi.json/'].map((path) => `${rootPath}${path}`),
        ];
        // What the path's own case does not tell apart has no other case.
        if (/[a-z]/.test(basePath)) targets.push(`${basePath.toUpperCase()}/pets`);
        // At the root of a server some of these begin without a slash, and are no targets (C42).
        const paths = targets.filter((target) => target.startsWith('/'));
        await expectNotFound(server, paths);
        await expectNotFoundKeyless(server, paths);
      },
    },
    {
      number: 'C12',
      sentence: 'a path is split at its slashes, and then each segment is decoded',
      cost: 'a client that escapes more than it must gets 404, or an escaped slash splits',
      http: async (server) => {
        const target = `${server.basePath}/%70ets?%6Cimit=1`;
        expectList(await server.exchange(server.bytesTo('GET', target)));
      },
      full: async (server) => {
        const base = server.basePath;
        await expectNotFound(
          server,
          wronglyEscaped.map((path) => `${base}${path}`),
        );
        await expectNotFoundKeyless(server, [`${base}/%zz`]);
        const queries = ['%zz', 'limit=%', 'limit=5%3', 'x=%ff', '%=1', 'limit=5&x=%C0%80'];
        // A name that is escaped is the same name.
        const plain = await server.request('GET', '/pets?limit=0');
        if (plain.status === 400) queries.push('limit=%30', '%6cimit=0');
        const requests = queries.map((query) => server.request('GET', `/pets?${query}`));
        await server.expectErrors(400, 'invalid_parameter', requests);
        const adding = await server.request('POST', '/pets?%zz', { body: 'no JSON' });
        server.expectError(adding, 400, 'invalid_parameter');
        if (await server.isGetPetGone()) return;

        const { id } = await server.add();
        const escaped = String(id).replace(/\d$/, (digit) => `%3${digit}`);
        const answer = await server.request('GET', `/pets/${escaped}`);
        expectSuccess(answer);
      },
    },
    {
      number: 'C13',
      sentence: 'a target in absolute form is served',
      cost: 'a client behind a proxy gets an error for a right request',
      http: async (server) => {
        const target = `http://petstore.example${server.basePath}/pets?limit=1`;
        expectList(await server.exchange(server.bytesTo('GET', target)));
      },
      full: async (server) => {
        const at = (origin: string, path: string) =>
          server.exchange(server.bytesTo('GET', `${origin}${server.basePath}${path}`));
        for (const origin of ['http://a:8080', 'HTTP://a', 'https://a', 'http://[::1]:80']) {
          expectList(await at(origin, '/pets?limit=1'));
          for (const path of ['/pets?limit=0', '/petz']) {
            const { status } = await server.request('GET', path);
            const answer = await at(origin, path);
            expect(answer, answer.status === status, `${status}, as for the path alone`);
          }
        }
        expectList(await at('http://user:password@a', '/pets'));
        server.expectError(await at('ftp://a', '/pets'), 404, 'not_found');
      },
    },
    {
      number: 'C14',
      sentence: 'a path that is not there is 404',
      cost: 'a misspelt address looks like an answer',
      http: (server) =>
        expectNotFound(server, [`${server.basePath}/petz`, `${server.basePath}/pets/1/owner`]),
      full: async (server) => {
        for (const path of ['/store', '/orders', '/user', '/pets/1/photos'])
          for (const method of ['GET', 'POST', 'DELETE', 'OPTIONS']) {
            const answer = await server.request(method, path, noKey);
            server.expectError(answer, 404, 'not_found');
            expect(answer, !answer.headers.has('allow'), 'no Allow', 'Allow');
          }
      },
    },
    {
      number: 'C15',
      sentence: 'another method of a path is 405 and names in Allow what there is',
      cost: 'a client cannot tell a wrong method from a wrong address',
      http: async (server) => {
        const answer = await server.request('DELETE', '/pets');
        server.expectError(answer, 405, 'method_not_allowed');
        expectHeader(answer, 'Allow', /GET.*POST|POST.*GET/, 'GET, POST and what else there is');
      },
      full: async (server) => {
        const { basePath, rootPath } = server;
        await expectAllow(server, `${basePath}/pets`, ofList);
        await expectAllow(server, `${rootPath}/healthz`, ofOne, ['POST', 'DELETE']);
        if (await server.isGetPetGone()) return;
        for (const id of ['1', 'no-id', '-0'])
          await expectAllow(server, `${basePath}/pets/${id}`, ofOne, [...otherMethods, 'POST']);
      },
    },
    {
      number: 'C16',
      sentence: 'HEAD is as GET without the body',
      cost: 'a cache or a link checker hangs, or takes a body for the next answer',
      http: (server) =>
        server.withConnection(async (connection) => {
          connection.send(server.bytesOf('HEAD', '/pets?limit=1'));
          const head = await connection.answer('HEAD');
          expectSuccess(head);
          if (headerOf(head, 'Connection')?.toLowerCase() === 'close') return;

          connection.send(server.bytesOf('GET', '/pets?limit=1'));
          expectList(await connection.answer());
        }),
      full: async (server) => {
        const { basePath, rootPath } = server;
        const { id } = await server.add({ name: '"Ünal"', status: 'sold' });
        const list = `${basePath}/pets`;
        // biome-ignore format: one line says what is asked for.
        const targets = [
          `${list}?limit=1`, `${list}?limit=0`, `${list}/${id}`, `${list}/no-id`,
          `${basePath}/petz`,
        ];
        for (const target of [...targets, `${rootPath}/healthz`])
          for (const words of (await server.isKeyNeeded()) ? [{}, noKey] : [{}])
            await expectSameHead(server, target, words);
      },
    },
    {
      number: 'C17',
      sentence: 'OPTIONS is 204 with Allow, and needs no key',
      cost: 'a gateway or a browser cannot ask what there is',
      full: async (server) => {
        const { basePath, rootPath } = server;
        const isGone = await server.isGetPetGone();
        for (const [target, allow] of [
          [`${basePath}/pets`, ofList],
          [`http://petstore.example${basePath}/pets`, ofList],
          [`${rootPath}/healthz`, ofOne],
          ...(isGone ? [] : ['1', 'no-id'].map((id) => [`${basePath}/pets/${id}`, ofOne] as const)),
        ] as const)
          for (const words of [{}, noKey]) {
            const answer = await server.exchange(server.bytesTo('OPTIONS', target, words));
            expect(answer, answer.status === 204, '204');
            expectHeader(answer, 'Allow', new RegExp(`^${allow}$`), allow);
            expect(answer, !answer.headers.has('content-length'), 'no Content-Length');
          }

        const all = await server.exchange(server.bytesTo('OPTIONS', '*', noKey));
        expect(all, all.status === 204, '204');
        expect(all, headerOf(all, 'Allow') !== undefined, 'Allow', 'no Allow');
        const targets = [server.bytesTo('GET', '*'), server.bytesOf('OPTIONS', '/petz')];
        const answers = targets.map((bytes) => server.exchange(bytes));
        await server.expectErrors(404, 'not_found', answers);
      },
    },
    {
      number: 'C18',
      sentence: 'a method that nobody knows is 501',
      cost: 'a client cannot tell a new method from a broken request',
      http: async (server) => {
        server.expectError(await server.request('BREW', '/pets'), 501, 'not_implemented');
      },
      full: async (server) => {
        for (const method of unknownMethods)
          for (const target of [`${server.basePath}/pets`, `${server.basePath}/petz`, '*'])
            await server.withConnection(async (connection) => {
              connection.send(server.bytesTo(method, target, noKey));
              const answer = await connection.answer();
              server.expectError(answer, 501, 'not_implemented');
              expect(answer, await connection.ends(), 'the end of the connection behind 501');
            });
      },
    },
  ],
};
