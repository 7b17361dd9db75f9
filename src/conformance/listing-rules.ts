/** The rules on lists: C1 to C9 of docs/contract.md. */
import { petStatuses } from '../index.js';
import { expect } from './outcome.js';
import type { Chapter } from './rule.js';
import {
  queryAfter,
  petsIn,
  differenceFrom,
  expectList,
  expectSuccess,
  headerOf,
  isPersistent,
  nextOnConnection,
  isSuccess,
  jsonOf,
  membersOf,
  memberText,
  type AddedPet,
  type ReceivedPet,
  type TestedServer,
} from './tested-server.js';

// biome-ignore format: many short values; one per line would hide the rules.
const wrongLimits = [
  '0', '-1', '101', '1000', 'abc', 'NaN', 'Infinity', '99999999999999999999', 'null', 'true', '5;',
  "5'--",
];
// biome-ignore format: as above.
const wrongStatuses = [
  '', 'Available', 'SOLD', 'sold%20', '%20sold', 'sold,pending', 'unknown', 'null', 'sold%00',
];
/** Integers in other forms than plain decimal digits, some in digits of other scripts. */
// biome-ignore format: as above.
const oddIntegers = [
  '05', '00', '+5', '%2B5', '5.0', '1e1', '%205', '5%20', '5%0A', '', '-0', '5_0', '0x5',
  '%EF%BC%95', '%D9%A5',
];

/** Expects 400 for each query. */
async function refuseQueries(server: TestedServer, queries: readonly string[]): Promise<void> {
  const responses = queries.map((query) => server.request('GET', `/pets?${query}`));
  await server.expectErrors(400, 'invalid_parameter', responses);
}

/** Expects an error whose message has all of `names`, and which does not repeat `alert`. */
async function expectRefusal(
  server: TestedServer,
  query: string,
  names: readonly string[],
): Promise<void> {
  const response = await server.request('GET', `/pets?${query}`);
  const message = memberText({ members: membersOf(response) }, 'message');
  const isNamed = names.every((name) => new RegExp(`\\b${name}\\b`).test(message));
  expect(response, isNamed, `a message that names ${names.join(', ')}`);
  expect(response, !response.body.includes('alert'), 'an error that does not repeat the value');
}

/** Expects 200 for each query. */
async function takeQueries(server: TestedServer, queries: readonly string[]): Promise<void> {
  for (const query of queries) {
    const response = await server.request('GET', `/pets?${query}`);
    expectSuccess(response);
  }
}

/** Returns the query of the Link to the next page; undefined on the last page. */
function nextQueryOf({ response }: Pick<ReceivedPet, 'response'>): string | undefined {
  return /^<[^>]*\/pets(\?[^>]*)>; rel="next"$/.exec(headerOf(response, 'Link') ?? '')?.[1];
}

/**
 * Follows the Links from the page after a pet, with two pets a page, and expects each of `wanted`
 * once.
 *
 * @param wanted More than two pets.
 */
async function expectPages(
  server: TestedServer,
  first: ReceivedPet,
  filter: '' | 'status=sold&',
  wanted: readonly AddedPet[],
): Promise<void> {
  const found: bigint[] = [];
  let query: string | undefined = `?limit=2&${filter}${after(first)}`;

  for (let pages = 0; query !== undefined && pages < 3; pages++) {
    const page: readonly ReceivedPet[] = await server.list(query);
    const [pet] = page;
    const isFiltered = page.every((each) => filter === '' || isOf(each, 'sold'));
    const expected = 'a page of the added pets';
    const causes = ['C7', 'S1'];
    const came = `${page.length} pets`;
    expect(first.response, pet !== undefined && isFiltered, expected, came, query, causes);

    for (const each of page) {
      const added = wanted.find(({ id }) => id === each.id);
      const difference = added && differenceFrom(added, each.members);
      const unchanged = 'each pet of the page as it was added';
      const causes = ['C30', 'S1'];
      expect(each.response, difference === undefined, unchanged, difference, undefined, causes);
    }
    found.push(...page.map(({ id }) => id));
    query = nextQueryOf(pet);
    if (pages > 0) continue;

    const link = headerOf(pet.response, 'Link') ?? 'no Link';
    const next = `Link: <…/pets?limit=2&${filter}after=…>; rel="next"`;
    const names = ['limit=2', 'after=', filter.replace('&', '')];
    const isNext = names.every((name) => query?.includes(name));
    expect(pet.response, isNext, next, link);
  }

  const ids = wanted.map(({ id }) => id);
  const isWhole = ids.every((id) => found.includes(id)) && new Set(found).size === found.length;
  const sent = `the pages of ?limit=2&${filter}after=${first.id}`;
  expect(first.response, isWhole, `${ids.join(', ')}, each once`, `ids ${found.join(', ')}`, sent);
}

