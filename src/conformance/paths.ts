/** Paths and methods: C10 to C18 of docs/contract.md. */
import type { Answer } from './connection.js';
import { expect } from './outcome.js';
import type { Chapter } from './rule.js';
import { expectHeader, expectSuccess, headerOf, isSuccess, type Server } from './server.js';

/** Expects that a method is not allowed, and what is. */
async function expectAllow(server: Server, path: string, allow: string): Promise<void> {
  for (const authorization of [undefined, null])
    for (const method of ['DELETE', 'PUT', 'PATCH']) {
      const words = authorization === null ? { authorization } : {};
      const answer = await server.request(method, path, words);
      server.expectError(answer, 405, 'method_not_allowed');
      expectHeader(answer, 'Allow', new RegExp(`^${allow}$`), allow);
    }
}

/** Expects 404 for each of these targets. */
async function expectNotFound(server: Server, targets: readonly string[]): Promise<void> {
  const answers = targets.map((target) => server.exchange(server.bytesTo('GET', target)));
  await server.expectErrors(404, 'not_found', answers);
}

/** Expects the animals of a list, for a target that is one and the same by the standards. */
function expectList(answer: Answer): void {
  expect(answer, isSuccess(answer) && answer.body.startsWith('['), '200 and a list');
}

export const paths: Chapter = {
  name: 'Paths and methods',
  rules: [
    {
      number: 'C10',
      sentence: 'an id that is no canonical int64 is 404',
      cost: 'one animal has many addresses, or a mistyped one answers another animal',
      full: async (server) => {
        const ids = ['abc', '007', '1.0', '-0', '+1', '1e0', '%201', '1%20', '0x1'];
        ids.push('9223372036854775808', '-9223372036854775809', '9'.repeat(1000));
        await expectNotFound(
          server,
          ids.map((id) => `${server.basePath}/pets/${id}`),
        );
      },
    },
    {
      number: 'C11',
      sentence: 'slashes, dot segments and case make another path, which is 404',
      cost: 'a gateway that guards one path is passed by another that means the same',
      full: async (server) => {
        const base = server.basePath;
        await expectNotFound(server, [
          `${base}/pets/`,
          `/${base}/pets`,
          `${base}//pets`,
          `${base}/./pets`,
          `${base}/x/../pets`,
          `${base}/PETS`,
          `${base}/pets/..`,
        ]);
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
        await expectNotFound(server, [`${base}/pets%2F1`, `${base}/p%zzts`, `${base}/pets/%`]);
        const query = await server.request('GET', '/pets?limit=%zz');
        server.expectError(query, 400, 'invalid_parameter');

        await server.needsGetPet();
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
    },
    {
      number: 'C14',
      sentence: 'a path that is not there is 404',
      cost: 'a misspelt address looks like an answer',
      http: (server) =>
        expectNotFound(server, [`${server.basePath}/petz`, `${server.basePath}/pets/1/owner`]),
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
        await expectAllow(server, '/pets', 'GET, HEAD, POST, OPTIONS');
        if (await server.isGetPetGone()) return;
        await expectAllow(server, '/pets/1', 'GET, HEAD, OPTIONS');
        await expectAllow(server, '/pets/no-id', 'GET, HEAD, OPTIONS');
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
        await server.add();
        const [head, get] = [
          await server.request('HEAD', '/pets?limit=1'),
          await server.request('GET', '/pets?limit=1'),
        ];
        const length = String(get.body.length);
        expectHeader(head, 'Content-Length', new RegExp(`^${length}$`), length);
      },
    },
    {
      number: 'C17',
      sentence: 'OPTIONS is 204 with Allow, and needs no key',
      cost: 'a gateway or a browser cannot ask what there is',
      full: async (server) => {
        const words = { authorization: null };
        const list = await server.request('OPTIONS', '/pets', words);
        expect(list, list.status === 204, '204');
        const allow = 'GET, HEAD, POST, OPTIONS';
        expectHeader(list, 'Allow', new RegExp(`^${allow}$`), allow);

        const all = await server.exchange(server.bytesTo('OPTIONS', '*', words));
        expect(all, all.status === 204, '204');
        expect(all, headerOf(all, 'Allow') !== undefined, 'Allow', 'no Allow');
      },
    },
    {
      number: 'C18',
      sentence: 'a method that nobody knows is 501',
      cost: 'a client cannot tell a new method from a broken request',
      http: async (server) => {
        server.expectError(await server.request('BREW', '/pets'), 501, 'not_implemented');
      },
      full: (server) =>
        server.withConnection(async (connection) => {
          connection.send(server.bytesOf('BREW', '/pets'));
          const answer = await connection.answer();
          expect(answer, await connection.ends(), 'the end of the connection behind 501');
        }),
    },
  ],
};
