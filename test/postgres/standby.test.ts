// A synchronous standby: a 201 means that the standby has the pet.
import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEnd } from '../support/at-end.js';
import { migratePostgres } from '../../dist/postgres/index.js';
import { Cluster } from './cluster.js';
import { query, withOptions, withoutServer } from './database.js';
import {
  addOnce,
  alterSystem,
  linesOf,
  expectAdded,
  expectRefused,
  expectUnready,
  isReady,
  namesIn,
  open,
  openLogged,
  rex,
  tom,
  untilAdded,
  untilRow,
} from './scene.js';
import { until } from '../support/waiting.js';

const stuck = "pg_stat_activity WHERE application_name = 'petstore' AND wait_event = 'SyncRep'";

/** Returns how many sessions wait for the standby. */
async function stuckAt(url: string): Promise<number> {
  return Number(await linesOf(url, `SELECT count(DISTINCT pid) FROM ${stuck}`));
}

/**
 * A primary with a synchronous standby. Each test has its own database, and leaves both running.
 */
let primary: Cluster;
let standby: Cluster;

let scenes = 0;
/** Returns the URLs of a new database on the primary and on the standby. */
async function scene(t: TestContext) {
  const name = `scene_${++scenes}`;
  await query(primary.url, `CREATE DATABASE ${name}`);
  const [url = '', replica = ''] = [primary, standby].map(
    (cluster) => new URL(`/${name}`, cluster.url).href,
  );
  await migratePostgres(url);
  atEnd(t, () => standby.up());
  return { url, replica };
}

/** Returns a function that returns the result of a promise, or `waiting`. */
function outcomeOf(promise: Promise<unknown>): () => unknown {
  let outcome: unknown = 'waiting';
  const ended = (end: unknown) => (outcome = end);
  promise.then(ended, ended);
  return () => outcome;
}

