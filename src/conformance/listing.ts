/** Listing: C1 to C9 of docs/contract.md. */
import { petStatuses } from '../index.js';
import { expect, Untried } from './outcome.js';
import type { Chapter } from './rule.js';
import {
  animalsOf,
  expectSuccess,
  headerOf,
  isSuccess,
  jsonOf,
  memberText,
  untried,
  type Animal,
  type Server,
} from './server.js';

/** Expects 400 for each of these queries. */
async function refuseQueries(server: Server, queries: readonly string[]): Promise<void> {
  const answers = queries.map((query) => server.request('GET', `/pets?${query}`));
  await server.expectErrors(400, 'invalid_parameter', answers);
}

/** Expects 200 for each of these queries. */
async function takeQueries(server: Server, queries: readonly string[]): Promise<void> {
  for (const query of queries) {
    const answer = await server.request('GET', `/pets?${query}`);
    expectSuccess(answer);
  }
}

/** The target of `rel="next"`, behind the base path's place; undefined on a last page. */
function nextQueryOf({ answer }: Pick<Animal, 'answer'>): string | undefined {
  return /^<[^>]*\/pets(\?[^>]*)>; rel="next"$/.exec(headerOf(answer, 'Link') ?? '')?.[1];
}

/**
 * Follows the Links from an animal on, two animals a page, and expects to find each of these once,
 * of which there are more than two.
 */
async function expectPages(
  server: Server,
  first: Animal,
  filter: '' | 'status=sold&',
  wanted: readonly Animal[],
): Promise<void> {
  const found: bigint[] = [];
  let query: string | undefined = `?limit=2&${filter}${after(first)}`;

  for (let pages = 0; query !== undefined && pages < 3; pages++) {
    const page: readonly Animal[] = await server.list(query);
    const [animal] = page;
    if (animal === undefined || (filter !== '' && !page.every((each) => isOf(each, 'sold'))))
      untried('a filter that finds what was added', 'C7');

    found.push(...page.map(({ id }) => id));
    query = nextQueryOf(animal);
    if (pages > 0) continue;

    const link = headerOf(animal.answer, 'Link') ?? 'no Link';
    const expected = `Link: <…/pets?limit=2&${filter}after=…>; rel="next"`;
    const names = ['limit=2', 'after=', filter.replace('&', '')];
    const isNext = names.every((name) => query?.includes(name));
    expect(animal.answer, isNext, expected, link);
  }

  const ids = wanted.map(({ id }) => id);
  const isWhole = ids.every((id) => found.includes(id)) && new Set(found).size === found.length;
  const sent = `the pages of ?limit=2&${filter}after=${first.id}`;
  expect(first.answer, isWhole, `${ids.join(', ')}, each once`, `ids ${found.join(', ')}`, sent);
}

/**
 * Pages from an animal on. Behind an animal that was just added there is nothing yet, so what a
 * rule adds afterwards is all there is to find.
 */
const after = ({ id }: Animal): string => `after=${id < 0n ? untriedIds() : id}`;

function untriedIds(): never {
  throw new Untried('its ids are negative, which `after` cannot say');
}

