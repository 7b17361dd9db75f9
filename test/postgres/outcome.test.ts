// What became of a batch whose answer was lost: known in the end, told truly, never stored twice.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { atEnd } from '../support/at-end.js';
import type { Pet, PetStorage } from '../../dist/index.js';
import { migratePostgres, postgresStorage, type PostgresPool } from '../../dist/postgres/index.js';
import {
  hold,
  newDatabase,
  ownUrl,
  query,
  waiting,
  withoutDatabase,
  withoutServer,
} from './database.js';
import { TcpProxy } from './proxy.js';
import { until } from '../support/waiting.js';

const rex = { name: 'Rex', categoryId: 1n };
const unavailable = { name: 'PetstoreError', code: 'unavailable' };

interface Scene {
  /** Of the database, past the proxy. */
  readonly url: string;
  readonly proxy: TcpProxy;
  readonly storage: PetStorage;
  readonly logged: (readonly unknown[])[];
}

/** A storage behind a proxy, with one animal in it. */
async function scene(t: TestContext): Promise<Scene> {
  const url = await newDatabase();
  const { hostname, port } = new URL(url);
  const proxy = await TcpProxy.start(Number(port || 5432), hostname);
  atEnd(t, () => proxy.close());
  const logged: (readonly unknown[])[] = [];
  const storage = await postgresStorage(proxy.urlFor(url), { log: (...line) => logged.push(line) });
  atEnd(t, () => storage.close());
  assert.equal((await storage.insert(rex)).id, 1n);
  return { url, proxy, storage, logged };
}

async function idsIn(url: string): Promise<readonly number[]> {
  return (await query(url, 'SELECT id FROM petstore_pets ORDER BY id')).map(({ id }) => Number(id));
}

/** A pool whose first answers to batches are replaced by these, once they are stored. */
function damaging(pool: pg.Pool, answers: unknown[]): PostgresPool {
  return {
    connect: async () => {
      const client = await pool.connect();
      return {
        query: async (one) => {
          const answer = await client.query(one);
          return one.text.startsWith('WITH taken') && answers.length > 0
            ? Object(answers.shift())
            : answer;
        },
        release: (destroy) => client.release(destroy),
        on: () => undefined,
        removeListener: () => undefined,
      };
    },
    end: () => pool.end(),
    on: (event, listener) => pool.on(event, listener),
    removeListener: (event, listener) => pool.removeListener(event, listener),
  };
}

