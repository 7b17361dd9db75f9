// Batches with an unknown outcome, and idempotency keys that several servers use.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEnd } from '../support/at-end.js';
import { until } from '../support/waiting.js';
import type { Pet } from '../../dist/index.js';
import { withoutDatabase } from './database.js';
import {
  addOnce,
  dayMs,
  expectAdded,
  expectAddedOnce,
  expectRefused,
  expectStored,
  expectUnready,
  hold,
  inFlight,
  intercept,
  mismatch,
  namesIn,
  open,
  openFar,
  openNew,
  poolOf,
  rex,
  tom,
  unavailable,
  untilAdded,
  untilRow,
  untilWaiting,
  usedAt,
} from './scene.js';

/** Opens a storage behind a proxy, with one pet in it. */
async function scene(t: TestContext) {
  const far = await openFar(t);
  await expectAdded(far.storage, 1n);
  return far;
}

describe('the outcome of a batch', { skip: withoutDatabase() }, () => {
  test('a batch is "not done" if its statement never arrived', async (t) => {
    const { url, proxy, storage } = await scene(t);
    proxy.mode = 'silent';
    const insert = storage.insert(rex);
    // The connection is lost while the statement is on its way.
    await sleep(100);
    proxy.cut();
    proxy.mode = 'open';
    await assert.rejects(insert, { ...unavailable, outcome: 'not done' });
    await expectStored(url, 1);
    await expectAdded(storage, 2n);
  });

  test('a batch is settled as "not done" if its connection is lost during the statement', async (t) => {
    const { url, proxy, storage } = await scene(t);
    const release = await hold(t, url);
    const refused = expectRefused(storage);
    await untilWaiting(url, 1);
    proxy.cut();
    await refused;
    await release();
    // The old statement gets the counter now, unless the server has noticed the lost connection.
    await expectAdded(storage, 2n);
    await untilRow(
      url,
      "SELECT 1 FROM pg_stat_activity HAVING count(*) FILTER (WHERE query LIKE 'WITH taken%' AND state = 'active') = 0",
    );
    await expectStored(url, 2);
  });

  test('adds are refused in time while the database is silent, and work again within 5 s', async (t) => {
    const { url, proxy, storage, logged } = await scene(t);
    proxy.mode = 'silent';
    const since = performance.now();
    const insert = storage.insert(rex);
    const queued = sleep(500).then(() => expectRefused(storage));
    await assert.rejects(insert, { ...unavailable, message: 'The database does not respond.' });
    await queued;
    assert.ok(performance.now() - since < 16_000);
    const late = performance.now();
    await expectRefused(storage);
    await expectUnready(storage);
    assert.ok(performance.now() - late < 3_000, 'later calls do not wait for the batch that hangs');
    const backAt = performance.now();
    proxy.mode = 'open';
    await untilAdded(storage);
    assert.ok(performance.now() - backAt < 5_000, 'adding works again within 5 s');
    await storage.ready?.();
    await expectStored(url, 2);
    const ofWriting = () => logged.filter((line) => line.includes('written'));
    await until('the end of the outage in the log', () => ofWriting().length > 1);
    assert.deepEqual(ofWriting(), [
      'error the database cannot be written to',
      'info the database can be written to again',
    ]);
  });

  test('a storage closes in time while the outcome of a batch is unknown', async (t) => {
    const { proxy, storage } = await scene(t);
    proxy.mode = 'silent';
    const refused = expectRefused(storage);
    const since = performance.now();
    await storage.close();
    assert.ok(performance.now() - since < 16_000);
    await refused;
  });

  test('a batch is looked up if its result was damaged or lacks its row', async (t) => {
    const pool = await poolOf(t, { max: 2 });
    const damaged: unknown[] = [{ rows: undefined }, [], { rows: [{ last_id: '3x' }] }];
    damaged.push({ rows: [] });
    intercept(pool, async ({ text }, send) => {
      const response = await send();
      return text.startsWith('WITH taken') ? (damaged.shift() ?? response) : response;
    });
    const storage = await open(t, pool);
    await expectAdded(storage, 1n, 2n, 3n, 4n, 5n);
    assert.equal((await storage.list({ limit: 9 })).length, 5);
    assert.deepEqual(damaged, []);
  });

  test('adding continues after the row of the writer was deleted or changed', async (t) => {
    const { sql, storage } = await openNew(t);
    await expectAdded(storage, 1n);
    await sql('DELETE FROM petstore_writers');
    await expectAdded(storage, 2n);
    await sql('UPDATE petstore_writers SET batch = 100');
    await expectAdded(storage, 3n);
  });

  test('a batch is "not done" in time if the pool has no free connection', async (t) => {
    const pool = await poolOf(t, { max: 2 });
    const storage = await open(t, pool);
    const held = await Promise.all([pool.connect(), pool.connect()]);
    const release = () => {
      for (const client of held.splice(0)) client.release();
    };
    atEnd(t, release);
    const since = performance.now();
    await Promise.all([expectRefused(storage), assert.rejects(storage.get(1n), unavailable)]);
    assert.ok(performance.now() - since < 7_500);
    release();
    await expectAdded(storage, 1n);
    await storage.close();
    assert.equal(pool.idleCount, pool.totalCount, 'every connection was released');
  });
});