export const listing: Chapter = {
  name: 'Listing',
  rules: [
    {
      number: 'C1',
      sentence: 'a limit or a status against its rule is 400, and its value is not echoed',
      cost: "a client's mistake looks like an answer",
      full: async (server) => {
        await refuseQueries(server, [
          ...['0', '-1', '101', '1000', 'abc', 'NaN', '99999999999999999999'].map(
            (limit) => `limit=${limit}`,
          ),
          ...['', 'Available', 'SOLD', 'sold%20', 'sold,pending', 'unknown'].map(
            (status) => `status=${status}`,
          ),
          'status',
        ]);

        const answer = await server.request('GET', '/pets?status=%3Cscript%3Ealert');
        const message = memberText({ members: membersOf(jsonOf(answer)) }, 'message');
        expect(answer, /\bstatus\b/.test(message), 'a message that names the parameter');
        expect(answer, !answer.body.includes('alert'), 'an error that does not echo the value');
        await takeQueries(server, [
          'limit=1',
          'limit=100',
          ...petStatuses.map((s) => `status=${s}`),
        ]);
      },
    },
    {
      number: 'C2',
      sentence: 'a limit is written in plain decimal digits, and only so',
      cost: 'two caches or logs keep one page under two names',
      full: (server) =>
        refuseQueries(
          server,
          ['05', '+5', '%2B5', '5.0', '1e1', '%205', '5%20', '', '-0', '5_0', '0x5'].map(
            (limit) => `limit=${limit}`,
          ),
        ),
    },
    {
      number: 'C3',
      sentence: 'a parameter that is given twice is 400',
      cost: 'a gateway and the server each take another of the two values',
      full: async (server) => {
        // A parameter that a server does not know is a matter of C4 and C6, given twice too.
        const ignoresAfter = isSuccess(await server.request('GET', '/pets?after=x'));
        await refuseQueries(server, [
          'limit=5&limit=5',
          'limit=5&limit=6',
          'limit=5&%6cimit=5',
          'status=sold&status=pending',
          ...(ignoresAfter ? [] : ['after=1&after=2']),
        ]);
      },
    },
    {
      number: 'C4',
      sentence: 'a query parameter that nobody knows is ignored',
      cost: "a proxy's or a campaign's parameter turns an answer into an error",
      full: (server) => takeQueries(server, ['utm_source=x&limit=1', 'limit=1&page=2', 'x', '&&']),
    },
    {
      number: 'C5',
      sentence: 'animals come by ascending id',
      cost: 'a client that pages meets an animal twice, or never',
      full: async (server) => {
        await server.add();
        for (const query of ['?limit=100', '?limit=100&status=sold']) {
          const animals = await server.list(query);
          const ids = animals.map(({ id }) => id);
          const isAscending = ids.every((id, at) => at === 0 || id > (ids[at - 1] ?? id));
          const [first] = animals;
          if (first !== undefined)
            expect(first.answer, isAscending, 'ascending ids', `ids ${ids.join(', ')}`);
        }
      },
    },
    {
      number: 'C6',
      sentence: 'a page before the last one has a Link to the next, which begins behind it',
      cost: 'a client sees the first page of a catalogue and takes it for all',
      full: async (server) => {
        const first = await server.add();
        const added: Animal[] = [];
        for (const status of ['sold', 'pending', 'sold', 'sold'])
          added.push(await server.add({ status }));

        await expectPages(server, first, '', added);
        const sold = added.filter((animal) => isOf(animal, 'sold'));
        await expectPages(server, first, 'status=sold&', sold);

        const last = await server.request('GET', '/pets?after=9223372036854775806');
        expect(last, headerOf(last, 'Link') === undefined, 'no Link on the last page');
        await refuseQueries(server, ['after=-1', 'after=9223372036854775808', 'after=', 'after=x']);
      },
    },
    {
      number: 'C7',
      sentence: 'the filter is exact: every animal of a status, and none without one',
      cost: 'a shop offers animals that are sold',
      specification: async (server) => {
        await Promise.all(petStatuses.map((status) => server.add({ status })));
        for (const status of petStatuses) {
          const answer = await server.request('GET', `/pets?limit=100&status=${status}`);
          expectSuccess(answer);

          const animals = animalsOf(answer);
          const expected = `animals of status ${status}, of which one was added`;
          expect(answer, animals.length > 0, expected, 'no animal');
          const other = animals.find((animal) => !isOf(animal, status));
          const came = `an animal of status ${other && memberText(other, 'status')}`;
          expect(answer, other === undefined, expected, came);
        }
      },
      full: async (server) => {
        const first = await server.add({ status: 'sold' });
        const [bare, sold] = [await server.add(), await server.add({ status: 'sold' })];

        for (const status of petStatuses) {
          const answer = await server.request('GET', `/pets?status=${status}&${after(first)}`);
          const found = await server.listBehind(first.id, `status=${status}&`);
          const hasBare = found.some(({ id }) => id === bare.id);
          expect(answer, !hasBare, `no animal without a status, such as ${bare.id}`);
          const hasSold = found.some(({ id }) => id === sold.id);
          const expected = `the animal ${sold.id} under its status sold alone`;
          expect(answer, hasSold === (status === 'sold'), expected);
        }
      },
    },
    {
      number: 'C8',
      sentence: 'where nothing matches, the list is 200 and []',
      cost: 'a client must tell "none" from "not found" in two ways',
      full: async (server) => {
        const answer = await server.request('GET', '/pets?after=9223372036854775807');
        if (isSuccess(answer)) await server.listBehind(2n ** 63n - 1n);
        expect(answer, answer.status === 200 && answer.body === '[]', '200 []');
      },
    },
    {
      number: 'C9',
      sentence: 'a GET with a body is answered as one without, and its body is no request',
      cost: 'what a client puts into a body is carried out as the next request of somebody',
      http: (server) =>
        server.withConnection(async (connection) => {
          const body = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
          const request = server.bytesOf('GET', '/pets?limit=1', { body });
          connection.send(request);
          const first = await connection.answer();
          expectSuccess(first);
          if (headerOf(first, 'Connection')?.toLowerCase() === 'close') return;

          connection.send(server.bytesOf('GET', '/pets?limit=1'));
          const second = await connection.answer();
          expectSuccess(second, 'a GET, behind one with a body');
        }),
    },
  ],
};

function isOf(animal: Animal, status: string): boolean {
  return animal.members.get('status') === status;
}

function membersOf(json: ReturnType<typeof jsonOf>): Animal['members'] {
  return json instanceof Map ? json : new Map();
}