describe('a synchronous standby', { skip: withoutServer() }, () => {
  before(async () => {
    primary = await Cluster.start();
    standby = await Cluster.standbyOf(primary, 'standby', ['max_connections=30']);
    await alterSystem(primary.url, "SET synchronous_standby_names = 'standby'");
    await untilRow(primary.url, "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'");
  });
  after(async () => {
    await standby?.remove();
    await primary?.remove();
  });

  for (const end of ['pg_cancel_backend', 'pg_terminate_backend']) {
    test(`every server waits for a synchronous standby after ${end}`, async (t) => {
      const { url, replica } = await scene(t);
      const [one, other] = [await open(t, url), await open(t, url)];
      await expectAdded(one, 1n);
      await standby.down('SIGQUIT');
      const first = addOnce(one, 'a', tom);
      const outcome = outcomeOf(first);
      await untilRow(url, `SELECT 1 FROM ${stuck} AND query LIKE 'WITH t%'`);
      await query(url, `SELECT ${end}(pid) FROM ${stuck}`);
      await untilRow(url, 'SELECT 1 FROM petstore_pets WHERE id = 2');
      // Another server finds the key, but must wait for a commit of its own.
      const second = addOnce(other, 'a', tom);
      const repeated = outcomeOf(second);
      for (const turn of ['for a commit of their own', 'again']) {
        if (turn === 'again') await query(url, `SELECT ${end}(pid) FROM ${stuck}`);
        await until(`both to wait ${turn}`, async () => (await stuckAt(url)) === 2);
        assert.deepEqual([outcome(), repeated()], ['waiting', 'waiting']);
      }
      await standby.up();
      assert.deepEqual([await first, await second], [2n, 2n]);
      // The standby may have the commit and not have replayed it.
      await until('both there', async () => (await namesIn(replica)).length === 2);
      assert.deepEqual(await namesIn(replica), ['Rex', 'Tom']);
    });
  }

  for (const setting of [
    'client_min_messages=error',
    'synchronous_commit=off',
    'synchronous_commit=local',
    'synchronous_commit turned off by a reload',
  ]) {
    test(`a server waits for a synchronous standby under ${setting}`, async (t) => {
      const { url } = await scene(t);
      const isReload = setting.includes(' ');
      const storage = await open(t, isReload ? url : withOptions(url, `-c${setting}`));
      await expectAdded(storage, 1n);
      if (isReload) {
        atEnd(t, () => alterSystem(url, 'RESET synchronous_commit'));
        await alterSystem(url, 'SET synchronous_commit = off');
        await untilRow(url, "SELECT 1 WHERE current_setting('synchronous_commit') = 'off'");
      }
      await standby.down('SIGQUIT');
      const add = storage.insert(tom);
      const outcome = outcomeOf(add);
      await untilRow(url, `SELECT 1 FROM ${stuck} AND query LIKE 'WITH t%'`);
      await query(url, `SELECT pg_cancel_backend(pid) FROM ${stuck}`);
      await untilRow(url, `SELECT 1 FROM ${stuck} AND query LIKE 'INSERT INTO % AS writer %'`);
      assert.equal(outcome(), 'waiting');
      await standby.up();
      assert.equal((await add).id, 2n);
    });
  }

  test('reads go on and few sessions wait while a synchronous standby is away', async (t) => {
    const { url } = await scene(t);
    const storages = [await open(t, url), await open(t, url)];
    await standby.down('SIGQUIT');
    const giveUpAt = performance.now() + 12_000;
    const added: bigint[] = [];
    const adding = storages.map(async (storage) => {
      for (; performance.now() < giveUpAt; await sleep(20))
        await storage.insert(rex).then(
          ({ id }) => added.push(id),
          () => undefined,
        );
    });
    let reads = 0;
    for (; performance.now() < giveUpAt; reads++) {
      const since = performance.now();
      for (const storage of storages) assert.deepEqual(await storage.list({ limit: 9 }), []);
      assert.ok(performance.now() - since < 20_000);
      await sleep(50);
    }
    await Promise.all(adding);
    assert.ok((await stuckAt(url)) <= 3, 'few sessions wait');
    assert.ok(reads > 50, `only ${reads} reads`);
    assert.deepEqual(added, [], 'nothing is reported as stored');
    await standby.up();
    for (const storage of storages.slice(1)) await untilAdded(storage, tom);
    const names = await namesIn(url);
    assert.equal(names.filter((name) => name === 'Tom').length, 1);
    assert.ok(names.length <= 3, 'each server stored at most one refused pet');
  });

  test('/readyz is 503 while the outcome of a batch is unknown', async (t) => {
    const { url } = await scene(t);
    const { storage, logged } = await openLogged(t, url);
    await storage.ready?.();
    await standby.down('SIGQUIT');
    const insert = storage.insert(rex);
    const outcome = outcomeOf(insert);
    await until('the outage in the log', () =>
      logged.includes('error the database cannot be written to'),
    );
    // At once, before a statement could have returned.
    assert.equal(await Promise.race([isReady(storage), storage.list({ limit: 1 })]), false);
    assert.equal(outcome(), 'waiting', 'readiness changes before the add is refused');
    await standby.up();
    await insert.catch(() => undefined);
    await until('to be ready', () => isReady(storage));
    assert.equal((await namesIn(url)).length, 1);
  });

  test('/readyz is 503 in time while a synchronous standby is away', async (t) => {
    const { url } = await scene(t);
    const storage = await open(t, url);
    await query(url, 'ALTER TABLE petstore_pets ADD CONSTRAINT none CHECK (id < 1)');
    await expectRefused(storage);
    await query(url, 'ALTER TABLE petstore_pets DROP CONSTRAINT none');
    await standby.down('SIGQUIT');
    for (let count = 0; count < 3; count++) {
      const since = performance.now();
      await expectUnready(storage);
      assert.ok(performance.now() - since < 20_000);
    }
    assert.ok((await stuckAt(url)) <= 2, 'few sessions wait');
    await standby.up();
    await until('to be ready', () => isReady(storage));
    await expectAdded(storage, 1n);
  });
});
