// Many animals and many servers: pages cost what they show, and no id comes late.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type pg from 'pg';
import { petStatuses, type PetQuery, type PetStorage, type PetTexts } from '../../dist/index.js';
import { newDatabase, query, withoutDatabase } from './database.js';
import { assertInTurn, intercept, open, poolOf, proxied, rex, type Statement } from './scene.js';

const count = 200_000;

/** A database of so many animals, whose rest of the text and status are expressions of SQL. */
async function databaseOf(animals: number, rest: string, status = 'NULL'): Promise<string> {
  const url = await newDatabase();
  await query(
    url,
    `INSERT INTO petstore_pets SELECT id, status, convert_to('{"id":' || id || ${rest} || '}', 'UTF8')
     FROM (SELECT id, ${status} AS status FROM generate_series(1, ${animals}) AS id) AS pets`,
  );
  return url;
}

/** Long animals of a name of so many letters. */
const longAnimals = (animals: number, letter: string, letters: number): Promise<string> =>
  databaseOf(animals, `',"name":"' || repeat('${letter}', ${letters}) || '","categoryId":1'`);

/** What a pool is asked from now on. */
function askedOf(pool: pg.Pool): Statement[] {
  const asked: Statement[] = [];
  intercept(pool, (statement, send) => (asked.push(statement), send()));
  return asked;
}

function textsIn({ texts }: PetStorage): PetTexts {
  return texts ?? assert.fail('no texts');
}

