// Many animals and many servers: pages cost what they show, and no id comes late.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import pg from 'pg';
import { atEnd } from '../support/at-end.js';
import {
  petStatuses,
  type PetQuery,
  type PetStorage,
  type PetTexts,
  type TextPage,
} from '../../dist/index.js';
import { postgresStorage, type PostgresPool } from '../../dist/postgres/index.js';
import { newDatabase, query, withoutDatabase } from './database.js';
import { TcpProxy } from './proxy.js';

type PostgresClient = Awaited<ReturnType<PostgresPool['connect']>>;
type PostgresQuery = Parameters<PostgresClient['query']>[0];

const count = 200_000;

/** A pool that remembers what it was asked. */
function listening(pool: pg.Pool, asked: PostgresQuery[]): PostgresPool {
  const known = new Map<pg.PoolClient, PostgresClient>();
  const wrap = (client: pg.PoolClient): PostgresClient => ({
    query: (one) => {
      asked.push(one);
      return client.query(one);
    },
    release: (destroy) => client.release(destroy),
    on: () => undefined,
    removeListener: () => undefined,
  });
  return {
    connect: async () => {
      const client = await pool.connect();
      const wrapped = known.get(client) ?? wrap(client);
      known.set(client, wrapped);
      return wrapped;
    },
    end: () => pool.end(),
    on: (event, listener) => pool.on(event, listener),
    removeListener: (event, listener) => pool.removeListener(event, listener),
  };
}

/**
 * What a pool was asked: from when to when each statement was under way, and how many characters
 * its answer had.
 */
interface Answered {
  readonly from: number;
  readonly to: number;
  readonly length: number;
}

/** A pool that remembers its answers. */
function measuring(pool: pg.Pool, answers: Answered[]): PostgresPool {
  return {
    connect: async () => {
      const client = await pool.connect();
      return {
        query: async (one) => {
          const from = performance.now();
          const answer = await client.query(one);
          answers.push({ from, to: performance.now(), length: JSON.stringify(answer.rows).length });
          return answer;
        },
        release: (destroy) => client.release(destroy),
        on: () => undefined,
        removeListener: () => undefined,
      };
    },
    end: () => pool.end(),
    on: () => undefined,
    removeListener: () => undefined,
  };
}

/** The most of them that were under way at one moment. */
function mostAtOnce(answers: readonly Answered[]): number {
  const at = (moment: number): number =>
    answers.filter(({ from, to }) => from <= moment && moment < to).length;
  return Math.max(...answers.map(({ from }) => at(from)));
}

function textsIn({ texts }: PetStorage): PetTexts {
  assert.ok(texts !== undefined);
  return texts;
}

interface Plan {
  readonly 'Node Type': string;
  readonly 'Index Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly Plan[];
}

/**
 * The nodes of a plan from the top down, in words: what was done, by which index, how many rows
 * were looked at.
 */
function nodesOf(plan: Plan): readonly string[] {
  const looked = plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0);
  const name = `${plan['Node Type']}${plan['Index Name'] === undefined ? '' : ` ${plan['Index Name']}`}: ${looked}`;
  return [name, ...(plan.Plans ?? []).flatMap(nodesOf)];
}

