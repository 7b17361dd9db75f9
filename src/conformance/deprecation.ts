/** The deprecated operation `GET /pets/{petId}`: C33 to C35 of docs/contract.md. */
import { expect, Untried } from './outcome.js';
import type { Chapter } from './rule.js';
import { animalsOf, expectHeader, headerOf, memberText } from './server-under-test.js';

export const deprecation: Chapter = {
  name: 'GET /pets/{petId}, which is deprecated',
  rules: [
    {
      number: 'C33',
      sentence: 'each answer says Deprecation, Sunset and its successor, errors too',
      cost: 'nobody learns of the end of the operation before it comes',
      full: async (server) => {
        await server.needsGetPet();
        const { id } = await server.add();
        const pet = `/pets/${id}`;

        for (const answer of [
          await server.request('GET', pet),
          await server.request('HEAD', pet),
          await server.request('GET', `/pets/${2n ** 63n - 1n}`),
          await server.request('GET', '/pets/no-id'),
          await server.request('GET', pet, { authorization: null }),
          await server.request('GET', pet, { authorization: 'Bearer no-key' }),
          await server.request('DELETE', pet),
          await server.request('OPTIONS', pet),
          await server.request('GET', pet, { headers: ['Expect: miracles'] }),
          await server.request('GET', `${pet}?%zz`),
        ]) {
          expectHeader(answer, 'Deprecation', /^@1795132800$/, '@1795132800');
          const sunset = 'Thu, 05 Dec 2030 23:59:59 GMT';
          expectHeader(answer, 'Sunset', new RegExp(`^${sunset}$`), sunset);
          const link = '<…/pets>; rel="successor-version"';
          expectHeader(answer, 'Link', /^<[^>]*\/pets>; rel="successor-version"$/, link);
        }

        for (const path of ['/pets', `${pet}/owner`, '/petz']) {
          const answer = await server.request('GET', path);
          for (const name of ['Deprecation', 'Sunset'])
            expect(answer, headerOf(answer, name) === undefined, `no ${name} elsewhere`, name);
        }
      },
    },
    {
      number: 'C34',
      sentence: 'an animal is answered as it was added, through 5 December 2030',
      cost: 'a client loses the operation before the day that it was told',
      specification: async (server) => {
        await server.needsGetPet();
        const added = await server.add({ status: 'sold' });
        const answer = await server.request('GET', `/pets/${added.id}`);
        expect(answer, answer.status === 200, '200');

        const [animal] = animalsOf(answer);
        for (const name of ['id', 'name', 'categoryId', 'status']) {
          const expected = `${name} ${memberText(added, name)}`;
          const came = `${name} ${animal && memberText(animal, name)}`;
          expect(answer, came === expected, expected, came);
        }
      },
    },
    {
      number: 'C35',
      sentence: 'behind its sunset it is gone: 404 for every method',
      cost: 'the operation goes on without anybody who answers for it',
      full: async (server) => {
        if (!(await server.isGetPetGone()))
          throw new Untried('its clock is before the sunset of GET /pets/{petId}');

        const { id, answer: added } = await server.add();
        expect(added, !added.headers.has('location'), '201 without Location');

        for (const method of ['GET', 'OPTIONS', 'DELETE', 'POST', 'PUT', 'TRACE', 'CONNECT'])
          for (const words of [{}, { authorization: null }]) {
            const answer = await server.request(method, `/pets/${id}`, words);
            server.expectError(answer, 404, 'not_found');
            const names = ['deprecation', 'sunset', 'link', 'allow'];
            const came = names.filter((name) => answer.headers.has(name)).join(', ');
            expect(answer, came === '', 'no word of the operation that was', came);
            const successor = `GET ${server.basePath}/pets`;
            expect(answer, answer.body.includes('/pets'), `a message that names ${successor}`);
          }

        const document = server.bytesTo('GET', `${server.rootPath}/openapi.json`);
        const { body } = await server.exchange(document);
        expect(added, !body.includes('getPet'), 'a document of the API without it', 'getPet');
      },
    },
  ],
};
