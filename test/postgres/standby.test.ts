// A synchronous standby: what it never had is never answered as stored, and while it is away little
// is stuck.
import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEnd } from '../support/at-end.js';
import type { PetStorage } from '../../dist/index.js';
import { migratePostgres, postgresStorage } from '../../dist/postgres/index.js';
import { insertOnce, onceOf } from '../storage/once.js';
import { Cluster } from './cluster.js';
import { query, withOptions, withoutServer } from './database.js';
import { until } from '../support/waiting.js';

const rex = { name: 'Rex', categoryId: 1n };
const tom = { name: 'Tom', categoryId: 1n };
const stuck = "pg_stat_activity WHERE application_name = 'petstore' AND wait_event = 'SyncRep'";

/**
 * A primary that waits for its standby; each test has a database of its own there, and leaves both
 * at work.
 */
let primary: Cluster;
let standby: Cluster;

interface Scene {
  /** The database's URL. */
  readonly url: string;
  /** The same database's at the standby. */
  readonly replica: string;
  /** @param words More settings of its sessions. */
  open(words?: string): Promise<PetStorage>;
}

let scenes = 0;
async function scene(t: TestContext): Promise<Scene> {
  const pathname = `/scene_${++scenes}`;
  await query(primary.url, `CREATE DATABASE ${pathname.slice(1)}`);
  const url = Object.assign(new URL(primary.url), { pathname }).href;
  const replica = Object.assign(new URL(standby.url), { pathname }).href;
  await migratePostgres(url);
  atEnd(t, () => standby.up());
  const open = async (words?: string): Promise<PetStorage> => {
    const storage = await postgresStorage(words === undefined ? url : withOptions(url, words));
    atEnd(t, () => storage.close());
    return storage;
  };
  return { url, replica, open };
}

async function untilRow(url: string, text: string): Promise<void> {
  await until(text, async () => (await query(url, text)).length > 0);
}

async function namesIn(url: string): Promise<readonly string[]> {
  const rows = await query(
    url,
    `SELECT convert_from(json, 'UTF8')::json ->> 'name' AS name FROM petstore_pets ORDER BY id`,
  );
  return rows.map(({ name }) => String(name));
}

/** What a promise has come to, `waiting` where it has not. */
function outcomeOf<Value>(promise: Promise<Value>): () => Value | 'waiting' | Error {
  let outcome: Value | 'waiting' | Error = 'waiting';
  promise.then(
    (value) => (outcome = value),
    (error: Error) => (outcome = error),
  );
  return () => outcome;
}

