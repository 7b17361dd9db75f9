// A server on a database that fails in every way we could think of: what was answered 201 is there,
// once, and it comes back.
import '../support/unmeasured.js';
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { atEnd } from '../support/at-end.js';
import { migratePostgres } from '../../dist/postgres/index.js';
import { folder, startServer, type StartedServer } from '../support/process.js';
import { until } from '../support/waiting.js';
import { Cluster } from './cluster.js';
import { newSchemaAt, query, withoutServer } from './database.js';
import { TcpProxy } from './proxy.js';
import { Writers } from './writers.js';

/** How soon it must work again behind the return of the database. */
const recoveryMs = 5_000;
/**
 * No read takes longer, whatever the database does: it is tried twice, each time with a connection
 * and a statement.
 */
const patienceMs = 11_000;

interface Scene {
  readonly cluster: Cluster;
  readonly proxy: TcpProxy;
  /** Of the schema, past the proxy. */
  readonly url: string;
  readonly server: StartedServer;
}

/**
 * A cluster whose commits don't wait for the disk unless asked to, a proxy before it, and a server
 * behind that.
 */
async function scene(t: TestContext): Promise<Scene> {
  const cluster = await Cluster.start(settings);
  atEnd(t, () => cluster.remove());
  const proxy = await TcpProxy.start(cluster.port);
  atEnd(t, () => proxy.close());
  const url = await newSchemaAt(cluster.url);
  await migratePostgres(url);
  const server = await startServer(t, ['--storage', proxy.urlFor(url)], { cwd: folder(t) });
  return { cluster, proxy, url, server };
}

const settings = [
  'synchronous_commit=off',
  'max_connections=30',
  'superuser_reserved_connections=3',
  'restart_after_crash=on',
];