describe('at scale', { skip: withoutDatabase() }, () => {
  test('C5, C7 among 200,000 animals a page is read by its index, whatever the planner believes of them', async (t) => {
    const url = await newDatabase();
    // The unkindest order: all of a status together, few of one, and at the far end.
    await query(
      url,
      `INSERT INTO petstore_pets SELECT id, status, convert_to('{"id":' || id || ',"name":"x","categoryId":1' || COALESCE(',"status":"' || status || '"', '') || '}', 'UTF8')
       FROM (SELECT id, CASE WHEN id <= 90000 THEN 'available' WHEN id <= 190000 THEN 'sold' WHEN id > 199990 THEN 'pending' END AS status
         FROM generate_series(1, ${count}) AS id) AS pets`,
    );
    const pool = new pg.Pool({ connectionString: url });
    atEnd(t, () => pool.end());
    const asked: PostgresQuery[] = [];
    const storage = await postgresStorage(listening(pool, asked));
    atEnd(t, () => storage.close());
    const pages: readonly (readonly [PetQuery, string, number])[] = [
      [{ limit: 20 }, 'petstore_pets_pkey', 1],
      [{ limit: 100, after: 150_000n }, 'petstore_pets_pkey', 150_001],
      [{ limit: 20, status: 'available' }, 'petstore_pets_available', 1],
      [{ limit: 20, status: 'sold' }, 'petstore_pets_sold', 90_001],
      [{ limit: 20, status: 'sold', after: 5n }, 'petstore_pets_sold', 90_001],
      [{ limit: 100, status: 'sold', after: 180_000n }, 'petstore_pets_sold', 180_001],
      [{ limit: 5, status: 'pending' }, 'petstore_pets_pending', 199_991],
    ];
    for (const facts of ['no statistics', 'statistics']) {
      if (facts === 'statistics') await pool.query('ANALYZE petstore_pets');
      for (const [page, index, first] of pages) {
        const { texts } = await textsIn(storage).list(page);
        assert.ok(texts[0]?.startsWith(`{"id":${first},`), texts[0]);
        const { text = '', values = [] } = asked.at(-1) ?? {};
        const { rows } = await pool.query(`EXPLAIN (ANALYZE, FORMAT JSON) ${text}`, values);
        const nodes = nodesOf(rows[0]['QUERY PLAN'][0].Plan);
        const rowsRead = page.limit + 1;
        const wanted = [`Limit: ${rowsRead}`, `Index Scan ${index}: ${rowsRead}`];
        assert.deepEqual(
          // What counts or joins the bytes of a page looks at no more rows than it is given.
          nodes.filter((node) => !/^(Aggregate|Result|WindowAgg|Subquery Scan)/.test(node)),
          wanted,
          `${text} with ${facts}`,
        );
      }
    }
    assert.equal(
      await textsIn(storage).get(123_456n),
      '{"id":123456,"name":"x","categoryId":1,"status":"sold"}',
    );
    const { text = '', values = [] } = asked.at(-1) ?? {};
    const { rows } = await pool.query(`EXPLAIN (ANALYZE, FORMAT JSON) ${text}`, values);
    assert.deepEqual(nodesOf(rows[0]['QUERY PLAN'][0].Plan), ['Index Scan petstore_pets_pkey: 1']);
  });

  test('the statements that are asked most are prepared, whatever pages were asked for before', async (t) => {
    const pool = new pg.Pool({ connectionString: await newDatabase() });
    atEnd(t, () => pool.end());
    const asked: PostgresQuery[] = [];
    const storage = await postgresStorage(listening(pool, asked));
    atEnd(t, () => storage.close());
    for (let limit = 1; limit <= 100; limit++) await storage.list({ limit });
    for (const limit of [20, 100]) {
      for (const status of [undefined, ...petStatuses]) {
        await storage.list({ limit, ...(status !== undefined && { status }) });
        assert.ok(asked.at(-1)?.name !== undefined, `${limit} ${status}`);
      }
    }
    await storage.insert({ name: 'Rex', categoryId: 1n });
    assert.ok(asked.at(-1)?.name !== undefined);
    await Promise.all([storage.get(1n), storage.get(2n)]);
    assert.ok(asked.at(-1)?.name !== undefined);
    const names = new Set(asked.map(({ name }) => name));
    assert.ok(names.size < 20, `${names.size} names`);
  });

  test('of long animals an answer has few bytes, and each connection has one under way, however many ask', async (t) => {
    const url = await newDatabase();
    await query(
      url,
      `INSERT INTO petstore_pets SELECT id, NULL, convert_to('{"id":' || id || ',"name":"' || repeat('x', 60000) || '","categoryId":1}', 'UTF8')
       FROM generate_series(1, 60) AS id`,
    );
    const pool = new pg.Pool({ connectionString: url });
    atEnd(t, () => pool.end());
    const answers: Answered[] = [];
    const storage = await postgresStorage(measuring(pool, answers));
    atEnd(t, () => storage.close());
    const { get, list } = textsIn(storage);
    const all = await Promise.all(
      Array.from({ length: 60 }, async (_, index) => get(BigInt(index + 1))),
    );
    assert.ok(all.every((text, index) => text?.startsWith(`{"id":${index + 1},`)));
    const longest = Math.max(...answers.map(({ length }) => length));
    assert.ok(longest < 2 ** 22, `an answer of ${longest} characters`);
    const pages = await Promise.all(
      Array.from({ length: 10 }, async (_, index) => list({ limit: 50, after: BigInt(index) })),
    );
    assert.deepEqual(
      pages.map(({ texts, next }) => [texts.length, next]),
      pages.map((_, index) => [50, BigInt(index + 50)]),
    );
    assert.ok(mostAtOnce(answers) <= 10, 'answers at once');
  });

  test('a page that comes slowly ends earlier, and whoever follows has all of it; a byte of a text is sent as one', async (t) => {
    const url = await newDatabase();
    await query(
      url,
      `INSERT INTO petstore_pets SELECT id, NULL, convert_to('{"id":' || id || ',"name":"' || repeat('é', 30000) || '","categoryId":1}', 'UTF8')
       FROM generate_series(1, 100) AS id`,
    );
    const { hostname, port } = new URL(url);
    const proxy = await TcpProxy.start(Number(port || 5432), hostname);
    atEnd(t, () => proxy.close());
    const storage = await postgresStorage(proxy.urlFor(url));
    atEnd(t, () => storage.close());
    // 6 MB of animals, which take longer than a statement may.
    proxy.bytesPerSecond = 1_500_000;
    const { list } = textsIn(storage);
    const texts: string[] = [];
    const before = proxy.bytesAnswered;
    let pages = 0;
    for (let after: bigint | undefined = 0n; after !== undefined; pages++) {
      const page: TextPage = await list({ limit: 100, after });
      texts.push(...page.texts);
      after = page.next;
    }
    assert.deepEqual(
      texts.map((text) => text.slice(0, text.indexOf(','))),
      texts.map((_, index) => `{"id":${index + 1}`),
    );
    assert.equal(texts.length, 100);
    assert.ok(pages > 1, 'a page of all of them would be late');
    const bytes = texts.join('').length;
    assert.ok(
      proxy.bytesAnswered - before < 1.1 * bytes,
      `${proxy.bytesAnswered - before} bytes came for ${bytes}`,
    );
  });

  test('C31 four servers add at once while a fifth pages: no id is missing, none comes behind a page that was read', async (t) => {
    const url = await newDatabase();
    const each = 1_500;
    const open = async (): Promise<PetStorage> => {
      const storage = await postgresStorage(url, { maxConnections: 3 });
      atEnd(t, () => storage.close());
      return storage;
    };
    const servers = await Promise.all([open(), open(), open(), open()]);
    const pager = await open();
    let isAdding = true;
    const paging = readOn(pager, () => isAdding);
    // It is heard of below, or by whoever reads why the adding failed.
    paging.catch(() => undefined);
    const answered = await Promise.all(
      servers.map((server, index) => addInTurns(server, `server ${index}`, each)),
    ).finally(() => (isAdding = false));
    const seen = await paging;
    const expected = Array.from({ length: servers.length * each }, (_, index) => BigInt(index + 1));
    const ids = answered.flat().map(({ id }) => id);
    assert.deepEqual(
      ids.sort((one, other) => Number(one - other)),
      expected,
      'each id is given once, and none is left out',
    );
    assert.deepEqual(seen.ids, expected, 'whoever pages on sees each, in order');
    assert.ok(seen.pages > 20, `only ${seen.pages} pages while it grew`);
    const rows = await query(
      url,
      'SELECT last_id, (SELECT count(*) FROM petstore_pets) AS pets FROM petstore_counters',
    );
    assert.deepEqual(rows, [{ last_id: String(expected.length), pets: String(expected.length) }]);
  });
});

/** Adds so many animals, some at once and some alone; answers them. */
async function addInTurns(
  storage: PetStorage,
  name: string,
  total: number,
): Promise<readonly { readonly id: bigint }[]> {
  const added: { readonly id: bigint }[] = [];
  for (let turn = 0; added.length < total; turn++) {
    const together = Math.min((turn % 7) ** 2 + 1, total - added.length);
    added.push(
      ...(await Promise.all(
        Array.from({ length: together }, () => storage.insert({ name, categoryId: 1n })),
      )),
    );
  }
  return added;
}

/**
 * Reads page behind page, from the last id seen, until nothing is added any more and nothing is
 * left.
 */
async function readOn(
  storage: PetStorage,
  isAdding: () => boolean,
): Promise<{ readonly ids: readonly bigint[]; readonly pages: number }> {
  const ids: bigint[] = [];
  for (let pages = 0; ; pages++) {
    const wasAdding = isAdding();
    const page = await storage.list({ limit: 50, after: ids.at(-1) ?? 0n });
    ids.push(...page.map(({ id }) => id));
    if (page.length === 0 && !wasAdding) return { ids, pages };
  }
}
