// Idempotency keys of several servers on one database: one animal for a key, whoever is asked and
// whatever fails.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { PetStorage } from '../../dist/index.js';
import { dayMs, inFlight, insertOnce, mismatch, onceOf } from '../storage/once.js';
import { newDatabase, query, withoutDatabase } from './database.js';
import {
  hold,
  namesIn,
  open,
  openLogged,
  proxied,
  rex,
  tom,
  unavailable,
  untilWaiting,
} from './scene.js';
import { until } from '../support/waiting.js';

interface Scene {
  readonly url: string;
  readonly one: PetStorage;
  readonly other: PetStorage;
  readonly logged: readonly string[];
}

/** Two servers on one database. */
async function scene(t: TestContext): Promise<Scene> {
  const url = await newDatabase();
  const { storage: one, logged } = await openLogged(t, url);
  return { url, one, other: await open(t, url), logged };
}

/** What comes of inserts that have all looked for their keys before any may add. */
async function raced<Result>(
  t: TestContext,
  { url }: Scene,
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
    const { url, one, other } = await scene(t);
    const pet = await insertOnce(one, rex, onceOf('a'));
    assert.deepEqual(await insertOnce(other, rex, onceOf('a')), pet);
    await assert.rejects(insertOnce(other, tom, onceOf('a', 'another')), mismatch);
    assert.deepEqual(await namesIn(url), ['Rex']);
  });

  test('raced on two servers it adds one animal, and both answer that one; what goes along with it is added too', async (t) => {
    const servers = await scene(t);
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
    const servers = await scene(t);
    const outcomes = await raced(t, servers, () => [
      insertOnce(servers.one, rex, onceOf('a', 'one')),
      insertOnce(servers.other, tom, onceOf('a', 'other')),
    ]);
    assert.deepEqual(idsOf(outcomes).sort(), [1n, mismatch.code]);
    assert.equal((await namesIn(servers.url)).length, 1);
  });

  test('an expired key is raced for anew, and its row is used again', async (t) => {
    const servers = await scene(t);
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
    const { url, one, other } = await scene(t);
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
    const { url, one } = await scene(t);
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
    const { url, one } = await scene(t);
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