/** Each fault begins, lasts a moment and ends; when it resolves, the database is back. */
const faults: Readonly<Record<string, (scene: Scene) => Promise<void>>> = {
  'a backend that is told to end': async ({ cluster, url }) => {
    await query(
      cluster.url,
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'petstore' ORDER BY random() LIMIT 1`,
    );
    await query(url, 'SELECT 1');
  },
  'all backends told to end': async ({ cluster }) => {
    await query(
      cluster.url,
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'petstore'",
    );
  },
  'a backend that is killed, which takes all others with it': async ({ cluster }) => {
    const [row] = await query(
      cluster.url,
      "SELECT pid FROM pg_stat_activity WHERE application_name = 'petstore' LIMIT 1",
    );
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
    await lose(proxy, 'deaf');
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
    await query(
      `${cluster.url}?options=-cdefault_transaction_read_only%3Doff`,
      'ALTER SYSTEM RESET default_transaction_read_only',
    );
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
  'sessions that stay read-only, as those of a server that became a standby': async ({
    cluster,
  }) => {
    await query(cluster.url, 'ALTER DATABASE postgres SET default_transaction_read_only = on');
    await endAll(cluster);
    await sleep(300);
    await query(
      `${cluster.url}?options=-cdefault_transaction_read_only%3Doff`,
      'ALTER DATABASE postgres RESET default_transaction_read_only',
    );
  },
  'idle connections that are ended at once': async ({ cluster }) => {
    await setting(cluster, 'idle_session_timeout', "'2ms'");
    await sleep(500);
    await reset(cluster, 'idle_session_timeout');
  },
  'another password': async ({ cluster }) => {
    const file = join(cluster.folder, 'data/pg_hba.conf');
    const before = readFileSync(file, 'utf8');
    const admin = new pg.Client({ connectionString: cluster.url });
    await admin.connect();
    try {
      writeFileSync(file, before.replaceAll('trust', 'scram-sha-256'));
      await admin.query('SELECT pg_reload_conf()');
      await admin.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'petstore'",
      );
      await sleep(300);
      writeFileSync(file, before);
      await admin.query('SELECT pg_reload_conf()');
    } finally {
      await admin.end();
    }
    await answering(cluster.url);
  },
  'TLS that is asked for': async ({ cluster }) => {
    const file = join(cluster.folder, 'data/pg_hba.conf');
    const before = readFileSync(file, 'utf8');
    const admin = new pg.Client({ connectionString: cluster.url });
    await admin.connect();
    try {
      writeFileSync(file, before.replaceAll(/^host /gm, 'hostssl '));
      await admin.query('SELECT pg_reload_conf()');
      await admin.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'petstore'",
      );
      await sleep(300);
      writeFileSync(file, before);
      await admin.query('SELECT pg_reload_conf()');
    } finally {
      await admin.end();
    }
    await answering(cluster.url);
  },
  'a database that takes no connections': async ({ cluster }) => {
    const maintenance = Object.assign(new URL(cluster.url), { pathname: '/template1' }).href;
    await query(maintenance, 'ALTER DATABASE postgres ALLOW_CONNECTIONS false');
    await endAll(cluster, maintenance);
    await sleep(300);
    await query(maintenance, 'ALTER DATABASE postgres ALLOW_CONNECTIONS true');
  },
  'a database that is renamed': async ({ cluster }) => {
    const maintenance = Object.assign(new URL(cluster.url), { pathname: '/template1' }).href;
    await query(maintenance, 'ALTER DATABASE postgres ALLOW_CONNECTIONS false');
    for (let giveUpAt = performance.now() + 5_000; ; ) {
      await endAll(cluster, maintenance);
      try {
        await query(maintenance, 'ALTER DATABASE postgres RENAME TO elsewhere');
        break;
      } catch (error) {
        if (performance.now() > giveUpAt) throw error;
      }
    }
    await sleep(300);
    await query(maintenance, 'ALTER DATABASE elsewhere RENAME TO postgres');
    await query(maintenance, 'ALTER DATABASE postgres ALLOW_CONNECTIONS true');
  },
  'rights that are taken': async ({ url }) => {
    await query(url, 'ALTER TABLE petstore_pets RENAME TO petstore_gone');
    await sleep(200);
    await query(url, 'ALTER TABLE petstore_gone RENAME TO petstore_pets');
  },
  'a table that somebody locks': async ({ url }) => {
    const holder = new pg.Client({ connectionString: url });
    await holder.connect();
    await holder.query('BEGIN');
    await holder.query(
      `LOCK TABLE ${pick(['petstore_pets', 'petstore_counters', 'petstore_writers'])} IN ACCESS EXCLUSIVE MODE`,
    );
    await sleep(Math.random() * 8_000);
    await holder.end();
  },
  'a deadlock with somebody': async ({ url }) => {
    const holder = new pg.Client({ connectionString: url });
    await holder.connect();
    await holder.query('BEGIN');
    await holder.query('SELECT * FROM petstore_counters FOR UPDATE');
    // It waits for the writer, who waits for the counter.
    await sleep(200);
    await holder.query('SELECT * FROM petstore_writers FOR UPDATE').catch(() => undefined);
    await holder.end();
  },
  'sessions that are serializable, beside another that adds': async ({ cluster, url }) => {
    await query(
      cluster.url,
      'ALTER DATABASE postgres SET default_transaction_isolation = serializable',
    );
    await endAll(cluster);
    const other = new pg.Client({ connectionString: url });
    await other.connect();
    for (let count = 0; count < 300; count++)
      await other.query('UPDATE petstore_counters SET last_id = last_id').catch(() => undefined);
    await other.end();
    await query(cluster.url, 'ALTER DATABASE postgres RESET default_transaction_isolation');
    await endAll(cluster);
  },
  'a standby that is waited for and never comes': async ({ cluster }) => {
    await setting(cluster, 'synchronous_standby_names', "'nobody'");
    await sleep(Math.random() * 6_000);
    await reset(cluster, 'synchronous_standby_names');
  },
  'limits of time of its own': async ({ cluster }) => {
    await setting(cluster, 'statement_timeout', '1');
    await setting(cluster, 'lock_timeout', '1');
    await sleep(300);
    await reset(cluster, 'statement_timeout');
    await reset(cluster, 'lock_timeout');
  },
  'replies in halves': async ({ proxy }) => {
    await lose(proxy, 'halving');
  },
  'replies that are none': async ({ proxy }) => {
    proxy.mode = 'garbling';
    await sleep(500);
    proxy.mode = 'open';
  },
  'replies in crumbs': async ({ proxy, server }) => {
    proxy.mode = 'crumbling';
    for (let count = 0; count < 5; count++)
      assert.equal((await server.add('in crumbs')).status, 201);
    proxy.mode = 'open';
  },
  'a database that is 200 ms away': async ({ proxy, server }) => {
    proxy.mode = 'far';
    proxy.cut();
    await sleep(500);
    // What the cut left unknown is known a second later, from afar.
    await until('to be ready', async () => (await server.get('/readyz')).status === 200);
    assert.equal((await server.add('from afar')).status, 201);
    proxy.mode = 'open';
  },
  'rows that are refused': async ({ url }) => {
    // Nothing of their batch may stay.
    await query(
      url,
      'ALTER TABLE petstore_pets ADD CONSTRAINT petstore_test CHECK (id % 3 > 0) NOT VALID',
    );
    await sleep(200);
    await query(url, 'ALTER TABLE petstore_pets DROP CONSTRAINT petstore_test');
  },
};

/** How many faults: each kind once, unless `PETSTORE_TEST_CYCLES=100` asks for more. */
const cycles = Number(process.env['PETSTORE_TEST_CYCLES'] ?? Object.keys(faults).length);

/** Loses some replies. */
async function lose(proxy: TcpProxy, mode: 'deaf' | 'halving'): Promise<void> {
  const before = proxy.repliesLost;
  proxy.mode = mode;
  const giveUpAt = performance.now() + 3_000;
  while (proxy.repliesLost < before + 4 && performance.now() < giveUpAt) await sleep(5);
  proxy.mode = 'open';
  assert.ok(proxy.repliesLost > before);
}

async function endAll(cluster: Cluster, by = cluster.url): Promise<void> {
  await query(
    by,
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'petstore'",
  );
}

/** Changes a setting of the whole server, as its administrator would, whom it doesn't bind. */
async function setting(cluster: Cluster, name: string, value: string): Promise<void> {
  await administer(cluster, `ALTER SYSTEM SET ${name} = ${value}`);
}

async function reset(cluster: Cluster, name: string): Promise<void> {
  await administer(cluster, `ALTER SYSTEM RESET ${name}`);
}

async function administer(cluster: Cluster, statement: string): Promise<void> {
  const url = `${cluster.url}?options=-cstatement_timeout%3D0%20-clock_timeout%3D0%20-cidle_session_timeout%3D0`;
  await query(url, statement);
  await query(url, 'SELECT pg_reload_conf()');
}

function pick<Value>(values: readonly Value[]): Value {
  const value = values[Math.floor(Math.random() * values.length)];
  assert.ok(value !== undefined);
  return value;
}

/**
 * Reads without a pause; answers what came that was neither 200 nor 503, and how long the slowest
 * took.
 */
async function readOn(
  server: StartedServer,
  isOver: () => boolean,
): Promise<{ readonly others: readonly string[]; readonly slowestMs: number }> {
  const others: string[] = [];
  let slowestMs = 0;
  for (let count = 0; !isOver(); count++) {
    const path =
      ['/v1/pets?limit=5', '/v1/pets/1', '/readyz', '/v1/pets?status=sold'][count % 4] ?? '';
    const since = performance.now();
    const response = await server.get(path);
    const text = await response.text();
    slowestMs = Math.max(slowestMs, performance.now() - since);
    if (response.status !== 200 && response.status !== 503)
      others.push(`${path} ${response.status} ${text}`);
    await sleep(30);
  }
  return { others, slowestMs };
}

/** Waits for what must come, and not for ever. */
async function inTime(what: Promise<void>, name: string): Promise<void> {
  const overdue = sleep(30_000, undefined, { ref: false }).then(() =>
    assert.fail(`waited in vain for ${name}`),
  );
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
    const writers = new Writers(server.port);
    atEnd(t, () => writers.stop());
    writers.start(8);
    await inTime(writers.oneMore(), 'the first');
    let isOver = false;
    const reading = readOn(server, () => isOver);
    reading.catch(() => undefined);
    const only = process.env['PETSTORE_TEST_FAULT'];
    const kinds = Object.entries(faults).filter(
      ([kind]) => only === undefined || kind.includes(only),
    );
    const slowest = { kind: '', ms: 0 };
    for (let cycle = 0; cycle < cycles; cycle++) {
      const [kind = '', fault] = kinds[cycle % kinds.length] ?? [];
      await inTime(writers.oneMore(), `an add before ${kind}`);
      await fault?.(all);
      const backAt = performance.now();
      await inTime(
        writers.oneMore(),
        `an add behind ${kind}; the server said ${server.stdout.slice(-2_000)}`,
      );
      const ms = performance.now() - backAt;
      if (only !== undefined) t.diagnostic(`${kind}: ${Math.round(ms)} ms`);
      if (ms > slowest.ms) Object.assign(slowest, { kind, ms });
      assert.ok(ms < recoveryMs, `works ${Math.round(ms)} ms after ${kind}`);
      for (const path of ['/readyz', '/v1/pets?limit=1']) {
        // It may meet a connection of the pool that still waits for what the fault took, and then
        // has the same time.
        while ((await server.get(path)).status !== 200)
          assert.ok(performance.now() - backAt < recoveryMs, `${path} behind ${kind}`);
      }
      assert.equal(server.child.exitCode, null, `the server ended after ${kind}`);
    }
    await writers.stop();
    isOver = true;
    const { others, slowestMs } = await reading;
    assert.deepEqual(others, [], 'nothing but 200 and 503 was read');
    assert.ok(slowestMs < patienceMs, `a read took ${Math.round(slowestMs)} ms`);
    const faultsOfOurs = server.stdout
      .split('\n')
      .filter((line) => line.includes('internal error'));
    assert.deepEqual(
      writers.others,
      [],
      `nothing but 201 and 503 was answered; the log says ${faultsOfOurs}`,
    );
    const rows = await query(
      url,
      "SELECT id, convert_from(json, 'UTF8') AS json FROM petstore_pets ORDER BY id",
    );
    const { missing, doubled } = writers.compare(
      rows.map(({ id, json }) => ({ id: Number(id), json: String(json) })),
    );
    assert.deepEqual({ missing, doubled }, { missing: [], doubled: [] });
    assert.deepEqual(
      rows.map(({ id }) => Number(id)),
      rows.map((_, index) => index + 1),
      'ids are 1, 2, 3 …',
    );
    t.diagnostic(
      `${writers.added} animals answered 201, ${writers.refused} requests 503, ${rows.length} rows; slowest read ${Math.round(slowestMs)} ms, slowest return ${Math.round(slowest.ms)} ms, after ${slowest.kind}`,
    );
    assert.equal((await server.end()).code, 0);
  });
});
