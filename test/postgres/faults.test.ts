// A server on a database that fails in every way we could think of: what was answered 201 is there, once, and it comes back.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { atEnd } from '../at-end.js';
import { migratePostgres } from '../../dist/postgres.js';
import { folder, start, type RunningServer } from '../standalone/process.js';
import { Cluster } from './cluster.js';
import { newSchemaAt, query, withoutServer } from './database.js';
import { Proxy } from './proxy.js';
import { Writers } from './writers.js';

/** How many faults: each kind once, unless `PETSTORE_TEST_CYCLES=100` asks for more. */
const cycles = Number(process.env['PETSTORE_TEST_CYCLES'] ?? 12);
/** How soon it must work again behind the return of the database. */
const recoveryMs = 5_000;

interface Scene {
  readonly cluster: Cluster;
  readonly proxy: Proxy;
  /** Of the schema, past the proxy. */
  readonly url: string;
  readonly server: RunningServer;
}

/** A cluster whose commits don't wait for the disk unless asked to, a proxy before it, and a server behind that. */
async function scene(t: TestContext): Promise<Scene> {
  const cluster = await Cluster.start(settings);
  atEnd(t, () => cluster.remove());
  const proxy = await Proxy.start(cluster.port);
  atEnd(t, () => proxy.close());
  const url = await newSchemaAt(cluster.url);
  await migratePostgres(url);
  const server = await start(t, ['--storage', proxy.urlFor(url)], { cwd: folder(t) });
  return { cluster, proxy, url, server };
}

const settings = ['synchronous_commit=off', 'max_connections=30', 'superuser_reserved_connections=3', 'restart_after_crash=on'];

