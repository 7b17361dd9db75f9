/** The rules that the specification states without a gap: S1 to S3 and P3 of docs/contract.md. */
import type { RawResponse } from './raw-connection.js';
import { setTimeout as sleep } from 'node:timers/promises';
import { petStatuses } from '../index.js';
import { expect, Mismatch } from './outcome.js';
import type { Chapter } from './rule.js';
import { readSample } from './sample-pets.js';
import {
  causesOf,
  causesOfDifference,
  differenceFrom,
  expectList,
  headerOf,
  isSuccess,
  jsonOf,
  memberText,
  petsIn,
  type AddedPet,
  type JsonDraft,
  type TestedServer,
} from './tested-server.js';

/** Expects the Content-Type of JSON, and of an error also the Error body. */
function expectJsonResponse(response: RawResponse): void {
  const type = headerOf(response, 'Content-Type') ?? 'nothing';
  const isJson = /^application\/json *(;|$)/i.test(type);
  expect(response, isJson, 'Content-Type: application/json', `Content-Type: ${type}`);
  const [, charset = 'utf-8'] = /;\s*charset="?([^";\s]*)/i.exec(type) ?? [];
  const isUtf8 = /^(utf-?8|us-ascii)$/i.test(charset);
  expect(response, isUtf8, 'JSON in UTF-8 (RFC 8259 §8.1)', `charset ${charset}`);
  const hasMark = response.body.startsWith('\xef\xbb\xbf');
  expect(response, !hasMark, 'JSON without a byte order mark (RFC 8259 §8.1)', 'a mark');
  if (response.status < 400) return;

  const body = jsonOf(response);
  expect(response, body instanceof Map, 'an object with code, message and status');
  for (const name of ['code', 'message'])
    expect(response, typeof body.get(name) === 'string', `an Error body whose ${name} is a string`);
  const status = memberText({ members: body }, 'status');
  const expected = `an Error body whose status is ${response.status}`;
  expect(response, status === String(response.status), expected, `status ${status}`);
}

/** True if a body is a page. S1, C34 or C30 then says so. */
function isHtml({ body }: RawResponse): boolean {
  return /^\s*</.test(body);
}

/** Returns responses to some wrong requests, without those that got none. */
async function errors(server: TestedServer): Promise<readonly RawResponse[]> {
  const authorization = 'Bearer no-key';
  const requests = [
    server.request('GET', '/pets', { authorization: null }),
    server.request('GET', '/pets', { authorization }),
    server.request('GET', '/pets/1', { authorization }),
    server.request('GET', `/pets/${2n ** 63n - 2n}`),
    server.request('POST', '/pets', { authorization: null, body: server.json() }),
    server.post('{"name":5}'),
    server.post('{}'),
    server.post('{"name":'),
  ];
  const responses = await Promise.allSettled(requests);
  return responses.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
}

/** Drafts that differ in each member, in letter case, and in characters that are escaped. */
const variousDrafts = (server: TestedServer): readonly JsonDraft[] => {
  const { category } = server;
  const named = (name: string) => JSON.stringify(`${name} ${JSON.parse(server.uniqueName())}`);
  return [
    { name: named('Rex'), categoryId: category, status: 'sold' },
    { name: named('<b>Max</b> & "Tom"'), categoryId: category, status: 'available' },
    { name: named('mIxEd'), categoryId: category },
    { name: named('Żółw 猫'), categoryId: category, status: 'pending' },
    ...Array.from({ length: 4 }, () => ({ categoryId: category, status: 'sold' })),
  ];
};