describe('a synchronous standby', { skip: withoutServer() }, () => {
  before(async () => {
    primary = await Cluster.start(['max_connections=30']);
    standby = await Cluster.standbyOf(primary, 'standby');
    await query(primary.url, "ALTER SYSTEM SET synchronous_standby_names = 'standby'");
    await query(primary.url, 'SELECT pg_reload_conf()');
    await untilRow(primary.url, "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'");
  });
  after(async () => {
    await standby?.remove();
    await primary?.remove();
  });

  for (const end of ['pg_cancel_backend', 'pg_terminate_backend']) {
    test(`${end} during the wait for it: not answered before it has the animal, by whichever server`, async (t) => {
      const { url, replica, open } = await scene(t);
      const [one, other] = await Promise.all([open(), open()]);
      assert.equal((await one.insert(rex)).id, 1n);
      await standby.down('SIGQUIT');
      const first = insertOnce(one, tom, onceOf('a'));
      const outcome = outcomeOf(first);
      await untilRow(url, `SELECT 1 FROM ${stuck} AND query LIKE 'WITH t%'`);
      await query(url, `SELECT ${end}(pid) FROM ${stuck}`);
      await untilRow(url, 'SELECT 1 FROM petstore_pets WHERE id = 2');
      // Another server finds the key and must not believe it either, nor the first when it looks
      // again.
      const second = insertOnce(other, tom, onceOf('a'));
      const repeated = outcomeOf(second);
      await until('both to wait for a commit of their own', async () => {
        const [row] = await query(url, `SELECT count(DISTINCT pid) AS count FROM ${stuck}`);
        return Number(row?.['count']) === 2;
      });
      assert.deepEqual([outcome(), repeated()], ['waiting', 'waiting']);
      await query(url, `SELECT ${end}(pid) FROM ${stuck}`);
      await until('both to wait again', async () => {
        const [row] = await query(url, `SELECT count(DISTINCT pid) AS count FROM ${stuck}`);
        return Number(row?.['count']) === 2;
      });
      assert.deepEqual([outcome(), repeated()], ['waiting', 'waiting']);
      await standby.up();
      assert.deepEqual([(await first).id, (await second).id], [2n, 2n]);
      // Committed there is not yet replayed there.
      await until('both there', async () => (await namesIn(replica)).length === 2);
      assert.deepEqual(await namesIn(replica), ['Rex', 'Tom']);
    });
  }

  for (const [what, words, change] of [
    ['client_min_messages=error', '-cclient_min_messages=error', undefined],
    ['synchronous_commit=off', '-csynchronous_commit=off', undefined],
    ['synchronous_commit=local', '-csynchronous_commit=local', undefined],
    ['synchronous_commit turned off by a reload', undefined, 'synchronous_commit'],
  ] as const) {
    test(`${what}: it is waited for all the same, and a wait that is cancelled is no proof`, async (t) => {
      const { url, open } = await scene(t);
      const storage = await open(words);
      assert.equal((await storage.insert(rex)).id, 1n);
      if (change !== undefined) {
        atEnd(t, async () => {
          await query(url, `ALTER SYSTEM RESET ${change}`);
          await query(url, 'SELECT pg_reload_conf()');
        });
        await query(url, `ALTER SYSTEM SET ${change} = off`);
        await query(url, 'SELECT pg_reload_conf()');
        await untilRow(url, `SELECT 1 WHERE current_setting('${change}') = 'off'`);
      }
      await standby.down('SIGQUIT');
      const add = storage.insert(tom);
      const outcome = outcomeOf(add);
      await untilRow(url, `SELECT 1 FROM ${stuck} AND query LIKE 'WITH t%'`);
      await query(url, `SELECT pg_cancel_backend(pid) FROM ${stuck}`);
      await untilRow(url, `SELECT 1 FROM ${stuck} AND query LIKE 'INSERT INTO petstore_writers%'`);
      assert.equal(outcome(), 'waiting');
      await standby.up();
      assert.equal((await add).id, 2n);
    });
  }

  test('while it is away little is stuck, reads go on, and in the end each is there once', async (t) => {
    const { url, open } = await scene(t);
    const storages = await Promise.all([open(), open()]);
    await standby.down('SIGQUIT');
    const giveUpAt = performance.now() + 12_000;
    const added: bigint[] = [];
    const adding = storages.map(async (storage) => {
      while (performance.now() < giveUpAt) {
        await storage.insert(rex).then(
          ({ id }) => added.push(id),
          () => sleep(20),
        );
      }
    });
    let reads = 0;
    while (performance.now() < giveUpAt) {
      const since = performance.now();
      for (const storage of storages) assert.deepEqual(await storage.list({ limit: 9 }), []);
      assert.ok(performance.now() - since < 20_000);
      reads++;
      await sleep(20);
    }
    await Promise.all(adding);
    const [row] = await query(url, `SELECT count(*) AS stuck FROM ${stuck}`);
    assert.ok(Number(row?.['stuck']) <= 3, `${row?.['stuck']} are stuck`);
    assert.ok(reads > 50, `only ${reads} reads`);
    assert.deepEqual(added, [], 'nothing is answered as stored');
    await standby.up();
    await until('an insert', () =>
      storages[0]?.insert(tom).then(
        () => true,
        () => false,
      ),
    );
    const names = await namesIn(url);
    assert.equal(names.filter((name) => name === 'Tom').length, 1);
    assert.ok(names.length <= 3, 'what was refused is there at most once for each server');
  });

  test('/readyz is 503 from the moment that an outcome is unknown, and 200 once it is known', async (t) => {
    const { url } = await scene(t);
    const logged: string[] = [];
    const storage = await postgresStorage(url, { log: (_, message) => logged.push(message) });
    atEnd(t, () => storage.close());
    await storage.ready?.();
    await standby.down('SIGQUIT');
    const insert = storage.insert(rex);
    const outcome = outcomeOf(insert);
    await until('the log to know', () => logged.includes('the database cannot be written to'));
    // At once, before it could have asked anything.
    const ready = storage.ready?.().catch(() => 'not ready');
    assert.equal(await Promise.race([ready, storage.list({ limit: 1 })]), 'not ready');
    assert.equal(outcome(), 'waiting', 'it knows before the caller is answered');
    await standby.up();
    await insert.catch(() => undefined);
    await until('to be ready', () =>
      storage.ready?.().then(
        () => true,
        () => false,
      ),
    );
    assert.equal((await namesIn(url)).length, 1);
  });

  test('/readyz does not wait for it either', async (t) => {
    const { url, open } = await scene(t);
    const storage = await open();
    await query(url, 'ALTER TABLE petstore_pets ADD CONSTRAINT none CHECK (id < 1)');
    await assert.rejects(storage.insert(rex), { code: 'unavailable' });
    await query(url, 'ALTER TABLE petstore_pets DROP CONSTRAINT none');
    await standby.down('SIGQUIT');
    for (let count = 0; count < 3; count++) {
      const since = performance.now();
      await assert.rejects(async () => storage.ready?.(), { code: 'unavailable' });
      assert.ok(performance.now() - since < 20_000);
    }
    const [row] = await query(url, `SELECT count(*) AS stuck FROM ${stuck}`);
    assert.ok(Number(row?.['stuck']) <= 2, `${row?.['stuck']} are stuck`);
    await standby.up();
    await until('to be ready', () =>
      storage.ready?.().then(
        () => true,
        () => false,
      ),
    );
    assert.equal((await storage.insert(rex)).id, 1n);
  });
});