/** Each fault begins, lasts a moment and ends; when it resolves, the database is back. */
const faults: Readonly<Record<string, (scene: Scene) => Promise<void>>> = {
  'a backend that is told to end': async ({ cluster, url }) => {
    await query(cluster.url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'petstore' ORDER BY random() LIMIT 1`);
    await query(url, 'SELECT 1');
  },
  'all backends told to end': async ({ cluster }) => {
    await query(cluster.url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'petstore'");
  },
  'a backend that is killed, which takes all others with it': async ({ cluster }) => {
    const [row] = await query(cluster.url, "SELECT pid FROM pg_stat_activity WHERE application_name = 'petstore' LIMIT 1");
    if (row !== undefined) process.kill(Number(row['pid']), 'SIGKILL');
    await answering(cluster.url);
  },
  'an immediate restart': async ({ cluster }) => {
    await cluster.down('SIGQUIT');
    await sleep(100);
    await cluster.up(settings);
  },
  'a kill -9 of the server': async ({ cluster }) => {
    await cluster.down('SIGKILL');
    await sleep(100);
    await cluster.up(settings);
  },
  'replies that are lost': async ({ proxy }) => {
    const before = proxy.repliesLost;
    proxy.mode = 'deaf';
    const giveUpAt = performance.now() + 3_000;
    while (proxy.repliesLost < before + 4 && performance.now() < giveUpAt) await sleep(5);
    proxy.mode = 'open';
    assert.ok(proxy.repliesLost > before);
  },
  'connections that are cut': async ({ proxy }) => {
    proxy.mode = 'closed';
    await sleep(100);
    proxy.mode = 'open';
  },
  silence: async ({ proxy }) => {
    proxy.mode = 'silent';
    await sleep(Math.random() * 6_000);
    proxy.mode = 'open';
  },
  'a database that is read-only': async ({ cluster, proxy }) => {
    await query(cluster.url, 'ALTER SYSTEM SET default_transaction_read_only = on');
    await query(cluster.url, 'SELECT pg_reload_conf()');
    await sleep(300);
    await query(`${cluster.url}?options=-cdefault_transaction_read_only%3Doff`, 'ALTER SYSTEM RESET default_transaction_read_only');
    await query(cluster.url, 'SELECT pg_reload_conf()');
    // Sessions follow between their statements.
    await sleep(50);
    proxy.cut();
  },
  'a counter that somebody holds for longer than a statement may take': async ({ url }) => {
    const holder = new pg.Client({ connectionString: url });
    holder.on('error', () => undefined);
    await holder.connect();
    try {
      await holder.query('BEGIN');
      await holder.query('SELECT * FROM petstore_counters FOR UPDATE');
      await sleep(Math.random() * 5_000);
    } finally {
      await holder.end();
    }
  },
  'no connection left': async ({ cluster, proxy }) => {
    const others: pg.Client[] = [];
    proxy.cut();
    for (;;) {
      const other = new pg.Client({ connectionString: cluster.url });
      other.on('error', () => undefined);
      try {
        await other.connect();
        others.push(other);
      } catch {
        break;
      }
    }
    await sleep(300);
    await Promise.all(others.map((other) => other.end()));
    assert.ok(others.length > 10);
  },
  'rows that are refused': async ({ url }) => {
    // Nothing of their batch may stay.
    await query(url, "ALTER TABLE petstore_pets ADD CONSTRAINT petstore_test CHECK (id % 3 > 0) NOT VALID");
    await sleep(200);
    await query(url, 'ALTER TABLE petstore_pets DROP CONSTRAINT petstore_test');
  },
};

/** Waits for what must come, and not for ever. */
async function inTime(what: Promise<void>, name: string): Promise<void> {
  const overdue = sleep(30_000, undefined, { ref: false }).then(() => assert.fail(`waited in vain for ${name}`));
  await Promise.race([what, overdue]);
}

/** Waits until a database takes statements. */
async function answering(url: string): Promise<void> {
  for (let giveUpAt = performance.now() + 30_000; performance.now() < giveUpAt; await sleep(20)) {
    try {
      await query(url, 'SELECT 1');
      return;
    } catch {
      // Not yet.
    }
  }
  assert.fail('the database does not come back');
}

describe('faults of the database', { skip: withoutServer() }, () => {
  test(`${cycles} faults under 8 writers: every 201 has its row, none is doubled, and it works again within 5 s`, async (t) => {
    const all = await scene(t);
    const { server, url } = all;
    const writers = new Writers(server.url);
    atEnd(t, () => writers.stop());
    writers.start(8);
    const kinds = Object.entries(faults);
    const slowest = { kind: '', ms: 0 };
    for (let cycle = 0; cycle < cycles; cycle++) {
      const [kind = '', fault] = kinds[cycle % kinds.length] ?? [];
      await inTime(writers.oneMore(), `an add before ${kind}`);
      await fault?.(all);
      const backAt = performance.now();
      await inTime(writers.oneMore(), `an add behind ${kind}; the server said ${server.stdout.slice(-2_000)}`);
      const ms = performance.now() - backAt;
      if (ms > slowest.ms) Object.assign(slowest, { kind, ms });
      assert.ok(ms < recoveryMs, `works ${Math.round(ms)} ms after ${kind}`);
      assert.equal((await server.get('/readyz')).status, 200, kind);
      assert.equal((await server.get('/v1/pets?limit=1')).status, 200, kind);
      assert.equal(server.child.exitCode, null, `the server ended after ${kind}`);
    }
    await writers.stop();
    assert.deepEqual(writers.others, [], 'nothing but 201 and 503 was answered');
    const rows = await query(url, "SELECT id, convert_from(json, 'UTF8') AS json FROM petstore_pets ORDER BY id");
    const { missing, doubled } = writers.compare(rows.map(({ id, json }) => ({ id: Number(id), json: String(json) })));
    assert.deepEqual({ missing, doubled }, { missing: [], doubled: [] });
    assert.deepEqual(rows.map(({ id }) => Number(id)), rows.map((_, index) => index + 1), 'ids are 1, 2, 3 …');
    t.diagnostic(`${writers.added} animals answered 201, ${writers.refused} requests 503, ${rows.length} rows; slowest return ${Math.round(slowest.ms)} ms, after ${slowest.kind}`);
    assert.equal((await server.end()).code, 0);
  });
});
