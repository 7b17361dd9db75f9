// The PostgreSQL storage: the contract of every storage, and what is its own; with many animals and
// many servers: pages cost what they show, and no id comes late.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { testInsertOnce, testRecords, testStorage } from '../../dist/conformance/index.js';
import {
  type PetQuery,
  petStatuses,
  type PetStorage,
  type PetTexts,
  toByteString,
} from '../../dist/index.js';
import { migratePostgres, postgresStorage } from '../../dist/postgres/index.js';
import { insertOnce, onceOf } from '../storage/once.js';
import { notes, notesIn } from '../storage/records.js';
import { newDatabase, ownUrl, query, withoutDatabase, withoutServer } from './database.js';
import {
  answerTo,
  askedOf,
  assertInTurn,
  expectAdded,
  expectStored,
  expectUnready,
  idIn,
  idsOf,
  intercept,
  namesOf,
  open,
  openLogged,
  openNew,
  pagesOf,
  poolOf,
  proxied,
  rex,
  rowsIn,
  unavailable,
} from './scene.js';
import { until } from '../support/waiting.js';

const lastId = 2n ** 63n - 1n;

describe('PostgreSQL', { skip: withoutDatabase() }, () => {
  const onNewDatabase = { open: async () => postgresStorage(await newDatabase()) };
  testStorage(onNewDatabase);
  testInsertOnce(onNewDatabase);
  testRecords(onNewDatabase);

  test('C73 counts the 24 hours of a key by the clock of the database, not by its own', async (t) => {
    const { url, storage } = await openNew(t);
    const clockOf = ({ keyClock }: PetStorage) => keyClock?.() ?? assert.fail('it has no clock');
    assert.ok(Math.abs(clockOf(storage) - Date.now()) < 60_000);
    assert.ok(Number.isInteger(clockOf(storage)));

    const pool = await poolOf(t, { url });
    intercept(pool, async (_statement, send) => {
      const answer = await send();
      return { ...answer, rows: answer.rows.map((row) => (row['now'] ? { now: '5000' } : row)) };
    });
    const late = clockOf(await open(t, pool));
    assert.ok(late >= 5_000 && late < 65_000, `${late}`);
  });

  test('its rows are the very bytes that are served, their ids and statuses beside them', async (t) => {
    const { url, sql, storage } = await openNew(t);
    await storage.insert({ name: 'Tüm\u0000"', categoryId: lastId, status: 'sold' });
    await storage.insert({ name: '', categoryId: -(2n ** 63n) });
    const first =
      '{"id":1,"name":"Tüm\\u0000\\"","categoryId":9223372036854775807,"status":"sold"}';
    const second = '{"id":2,"name":"","categoryId":-9223372036854775808}';
    assert.deepEqual(await rowsIn(url), [
      { id: 1, json: first },
      { id: 2, json: second },
    ]);
    assert.equal(await sql('SELECT status FROM petstore_pets ORDER BY id'), 'sold\n');
  });

  test('it is ready at the second question though a connection from before stays read-only', async (t) => {
    const pool = await poolOf(t, { max: 1 });
    const storage = await open(t, pool);
    await pool.query('SET default_transaction_read_only = on');
    await expectUnready(storage);
    await storage.ready?.();
    await expectAdded(storage, 1n);
  });

  test('C31 the last id is given, and then no other', async (t) => {
    const { sql, storage } = await openNew(t);
    await sql(`UPDATE petstore_counters SET last_id = ${lastId - 2n}`);
    await storage.ready?.();
    await expectAdded(storage, lastId - 1n);
    for (const { status } of await Promise.allSettled([storage.insert(rex), storage.insert(rex)]))
      assert.equal(status, 'rejected', 'not one of a batch that is too large');
    await expectAdded(storage, lastId);
    await assert.rejects(storage.insert(rex), {
      ...unavailable,
      message: 'There are no ids left.',
    });
    await expectUnready(storage);
    assert.deepEqual(await storage.list({ limit: 5, after: lastId - 1n }), [
      { id: lastId, ...rex },
    ]);
    // Nothing can be there, and nobody is asked for it.
    const nowhere = [
      () => storage.get(lastId + 1n),
      () => storage.list({ limit: 1, after: lastId + 1n }),
    ];
    assert.deepEqual(await Promise.all(nowhere.map((read) => read())), [undefined, []]);
    await storage.close();
    for (const read of nowhere) await assert.rejects(read, unavailable, 'once closed not either');
  });

  test('what one turn asks for goes in one statement, and each gets its own', async (t) => {
    const pool = await poolOf(t, { max: 1 });
    const asked = askedOf(pool);
    const storage = await open(t, pool);
    const names = Array.from({ length: 600 }, (_, index) => `n${index + 1}`);
    asked.length = 0;
    await Promise.all(names.map((name) => storage.insert({ ...rex, name })));
    assert.equal(asked.length, 1);
    const pets = Array.from({ length: 602 }, (_, index) => storage.get(BigInt(index)));
    assert.deepEqual(
      (await Promise.all(pets)).map((pet) => pet?.name),
      [undefined, ...names, undefined],
    );
    const pages = [{ limit: 2 }, { limit: 2 }, { limit: 2, after: 2n }].map(storage.list);
    assert.deepEqual(
      (await Promise.all(pages)).map((page) => page.map(({ id }) => id)),
      [
        [1n, 2n],
        [1n, 2n],
        [3n, 4n],
      ],
    );
    assert.ok(asked.length < 20, `${asked.length} statements`);
  });

  test('it says what it commits, and a watcher that throws does no harm', async (t) => {
    const { storage, logged } = await openNew(t);
    const counts: number[] = [];
    storage.onCommit?.(() => {
      throw new Error('not with me');
    });
    storage.onCommit?.(({ count, syncMilliseconds }) =>
      counts.push(syncMilliseconds > 0 ? count : -1),
    );
    const inserts = Promise.all([storage.insert(rex), storage.insert(rex)]);
    assert.equal(storage.waiting, 2);
    await inserts;
    for (let repeat = 0; repeat < 2; repeat++) await insertOnce(storage, rex, onceOf('a'));
    assert.deepEqual(counts, [2, 1], 'a repeat adds nothing');
    assert.equal(storage.durable, true);
    assert.deepEqual(logged, Array(2).fill('error a watcher of commits failed'));
  });

  test('records whose id stands elsewhere too are refused, for only the database knows it; two servers share the others', async (t) => {
    const { url, storage: one } = await openNew(t);
    const other = await open(t, url);
    const twice = one.records?.('twice', {
      ...notes,
      json: (id) => toByteString(`{"id":${id},"self":"/notes/${id}"}`),
    });
    await assert.rejects(async () => twice?.insert('a'), {
      name: 'TypeError',
      message: /only as its first member/,
    });
    const [first, second] = [notesIn(one), notesIn(other)];
    await Promise.all([first.insert('a'), second.insert('b'), first.insert('c')]);
    const listed = await first.list({ limit: 9 });
    assert.deepEqual(await second.list({ limit: 9 }), listed);
    assert.equal(listed.texts.length, 3);
  });

  for (const code of ['26000', '42P05']) {
    test(`a proxy that shares connections and knows no prepared statement (${code}) is asked without`, async (t) => {
      const pool = await poolOf(t);
      let unprepared = 0;
      let isOpen = false;
      intercept(pool, async ({ name }, send) => {
        if (name === undefined || !isOpen) return send();
        unprepared++;
        // Several hear of it at the same time.
        await until('another', () => unprepared > 1);
        throw Object.assign(new Error('as PgBouncer says it'), { code, severity: 'ERROR' });
      });
      const storage = await open(t, pool);
      isOpen = true;
      await Promise.all([
        storage.insert(rex),
        storage.list({ limit: 9, after: 1n }),
        storage.get(9n),
        storage.ready?.(),
      ]);
      const heard = unprepared;
      await expectAdded(storage, 2n, 3n);
      assert.equal((await storage.list({ limit: 9 })).length, 3);
      assert.equal(unprepared, heard, 'from then on none is prepared');
    });
  }

  test('no statement lasts longer than it is waited for, whatever limit a role or database has set', async (t) => {
    const url = await newDatabase();
    for (const theirs of ['0', '1s', '60s', '7d']) {
      const pool = await poolOf(t, { url, max: 1 });
      await pool.query(`SET statement_timeout = '${theirs}'`);
      await open(t, pool);
      assert.deepEqual((await pool.query('SHOW statement_timeout')).rows, [
        { statement_timeout: '3s' },
      ]);
    }
  });

  test('the log says what each address of a host said, where none answers', async (t) => {
    const pool = await poolOf(t);
    const logged: unknown[] = [];
    const storage = await open(t, pool, { log: (...line) => logged.push(line) });
    // As Node throws it.
    const refusals = ['refused by ::1', 'refused by 127.0.0.1'].map((words) => new Error(words));
    pool.connect = () => Promise.reject(new AggregateError(refusals));
    await assert.rejects(storage.get(1n), unavailable);
    assert.deepEqual(logged, [
      ['error', 'the database cannot be read', { error: 'refused by ::1, refused by 127.0.0.1' }],
    ]);
  });

  test('a pool that would not come back after a silence is taken, and the log warns of it', async (t) => {
    const url = await newDatabase();
    for (const [connectionTimeoutMillis, lines] of [
      [0, 1],
      [30_000, 0],
    ] as const) {
      const { logged } = await openLogged(t, await poolOf(t, { url, connectionTimeoutMillis }));
      assert.equal(logged.filter((line) => line.includes('connectionTimeoutMillis')).length, lines);
    }
  });
});