/** Returns the id of an added pet, or the error code. */
const idOf = (adding: Promise<bigint | Pet>): Promise<unknown> =>
  adding.then(
    (added) => (typeof added === 'bigint' ? added : added.id),
    ({ code }) => code,
  );

/** Opens two storages on one database. */
async function twoServers(t: TestContext) {
  const { storage: one, ...scene } = await openNew(t);
  /** Starts adds that all look up their keys before any can commit, and returns their results. */
  const race = async (begin: () => readonly Promise<bigint | Pet>[]) => {
    const release = await hold(t, scene.url);
    const ids = Promise.all(begin().map(idOf));
    await untilWaiting(scene.url, 2);
    await release();
    return ids;
  };
  return { ...scene, one, other: await open(t, scene.url), race };
}

describe('one key on several servers', { skip: withoutDatabase() }, () => {
  test('two servers that use one key at the same time add one pet', async (t) => {
    const { url, sql, one, other, logged, race } = await twoServers(t);
    const ids = await race(() => [
      addOnce(one, 'a'),
      one.insert(tom),
      addOnce(other, 'a'),
      other.insert(tom),
      addOnce(other, 'b', tom),
    ]);
    assert.equal(ids[0], ids[2]);
    assert.equal(await addOnce(one, 'b', tom), ids[4]);
    assert.deepEqual([...(await namesIn(url))].sort(), ['Rex', 'Tom', 'Tom', 'Tom']);
    assert.equal(await sql('SELECT last_id FROM petstore_counters'), '4', 'no id is skipped');
    assert.deepEqual(logged, [], 'nothing failed');
  });

  test('a key with another body is a mismatch on a second server', async (t) => {
    const { url, one, other, race } = await twoServers(t);
    const ids = await race(() => [addOnce(one, 'a'), addOnce(other, 'a', tom)]);
    assert.deepEqual(ids.sort(), [1n, mismatch.code]);
    assert.equal((await namesIn(url)).length, 1);
  });

  test('an expired key adds one more pet on two servers, and reuses its row', async (t) => {
    const { url, sql, one, other, race } = await twoServers(t);
    // C73: a clock that was set back does not expire it.
    await addOnce(one, 'b', tom, usedAt + dayMs);
    await expectAddedOnce(other, 1n, 'b', tom);
    await addOnce(one, 'a', tom);
    const ids = await race(() => [
      addOnce(one, 'a', rex, usedAt + dayMs),
      addOnce(other, 'a', rex, usedAt + dayMs + 1),
    ]);
    assert.deepEqual(ids, [3n, 3n]);
    assert.deepEqual(await namesIn(url), ['Tom', 'Tom', 'Rex']);
    assert.equal(await sql('SELECT count(*) FROM petstore_idempotency'), '2');
  });

  test('a repeated key returns the first pet after a lost result or statement', async (t) => {
    const { url, storage: far, proxy } = await openFar(t);
    const near = await open(t, url);
    await addOnce(far, 'before');
    // The result of the key's lookup arrives; that of the batch is lost.
    const release = await hold(t, url);
    const first = addOnce(far, 'a');
    await untilWaiting(url, 1);
    proxy.mode = 'deaf';
    await release();
    await until('a lost reply', () => proxy.repliesLost > 0);
    await assert.rejects(addOnce(far, 'a'), inFlight, 'its outcome is unknown');
    await expectAddedOnce(near, 2n, 'a');
    proxy.mode = 'open';
    assert.equal(await first, 2n);
    await expectAddedOnce(far, 2n, 'a');

    proxy.mode = 'closed';
    await assert.rejects(addOnce(far, 'b'), unavailable);
    await expectAddedOnce(near, 3n, 'b', tom);
    proxy.mode = 'open';
    await expectAddedOnce(far, 3n, 'b', tom);
    assert.deepEqual(await namesIn(url), ['Rex', 'Rex', 'Tom']);
  });

  test('a key stays new if a full queue refused its request', async (t) => {
    const { url, storage } = await openNew(t);
    const release = await hold(t, url);
    const first = storage.insert(tom);
    await untilWaiting(url, 1);
    const queued = storage.insert(tom);
    // Once a pet has waited 2 s, no other is queued (C48).
    const later = performance.now() + 2_001;
    const clock = t.mock.method(performance, 'now', () => later);
    const refused = assert.rejects(addOnce(storage, 'a'), {
      ...unavailable,
      message: /^Too much is waiting/,
    });
    clock.mock.restore();
    await refused;
    await release();
    await Promise.all([first, queued]);
    await expectAddedOnce(storage, 3n, 'a');
  });

  test('a key whose pet was deleted is refused, and no other in its batch', async (t) => {
    const { sql, storage } = await openNew(t);
    await addOnce(storage, 'a');
    await sql('DELETE FROM petstore_pets');
    const adding = [addOnce(storage, 'a'), storage.insert(tom), addOnce(storage, 'b', tom)];
    assert.deepEqual(await Promise.all(adding.map(idOf)), ['unavailable', 2n, 3n]);
  });
});
