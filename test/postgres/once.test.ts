// Idempotency keys of several servers on one database: one animal for a key, whoever is asked and
// whatever fails.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { atEnd } from '../support/at-end.js';
import type { PetStorage } from '../../dist/index.js';
import { postgresStorage } from '../../dist/postgres/index.js';
import { dayMs, inFlight, insertOnce, mismatch, onceOf } from '../storage/once.js';
import { hold, newDatabase, query, waiting, withoutDatabase } from './database.js';
import { TcpProxy } from './proxy.js';
import { until } from '../support/waiting.js';

const rex = { name: 'Rex', categoryId: 1n };
const tom = { name: 'Tom', categoryId: 1n };

/** Two servers on one database. */
async function scene(t: TestContext): Promise<{
  readonly url: string;
  readonly servers: readonly [PetStorage, PetStorage];
  readonly logged: readonly unknown[];
}> {
  const url = await newDatabase();
  const logged: unknown[] = [];
  const open = async (): Promise<PetStorage> => {
    const storage = await postgresStorage(url, { log: (...line) => logged.push(line) });
    atEnd(t, () => storage.close());
    return storage;
  };
  return { url, servers: [await open(), await open()], logged };
}

async function namesIn(url: string): Promise<readonly unknown[]> {
  return (
    await query(
      url,
      `SELECT convert_from(json, 'UTF8')::json ->> 'name' AS name FROM petstore_pets ORDER BY id`,
    )
  ).map(({ name }) => name);
}