/** Expects the list to contain each pet once and unchanged, if the list can reach it. */
async function expectListed(server: TestedServer, pets: readonly AddedPet[]): Promise<void> {
  const { response, found, isWhole } = await server.search(pets);
  for (const pet of pets) {
    const entries = found.filter(({ id }) => id === pet.id);
    const isThere = entries.length > 0 || !isWhole;
    if (!isThere) await server.expectKept(pet);
    const absent = 'a list without it';
    expect(response, isThere, `the added pet ${pet.id}`, absent, undefined, ['S2', 'C30', 'C31']);
    expect(response, entries.length < 2, `the pet ${pet.id} once`, `${entries.length} times`);
    for (const { members } of entries) {
      const difference = differenceFrom(pet, members);
      const expected = `the pet ${pet.id} as it was added, ${memberText(pet, 'name')}`;
      // If the pet is right at its URL, only the list is wrong.
      const causes =
        difference === undefined || (await server.isRightAtUrl(pet))
          ? []
          : causesOfDifference(difference, pet);
      expect(response, difference === undefined, expected, difference, undefined, causes);
    }
  }
}

/** Expects a success with an array, for a check of another rule than S1 and C7. */
function expectFiltered(response: RawResponse): void {
  const isList = isSuccess(response) && Array.isArray(jsonOf(response));
  const causes = [...causesOf(response.sent), 'C7'];
  expect(response, isList, '200 and a list', undefined, undefined, causes);
}

/**
 * Returns the rules that explain why a list is shorter than its limit: S1 if it hides some pets,
 * so that it still grows.
 *
 * @throws Mismatch that breaks C34 if the first pets of the run are gone
 */
async function causesOfShortList(server: TestedServer): Promise<readonly string[]> {
  await server.expectFirstPets();
  const before = (await server.list('?limit=100')).length;
  await server.add();
  for (const status of petStatuses) await server.add({ status });
  // A list that is cached grows later.
  await sleep(1_500);
  const after = (await server.list('?limit=100')).length;
  return ['C31', ...(after > before ? ['S1'] : [])];
}

