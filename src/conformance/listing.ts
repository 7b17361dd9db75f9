/** Listing: C1 to C9 of docs/contract.md. */
import { petStatuses } from '../index.js';
import { expect } from './outcome.js';
import type { Chapter } from './rule.js';
import {
  afterParameterOf,
  animalsOf,
  expectSuccess,
  headerOf,
  isSuccess,
  jsonOf,
  membersOf,
  memberText,
  untried,
  type Animal,
  type Server,
} from './server-under-test.js';

// biome-ignore format: short ones by the dozen, a line for each would hide the rules.
const wrongLimits = [
  '0', '-1', '101', '1000', 'abc', 'NaN', 'Infinity', '99999999999999999999', 'null', 'true', '5;',
  "5'--",
];
// biome-ignore format: as above.
const wrongStatuses = [
  '', 'Available', 'SOLD', 'sold%20', '%20sold', 'sold,pending', 'unknown', 'null', 'sold%00',
];
/** Integers that are not written in plain decimal digits, some in those of another script. */
// biome-ignore format: as above.
const oddIntegers = [
  '05', '00', '+5', '%2B5', '5.0', '1e1', '%205', '5%20', '5%0A', '', '-0', '5_0', '0x5',
  '%EF%BC%95', '%D9%A5',
];

/** Expects 400 for each of these queries. */
async function refuseQueries(server: Server, queries: readonly string[]): Promise<void> {
  const answers = queries.map((query) => server.request('GET', `/pets?${query}`));
  await server.expectErrors(400, 'invalid_parameter', answers);
}

/** Expects the message of an error to name these, and not to echo the value, `alert`. */
async function expectRefusal(
  server: Server,
  query: string,
  names: readonly string[],
): Promise<void> {
  const answer = await server.request('GET', `/pets?${query}`);
  const message = memberText({ members: membersOf(answer) }, 'message');
  const isNamed = names.every((name) => new RegExp(`\\b${name}\\b`).test(message));
  expect(answer, isNamed, `a message that names ${names.join(', ')}`);
  expect(answer, !answer.body.includes('alert'), 'an error that does not echo the value');
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
 * Expects a page that is asked for again and again, whoever keeps it, to show what is added to it,
 * and a full one to stay as it is.
 */
async function expectGrowth(server: Server, first: Animal): Promise<void> {
  const [one] = await server.list(`?limit=1&${after(first)}`);
  const lastOne = await server.add();
  for (let times = 0; times < 3; times++) await server.list(`?limit=2&${after(lastOne)}`);

  const next = await server.add();
  for (let times = 0; times < 3; times++) {
    const query = `?limit=2&${after(lastOne)}`;
    const grown = await server.request('GET', `/pets${query}`);
    const isThere = animalsOf(grown).some(({ id }) => id === next.id);
    expect(grown, isThere, `the animal ${next.id}, which was added to this page`);
    const [again] = await server.list(`?limit=1&${after(first)}`);
    if (again !== undefined)
      expect(again.answer, again.id === one?.id, `the animal ${one?.id}, as before`);
  }
}

/**
 * Expects a GET to be answered, and one behind it on its connection too.
 *
 * @param mayEnd Whether the server may refuse it and end the connection (RFC 9110 §9.3.1).
 */
async function expectIgnored(server: Server, request: string, mayEnd = false): Promise<void> {
  await server.withConnection(async (connection) => {
    connection.send(request);
    const first = await connection.answer();
    if (mayEnd && first.status >= 400 && first.status < 500 && (await connection.ends())) return;
    expectSuccess(first);
    if (headerOf(first, 'Connection')?.toLowerCase() === 'close') return;

    connection.send(server.bytesOf('GET', '/pets?limit=1'));
    expectSuccess(await connection.answer(), 'a GET, behind one with a body');
  });
}

/**
 * Pages from an animal on. Behind an animal that was just added there is nothing yet, so what a
 * rule adds afterwards is all there is to find.
 */
const after = ({ id }: Animal): string => afterParameterOf(id);

export const listing: Chapter = {
  name: 'Listing',
  rules: [
    {
      number: 'C1',
      sentence: 'a limit or a status against its rule is 400, and its value is not echoed',
      cost: "a client's mistake looks like an answer",
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
      sentence: 'a limit is written in plain decimal digits, and only so',
      cost: 'two caches or logs keep one page under two names',
      full: (server) =>
        refuseQueries(
          server,
          oddIntegers.map((limit) => `limit=${limit}`),
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
      sentence: 'a query parameter that nobody knows is ignored',
      cost: "a proxy's or a campaign's parameter turns an answer into an error",
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
      sentence: 'the filter is exact: every animal of a status, and none without one',
      cost: 'a shop offers animals that are sold',
      specification: async (server) => {
        for (const status of petStatuses) {
          const added = await server.add({ status });
          if (!isOf(added, status)) untried('an animal with the status that it was given', 'C30');

          const answer = await server.request('GET', `/pets?limit=100&status=${status}`);
          expectSuccess(answer);
          if (!Array.isArray(jsonOf(answer))) untried('a list', 'S1');

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
        for (const query of ['', '&status=pending', '&limit=1']) {
          const path = `/pets?after=9223372036854775807${query}`;
          const answer = await server.request('GET', path);
          if (isSuccess(answer)) await server.listBehind(2n ** 63n - 1n);
          expect(answer, answer.status === 200 && answer.body === '[]', '200 []');
        }
      },
    },
    {
      number: 'C9',
      sentence: 'a GET with a body is answered as one without, and its body is no request',
      cost: 'what a client puts into a body is carried out as the next request of somebody',
      http: (server) => {
        const body = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
        return expectIgnored(server, server.bytesOf('GET', '/pets?limit=1', { body }), true);
      },
      full: async (server) => {
        for (const body of ['{"name":"x","categoryId":1}', 'no JSON', 'x'.repeat(20_000)])
          for (const header of ['X: y', 'Content-Type: text/plain', 'Content-Encoding: gzip']) {
            const words = { headers: [header], body };
            await expectIgnored(server, server.bytesOf('GET', '/pets?limit=1', words));
          }

        const headers = ['Transfer-Encoding: chunked'];
        const chunked = server.bytesOf('GET', '/pets?limit=1', { headers });
        for (const chunks of ['0\r\n\r\n', '3\r\nabc\r\n0\r\n\r\n'])
          await expectIgnored(server, `${chunked}${chunks}`);
      },
    },
  ],
};

function isOf(animal: Animal, status: string): boolean {
  return animal.members.get('status') === status;
}
