// What became of a batch whose answer was lost: known in the end, told truly, never stored twice. And
// idempotency keys of several servers: one animal for a key, whoever is asked and whatever fails.
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
  namesIn,
  open,
  openLogged,
  poolOf,
  proxied,
  rex,
  tom,
  unavailable,
  untilRow,
  untilWaiting,
} from './scene.js';
import { until } from '../support/waiting.js';
import { dayMs, inFlight, insertOnce, mismatch, onceOf } from '../storage/once.js';

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

interface Servers {
  readonly url: string;
  readonly one: PetStorage;
  readonly other: PetStorage;
  readonly logged: readonly string[];
}

/** Two servers on one database. */
async function twoServers(t: TestContext): Promise<Servers> {
  const url = await newDatabase();
  const { storage: one, logged } = await openLogged(t, url);
  return { url, one, other: await open(t, url), logged };
}

/** What comes of inserts that have all looked for their keys before any may add. */
async function raced<Result>(
  t: TestContext,
  { url }: Servers,
  begin: () => readonly Promise<Result>[],
): Promise<readonly PromiseSettledResult<Result>[]> {
  const release = await hold(t, url);
  const outcomes = Promise.allSettled(begin());
  await untilWaiting(url, 2);
  await release();
  return outcomes;
}

const idsOf = (outcomes: readonly PromiseSettledResult<{ readonly id: bigint }>[]) =>
  outcomes.map((outcome) =>
    outcome.status === 'fulfilled' ? outcome.value.id : outcome.reason.code,
  );

describe('one key on several servers', { skip: withoutDatabase() }, () => {
  test('what one server has added another answers, or refuses with another body', async (t) => {
    const { url, one, other } = await twoServers(t);
    const pet = await insertOnce(one, rex, onceOf('a'));
    assert.deepEqual(await insertOnce(other, rex, onceOf('a')), pet);
    await assert.rejects(insertOnce(other, tom, onceOf('a', 'another')), mismatch);
    assert.deepEqual(await namesIn(url), ['Rex']);
  });

  test('raced on two servers it adds one animal, and both answer that one; what goes along with it is added too', async (t) => {
    const servers = await twoServers(t);
    const { url, one, other, logged } = servers;
    const ids = idsOf(
      await raced(t, servers, () => [
        insertOnce(one, rex, onceOf('a')),
        one.insert(tom),
        insertOnce(other, rex, onceOf('a')),
        other.insert(tom),
        insertOnce(other, tom, onceOf('b')),
      ]),
    );
    assert.equal(ids[0], ids[2]);
    assert.equal((await insertOnce(one, tom, onceOf('b'))).id, ids[4]);
    assert.deepEqual([...(await namesIn(url))].sort(), ['Rex', 'Tom', 'Tom', 'Tom']);
    assert.deepEqual(
      await query(url, 'SELECT last_id FROM petstore_counters'),
      [{ last_id: '4' }],
      'no id is left out',
    );
    assert.deepEqual(logged, [], 'nothing failed');
  });

  test('raced with two bodies it adds the one, and the other is a mismatch', async (t) => {
    const servers = await twoServers(t);
    const outcomes = await raced(t, servers, () => [
      insertOnce(servers.one, rex, onceOf('a', 'one')),
      insertOnce(servers.other, tom, onceOf('a', 'other')),
    ]);
    assert.deepEqual(idsOf(outcomes).sort(), [1n, mismatch.code]);
    assert.equal((await namesIn(servers.url)).length, 1);
  });

  test('an expired key is raced for anew, and its row is used again', async (t) => {
    const servers = await twoServers(t);
    const { url, one, other } = servers;
    const at = 1_795_132_800_000;
    // A day away in either direction: a clock that went wrong counts too.
    await insertOnce(one, tom, onceOf('b', 'old', at + dayMs));
    assert.equal((await insertOnce(other, rex, onceOf('b', 'new', at))).id, 2n);
    await insertOnce(one, tom, onceOf('a', 'old', at));
    const outcomes = await raced(t, servers, () => [
      insertOnce(one, rex, onceOf('a', 'new', at + dayMs)),
      insertOnce(other, rex, onceOf('a', 'new', at + dayMs + 1)),
    ]);
    assert.deepEqual(idsOf(outcomes), [4n, 4n]);
    assert.deepEqual(await namesIn(url), ['Tom', 'Rex', 'Tom', 'Rex']);
    assert.equal((await query(url, 'SELECT key FROM petstore_idempotency')).length, 2);
  });

  test('many clients that send each key to every server have one animal for each', async (t) => {
    const { url, one, other } = await twoServers(t);
    const keys = Array.from({ length: 150 }, (_, index) => `k${index}`);
    const add = (server: PetStorage, name: string) =>
      insertOnce(server, { name, categoryId: 1n }, onceOf(name));
    await Promise.all(
      keys.map(async (key) =>
        assert.deepEqual(...(await Promise.all([add(one, key), add(other, key)]))),
      ),
    );
    assert.deepEqual([...(await namesIn(url))].sort(), keys.sort());
  });

  test('a reply that is lost behind the commit, and one that never came: a repeat has the animal of the first, once', async (t) => {
    const { url, far: farUrl, proxy } = await proxied(t);
    const [far, near] = [await open(t, farUrl), await open(t, url)];
    await insertOnce(far, rex, onceOf('before'));
    // The search for the key gets through, the answer to the batch does not.
    const release = await hold(t, url);
    const first = insertOnce(far, rex, onceOf('a'));
    await untilWaiting(url, 1);
    proxy.mode = 'deaf';
    await release();
    await until('a lost reply', () => proxy.repliesLost > 0);
    await assert.rejects(insertOnce(far, rex, onceOf('a')), inFlight, 'nobody knows yet');
    assert.equal((await insertOnce(near, rex, onceOf('a'))).id, 2n, 'another server knows');
    proxy.mode = 'open';
    assert.equal((await first).id, 2n);
    assert.equal((await insertOnce(far, rex, onceOf('a'))).id, 2n);

    proxy.mode = 'closed';
    await assert.rejects(insertOnce(far, rex, onceOf('b')), unavailable);
    assert.equal(
      (await insertOnce(near, tom, onceOf('b'))).id,
      3n,
      'what was refused leaves the key new',
    );
    proxy.mode = 'open';
    assert.equal((await insertOnce(far, tom, onceOf('b'))).id, 3n);
    assert.deepEqual(await namesIn(url), ['Rex', 'Rex', 'Tom']);
  });

  test('what is refused because too much waits leaves its key new', async (t) => {
    const { url, one } = await twoServers(t);
    const release = await hold(t, url);
    const first = one.insert(tom);
    await untilWaiting(url, 1);
    const behind = Array.from({ length: 4_096 }, () => one.insert(tom));
    await assert.rejects(insertOnce(one, rex, onceOf('a')), unavailable);
    await release();
    await Promise.all([first, ...behind]);
    assert.equal((await insertOnce(one, rex, onceOf('a'))).id, 4_098n);
  });

  test('keys without an animal, which only a person can have made, are refused for themselves alone', async (t) => {
    const { url, one } = await twoServers(t);
    await insertOnce(one, rex, onceOf('a'));
    await query(url, 'DELETE FROM petstore_pets');
    const outcomes = await Promise.allSettled([
      insertOnce(one, rex, onceOf('a')),
      one.insert(tom),
      insertOnce(one, tom, onceOf('b')),
    ]);
    assert.deepEqual(idsOf(outcomes), ['unavailable', 2n, 3n]);
  });
});