describe('one key on several servers', { skip: withoutDatabase() }, () => {
  test('what one server has added another answers, or refuses with another body', async (t) => {
    const {
      url,
      servers: [one, other],
    } = await scene(t);
    const pet = await insertOnce(one, rex, onceOf('a'));
    assert.deepEqual(await insertOnce(other, rex, onceOf('a')), pet);
    await assert.rejects(insertOnce(other, tom, onceOf('a', 'another')), mismatch);
    assert.deepEqual(await namesIn(url), ['Rex']);
  });

  test('raced on two servers it adds one animal, and both answer that one; what goes along with it is added too', async (t) => {
    const {
      url,
      servers: [one, other],
      logged,
    } = await scene(t);
    // Both have looked for the key before either may add.
    const release = await hold(t, url);
    const outcomes = [
      insertOnce(one, rex, onceOf('a')),
      one.insert(tom),
      insertOnce(other, rex, onceOf('a')),
      other.insert(tom),
      insertOnce(other, tom, onceOf('b')),
    ];
    await waiting(url, 2);
    await release();
    const [first, , second, , third] = await Promise.all(outcomes);
    assert.deepEqual(first, second);
    assert.deepEqual(await insertOnce(one, tom, onceOf('b')), third);
    assert.deepEqual([...(await namesIn(url))].sort(), ['Rex', 'Tom', 'Tom', 'Tom']);
    assert.deepEqual(
      await query(url, 'SELECT last_id FROM petstore_counters'),
      [{ last_id: '4' }],
      'no id is left out',
    );
    assert.deepEqual(logged, [], 'nothing failed');
  });

  test('raced with two bodies it adds the one, and the other is a mismatch', async (t) => {
    const {
      url,
      servers: [one, other],
    } = await scene(t);
    const release = await hold(t, url);
    const outcomes = Promise.allSettled([
      insertOnce(one, rex, onceOf('a', 'one')),
      insertOnce(other, tom, onceOf('a', 'other')),
    ]);
    await waiting(url, 2);
    await release();
    const refused = (await outcomes).flatMap((outcome) =>
      outcome.status === 'rejected' ? [outcome.reason.code] : [],
    );
    assert.deepEqual(refused, [mismatch.code]);
    assert.equal((await namesIn(url)).length, 1);
  });

  test('an expired key is raced for anew, and its row is used again', async (t) => {
    const {
      url,
      servers: [one, other],
    } = await scene(t);
    const at = 1_795_132_800_000;
    // A day away in either direction: a clock that went wrong counts too.
    await insertOnce(one, tom, onceOf('b', 'old', at + dayMs));
    assert.equal((await insertOnce(other, rex, onceOf('b', 'new', at))).id, 2n);
    await insertOnce(one, tom, onceOf('a', 'old', at));
    const release = await hold(t, url);
    const outcomes = [
      insertOnce(one, rex, onceOf('a', 'new', at + dayMs)),
      insertOnce(other, rex, onceOf('a', 'new', at + dayMs + 1)),
    ];
    await waiting(url, 2);
    await release();
    assert.deepEqual(
      (await Promise.all(outcomes)).map(({ id }) => id),
      [4n, 4n],
    );
    assert.deepEqual(await namesIn(url), ['Tom', 'Rex', 'Tom', 'Rex']);
    assert.deepEqual(await query(url, 'SELECT count(*) AS keys FROM petstore_idempotency'), [
      { keys: '2' },
    ]);
  });

  test('many clients that send each key to every server have one animal for each', async (t) => {
    const { url, servers } = await scene(t);
    const keys = Array.from({ length: 150 }, (_, index) => `k${index}`);
    const idOf = async (server: PetStorage, key: string): Promise<bigint> =>
      (await insertOnce(server, { name: key, categoryId: 1n }, onceOf(key))).id;
    const ids = await Promise.all(
      keys.map((key) => Promise.all(servers.map((server) => idOf(server, key)))),
    );
    for (const [one, other] of ids) assert.equal(one, other);
    assert.deepEqual([...(await namesIn(url))].sort(), keys.sort());
  });

  test('a reply that is lost behind the commit, and one that never came: a repeat has the animal of the first, once', async (t) => {
    const url = await newDatabase();
    const { hostname, port } = new URL(url);
    const proxy = await TcpProxy.start(Number(port || 5432), hostname);
    atEnd(t, () => proxy.close());
    const [far, near] = await Promise.all([
      postgresStorage(proxy.urlFor(url)),
      postgresStorage(url),
    ]);
    atEnd(t, () => Promise.all([far.close(), near.close()]));
    await insertOnce(far, rex, onceOf('before'));
    // The search for the key gets through, the answer to the batch does not.
    const release = await hold(t, url);
    const first = insertOnce(far, rex, onceOf('a'));
    await waiting(url, 1);
    proxy.mode = 'deaf';
    await release();
    await until('a lost reply', () => proxy.repliesLost > 0);
    await assert.rejects(insertOnce(far, rex, onceOf('a')), inFlight, 'nobody knows yet');
    assert.equal((await insertOnce(near, rex, onceOf('a'))).id, 2n, 'another server knows');
    proxy.mode = 'open';
    assert.equal((await first).id, 2n);
    assert.equal((await insertOnce(far, rex, onceOf('a'))).id, 2n);

    proxy.mode = 'closed';
    await assert.rejects(insertOnce(far, rex, onceOf('b')), { code: 'unavailable' });
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
    const {
      url,
      servers: [one],
    } = await scene(t);
    const release = await hold(t, url);
    const first = one.insert(tom);
    await waiting(url, 1);
    const behind = Array.from({ length: 4_096 }, () => one.insert(tom));
    await assert.rejects(insertOnce(one, rex, onceOf('a')), { code: 'unavailable' });
    await release();
    await Promise.all([first, ...behind]);
    assert.equal((await insertOnce(one, rex, onceOf('a'))).id, 4_098n);
  });

  test('keys without an animal, which only a person can have made, are refused for themselves alone', async (t) => {
    const {
      url,
      servers: [one],
    } = await scene(t);
    await insertOnce(one, rex, onceOf('a'));
    await query(url, 'DELETE FROM petstore_pets');
    const outcomes = await Promise.allSettled([
      insertOnce(one, rex, onceOf('a')),
      one.insert(tom),
      insertOnce(one, tom, onceOf('b')),
    ]);
    assert.deepEqual(
      outcomes.map((outcome) =>
        outcome.status === 'fulfilled' ? outcome.value.id : outcome.reason.code,
      ),
      ['unavailable', 2n, 3n],
    );
  });
});
