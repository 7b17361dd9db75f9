/** What the specification itself says, beside what later chapters say of one case each. */
import type { Answer } from './raw-connection.js';
import { expect } from './outcome.js';
import type { Chapter } from './rule.js';
import {
  animalsOf,
  faultOf,
  headerOf,
  isOfSuite,
  jsonOf,
  memberText,
  untried,
  type Server,
} from './server-under-test.js';

/** Expects the Error body and its type; and JSON's type of an answer that is no error. */
function expectJsonAnswer(answer: Answer): void {
  const type = headerOf(answer, 'Content-Type') ?? 'nothing';
  const isJson = /^application\/json *(;|$)/i.test(type);
  expect(answer, isJson, 'Content-Type: application/json', `Content-Type: ${type}`);
  if (answer.status < 400) return;

  const body = jsonOf(answer);
  expect(answer, body instanceof Map, 'an object with code, message and status');
  if (!(body instanceof Map)) return;

  for (const name of ['code', 'message'])
    expect(answer, typeof body.get(name) === 'string', `an Error body whose ${name} is a string`);
  const status = memberText({ members: body }, 'status');
  const expected = `an Error body whose status is ${answer.status}`;
  expect(answer, status === String(answer.status), expected, `status ${status}`);
}

/** A few errors that every server has to answer, where they come: another rule says so. */
async function errors(server: Server): Promise<readonly Answer[]> {
  const requests = [
    server.request('GET', '/pets', { authorization: null }),
    server.request('GET', '/pets/1', { authorization: 'Bearer no-key' }),
    server.request('GET', `/pets/${2n ** 63n - 2n}`),
    server.post('{"name":5}'),
    server.post('{"name":'),
  ];
  const answers = await Promise.allSettled(requests);
  return answers.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
}

export const specification: Chapter = {
  name: 'The specification',
  rules: [
    {
      number: 'S1',
      sentence: 'a list is 200 and an array of animals',
      cost: 'a client that was generated from the specification fails at the first page',
      specification: async (server) => {
        const { id } = await server.add({ status: 'sold' });
        const answer = await server.request('GET', '/pets?limit=100');
        expect(answer, answer.status === 200, '200');

        const list = jsonOf(answer);
        expect(answer, Array.isArray(list), 'an array');
        if (!Array.isArray(list)) return;

        // What a server took that it should have refused is a matter of C20 and C24.
        const faults = list.filter(isOfSuite).map(faultOf);
        const fault = faults.find((each) => each !== undefined);
        expect(answer, fault === undefined, 'animals', fault);

        // Of fewer than twenty there is no other page.
        const isThere = animalsOf(answer).some((animal) => animal.id === id);
        const expected = `the animal ${id}, which was added before`;
        expect(answer, isThere || list.length >= 20, expected);
      },
    },
    {
      number: 'S2',
      sentence: 'a page has at most `limit` animals, 20 where it is left out, and up to 100',
      cost: 'a client that pages gets too much, or takes a short page for the last',
      specification: async (server) => {
        for (let added = 0; added < 100; added += 20)
          await Promise.all(Array.from({ length: 20 }, () => server.add()));

        for (const [query, count] of [
          ['', 20],
          ['?limit=1', 1],
          ['?limit=20', 20],
          ['?limit=21', 21],
          ['?limit=100', 100],
        ] as const) {
          const answer = await server.request('GET', `/pets${query}`);
          const list = jsonOf(answer);
          if (!Array.isArray(list)) return untried('a list', 'S1');
          const expected = `${count} of the 100 animals and more that are there`;
          expect(answer, list.length === count, expected, `${list.length} animals`);
        }
      },
    },
    {
      number: 'S3',
      sentence: 'an animal that is not there is 404',
      cost: 'a client cannot tell an animal that never was from a broken server',
      specification: async (server) => {
        for (const id of [2n ** 63n - 1n, 2n ** 62n + 12_345n])
          server.expectError(await server.request('GET', `/pets/${id}`), 404, 'not_found');
      },
    },
    {
      number: 'P3',
      sentence: 'what has a body is application/json; an error has code, message and its status',
      cost: 'a client that reads `code` or `message` fails while it handles the failure',
      specification: async (server) => {
        for (const answer of await errors(server)) expectJsonAnswer(answer);
        expectJsonAnswer(await server.request('GET', '/pets?limit=1'));
        expectJsonAnswer(await server.post(server.json()));
      },
      full: async (server) => {
        const answers = await server.answersOfEachKind();
        for (const answer of answers.filter(({ status }) => status >= 400)) {
          expectJsonAnswer(answer);
          const body = jsonOf(answer);
          const names = body instanceof Map ? [...body.keys()].sort().join(', ') : 'no object';
          const expected = 'the members code, message, status and no other';
          expect(answer, names === 'code, message, status', expected, names);

          const message = body instanceof Map ? memberText({ members: body }, 'message') : '';
          const isSentence = /^"\S[^\n\r]*\."$/.test(message);
          expect(answer, isSentence, 'a message that is one line, and a sentence', message);
        }
      },
    },
  ],
};
