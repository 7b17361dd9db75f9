// What became of a batch whose answer was lost: known in the end, told truly, never stored twice.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEnd } from '../support/at-end.js';
import type { Pet, PetStorage } from '../../dist/index.js';
import { migratePostgres } from '../../dist/postgres/index.js';
import { newDatabase, ownUrl, query, withoutDatabase, withoutServer } from './database.js';
import type { TcpProxy } from './proxy.js';
import {
  alterSystem,
  assertInTurn,
  hold,
  idsIn,
  intercept,
  open,
  openLogged,
  poolOf,
  proxied,
  rex,
  unavailable,
  untilRow,
  untilWaiting,
} from './scene.js';
import { until } from '../support/waiting.js';

interface Scene {
  /** Of the database, past the proxy. */
  readonly url: string;
  readonly proxy: TcpProxy;
  readonly storage: PetStorage;
  readonly logged: readonly string[];
}

/** A storage behind a proxy, with one animal in it. */
async function scene(t: TestContext): Promise<Scene> {
  const { url, far, proxy } = await proxied(t);
  const { storage, logged } = await openLogged(t, far);
  assert.equal((await storage.insert(rex)).id, 1n);
  return { url, proxy, storage, logged };
}

/** Waits until a storage adds again; answers the id. */
async function untilAdded(storage: PetStorage): Promise<bigint> {
  return until('an insert', () =>
    storage.insert(rex).then(
      ({ id }) => id,
      () => undefined,
    ),
  );
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
    assertInTurn(await idsIn(url), 6);
    assert.equal((await storage.insert(rex)).id, 7n);
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
    assertInTurn(await idsIn(url), 1);
    assert.equal((await storage.insert(rex)).id, 2n);
  });

  test('a statement that is still at work when its connection is lost is kept from happening, and told so', async (t) => {
    const { url, proxy, storage } = await scene(t);
    const release = await hold(t, url);
    const insert = storage.insert(rex);
    insert.catch(() => undefined);
    await untilWaiting(url, 1);
    proxy.cut();
    await assert.rejects(insert, unavailable);
    await release();
    // It gets the counter now, unless the server has seen before that nobody waits for it any more.
    assert.equal((await storage.insert(rex)).id, 2n);
    await untilRow(
      url,
      "SELECT 1 FROM pg_stat_activity HAVING count(*) FILTER (WHERE query LIKE 'WITH taken%' AND state = 'active') = 0",
    );
    assertInTurn(await idsIn(url), 2);
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
    const backAt = performance.now();
    proxy.mode = 'open';
    await untilAdded(storage);
    assert.ok(performance.now() - backAt < 5_000, 'it works again within 5 s');
    await storage.ready?.();
    assertInTurn(await idsIn(url), 2);
    const ofWriting = () => logged.filter((line) => line.includes('written'));
    await until('the end to be told', () => ofWriting().length > 1);
    assert.deepEqual(ofWriting(), [
      'error the database cannot be written to',
      'info the database can be written to again',
    ]);
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

  test('an answer that was damaged on its way, or lacks its row, is an unknown outcome: it is looked up what became of the batch', async (t) => {
    const pool = await poolOf(t, { max: 2 });
    const damaged: unknown[] = [{ rows: undefined }, [], { rows: [{ last_id: '3x' }] }];
    damaged.push({ rows: [] });
    intercept(pool, async ({ text }, send) => {
      const answer = await send();
      return text.startsWith('WITH taken') ? (damaged.shift() ?? answer) : answer;
    });
    const storage = await open(t, pool);
    for (const id of [1n, 2n, 3n, 4n, 5n]) assert.equal((await storage.insert(rex)).id, id);
    assert.equal((await storage.list({ limit: 9 })).length, 5);
    assert.deepEqual(damaged, []);
  });

  test('a writer whose row is gone, as behind a restored backup, gets another', async (t) => {
    const url = await newDatabase();
    const storage = await open(t, url);
    assert.equal((await storage.insert(rex)).id, 1n);
    await query(url, 'DELETE FROM petstore_writers');
    assert.equal((await storage.insert(rex)).id, 2n);
    await query(url, 'UPDATE petstore_writers SET batch = 100');
    assert.equal((await storage.insert(rex)).id, 3n);
  });

  test('a pool whose connections others hold refuses in time, and nothing is lost in it', async (t) => {
    const pool = await poolOf(t, { max: 2 });
    const storage = await open(t, pool);
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
    const storage = await open(t, url);
    const first = await storage.insert(rex);
    assert.equal(first.id, 1n);
    const reset = () => alterSystem(url, 'RESET synchronous_standby_names');
    atEnd(t, reset);
    await alterSystem(url, "SET synchronous_standby_names = 'nobody'");
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
    assert.equal(await untilAdded(storage), last + 2n);
    assertInTurn(await idsIn(url), Number(last) + 2);
  });
});
