// What became of a batch whose answer was lost: known in the end, told truly, never stored twice. And
// idempotency keys of several servers: one animal for a key, whoever is asked and whatever fails.
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

/** A storage behind a proxy, with one animal in it. */
async function scene(t: TestContext) {
  const far = await openFar(t);
  await expectAdded(far.storage, 1n);
  return far;
}

describe('the outcome of a batch', { skip: withoutDatabase() }, () => {
  test('a statement that never arrived: refused, and it is not there later either', async (t) => {
    const { url, proxy, storage } = await scene(t);
    proxy.mode = 'silent';
    const insert = storage.insert(rex);
    // It is on its way; the connection goes before it arrives.
    await sleep(100);
    proxy.cut();
    proxy.mode = 'open';
    await assert.rejects(insert, { ...unavailable, outcome: 'not done' });
    await expectStored(url, 1);
    await expectAdded(storage, 2n);
  });

  test('a statement that is still at work when its connection is lost is kept from happening, and told so', async (t) => {
    const { url, proxy, storage } = await scene(t);
    const release = await hold(t, url);
    const refused = expectRefused(storage);
    await untilWaiting(url, 1);
    proxy.cut();
    await refused;
    await release();
    // It gets the counter now, unless the server has seen before that nobody waits for it any more.
    await expectAdded(storage, 2n);
    await untilRow(
      url,
      "SELECT 1 FROM pg_stat_activity HAVING count(*) FILTER (WHERE query LIKE 'WITH taken%' AND state = 'active') = 0",
    );
    await expectStored(url, 2);
  });

  test('a database that stays away: refused in time, whoever comes behind at once, and all is well when it is back', async (t) => {
    const { url, proxy, storage, logged } = await scene(t);
    proxy.mode = 'silent';
    const since = performance.now();
    const insert = storage.insert(rex);
    const behind = sleep(500).then(() => expectRefused(storage));
    await assert.rejects(insert, { ...unavailable, message: 'The database does not answer.' });
    await behind;
    assert.ok(performance.now() - since < 16_000);
    const late = performance.now();
    await expectRefused(storage);
    await expectUnready(storage);
    assert.ok(performance.now() - late < 3_000, 'nobody waits for what hangs');
    const backAt = performance.now();
    proxy.mode = 'open';
    await untilAdded(storage);
    assert.ok(performance.now() - backAt < 5_000, 'it works again within 5 s');
    await storage.ready?.();
    await expectStored(url, 2);
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
    const refused = expectRefused(storage);
    const since = performance.now();
    await storage.close();
    assert.ok(performance.now() - since < 16_000);
    await refused;
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
    await expectAdded(storage, 1n, 2n, 3n, 4n, 5n);
    assert.equal((await storage.list({ limit: 9 })).length, 5);
    assert.deepEqual(damaged, []);
  });

  test('a writer whose row is gone, as behind a restored backup, gets another', async (t) => {
    const { sql, storage } = await openNew(t);
    await expectAdded(storage, 1n);
    await sql('DELETE FROM petstore_writers');
    await expectAdded(storage, 2n);
    await sql('UPDATE petstore_writers SET batch = 100');
    await expectAdded(storage, 3n);
  });

  test('a pool whose connections others hold refuses in time, and nothing is lost in it', async (t) => {
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
    assert.equal(pool.idleCount, pool.totalCount, 'every connection was given back');
  });
});

/** An id, or the code that an add was refused with. */
const idOf = (adding: Promise<bigint | Pet>): Promise<unknown> =>
  adding.then(
    (added) => (typeof added === 'bigint' ? added : added.id),
    ({ code }) => code,
  );

/** Two servers on one database. */
async function twoServers(t: TestContext) {
  const { storage: one, ...scene } = await openNew(t);
  /** What comes of adds that have all looked for their keys before any may add. */
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
  test('raced on two servers it adds one animal, and both answer that one; what goes along with it is added too', async (t) => {
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
    assert.equal(await sql('SELECT last_id FROM petstore_counters'), '4', 'no id is left out');
    assert.deepEqual(logged, [], 'nothing failed');
  });

  test('raced with two bodies it adds the one, and the other is a mismatch', async (t) => {
    const { url, one, other, race } = await twoServers(t);
    const ids = await race(() => [addOnce(one, 'a'), addOnce(other, 'a', tom)]);
    assert.deepEqual(ids.sort(), [1n, mismatch.code]);
    assert.equal((await namesIn(url)).length, 1);
  });

  test('an expired key is raced for anew, and its row is used again', async (t) => {
    const { url, sql, one, other, race } = await twoServers(t);
    // C73: by a clock that was set back it has not expired.
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

  test('a reply that is lost behind the commit, and one that never came: a repeat has the animal of the first, once', async (t) => {
    const { url, storage: far, proxy } = await openFar(t);
    const near = await open(t, url);
    await addOnce(far, 'before');
    // The search for the key gets through, the answer to the batch does not.
    const release = await hold(t, url);
    const first = addOnce(far, 'a');
    await untilWaiting(url, 1);
    proxy.mode = 'deaf';
    await release();
    await until('a lost reply', () => proxy.repliesLost > 0);
    await assert.rejects(addOnce(far, 'a'), inFlight, 'nobody knows yet');
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

  test('what is refused because too much waits leaves its key new', async (t) => {
    const { url, storage } = await openNew(t);
    const release = await hold(t, url);
    const first = storage.insert(tom);
    await untilWaiting(url, 1);
    const behind = Array.from({ length: 4_096 }, () => storage.insert(tom));
    await assert.rejects(addOnce(storage, 'a'), unavailable);
    await release();
    await Promise.all([first, ...behind]);
    await expectAddedOnce(storage, 4_098n, 'a');
  });

  test('keys without an animal, which only a person can have made, are refused for themselves alone', async (t) => {
    const { sql, storage } = await openNew(t);
    await addOnce(storage, 'a');
    await sql('DELETE FROM petstore_pets');
    const adding = [addOnce(storage, 'a'), storage.insert(tom), addOnce(storage, 'b', tom)];
    assert.deepEqual(await Promise.all(adding.map(idOf)), ['unavailable', 2n, 3n]);
  });
});