describe('the outcome of a batch', { skip: withoutDatabase() }, () => {
  test('a reply that is lost behind the commit: the animals are found and answered', async (t) => {
    const { url, proxy, storage } = await scene(t);
    proxy.mode = 'deaf';
    const inserts = Array.from({ length: 5 }, () => storage.insert(rex));
    await until('a lost reply', () => proxy.repliesLost > 0);
    proxy.mode = 'open';
    assert.deepEqual(
      (await Promise.all(inserts)).map(({ id }) => id),
      [2n, 3n, 4n, 5n, 6n],
    );
    assert.deepEqual(await idsIn(url), [1, 2, 3, 4, 5, 6]);
    assert.equal((await storage.insert(rex)).id, 7n);
  });

  test('an answer without its row: the batch is looked up, and answered with its ids', async (t) => {
    const pool = new pg.Pool({ connectionString: await newDatabase(), max: 1 });
    atEnd(t, () => pool.end());
    const storage = await postgresStorage(pool);
    atEnd(t, () => storage.close());
    assert.equal((await storage.insert(rex)).id, 1n);
    const client = await pool.connect();
    const ask = client.query;
    let lost = 0;
    Reflect.set(client, 'query', async (...values: unknown[]) => {
      const answer: unknown = await Reflect.apply(ask, client, values);
      return lost++ === 0 ? { rows: [] } : answer;
    });
    client.release();
    assert.equal((await storage.insert(rex)).id, 2n);
    assert.ok(lost > 1);
  });

  test('a statement that never arrived: refused, and it is not there later either', async (t) => {
    const { url, proxy, storage } = await scene(t);
    proxy.mode = 'silent';
    const insert = storage.insert(rex);
    // It is on its way; the connection goes before it arrives.
    await sleep(100);
    proxy.cut();
    proxy.mode = 'open';
    await assert.rejects(insert, { ...unavailable, outcome: 'not done' });
    assert.deepEqual(await idsIn(url), [1]);
    assert.equal((await storage.insert(rex)).id, 2n);
  });

  test('a statement that is still at work when its connection is lost is kept from happening, and told so', async (t) => {
    const { url, proxy, storage } = await scene(t);
    const release = await hold(t, url);
    const insert = storage.insert(rex);
    insert.catch(() => undefined);
    await waiting(url, 1);
    proxy.cut();
    await assert.rejects(insert, unavailable);
    await release();
    // It gets the counter now, unless the server has seen before that nobody waits for it any more.
    assert.equal((await storage.insert(rex)).id, 2n);
    await untilRow(
      url,
      "SELECT 1 FROM pg_stat_activity HAVING count(*) FILTER (WHERE query LIKE 'WITH taken%' AND state = 'active') = 0",
    );
    assert.deepEqual(await idsIn(url), [1, 2]);
  });

  test('a database that stays away: refused in time, whoever comes behind at once, and all is well when it is back', async (t) => {
    const { url, proxy, storage, logged } = await scene(t);
    proxy.mode = 'silent';
    const since = performance.now();
    const insert = storage.insert(rex);
    const behind = sleep(500).then(() => storage.insert(rex));
    behind.catch(() => undefined);
    await assert.rejects(insert, { ...unavailable, message: 'The database does not answer.' });
    await assert.rejects(behind, unavailable);
    assert.ok(performance.now() - since < 16_000);
    const late = performance.now();
    await assert.rejects(storage.insert(rex), unavailable);
    await assert.rejects(async () => storage.ready?.(), unavailable);
    assert.ok(performance.now() - late < 3_000, 'nobody waits for what hangs');
    proxy.mode = 'open';
    const giveUpAt = performance.now() + 5_000;
    for (;;) {
      const id = await storage.insert(rex).then(
        (pet) => pet.id,
        () => undefined,
      );
      if (id !== undefined) break;
      assert.ok(performance.now() < giveUpAt, 'it works again within 5 s');
      await sleep(50);
    }
    await storage.ready?.();
    assert.deepEqual(await idsIn(url), [1, 2], 'what was refused is not there');
    const messages = () => logged.map(([level, message]) => `${String(level)} ${String(message)}`);
    await until('the end to be told', () =>
      messages().some((message) => message.includes('written to again')),
    );
    assert.deepEqual(
      messages().filter((message) => message.includes('written')),
      ['error the database cannot be written to', 'info the database can be written to again'],
    );
  });

  test('closing while a batch hangs ends in time, and leaves no timer behind', async (t) => {
    const { proxy, storage } = await scene(t);
    proxy.mode = 'silent';
    const insert = storage.insert(rex);
    insert.catch(() => undefined);
    const since = performance.now();
    await storage.close();
    assert.ok(performance.now() - since < 16_000);
    await assert.rejects(insert, unavailable);
  });

  test('an answer that was damaged on its way is an unknown outcome: it is looked up what became of the batch', async (t) => {
    const pool = new pg.Pool({
      connectionString: await newDatabase(),
      max: 2,
      connectionTimeoutMillis: 30_000,
    });
    atEnd(t, () => pool.end());
    const storage = await postgresStorage(
      damaging(pool, [{ rows: undefined }, [], { rows: [{ last_id: '3x' }] }, { rows: [] }]),
    );
    atEnd(t, () => storage.close());
    for (const id of [1n, 2n, 3n, 4n, 5n]) assert.equal((await storage.insert(rex)).id, id);
    assert.equal((await storage.list({ limit: 9 })).length, 5);
  });

  test('a writer whose row is gone, as behind a restored backup, gets another', async (t) => {
    const { url, storage } = await scene(t);
    await query(url, 'DELETE FROM petstore_writers');
    assert.equal((await storage.insert(rex)).id, 2n);
    await query(url, 'UPDATE petstore_writers SET batch = 100');
    assert.equal((await storage.insert(rex)).id, 3n);
    await query(url, "DELETE FROM petstore_counters WHERE name = 'pets'");
    await assert.rejects(storage.insert(rex), unavailable);
    await assert.rejects(async () => storage.ready?.(), unavailable);
    assert.equal((await storage.get(3n))?.name, 'Rex');
  });

  test('a pool whose connections others hold refuses in time, and nothing is lost in it', async (t) => {
    const pool = new pg.Pool({
      connectionString: await newDatabase(),
      max: 2,
      connectionTimeoutMillis: 30_000,
    });
    atEnd(t, () => pool.end());
    const storage = await postgresStorage(pool);
    atEnd(t, () => storage.close());
    const held = await Promise.all([pool.connect(), pool.connect()]);
    const release = (): void => {
      for (const client of held.splice(0)) client.release();
    };
    atEnd(t, release);
    const since = performance.now();
    await Promise.all([
      assert.rejects(storage.insert(rex), unavailable),
      assert.rejects(storage.get(1n), unavailable),
    ]);
    assert.ok(performance.now() - since < 7_500);
    release();
    assert.equal((await storage.insert(rex)).id, 1n);
    await storage.close();
    assert.equal(pool.idleCount, pool.totalCount, 'every connection was given back');
  });
});