/**
 * Expects a repeated page to include a pet that was added to it, and a full page to stay unchanged,
 * whatever the server caches.
 */
async function expectGrowth(server: TestedServer, first: ReceivedPet): Promise<void> {
  const [one] = await server.list(`?limit=1&${after(first)}`);
  const lastOne = await server.add();
  for (let times = 0; times < 3; times++) await server.list(`?limit=2&${after(lastOne)}`);

  const next = await server.add();
  for (let times = 0; times < 3; times++) {
    const query = `?limit=2&${after(lastOne)}`;
    const grown = await server.request('GET', `/pets${query}`);
    const isThere = petsIn(grown).some(({ id }) => id === next.id);
    expect(grown, isThere, `the pet ${next.id}, which was added later`);
    const [again] = await server.list(`?limit=1&${after(first)}`);
    if (again !== undefined)
      expect(again.response, again.id === one?.id, `the pet ${one?.id}, as before`);
  }
}

/** Expects a filter to find each of the pets once and unchanged, if the list can reach it. */
async function expectFound(
  server: TestedServer,
  status: string,
  pets: readonly AddedPet[],
): Promise<void> {
  const { response, found, isWhole } = await server.search(pets, `status=${status}&`);
  for (const pet of pets) {
    const entries = found.filter(({ id }) => id === pet.id);
    const isThere = entries.length === 1 || (entries.length === 0 && !isWhole);
    if (!isThere) await server.expectKept(pet);
    const expected = `the added pet ${pet.id} of status ${status} once`;
    const causes = ['C30', 'S1', 'S2', 'C31'];
    const count = `${entries.length} times`;
    expect(response, isThere, expected, count, undefined, causes);
    for (const { members } of entries) {
      const difference = differenceFrom(pet, members);
      const unchanged = `the pet ${pet.id} as it was added`;
      expect(response, difference === undefined, unchanged, difference, undefined, causes);
    }
  }
}

/**
 * Expects success for a GET, and for a second GET on the same connection.
 *
 * @param mayEnd True if the server may refuse the first and end the connection (RFC 9110 §9.3.1).
 */
async function expectIgnored(server: TestedServer, request: string, mayEnd = false): Promise<void> {
  await server.withConnection(async (connection) => {
    connection.send(request);
    const first = await connection.finalResponse();
    if (mayEnd && first.status >= 400 && first.status < 500 && (await connection.ends())) return;
    expectSuccess(first);
    if (!isPersistent(first)) return;

    const next = server.requestBytes('GET', '/pets?limit=1');
    const second = await nextOnConnection(connection, next);
    expectSuccess(second, 'a GET after a GET with a body');
  });
}

/**
 * Returns the query parameter of a page after a pet. After the latest pet the page is empty, so it
 * then has only the pets that the check adds.
 */
const after = ({ id }: ReceivedPet): string => queryAfter(id);

