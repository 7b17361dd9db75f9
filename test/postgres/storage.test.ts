// The PostgreSQL storage: the contract of every storage, and what is its own.
import { toByteString } from '../../dist/index.js';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import pg from 'pg';
import { atEnd } from '../support/at-end.js';
import { testInsertOnce, testRecords, testStorage } from '../../dist/conformance/index.js';
import { migratePostgres, postgresStorage, type PostgresPool } from '../../dist/postgres/index.js';
import { notes } from '../storage/records.js';
import { newDatabase, ownUrl, query, withoutDatabase, withoutServer } from './database.js';

const skip = withoutDatabase();

describe('PostgreSQL', { skip }, () => {
  const open = async () => postgresStorage(await newDatabase());
  testStorage({ open });
  testInsertOnce({ open });
  testRecords({ open });

  test('its rows are the very bytes that are served, their ids and statuses beside them', async (t) => {
    const url = await newDatabase();
    const storage = await postgresStorage(url);
    atEnd(t, () => storage.close());
    await storage.insert({ name: 'Tüm\u0000"', categoryId: 2n ** 63n - 1n, status: 'sold' });
    await storage.insert({ name: '', categoryId: -(2n ** 63n) });
    assert.deepEqual(
      await query(
        url,
        "SELECT id, status, convert_from(json, 'UTF8') AS json FROM petstore_pets ORDER BY id",
      ),
      [
        {
          id: '1',
          status: 'sold',
          json: '{"id":1,"name":"Tüm\\u0000\\"","categoryId":9223372036854775807,"status":"sold"}',
        },
        { id: '2', status: null, json: '{"id":2,"name":"","categoryId":-9223372036854775808}' },
      ],
    );
  });

  test('it is ready at the second question though a connection from before stays read-only', async (t) => {
    const pool = new pg.Pool({
      connectionString: await newDatabase(),
      max: 1,
      connectionTimeoutMillis: 30_000,
    });
    atEnd(t, () => pool.end());
    const storage = await postgresStorage(pool);
    atEnd(t, () => storage.close());
    const client = await pool.connect();
    await client.query('SET default_transaction_read_only = on');
    client.release();
    await assert.rejects(async () => storage.ready?.(), { code: 'unavailable' });
    await storage.ready?.();
    assert.equal((await storage.insert({ name: '', categoryId: 1n })).id, 1n);
  });

  test('once closed it refuses even what could match nothing', async () => {
    const storage = await postgresStorage(await newDatabase());
    await storage.close();
    await assert.rejects(storage.get(2n ** 63n), { code: 'unavailable' });
    await assert.rejects(storage.list({ limit: 1, after: 2n ** 63n }), { code: 'unavailable' });
  });

  test('C31 the last id is given, and then no other', async (t) => {
    const url = await newDatabase();
    await query(url, 'UPDATE petstore_counters SET last_id = $1', [String(2n ** 63n - 3n)]);
    const storage = await postgresStorage(url);
    atEnd(t, () => storage.close());
    await storage.ready?.();
    assert.equal((await storage.insert({ name: '', categoryId: 1n })).id, 2n ** 63n - 2n);
    const both = await Promise.allSettled([
      storage.insert({ name: '', categoryId: 1n }),
      storage.insert({ name: '', categoryId: 1n }),
    ]);
    assert.deepEqual(
      both.map(({ status }) => status),
      ['rejected', 'rejected'],
      'not one of a batch that is too large',
    );
    assert.equal((await storage.insert({ name: '', categoryId: 1n })).id, 2n ** 63n - 1n);
    await assert.rejects(storage.insert({ name: '', categoryId: 1n }), {
      code: 'unavailable',
      message: 'There are no ids left.',
    });
    await assert.rejects(async () => storage.ready?.(), { code: 'unavailable' });
    assert.deepEqual(
      (await storage.list({ limit: 5, after: 2n ** 63n - 2n })).map(({ id }) => id),
      [2n ** 63n - 1n],
    );
  });

  test('what one turn asks for goes in one statement, and each gets its own', async (t) => {
    const storage = await postgresStorage(await newDatabase(), { maxConnections: 1 });
    atEnd(t, () => storage.close());
    await Promise.all(
      Array.from({ length: 600 }, (_, index) =>
        storage.insert({ name: `n${index + 1}`, categoryId: 1n }),
      ),
    );
    const pets = await Promise.all(
      Array.from({ length: 602 }, (_, index) => storage.get(BigInt(index))),
    );
    assert.deepEqual(
      pets.map((pet) => pet?.name),
      [undefined, ...Array.from({ length: 600 }, (_, index) => `n${index + 1}`), undefined],
    );
    const pages = await Promise.all([
      storage.list({ limit: 2 }),
      storage.list({ limit: 2 }),
      storage.list({ limit: 2, after: 2n }),
    ]);
    assert.deepEqual(
      pages.map((page) => page.map(({ id }) => id)),
      [
        [1n, 2n],
        [1n, 2n],
        [3n, 4n],
      ],
    );
    assert.deepEqual(
      [await storage.get(2n ** 64n), await storage.list({ limit: 1, after: 2n ** 64n })],
      [undefined, []],
    );
  });

  test('it says what it commits, and a watcher that throws does no harm', async (t) => {
    const logged: unknown[] = [];
    const storage = await postgresStorage(await newDatabase(), {
      log: (level, message) => logged.push([level, message]),
    });
    atEnd(t, () => storage.close());
    const counts: number[] = [];
    storage.onCommit?.(() => {
      throw new Error('not with me');
    });
    storage.onCommit?.(({ count, syncMilliseconds }) =>
      counts.push(syncMilliseconds > 0 ? count : -1),
    );
    const inserts = Promise.all([
      storage.insert({ name: '', categoryId: 1n }),
      storage.insert({ name: '', categoryId: 1n }),
    ]);
    assert.equal(storage.waiting, 2);
    await inserts;
    assert.deepEqual(counts, [2]);
    assert.deepEqual(logged, [['error', 'a watcher of commits failed']]);
  });

  test('records whose id stands elsewhere too are refused, for only the database knows it', async (t) => {
    const storage = await postgresStorage(await newDatabase());
    atEnd(t, () => storage.close());
    const kept = storage.records?.('notes', {
      ...notes,
      json: (id) => toByteString(`{"id":${id},"self":"/notes/${id}"}`),
    });
    await assert.rejects(async () => kept?.insert('a'), {
      name: 'TypeError',
      message: /only as its first member/,
    });
  });

  test('two servers share the records of a plugin', async (t) => {
    const url = await newDatabase();
    const [one, other] = await Promise.all([postgresStorage(url), postgresStorage(url)]);
    atEnd(t, () => Promise.all([one.close(), other.close()]));
    const [first, second] = [one.records?.('notes', notes), other.records?.('notes', notes)];
    await Promise.all([first?.insert('a'), second?.insert('b'), first?.insert('c')]);
    assert.deepEqual(await first?.list({ limit: 9 }), await second?.list({ limit: 9 }));
    assert.equal((await first?.list({ limit: 9 }))?.texts.length, 3);
  });

  for (const code of ['26000', '42P05']) {
    test(`a proxy that shares connections and knows no prepared statement (${code}) is asked without`, async (t) => {
      const pool = new pg.Pool({ connectionString: await newDatabase() });
      atEnd(t, () => pool.end());
      const connect = pool.connect.bind(pool);
      const unprepared = { count: 0 };
      let isOpen = false;
      const shared: PostgresPool = {
        connect: async () => {
          const client = await connect();
          return {
            query: async (query) => {
              if (query.name === undefined || !isOpen) return client.query(query);
              unprepared.count++;
              throw Object.assign(new Error('as PgBouncer says it'), { code, severity: 'ERROR' });
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
      const storage = await postgresStorage(shared);
      atEnd(t, () => storage.close());
      isOpen = true;
      // Several may hear of it at the same time.
      const first = [
        storage.insert({ name: '', categoryId: 1n }),
        storage.list({ limit: 9, after: 1n }),
        storage.get(9n),
      ];
      assert.deepEqual((await Promise.all([...first, storage.ready?.()])).length, 4);
      const heard = unprepared.count;
      assert.ok(heard > 1);
      for (const id of [2n, 3n])
        assert.equal((await storage.insert({ name: '', categoryId: 1n })).id, id);
      assert.equal((await storage.list({ limit: 9 })).length, 3);
      assert.equal(unprepared.count, heard, 'from then on none is prepared');
    });
  }

  for (const theirs of ['0', '1s', '60s', '7d']) {
    test(`no statement lasts longer than it is waited for, where a role or database has set its limit to ${theirs}`, async (t) => {
      const pool = new pg.Pool({
        connectionString: await newDatabase(),
        max: 1,
        connectionTimeoutMillis: 30_000,
      });
      atEnd(t, () => pool.end());
      await pool.query("SELECT set_config('statement_timeout', $1, false)", [theirs]);
      const storage = await postgresStorage(pool);
      atEnd(t, () => storage.close());
      assert.deepEqual((await pool.query('SHOW statement_timeout')).rows, [
        { statement_timeout: '3s' },
      ]);
    });
  }

  test('the log says what each address of a host said, where none answers', async (t) => {
    const pool = new pg.Pool({
      connectionString: await newDatabase(),
      max: 1,
      connectionTimeoutMillis: 30_000,
    });
    atEnd(t, () => pool.end());
    const logged: unknown[] = [];
    const storage = await postgresStorage(pool, { log: (...line) => logged.push(line) });
    atEnd(t, () => storage.close());
    // As Node throws it.
    pool.connect = () =>
      Promise.reject(
        new AggregateError([new Error('refused by ::1'), new Error('refused by 127.0.0.1')]),
      );
    await assert.rejects(storage.get(1n), { code: 'unavailable' });
    assert.deepEqual(logged, [
      ['error', 'the database cannot be read', { error: 'refused by ::1, refused by 127.0.0.1' }],
    ]);
  });

  test('a pool that would not come back after a silence is taken, and the log warns of it', async (t) => {
    const connectionString = await newDatabase();
    for (const [connectionTimeoutMillis, lines] of [
      [0, 1],
      [30_000, 0],
    ] as const) {
      const pool = new pg.Pool({ connectionString, connectionTimeoutMillis });
      atEnd(t, () => pool.end());
      const logged: string[] = [];
      const storage = await postgresStorage(pool, {
        log: (_level, message) => logged.push(message),
      });
      atEnd(t, () => storage.close());
      assert.equal(
        logged.filter((message) => message.includes('connectionTimeoutMillis')).length,
        lines,
      );
    }
  });

  test('a pool of the caller is used and stays open', async (t) => {
    const pool = new pg.Pool({
      connectionString: await newDatabase(),
      max: 2,
      connectionTimeoutMillis: 30_000,
    });
    atEnd(t, () => pool.end());
    const storage = await postgresStorage(pool);
    atEnd(t, () => storage.close());
    assert.equal((await storage.insert({ name: 'Rex', categoryId: 1n })).id, 1n);
    await storage.close();
    assert.deepEqual((await pool.query('SELECT last_id FROM petstore_counters')).rows, [
      { last_id: '1' },
    ]);
    assert.equal(pool.listenerCount('error'), 0);
  });
});

describe('in databases of other encodings', { skip: withoutServer() }, () => {
  for (const encoding of ['LATIN1', 'SQL_ASCII', 'EUC_JP']) {
    test(`C25 any text is kept exactly where the database has ${encoding}`, async (t) => {
      const url = Object.assign(new URL(await ownUrl()), {
        pathname: `/${encoding.toLowerCase()}`,
      }).href;
      await query(
        await ownUrl(),
        `CREATE DATABASE ${encoding.toLowerCase()} ENCODING '${encoding}' TEMPLATE template0`,
      );
      // Settings that change how bytes are written, and how much of a commit is waited for.
      for (const setting of [
        'bytea_output = escape',
        'standard_conforming_strings = off',
        'synchronous_commit = off',
        "client_encoding = 'SQL_ASCII'",
      ]) {
        await query(url, `ALTER DATABASE ${encoding.toLowerCase()} SET ${setting}`);
      }
      await migratePostgres(url);
      const storage = await postgresStorage(url);
      atEnd(t, () => storage.close());
      const names = ['\u0000', '\\', "'", 'Tüm', '猫', '🐈', '\uFEFF\uFFFF'];
      for (const name of names) await storage.insert({ name, categoryId: -1n, status: 'sold' });
      assert.deepEqual(
        (await storage.list({ limit: 9, status: 'sold' })).map((pet) => pet.name),
        names,
      );
    });
  }
});
