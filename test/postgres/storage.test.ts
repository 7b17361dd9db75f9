// The PostgreSQL storage: the suites of every storage, sessions, encodings, and many pets.
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
import {
  newDatabase,
  ownUrl,
  query,
  withOptions,
  withoutDatabase,
  withoutServer,
} from './database.js';
import {
  linesOf,
  statementsOf,
  assertConsecutive,
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

  test('C73 counts the 24 hours of a key by the clock of the database', async (t) => {
    const { url, storage } = await openNew(t);
    const clockOf = ({ keyClock }: PetStorage) => keyClock?.() ?? assert.fail('it has no clock');
    assert.ok(Math.abs(clockOf(storage) - Date.now()) < 60_000);
    assert.ok(Number.isInteger(clockOf(storage)));

    const pool = await poolOf(t, { url });
    intercept(pool, async (_statement, send) => {
      const response = await send();
      return {
        ...response,
        rows: response.rows.map((row) => (row['now'] ? { now: '5000' } : row)),
      };
    });
    const late = clockOf(await open(t, pool));
    assert.ok(late >= 5_000 && late < 65_000, `${late}`);
  });

  test('stores each pet as the bytes that it serves, with id and status in columns', async (t) => {
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

  test('is ready at the second check if an old connection stays read-only', async (t) => {
    const pool = await poolOf(t, { max: 1 });
    const storage = await open(t, pool);
    await pool.query('SET default_transaction_read_only = on');
    await expectUnready(storage);
    await storage.ready?.();
    await expectAdded(storage, 1n);
  });

  test('sets up each session so that settings of its role cannot change an add', async (t) => {
    const url = withOptions(
      await newDatabase(),
      '-cdefault_transaction_isolation=serializable -csynchronous_commit=off -clock_timeout=1',
    );
    const pool = await poolOf(t, { url, max: 1 });
    await expectAdded(await open(t, pool), 1n);
    for (const [name, value] of [
      ['default_transaction_isolation', 'read committed'],
      ['synchronous_commit', 'on'],
      ['lock_timeout', '0'],
      ['enable_seqscan', 'off'],
      ['jit', 'off'],
      ['client_min_messages', 'warning'],
    ] as const) {
      const { rows } = await pool.query(`SHOW ${name}`);
      assert.deepEqual(rows, [{ [name]: value }]);
    }
  });

  test('C31 assigns the last id, and refuses adds afterwards', async (t) => {
    const { sql, storage } = await openNew(t);
    await sql(`UPDATE petstore_counters SET last_id = ${lastId - 3n}`);
    await storage.ready?.();
    await expectAdded(storage, lastId - 2n);
    const several = Array.from({ length: 5 }, () => storage.insert(rex).catch(({ code }) => code));
    assert.deepEqual(
      await Promise.all(several),
      [{ id: lastId - 1n, ...rex }, { id: lastId, ...rex }, ...Array(3).fill(unavailable.code)],
      'the first pets of a batch get the ids that are left',
    );
    await expectUnready(storage);
    await assert.rejects(storage.insert(rex), {
      ...unavailable,
      message: 'There are no ids left.',
    });
    await expectUnready(storage);
    assert.deepEqual(await storage.list({ limit: 5, after: lastId - 1n }), [
      { id: lastId, ...rex },
    ]);
    // No statement is sent for ids that no pet can have.
    const nowhere = [
      () => storage.get(lastId + 1n),
      () => storage.list({ limit: 1, after: lastId + 1n }),
    ];
    assert.deepEqual(await Promise.all(nowhere.map((read) => read())), [undefined, []]);
    await storage.close();
    for (const read of nowhere)
      await assert.rejects(read, unavailable, 'a closed storage refuses them');
  });

  test('batches the adds and the reads of one tick', async (t) => {
    const pool = await poolOf(t, { max: 1 });
    const statements = statementsOf(pool);
    const storage = await open(t, pool);
    const names = Array.from({ length: 600 }, (_, index) => `n${index + 1}`);
    statements.length = 0;
    await Promise.all(names.map((name) => storage.insert({ ...rex, name })));
    assert.equal(statements.length, 1);
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
    assert.ok(statements.length < 20, `${statements.length} statements`);
  });

  test('reports each commit, and logs a watcher that throws', async (t) => {
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

  test('shares records of a plugin between servers, and rejects JSON with a second id', async (t) => {
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
    test(`stops preparing statements after ${code} from a pooler`, async (t) => {
      const pool = await poolOf(t);
      let unprepared = 0;
      let isOpen = false;
      intercept(pool, async ({ name }, send) => {
        if (name === undefined || !isOpen) return send();
        unprepared++;
        // Two statements fail at the same time.
        await until('a second statement', () => unprepared > 1);
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
      assert.equal(unprepared, heard, 'no later statement is prepared');
    });
  }

  test('sets its own statement_timeout, whatever a role or a database has set', async (t) => {
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

  test('gives a batch of one long pet more time, and no other batch', async (t) => {
    const { sql, storage } = await openNew(t);
    await sql(`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.status = current_setting('statement_timeout'); RETURN NEW; END $$;
      CREATE TRIGGER noting BEFORE INSERT ON petstore_pets FOR EACH ROW EXECUTE FUNCTION note()`);
    const long = { ...rex, name: 'x'.repeat(70_000) };
    for (const batch of [[long, long], [long], [rex]])
      await Promise.all(batch.map((pet) => storage.insert(pet)));
    const timeouts = await sql('SELECT status FROM petstore_pets ORDER BY id');
    assert.deepEqual(timeouts.split('\n'), ['3s', '3s', '13s', '3s']);
  });

  test('logs the error of each address if no address of a host accepts', async (t) => {
    const pool = await poolOf(t);
    const logged: unknown[] = [];
    const storage = await open(t, pool, { log: (...line) => logged.push(line) });
    // The form that Node throws.
    const refusals = ['refused by ::1', 'refused by 127.0.0.1'].map((words) => new Error(words));
    pool.connect = () => Promise.reject(new AggregateError(refusals));
    await assert.rejects(storage.get(1n), unavailable);
    assert.deepEqual(logged, [
      ['error', 'the database cannot be read', { error: 'refused by ::1, refused by 127.0.0.1' }],
    ]);
  });

  test('accepts a pool without connectionTimeoutMillis, and logs a warning', async (t) => {
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

describe('PostgreSQL in databases of other encodings', { skip: withoutServer() }, () => {
  for (const encoding of ['LATIN1', 'SQL_ASCII', 'EUC_JP']) {
    test(`C25 keeps any text exactly in a database of encoding ${encoding}`, async (t) => {
      const name = encoding.toLowerCase();
      const own = await ownUrl();
      await query(own, `CREATE DATABASE ${name} ENCODING '${encoding}' TEMPLATE template0`);
      // Settings that change the text form of bytes, and how long a commit waits.
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

const manyPets = 200_000;

/**
 * Returns a new database with many pets. `rest` and `status` are SQL expressions for the JSON after
 * the id and for the status.
 */
async function databaseOf(count: number, rest: string, status = 'NULL'): Promise<string> {
  const url = await newDatabase();
  await query(
    url,
    `INSERT INTO petstore_pets SELECT id, status, convert_to('{"id":' || id || ${rest} || '}', 'UTF8')
     FROM (SELECT id, ${status} AS status FROM generate_series(1, ${count}) AS id) AS pets`,
  );
  return url;
}

/** Returns a new database with pets whose names are long. */
const longPets = (count: number, letter: string, letters: number) =>
  databaseOf(count, `',"name":"' || repeat('${letter}', ${letters}) || '","categoryId":1'`);

function textsIn({ texts }: PetStorage): PetTexts {
  return texts ?? assert.fail('no texts');
}

describe('PostgreSQL with many pets', { skip: withoutDatabase() }, () => {
  test('C5 C7 reads a page of 200,000 pets by an index, before and after ANALYZE', async (t) => {
    // The worst order: each status in one block, and a rare status at the end.
    const url = await databaseOf(
      manyPets,
      `',"name":"x","categoryId":1' || COALESCE(',"status":"' || status || '"', '')`,
      "CASE WHEN id <= 90000 THEN 'available' WHEN id <= 190000 THEN 'sold' WHEN id > 199990 THEN 'pending' END",
    );
    const pool = await poolOf(t, { url });
    const statements = statementsOf(pool);
    const storage = await open(t, pool);
    /** Returns the plan nodes of the last statement, with the rows that they removed. */
    const nodesOfLast = async () => {
      const { text = '', values = [] } = statements.at(-1) ?? {};
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
          // These nodes read no more rows than the nodes below them.
          nodes.filter((node) => !/^(Aggregate|Result|WindowAgg|Subquery Scan)/.test(node)),
          wanted,
          `${page.status} after ${facts}`,
        );
      }
    }
    assert.equal(
      await textsIn(storage).get(123_456n),
      '{"id":123456,"name":"x","categoryId":1,"status":"sold"}',
    );
    assert.deepEqual(await nodesOfLast(), [scan('petstore_pets_pkey', 1)]);
  });

  test('prepares only frequent statements, whatever pages were read before', async (t) => {
    const pool = await poolOf(t);
    const statements = statementsOf(pool);
    const storage = await open(t, pool);
    const assertPrepared = (what: string) => assert.ok(statements.at(-1)?.name, what);
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
    assertPrepared('pets');
    const names = new Set(statements.map(({ name }) => name));
    assert.ok(names.size < 20, `${names.size} names`);
  });

  test('bounds the bytes of long pets in one result, and the results in flight', async (t) => {
    const pool = await poolOf(t, { url: await longPets(60, 'x', 60_000) });
    let longest = 0;
    let [now, most] = [0, 0];
    intercept(pool, async (_statement, send) => {
      most = Math.max(most, ++now);
      // The rehearsal of the storage is rejected on purpose.
      const response = await send().finally(() => now--);
      longest = Math.max(longest, JSON.stringify(response.rows).length);
      return response;
    });
    const { get, list } = textsIn(await open(t, pool));
    const all = await Promise.all(
      Array.from({ length: 60 }, async (_, index) => get(BigInt(index + 1))),
    );
    assertConsecutive(all.map(idIn), 60);
    assert.ok(longest < 2 ** 22, `a result of ${longest} characters`);
    const pages = await Promise.all(
      Array.from({ length: 10 }, async (_, index) => list({ limit: 50, after: BigInt(index) })),
    );
    assert.deepEqual(
      pages.map(({ texts, next }) => [texts.length, next]),
      pages.map((_, index) => [50, BigInt(index + 50)]),
    );
    assert.ok(most <= 10, `${most} results at once`);
  });

  test('C6 ends a page so that its body has at most 8 MiB, or one pet', async (t) => {
    // The database makes the pets. A busy machine may take over 8 s to send one of 15 MiB.
    const mebibytes = [3, 3, 3, 7, 7, 15, 1, 15, 15, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    const name = `repeat('x', (ARRAY[${mebibytes}])[id] * ${2 ** 20})`;
    const url = await databaseOf(mebibytes.length, `',"name":"' || ${name} || '","categoryId":1'`);
    const storage = await open(t, url);

    const pages: (readonly string[])[] = [];
    for await (const page of pagesOf(storage, { limit: 100 })) pages.push(page);
    assertConsecutive(pages.flat().map(idIn), mebibytes.length);
    for (const page of pages) {
      const body = `[${page.join(',')}]`;
      assert.ok(page.length === 1 || body.length <= 2 ** 23, `${page.length}: ${body.length}`);
    }
    // A page that took a second ends earlier, so not all pages are full.
    assert.ok(Math.max(...pages.map(({ length }) => length)) > 1);
  });

  test('ends a page early on a slow line, and sends each byte once', async (t) => {
    const { far, proxy } = await proxied(t, await longPets(100, 'é', 30_000));
    const storage = await open(t, far);
    // 6 MB of pets take longer than a statement may.
    proxy.bytesPerSecond = 1_500_000;
    const before = proxy.bytesReceived;
    const pages: (readonly string[])[] = [];
    for await (const page of pagesOf(storage, { limit: 100 })) pages.push(page);
    assertConsecutive(pages.flat().map(idIn), 100);
    assert.ok(pages.length > 1, 'a page of all of them would be late');
    const came = proxy.bytesReceived - before;
    const bytes = pages.flat().join('').length;
    assert.ok(came < 1.1 * bytes, `${came} bytes came for ${bytes}`);
  });

  test('C31 makes ids visible in order to a fifth server while four add', async (t) => {
    const url = await newDatabase();
    const each = 1_500;
    const [pager, ...servers] = await Promise.all(
      Array.from({ length: 5 }, () => open(t, url, { maxConnections: 3 })),
    );
    assert.ok(pager !== undefined);
    let isAdding = true;
    const paging = readOn(pager, () => isAdding);
    const added = await Promise.all(servers.map((server) => addInTurns(server, each))).finally(
      () => (isAdding = false),
    );
    const seen = await paging;
    const total = servers.length * each;
    assertConsecutive(
      added.flat().sort((one, other) => Number(one - other)),
      total,
    );
    assertConsecutive(seen.flat(), total);
    assert.ok(seen.length > 20, `only ${seen.length} pages while it grew`);
    await expectStored(url, total);
    assert.equal(await linesOf(url, 'SELECT last_id FROM petstore_counters'), `${total}`);
  });
});

/** Adds `total` pets in groups of different sizes, and returns their ids. */
async function addInTurns(storage: PetStorage, total: number): Promise<readonly bigint[]> {
  const added: bigint[] = [];
  for (let turn = 0; added.length < total; turn++) {
    const together = Math.min((turn % 7) ** 2 + 1, total - added.length);
    const pets = Array.from({ length: together }, () => storage.insert(rex));
    added.push(...(await Promise.all(pets)).map(({ id }) => id));
  }
  return added;
}

/** Reads page after page until adding has ended, and returns the ids of each page. */
async function readOn(storage: PetStorage, isAdding: () => boolean) {
  const pages: (readonly number[])[] = [];
  for (;;) {
    const wasAdding = isAdding();
    const page = await idsOf(storage, BigInt(pages.at(-1)?.at(-1) ?? 0));
    if (page.length > 0) pages.push(page);
    else if (!wasAdding) return pages;
  }
}
