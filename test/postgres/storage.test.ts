// The PostgreSQL storage: the contract of every storage, and what is its own.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { testInsertOnce, testRecords, testStorage } from '../../dist/conformance/index.js';
import { toByteString } from '../../dist/index.js';
import { migratePostgres, postgresStorage } from '../../dist/postgres/index.js';
import { notes } from '../storage/records.js';
import { newDatabase, ownUrl, query, withoutDatabase, withoutServer } from './database.js';
import { intercept, open, openLogged, poolOf, rex, rowsIn, unavailable } from './scene.js';
import { until } from '../support/waiting.js';

const lastId = 2n ** 63n - 1n;

describe('PostgreSQL', { skip: withoutDatabase() }, () => {
  const openNew = async () => postgresStorage(await newDatabase());
  testStorage({ open: openNew });
  testInsertOnce({ open: openNew });
  testRecords({ open: openNew });

  test('its rows are the very bytes that are served, their ids and statuses beside them', async (t) => {
    const url = await newDatabase();
    const storage = await open(t, url);
    await storage.insert({ name: 'Tüm\u0000"', categoryId: 2n ** 63n - 1n, status: 'sold' });
    await storage.insert({ name: '', categoryId: -(2n ** 63n) });
    const first =
      '{"id":1,"name":"Tüm\\u0000\\"","categoryId":9223372036854775807,"status":"sold"}';
    const second = '{"id":2,"name":"","categoryId":-9223372036854775808}';
    assert.deepEqual(await rowsIn(url), [
      { id: 1, json: first },
      { id: 2, json: second },
    ]);
    assert.deepEqual(await query(url, 'SELECT status FROM petstore_pets ORDER BY id'), [
      { status: 'sold' },
      { status: null },
    ]);
  });

  test('it is ready at the second question though a connection from before stays read-only', async (t) => {
    const pool = await poolOf(t, { max: 1 });
    const storage = await open(t, pool);
    await pool.query('SET default_transaction_read_only = on');
    await assert.rejects(async () => storage.ready?.(), unavailable);
    await storage.ready?.();
    assert.equal((await storage.insert(rex)).id, 1n);
  });

  test('C31 the last id is given, and then no other', async (t) => {
    const url = await newDatabase();
    await query(url, 'UPDATE petstore_counters SET last_id = $1', [String(lastId - 2n)]);
    const storage = await open(t, url);
    await storage.ready?.();
    assert.equal((await storage.insert(rex)).id, lastId - 1n);
    for (const { status } of await Promise.allSettled([storage.insert(rex), storage.insert(rex)]))
      assert.equal(status, 'rejected', 'not one of a batch that is too large');
    assert.equal((await storage.insert(rex)).id, lastId);
    await assert.rejects(storage.insert(rex), {
      ...unavailable,
      message: 'There are no ids left.',
    });
    await assert.rejects(async () => storage.ready?.(), unavailable);
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
    let asked = 0;
    intercept(pool, (_statement, send) => (asked++, send()));
    const storage = await open(t, pool);
    const names = Array.from({ length: 600 }, (_, index) => `n${index + 1}`);
    asked = 0;
    await Promise.all(names.map((name) => storage.insert({ name, categoryId: 1n })));
    assert.equal(asked, 1);
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
    assert.ok(asked < 20, `${asked} statements`);
  });

  test('it says what it commits, and a watcher that throws does no harm', async (t) => {
    const { storage, logged } = await openLogged(t);
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
    assert.deepEqual(counts, [2]);
    assert.deepEqual(logged, ['error a watcher of commits failed']);
  });

  test('records whose id stands elsewhere too are refused, for only the database knows it; two servers share the others', async (t) => {
    const url = await newDatabase();
    const [one, other] = [await open(t, url), await open(t, url)];
    const twice = one.records?.('twice', {
      ...notes,
      json: (id) => toByteString(`{"id":${id},"self":"/notes/${id}"}`),
    });
    await assert.rejects(async () => twice?.insert('a'), {
      name: 'TypeError',
      message: /only as its first member/,
    });
    const [first, second] = [one.records?.('notes', notes), other.records?.('notes', notes)];
    await Promise.all([first?.insert('a'), second?.insert('b'), first?.insert('c')]);
    const listed = await first?.list({ limit: 9 });
    assert.deepEqual(await second?.list({ limit: 9 }), listed);
    assert.equal(listed?.texts.length, 3);
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
      for (const id of [2n, 3n]) assert.equal((await storage.insert(rex)).id, id);
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
      assert.deepEqual(
        (await storage.list({ limit: 9, status: 'sold' })).map((pet) => pet.name),
        names,
      );
    });
  }
});
