/** The rules on the deprecated operation `GET /pets/{petId}`: C33 to C35 of docs/contract.md. */
import { expect, Inapplicable } from './outcome.js';
import type { Chapter } from './rule.js';
import {
  causesOfDifference,
  differenceFrom,
  expectHeader,
  headerOf,
  isSuccess,
  jsonOf,
  memberText,
} from './tested-server.js';

export const deprecation: Chapter = {
  name: 'The deprecated GET /pets/{petId}',
  rules: [
    {
      number: 'C33',
      sentence: 'every response has Deprecation, Sunset and a Link to the successor',
      cost: 'nobody learns of the end of the operation before it comes',
      full: async (server) => {
        await server.requireGetPet();
        const { id } = await server.add();
        const path = `/pets/${id}`;

        for (const response of [
          await server.request('GET', path),
          await server.request('HEAD', path),
          await server.request('GET', `/pets/${2n ** 63n - 1n}`),
          await server.request('GET', '/pets/no-id'),
          await server.request('GET', path, { authorization: null }),
          await server.request('GET', path, { authorization: 'Bearer no-key' }),
          await server.request('DELETE', path),
          await server.request('OPTIONS', path),
          await server.request('GET', path, { headers: ['Expect: miracles'] }),
          await server.request('GET', `${path}?%zz`),
        ]) {
          expectHeader(response, 'Deprecation', /^@1795132800$/, '@1795132800');
          const sunset = 'Thu, 05 Dec 2030 23:59:59 GMT';
          expectHeader(response, 'Sunset', new RegExp(`^${sunset}$`), sunset);
          const link = '<…/pets>; rel="successor-version"';
          expectHeader(response, 'Link', /^<[^>]*\/pets>; rel="successor-version"$/, link);
        }

        for (const other of ['/pets', `${path}/owner`, '/petz']) {
          const response = await server.request('GET', other);
          for (const name of ['Deprecation', 'Sunset'])
            expect(
              response,
              headerOf(response, name) === undefined,
              `no ${name} on other paths`,
              name,
            );
        }
      },
    },
    {
      number: 'C34',
      sentence: 'a pet is returned as it was added, until the end of 5 December 2030',
      cost: 'a client loses the operation before the announced date',
      hasStories: true,
      sources: { specification: 'the specification, Endpoints, 3. Get an animal' },
      specification: async (server) => {
        await server.requireGetPet();
        for (const given of [
          { status: 'sold' },
          { status: 'available', name: JSON.stringify(`Żółw ${server.runId} <x> mIxEd`) },
          {},
          { status: 'pending' },
        ]) {
          const added = await server.add(given);
          const response = await server.request('GET', `/pets/${added.id}`);
          const { id } = added;
          if (!isSuccess(response)) await server.expectKept(added);
          expect(response, response.status === 200, '200', undefined, undefined, ['P3', 'C30']);

          const difference = differenceFrom(added, jsonOf(response));
          // If the pet is right in the list, only its URL is wrong.
          const isListed = difference === undefined || (await server.isRightInList(added));
          const causes = ['P3', 'C31', ...(isListed ? [] : causesOfDifference(difference, added))];
          const expected = `the pet ${id} as it was added, ${memberText(added, 'name')}`;
          expect(response, difference === undefined, expected, difference, undefined, causes);
        }
        await server.expectFirstPets();
      },
    },
    {
      number: 'C35',
      sentence: 'after the sunset, the path is 404 for every method',
      cost: 'clients go on using an operation that nobody maintains',
      full: async (server) => {
        if (!(await server.isGetPetGone()))
          throw new Inapplicable(
            'the clock of the server is before the sunset of GET /pets/{petId}',
          );

        const { id, response: added } = await server.add();
        expect(added, !added.headers.has('location'), '201 without Location');

        for (const method of ['GET', 'OPTIONS', 'DELETE', 'POST', 'PUT', 'TRACE', 'CONNECT'])
          for (const parts of [{}, { authorization: null }]) {
            const response = await server.request(method, `/pets/${id}`, parts);
            server.expectError(response, 404, 'not_found');
            const names = ['deprecation', 'sunset', 'link', 'allow'];
            const came = names.filter((name) => response.headers.has(name)).join(', ');
            expect(response, came === '', 'no header of the former operation', came);
            const successor = `GET ${server.basePath}/pets`;
            expect(response, response.body.includes('/pets'), `a message that names ${successor}`);
          }

        const document = server.targetBytes('GET', `${server.rootPath}/openapi.json`);
        const { body } = await server.exchange(document);
        expect(added, !body.includes('getPet'), 'an OpenAPI document without getPet', 'getPet');
      },
    },
  ],
};