export const listing: Chapter = {
  name: 'Listing',
  rules: [
    {
      number: 'C1',
      sentence: 'an invalid limit or status is 400, and the error does not repeat the value',
      sentenceBelowFull: 'a limit of 0 or over 100 gets an error, or at most 100 pets',
      cost: "a client's mistake looks like a valid result",
      sources: { specification: 'the specification, Limits' },
      specification: async (server) => {
        await server.fill(101);
        for (const limit of ['101', '0', '1000', '2147483648']) {
          const response = await server.request('GET', `/pets?limit=${limit}`);
          const count = isSuccess(response) ? petsIn(response).length : 0;
          expect(response, count <= 100, 'at most 100 pets, or 400', `${count} pets`);
        }
      },
      full: async (server) => {
        await refuseQueries(server, [
          ...wrongLimits.map((limit) => `limit=${limit}`),
          ...wrongStatuses.map((status) => `status=${status}`),
          'status',
        ]);
        await expectRefusal(server, 'status=%3Cscript%3Ealert', ['status', ...petStatuses]);
        await expectRefusal(server, 'limit=alert', ['limit', '1', '100']);
        await takeQueries(server, [
          ...['1', '20', '99', '100', '%35'].map((limit) => `limit=${limit}`),
          ...petStatuses.map((status) => `status=${status}`),
        ]);
      },
    },
    {
      number: 'C2',
      sentence: 'a limit is written in plain decimal digits; any other form is 400',
      cost: 'caches and logs keep one page under several names',
      full: (server) =>
        refuseQueries(
          server,
          oddIntegers.map((limit) => `limit=${limit}`),
        ),
    },
    {
      number: 'C3',
      sentence: 'a query parameter that is given twice is 400',
      cost: 'a gateway and the server may each use a different one of the two values',
      full: async (server) => {
        // C4 and C6 check a server that does not know `after`.
        const ignoresAfter = isSuccess(await server.request('GET', '/pets?after=x'));
        await refuseQueries(server, [
          'limit=5&limit=5',
          'limit=5&limit=6',
          'limit=5&x=1&limit=',
          'limit=5&limit',
          'status=sold&status=sold',
          'status=sold&status=pending',
          ...(ignoresAfter ? [] : ['after=1&after=1', 'after=1&after=2']),
        ]);
      },
    },
    {
      number: 'C4',
      sentence: 'an unknown query parameter is ignored',
      cost: 'a parameter that a proxy or a campaign adds turns the response into an error',
      full: async (server) => {
        await takeQueries(server, ['utm_source=x&limit=1', 'limit=1&page=2', 'x=1&x=2', 'x', '']);
        await takeQueries(server, ['Limit=0', 'LIMIT=999', 'limit%00=0', 'limit[]=0', '?limit=0']);
        await takeQueries(server, ['&', '&&=&=', '=', '__proto__=1', 'offset=-1']);
        if (await server.isGetPetGone()) return;

        const { id } = await server.add();
        expectSuccess(await server.request('GET', `/pets/${id}?limit=0&x`));
      },
    },
    {
      number: 'C5',
      sentence: 'a list is in ascending order of id',
      cost: 'a client that pages gets a pet twice, or misses one',
      hasStories: true,
      full: async (server) => {
        await server.add();
        for (const query of ['?limit=100', '?limit=100&status=sold']) {
          const pets = await server.list(query);
          const ids = pets.map(({ id }) => id);
          const isAscending = ids.every((id, at) => at === 0 || id > (ids[at - 1] ?? id));
          const [first] = pets;
          if (first !== undefined)
            expect(first.response, isAscending, 'ascending ids', `ids ${ids.join(', ')}`);
        }
      },
    },
    {
      number: 'C6',
      sentence: 'every page but the last has a Link to the next page',
      cost: 'a client takes the first page for the whole catalogue',
      hasStories: true,
      full: async (server) => {
        const first = await server.add();
        const added: AddedPet[] = [];
        for (const status of ['sold', 'pending', 'sold', 'sold'])
          added.push(await server.add({ status }));

        await expectPages(server, first, '', added);
        const sold = added.filter((pet) => isOf(pet, 'sold'));
        await expectPages(server, first, 'status=sold&', sold);

        await expectGrowth(server, first);
        const last = await server.request('GET', '/pets?after=9223372036854775806');
        expect(last, headerOf(last, 'Link') === undefined, 'no Link on the last page');

        const wrong = [...oddIntegers, '-1', '9223372036854775808', 'x', '1'.repeat(1000)];
        await refuseQueries(
          server,
          wrong.map((text) => `after=${text}`),
        );
        await takeQueries(server, ['after=0', 'after=%31']);
      },
    },
    {
      number: 'C7',
      sentence: 'a filter by status finds all pets with that status, and no others',
      cost: 'a shop offers pets that are sold',
      hasStories: true,
      sources: { specification: 'the specification, Endpoints, 1. List animals: status' },
      specification: async (server) => {
        for (const response of server.firstLists) {
          const isList = isSuccess(response) && Array.isArray(jsonOf(response));
          expect(response, isList, '200 and a list', undefined, undefined, ['S1', 'C8']);
        }
        const added: AddedPet[] = [];
        for (let round = 0; round < 8; round++)
          for (const status of petStatuses) added.push(await server.add({ status }));

        for (const status of petStatuses) {
          const response = await server.request('GET', `/pets?limit=100&status=${status}`);
          expectList(response);
          const list = jsonOf(response);
          const pets = Array.isArray(list) ? list : [];
          const expected = `only pets of status ${status}, at least one`;
          expect(response, pets.length > 0, expected, 'no pet', undefined, ['C30', 'S1', 'S2']);
          for (const pet of pets) {
            const isOther = !(pet instanceof Map) || pet.get('status') !== status;
            const came = `a pet of status ${pet instanceof Map ? pet.get('status') : 'nothing'}`;
            expect(response, !isOther, expected, came, undefined, ['C30', 'S1']);
          }
          await server.expectSameAtUrls(response, ['S1']);
          await expectFound(
            server,
            status,
            added.filter(({ draft }) => draft.status === status),
          );
        }
      },
      full: async (server) => {
        const first = await server.add({ status: 'sold' });
        const [bare, sold] = [await server.add(), await server.add({ status: 'sold' })];

        for (const status of petStatuses) {
          const response = await server.request('GET', `/pets?status=${status}&${after(first)}`);
          const found = await server.listAfter(first.id, `status=${status}&`);
          const hasBare = found.some(({ id }) => id === bare.id);
          expect(response, !hasBare, `no pet without a status, such as ${bare.id}`);
          const hasSold = found.some(({ id }) => id === sold.id);
          const expected = `the pet ${sold.id} only for status=sold`;
          expect(response, hasSold === (status === 'sold'), expected);
        }
      },
    },
    {
      number: 'C8',
      sentence: 'a list without matches is 200 with []',
      cost: 'a client must treat "no pets" and "not found" as the same result',
      full: async (server) => {
        for (const query of ['', '&status=pending', '&limit=1']) {
          const path = `/pets?after=9223372036854775807${query}`;
          const response = await server.request('GET', path);
          if (isSuccess(response)) await server.listAfter(2n ** 63n - 1n);
          expect(response, response.status === 200 && response.body === '[]', '200 []');
        }
      },
    },
    {
      number: 'C9',
      sentence: 'a GET with a body is served, and its body is not read as a request',
      cost: "bytes in one client's body are carried out as another client's request",
      sources: { http: 'RFC 9110 §9.3.1, RFC 9112 §6.3: the length of a request' },
      http: (server) => {
        const body = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
        return expectIgnored(server, server.requestBytes('GET', '/pets?limit=1', { body }), true);
      },
      full: async (server) => {
        for (const body of ['{"name":"x","categoryId":1}', 'not JSON', 'x'.repeat(20_000)])
          for (const header of ['X: y', 'Content-Type: text/plain', 'Content-Encoding: gzip']) {
            const parts = { headers: [header], body };
            await expectIgnored(server, server.requestBytes('GET', '/pets?limit=1', parts));
          }

        const headers = ['Transfer-Encoding: chunked'];
        const chunked = server.requestBytes('GET', '/pets?limit=1', { headers });
        for (const chunks of ['0\r\n\r\n', '3\r\nabc\r\n0\r\n\r\n'])
          await expectIgnored(server, `${chunked}${chunks}`);
      },
    },
  ],
};

/** Returns true if a pet has a status. */
function isOf(pet: ReceivedPet, status: string): boolean {
  return pet.members.get('status') === status;
}