describe('in databases of other encodings', { skip: withoutServer() }, () => {
  for (const encoding of ['LATIN1', 'SQL_ASCII', 'EUC_JP']) {
    test(`C25 any text is kept exactly where the database has ${encoding}`, async (t) => {
      const name = encoding.toLowerCase();
      const own = await ownUrl();
      await query(own, `CREATE DATABASE ${name} ENCODING '${encoding}' TEMPLATE template0`);
      // Settings that change how bytes are written, and how much of a commit is waited for.
      for (const setting of [
        'bytea_output = escape',
        'standard_conforming_strings = off',
        'synchronous_commit = off',
        "client_encoding = 'SQL_ASCII'",
      ])
        await query(own, `ALTER DATABASE ${name} SET ${setting}`);
      const url = new URL(`/${name}`, own).href;
      await migratePostgres(url);
      const storage = await open(t, url);
      const names = ['\u0000', '\\', "'", 'Tüm', '猫', '🐈', '\uFEFF\uFFFF'];
      for (const name of names) await storage.insert({ name, categoryId: -1n, status: 'sold' });
      assert.deepEqual(await namesOf(storage), names);
    });
  }
});

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
const longAnimals = (animals: number, letter: string, letters: number) =>
  databaseOf(animals, `',"name":"' || repeat('${letter}', ${letters}) || '","categoryId":1'`);