export const specification: Chapter = {
  name: 'The specification',
  rules: [
    {
      number: 'S1',
      sentence: 'a list is 200 with an array of pets',
      cost: 'a client generated from the specification fails on the first page',
      hasStories: true,
      sources: { specification: 'the specification, Endpoints, 1. List animals' },
      specification: async (server) => {
        const response = await server.request('GET', '/pets?limit=100');
        expect(response, response.status === 200, '200', undefined, undefined, ['S2']);
        const list = jsonOf(response);
        expect(response, Array.isArray(list), 'an array', undefined, undefined, ['P3']);

        const ids = list.map((pet) =>
          pet instanceof Map ? memberText({ members: pet }, 'id') : '',
        );
        const [twice] = ids.filter((id, at) => ids.indexOf(id) !== at);
        expect(response, twice === undefined, 'each pet once', `the id ${twice} twice`);

        const isNumbered = petsIn(response).length === list.length;
        expect(response, isNumbered, 'pets whose id is an int64', undefined, undefined, ['C30']);
        await server.expectSameAtUrls(response);
        await readSample(server);

        const pets: AddedPet[] = [];
        for (const draft of variousDrafts(server)) pets.push(await server.add(draft));
        await expectListed(server, pets);

        const plain = await server.request('GET', '/pets');
        expect(plain, plain.status === 200 && Array.isArray(jsonOf(plain)), '200 and an array');
      },
    },
    {
      number: 'S2',
      sentence: 'a list has at most `limit` pets: 20 by default, up to 100',
      cost: 'a client that pages gets too many pets, or takes a short page for the last one',
      hasStories: true,
      sources: { specification: 'the specification, Limits' },
      specification: async (server) => {
        const plain = await server.request('GET', '/pets');
        for (const limit of [1, 100]) {
          const limited = await server.request('GET', `/pets?limit=${limit}`);
          const isRefused = isSuccess(plain) && limited.status >= 400;
          expect(limited, !isRefused, '200, because limit may be 1 to 100');
        }
        await readSample(server);
        await server.fill(101);

        for (const [query, count] of [
          ['', 20],
          ['?limit=1', 1],
          ['?limit=2', 2],
          ['?limit=13', 13],
          ['?limit=20', 20],
          ['?limit=21', 21],
          ['?limit=99', 99],
          ['?limit=100', 100],
        ] as const) {
          const response = await server.request('GET', `/pets${query}`);
          expectList(response);
          const list = jsonOf(response);
          const length = Array.isArray(list) ? list.length : 0;
          const expected = `${count} of at least 100 pets`;
          // S1 checks that a list has each pet once, and nothing else.
          const ids = petsIn(response).map(({ id }) => id);
          const isClean = new Set(ids).size === length;
          const causes = isClean ? [] : ['S1'];
          if (length < count && isClean) causes.push(...(await causesOfShortList(server)));
          expect(response, length === count, expected, `${length} pets`, undefined, causes);
        }

        const ofStatus = await server.request('GET', '/pets?limit=100&status=sold');
        expectFiltered(ofStatus);
        const sold = petsIn(ofStatus).length;
        for (const query of ['?status=sold&limit=2', '?limit=2&status=sold', '?status=sold']) {
          const response = await server.request('GET', `/pets${query}`);
          expectFiltered(response);
          const list = jsonOf(response);
          const length = Array.isArray(list) ? list.length : 0;
          const limit = query.includes('limit') ? 2 : 20;
          expect(response, length <= limit, `at most ${limit} pets`, `${length} pets`);
          const least = Math.min(limit, sold);
          // The limit alone was right above, so the filter is to blame.
          const summaries = { came: `${length} pets` };
          if (length < least)
            throw new Mismatch(response, `${least} of ${sold} pets`, summaries, ['S1'], 'C7');
        }
      },
    },
    {
      number: 'S3',
      sentence: 'a pet that does not exist is 404',
      cost: 'a client cannot tell a missing pet from a broken server',
      sources: { specification: 'the specification, Endpoints, 3. Get an animal' },
      specification: async (server) => {
        await server.requireGetPet();
        for (const id of [2n ** 63n - 1n, 2n ** 62n + 12_345n])
          server.expectError(await server.request('GET', `/pets/${id}`), 404, 'not_found');
        for (const id of [0n, -1n, 2n ** 31n, 2n ** 53n + 1n, 987_654_321n]) {
          const response = await server.request('GET', `/pets/${id}`);
          // There may be such a pet.
          const [pet] = petsIn(response);
          if (isSuccess(response) && pet?.id === id) continue;
          // The specification does not say if an id may be 0 or negative.
          if (server.level !== 'full' && id <= 0n && response.status === 400) continue;
          server.expectError(response, 404, 'not_found');
        }
      },
    },
    {
      number: 'P3',
      sentence: 'a response is whole and is JSON, and an error has code, message and status',
      cost: 'a client that reads `code` or `message` fails while it handles the error',
      hasStories: true,
      sources: { specification: 'the specification, Errors' },
      specification: async (server) => {
        const name = JSON.stringify(`Zoë 猫🐈 ${JSON.parse(server.uniqueName())}`);
        const added = await server.post(server.json({ name }));
        // C30 and C25 check the status and the name.
        if (isSuccess(added) && !isHtml(added) && added.body !== '') {
          expectJsonResponse(added);
          const isJson = jsonOf(added) !== undefined;
          expect(added, isJson, 'a body that is valid JSON');
        }
        const list = await server.request('GET', '/pets?limit=100');
        if (isSuccess(list) && !isHtml(list)) {
          expectJsonResponse(list);
          expect(list, jsonOf(list) !== undefined, 'a body that is valid JSON');
        }
        const [pet] = petsIn(added);
        if (pet !== undefined && !(await server.isGetPetGone())) {
          const one = await server.request('GET', `/pets/${pet.id}`);
          if (one.status === 200 && !isHtml(one)) expectJsonResponse(one);
        }

        const refusals = await errors(server);
        // Other rules check a success and a redirect.
        for (const response of refusals.filter(({ status }) => status >= 400 && status < 500))
          expectJsonResponse(response);
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