describe('a synchronous standby that is waited for and never comes', {
  skip: withoutServer(),
}, () => {
  test('a batch whose backend is told to end meanwhile is not answered as stored, though it can be read', async (t) => {
    const url = await ownUrl();
    await migratePostgres(url);
    const storage = await postgresStorage(url);
    atEnd(t, () => storage.close());
    const first = await storage.insert(rex);
    assert.equal(first.id, 1n);
    const standby = async (change: string): Promise<void> => {
      await query(url, `ALTER SYSTEM ${change}`);
      await query(url, 'SELECT pg_reload_conf()');
    };
    const reset = (): Promise<void> => standby('RESET synchronous_standby_names');
    atEnd(t, reset);
    await standby("SET synchronous_standby_names = 'nobody'");
    let insert = Promise.resolve(first);
    let last = first.id;
    // The checkpointer tells the backends of the change some time after it was loaded: until then
    // no commit waits.
    const insertAgain = (pet: Pet): void => {
      last = pet.id;
      insert = storage.insert(rex);
      insert.then(insertAgain, () => undefined);
    };
    insertAgain(first);
    const waits = "pg_stat_activity WHERE application_name = 'petstore' AND wait_event = 'SyncRep'";
    await untilRow(url, `SELECT 1 FROM ${waits}`);
    await query(url, `SELECT pg_terminate_backend(pid) FROM ${waits}`);
    await untilRow(url, `SELECT 1 FROM petstore_pets WHERE id = ${last + 1n}`);
    await assert.rejects(insert, { ...unavailable, message: 'The database does not answer.' });
    await reset();
    await until('an insert that is taken again', () =>
      storage.insert(rex).then(
        ({ id }) => id === last + 2n,
        () => false,
      ),
    );
    const ids = Array.from({ length: Number(last) + 2 }, (_, index) => index + 1);
    assert.deepEqual(await idsIn(url), ids, 'what was waiting is kept once');
  });
});

/** Waits until a statement answers a row. */
async function untilRow(url: string, text: string): Promise<void> {
  await until(text, async () => (await query(url, text)).length > 0);
}