function textsIn({ texts }: PetStorage): PetTexts {
  return texts ?? assert.fail('no texts');
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
    /** What the database did for the last statement: the nodes of its plan, and rows for nothing. */
    const nodesOfLast = async () => {
      const { text = '', values = [] } = asked.at(-1) ?? {};
      const { rows } = await pool.query(
        `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ${text}`,
        values,
      );
      const lines = rows.map((row) => row['QUERY PLAN'].replace(/^[ >-]+/, '').replace('.00', ''));
      return lines.filter((line) => /actual rows|Rows Removed/.test(line));
    };
    const scan = (index: string, count: number) =>
      `Index Scan using ${index} on petstore_pets (actual rows=${count} loops=1)`;
    const pages: readonly (readonly [PetQuery, string, number])[] = [
      [{ limit: 20 }, 'petstore_pets_pkey', 1],
      [{ limit: 100, after: 150_000n }, 'petstore_pets_pkey', 150_001],
      [{ limit: 20, status: 'available' }, 'petstore_pets_available', 1],
      [{ limit: 20, status: 'sold' }, 'petstore_pets_sold', 90_001],
      [{ limit: 20, status: 'sold', after: 5n }, 'petstore_pets_sold', 90_001],
      [{ limit: 100, status: 'sold', after: 180_000n }, 'petstore_pets_sold', 180_001],
      [{ limit: 5, status: 'pending' }, 'petstore_pets_pending', 199_991],
    ];
    for (const facts of ['SELECT', 'ANALYZE petstore_pets']) {
      await pool.query(facts);
      for (const [page, index, first] of pages) {
        const { texts } = await textsIn(storage).list(page);
        assert.ok(texts[0]?.startsWith(`{"id":${first},`), texts[0]);
        const nodes = await nodesOfLast();
        const rowsRead = page.limit + 1;
        const wanted = [`Limit (actual rows=${rowsRead} loops=1)`, scan(index, rowsRead)];
        assert.deepEqual(
          // What counts or joins the bytes of a page looks at no more rows than it is given.
          nodes.filter((node) => !/^(Aggregate|Result|WindowAgg|Subquery Scan)/.test(node)),
          wanted,
          `${page.status} behind ${facts}`,
        );
      }
    }
    assert.equal(
      await textsIn(storage).get(123_456n),
      '{"id":123456,"name":"x","categoryId":1,"status":"sold"}',
    );
    assert.deepEqual(await nodesOfLast(), [scan('petstore_pets_pkey', 1)]);
  });

  test('the statements that are asked most are prepared, whatever pages were asked for before', async (t) => {
    const pool = await poolOf(t);
    const asked = askedOf(pool);
    const storage = await open(t, pool);
    const assertPrepared = (what: string) => assert.ok(asked.at(-1)?.name, what);
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
    assertInTurn(all.map(idIn), 60);
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

  test('C6 ends a page so that its body has at most 8 MiB, or one pet', async (t) => {
    const { storage } = await openNew(t);
    const mebibytes = [3, 3, 3, 7, 7, 15, 1, 15, 15, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    for (const size of mebibytes)
      await storage.insert({ name: 'x'.repeat(size * 2 ** 20), categoryId: 1n });

    const pages: (readonly string[])[] = [];
    for await (const page of pagesOf(storage, { limit: 100 })) pages.push(page);
    assertInTurn(pages.flat().map(idIn), mebibytes.length);
    for (const page of pages) {
      const body = `[${page.join(',')}]`;
      assert.ok(page.length === 1 || body.length <= 2 ** 23, `${page.length}: ${body.length}`);
    }
    // A page that took a second ends earlier.
    assert.ok(Math.max(...pages.map(({ length }) => length)) > 1);
  });

  test('a page that comes slowly ends earlier, and whoever follows has all of it; a byte of a text is sent as one', async (t) => {
    const { far, proxy } = await proxied(t, await longAnimals(100, 'é', 30_000));
    const storage = await open(t, far);
    // 6 MB of animals, which take longer than a statement may.
    proxy.bytesPerSecond = 1_500_000;
    const before = proxy.bytesAnswered;
    const pages: (readonly string[])[] = [];
    for await (const page of pagesOf(storage, { limit: 100 })) pages.push(page);
    assertInTurn(pages.flat().map(idIn), 100);
    assert.ok(pages.length > 1, 'a page of all of them would be late');
    const came = proxy.bytesAnswered - before;
    const bytes = pages.flat().join('').length;
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
    const answered = await Promise.all(servers.map((server) => addInTurns(server, each))).finally(
      () => (isAdding = false),
    );
    const seen = await paging;
    const total = servers.length * each;
    assertInTurn(
      answered.flat().sort((one, other) => Number(one - other)),
      total,
    );
    assertInTurn(seen.flat(), total);
    assert.ok(seen.length > 20, `only ${seen.length} pages while it grew`);
    await expectStored(url, total);
    assert.equal(await answerTo(url, 'SELECT last_id FROM petstore_counters'), `${total}`);
  });
});

/** Adds so many animals, some at once and some alone; answers their ids. */
async function addInTurns(storage: PetStorage, total: number): Promise<readonly bigint[]> {
  const added: bigint[] = [];
  for (let turn = 0; added.length < total; turn++) {
    const together = Math.min((turn % 7) ** 2 + 1, total - added.length);
    const pets = Array.from({ length: together }, () => storage.insert(rex));
    added.push(...(await Promise.all(pets)).map(({ id }) => id));
  }
  return added;
}

/**
 * The ids of page behind page, from the last id seen, until nothing is added any more and nothing is
 * left.
 */
async function readOn(storage: PetStorage, isAdding: () => boolean) {
  const pages: (readonly number[])[] = [];
  for (;;) {
    const wasAdding = isAdding();
    const page = await idsOf(storage, BigInt(pages.at(-1)?.at(-1) ?? 0));
    if (page.length > 0) pages.push(page);
    else if (!wasAdding) return pages;
  }
}