/** The texts from page to page, and how many pages there were. */
async function textsOfPages(
  texts: PetTexts,
  limit: number,
): Promise<{ readonly texts: readonly string[]; readonly pages: number }> {
  const all: string[] = [];
  let pages = 0;
  for (let after: bigint | undefined = 0n; after !== undefined; pages++) {
    const page: Awaited<ReturnType<PetTexts['list']>> = await texts.list({ limit, after });
    all.push(...page.texts);
    after = page.next;
  }
  return { texts: all, pages };
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
    // The unkindest order: all of a status together, few of one, and at the far end.
    const url = await databaseOf(
      count,
      `',"name":"x","categoryId":1' || COALESCE(',"status":"' || status || '"', '')`,
      "CASE WHEN id <= 90000 THEN 'available' WHEN id <= 190000 THEN 'sold' WHEN id > 199990 THEN 'pending' END",
    );
    const pool = await poolOf(t, { url });
    const asked = askedOf(pool);
    const storage = await open(t, pool);
    /** What the database did for the last statement. */
    const nodesOfLast = async () => {
      const { text = '', values = [] } = asked.at(-1) ?? {};
      const { rows } = await pool.query(`EXPLAIN (ANALYZE, FORMAT JSON) ${text}`, values);
      return nodesOf(rows[0]['QUERY PLAN'][0].Plan);
    };
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
        const nodes = await nodesOfLast();
        const rowsRead = page.limit + 1;
        const wanted = [`Limit: ${rowsRead}`, `Index Scan ${index}: ${rowsRead}`];
        assert.deepEqual(
          // What counts or joins the bytes of a page looks at no more rows than it is given.
          nodes.filter((node) => !/^(Aggregate|Result|WindowAgg|Subquery Scan)/.test(node)),
          wanted,
          `${JSON.stringify(page.status)} with ${facts}`,
        );
      }
    }
    assert.equal(
      await textsIn(storage).get(123_456n),
      '{"id":123456,"name":"x","categoryId":1,"status":"sold"}',
    );
    assert.deepEqual(await nodesOfLast(), ['Index Scan petstore_pets_pkey: 1']);
  });

  test('the statements that are asked most are prepared, whatever pages were asked for before', async (t) => {
    const pool = await poolOf(t);
    const asked = askedOf(pool);
    const storage = await open(t, pool);
    const assertPrepared = (what: string) => assert.ok(asked.at(-1)?.name !== undefined, what);
    for (let limit = 1; limit <= 100; limit++) await storage.list({ limit });
    for (const limit of [20, 100]) {
      for (const status of [undefined, ...petStatuses]) {
        await storage.list({ limit, ...(status !== undefined && { status }) });
        assertPrepared(`${limit} ${status}`);
      }
    }
    await storage.insert(rex);
    assertPrepared('an insert');
    await Promise.all([storage.get(1n), storage.get(2n)]);
    assertPrepared('animals');
    const names = new Set(asked.map(({ name }) => name));
    assert.ok(names.size < 20, `${names.size} names`);
  });

  test('of long animals an answer has few bytes, and each connection has one under way, however many ask', async (t) => {
    const pool = await poolOf(t, { url: await longAnimals(60, 'x', 60_000) });
    let longest = 0;
    let [now, most] = [0, 0];
    intercept(pool, async (_statement, send) => {
      most = Math.max(most, ++now);
      // The storage tries whether it may add by what is refused.
      const answer = await send().finally(() => now--);
      longest = Math.max(longest, JSON.stringify(answer.rows).length);
      return answer;
    });
    const { get, list } = textsIn(await open(t, pool));
    const all = await Promise.all(
      Array.from({ length: 60 }, async (_, index) => get(BigInt(index + 1))),
    );
    assert.ok(all.every((text, index) => text?.startsWith(`{"id":${index + 1},`)));
    assert.ok(longest < 2 ** 22, `an answer of ${longest} characters`);
    const pages = await Promise.all(
      Array.from({ length: 10 }, async (_, index) => list({ limit: 50, after: BigInt(index) })),
    );
    assert.deepEqual(
      pages.map(({ texts, next }) => [texts.length, next]),
      pages.map((_, index) => [50, BigInt(index + 50)]),
    );
    assert.ok(most <= 10, `${most} answers at once`);
  });

  test('a page that comes slowly ends earlier, and whoever follows has all of it; a byte of a text is sent as one', async (t) => {
    const { far, proxy } = await proxied(t, await longAnimals(100, 'é', 30_000));
    const storage = await open(t, far);
    // 6 MB of animals, which take longer than a statement may.
    proxy.bytesPerSecond = 1_500_000;
    const before = proxy.bytesAnswered;
    const { texts, pages } = await textsOfPages(textsIn(storage), 100);
    assertInTurn(
      texts.map((text) => Number(/^\{"id":(\d+),/.exec(text)?.[1])),
      100,
    );
    assert.ok(pages > 1, 'a page of all of them would be late');
    const came = proxy.bytesAnswered - before;
    const bytes = texts.join('').length;
    assert.ok(came < 1.1 * bytes, `${came} bytes came for ${bytes}`);
  });

  test('C31 four servers add at once while a fifth pages: no id is missing, none comes behind a page that was read', async (t) => {
    const url = await newDatabase();
    const each = 1_500;
    const [pager, ...servers] = await Promise.all(
      Array.from({ length: 5 }, () => open(t, url, { maxConnections: 3 })),
    );
    assert.ok(pager !== undefined);
    let isAdding = true;
    const paging = readOn(pager, () => isAdding);
    // It is heard of below, or by whoever reads why the adding failed.
    paging.catch(() => undefined);
    const answered = await Promise.all(
      servers.map((server, index) => addInTurns(server, `server ${index}`, each)),
    ).finally(() => (isAdding = false));
    const seen = await paging;
    const total = servers.length * each;
    const ids = answered.flat().map(({ id }) => Number(id));
    assertInTurn(
      ids.sort((one, other) => one - other),
      total,
    );
    assertInTurn(seen.ids, total);
    assert.ok(seen.pages > 20, `only ${seen.pages} pages while it grew`);
    const rows = await query(
      url,
      'SELECT last_id, (SELECT count(*) FROM petstore_pets) AS pets FROM petstore_counters',
    );
    assert.deepEqual(rows, [{ last_id: String(total), pets: String(total) }]);
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
