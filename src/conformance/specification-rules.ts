/** The rules that the specification states without a gap: S1 to S3 and P3 of docs/contract.md. */
import type { RawResponse } from './raw-connection.js';
import { expect } from './outcome.js';
import type { Chapter } from './rule.js';
import {
  petsIn,
  problemWith,
  headerOf,
  isOfSuite,
  jsonOf,
  memberText,
  skipUntil,
  type TestedServer,
} from './tested-server.js';

/** Expects the Content-Type of JSON, and of an error also the Error body. */
function expectJsonResponse(response: RawResponse): void {
  const type = headerOf(response, 'Content-Type') ?? 'nothing';
  const isJson = /^application\/json *(;|$)/i.test(type);
  expect(response, isJson, 'Content-Type: application/json', `Content-Type: ${type}`);
  if (response.status < 400) return;

  const body = jsonOf(response);
  expect(response, body instanceof Map, 'an object with code, message and status');
  if (!(body instanceof Map)) return;

  for (const name of ['code', 'message'])
    expect(response, typeof body.get(name) === 'string', `an Error body whose ${name} is a string`);
  const status = memberText({ members: body }, 'status');
  const expected = `an Error body whose status is ${response.status}`;
  expect(response, status === String(response.status), expected, `status ${status}`);
}

/** Returns responses to some wrong requests, without those that got none. */
async function errors(server: TestedServer): Promise<readonly RawResponse[]> {
  const requests = [
    server.request('GET', '/pets', { authorization: null }),
    server.request('GET', '/pets/1', { authorization: 'Bearer no-key' }),
    server.request('GET', `/pets/${2n ** 63n - 2n}`),
    server.post('{"name":5}'),
    server.post('{"name":'),
  ];
  const responses = await Promise.allSettled(requests);
  return responses.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
}

export const specification: Chapter = {
  name: 'The specification',
  rules: [
    {
      number: 'S1',
      sentence: 'a list is 200 with an array of pets',
      cost: 'a client generated from the specification fails on the first page',
      specification: async (server) => {
        const { id } = await server.add({ status: 'sold' });
        const response = await server.request('GET', '/pets?limit=100');
        expect(response, response.status === 200, '200');

        const list = jsonOf(response);
        expect(response, Array.isArray(list), 'an array');
        if (!Array.isArray(list)) return;

        // Pets that other clients added may be invalid: C20 and C24 check that.
        const faults = list.filter(isOfSuite).map(problemWith);
        const fault = faults.find((each) => each !== undefined);
        expect(response, fault === undefined, 'valid pets', fault);

        // A list of fewer than twenty pets is the only page.
        const isThere = petsIn(response).some((pet) => pet.id === id);
        const expected = `the added pet ${id}`;
        expect(response, isThere || list.length >= 20, expected);
      },
    },
    {
      number: 'S2',
      sentence: 'a list has at most `limit` pets: 20 by default, up to 100',
      cost: 'a client that pages gets too many pets, or takes a short page for the last one',
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
          const response = await server.request('GET', `/pets${query}`);
          const list = jsonOf(response);
          if (!Array.isArray(list)) return skipUntil('a list', 'S1');
          const expected = `${count} of at least 100 pets`;
          expect(response, list.length === count, expected, `${list.length} pets`);
        }
      },
    },
    {
      number: 'S3',
      sentence: 'a pet that does not exist is 404',
      cost: 'a client cannot tell a missing pet from a broken server',
      specification: async (server) => {
        for (const id of [2n ** 63n - 1n, 2n ** 62n + 12_345n])
          server.expectError(await server.request('GET', `/pets/${id}`), 404, 'not_found');
      },
    },
    {
      number: 'P3',
      sentence: 'a body is application/json, and an error has code, message and status',
      cost: 'a client that reads `code` or `message` fails while it handles the error',
      specification: async (server) => {
        for (const response of await errors(server)) expectJsonResponse(response);
        expectJsonResponse(await server.request('GET', '/pets?limit=1'));
        expectJsonResponse(await server.post(server.json()));
      },
      full: async (server) => {
        const responses = await server.responsesOfEachKind();
        for (const response of responses.filter(({ status }) => status >= 400)) {
          expectJsonResponse(response);
          const body = jsonOf(response);
          const names = body instanceof Map ? [...body.keys()].sort().join(', ') : 'no object';
          const expected = 'the members code, message, status and no other';
          expect(response, names === 'code, message, status', expected, names);

          const message = body instanceof Map ? memberText({ members: body }, 'message') : '';
          const isSentence = /^"\S[^\n\r]*\."$/.test(message);
          expect(response, isSentence, 'a message that is a sentence on one line', message);
        }
      },
    },
  ],
};
