// A server under load on a database with faults: no acknowledged pet is lost or doubled.
import '../support/unmeasured.js';
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { atEnd } from '../support/at-end.js';
import { migratePostgres } from '../../dist/postgres/index.js';
import { testSetting } from '../support/environment.js';
import { folder, startServer, type StartedServer } from '../support/process.js';
import { until } from '../support/waiting.js';
import { Cluster, serverVersion } from './cluster.js';
import { newSchemaAt, query, sessionAt, withOptions, withoutServer } from './database.js';
import type { TcpProxy } from './proxy.js';
import { endSessions, proxied, rowsIn, untilRow } from './scene.js';
import { Writers } from './writers.js';

/** The time in ms within which the server must work again after the end of a fault. */
const recoveryMs = 5_000;
/** The longest time of a read in ms: two attempts, each with a connection and a statement. */
const slowestReadMs = 11_000;

interface Scene {
  readonly cluster: Cluster;
  readonly proxy: TcpProxy;
  /** The URL of the schema without the proxy. */
  readonly url: string;
  readonly server: StartedServer;
}

/** Starts a cluster, a proxy in front of it, and a server that uses the proxy. */
async function scene(t: TestContext): Promise<Scene> {
  const cluster = await Cluster.start(settings);
  atEnd(t, () => cluster.remove());
  const { url, far, proxy } = await proxied(t, await newSchemaAt(cluster.url));
  await migratePostgres(url);
  const server = await startServer(t, ['--storage', far], { cwd: folder(t) });
  return { cluster, proxy, url, server };
}

const settings = [
  'synchronous_commit=off',
  'max_connections=30',
  'superuser_reserved_connections=3',
  'restart_after_crash=on',
];

/** Begins and ends a fault; resolves once the database works again. */
type Fault = (scene: Scene) => Promise<void>;

/** True if the server can end idle sessions. */
const endsIdleSessions = serverVersion() >= 14;

/** Runs statements as the administrator, whom no setting limits. */
async function administer(
  { cluster, url }: Scene,
  statements: readonly string[],
  database?: string,
): Promise<void> {
  const unlimited = ['statement_timeout', 'lock_timeout'];
  if (endsIdleSessions) unlimited.push('idle_session_timeout');
  const words = [
    ...unlimited.map((name) => `-c${name}=0`),
    '-cdefault_transaction_read_only=off',
  ].join(' ');
  const own = database === undefined ? url : `${new URL(`/${database}`, cluster.url)}`;
  for (const statement of statements) await query(withOptions(own, words), statement);
}

/** A fault that statements begin and end. */
const between =
  (begin: readonly string[], ms: number, end: readonly string[], database?: string): Fault =>
  async (scene) => {
    await administer(scene, begin, database);
    await sleep(ms);
    await administer(scene, end, database);
  };

const reload = 'SELECT pg_reload_conf()';

/** A fault by settings of the whole server. */
const withSettings = (changed: Readonly<Record<string, string>>, ms: number): Fault => {
  const names = Object.keys(changed);
  return between(
    [...names.map((name) => `ALTER SYSTEM SET ${name} = ${changed[name]}`), reload],
    ms,
    [...names.map((name) => `ALTER SYSTEM RESET ${name}`), reload],
  );
};

/** A fault that ends the server and starts it again. */
const restart =
  (signal: 'SIGQUIT' | 'SIGKILL'): Fault =>
  async ({ cluster }) => {
    await cluster.down(signal);
    await sleep(100);
    await cluster.up(settings);
  };

/** A fault by another rule of authentication for new sessions. */
const withAccess =
  (from: RegExp, to: string): Fault =>
  async ({ cluster, url }) => {
    const file = join(cluster.folder, 'data/pg_hba.conf');
    const before = readFileSync(file, 'utf8');
    await holding(url, async (admin) => {
      writeFileSync(file, before.replaceAll(from, to));
      await admin.query(reload);
      await admin.query(endSessions);
      await sleep(300);
      writeFileSync(file, before);
      await admin.query(reload);
    });
    await untilWorking(url);
  };

/** Runs `work` in another session. */
async function holding(url: string, work: (other: pg.Client) => Promise<unknown>): Promise<void> {
  const other = await sessionAt(url);
  try {
    await work(other);
  } finally {
    await other.end();
  }
}

/** A fault by a lock that another session holds. */
const locked =
  (statement: string, ms: number): Fault =>
  ({ url }) =>
    holding(url, async (other) => {
      await other.query(`BEGIN; ${statement}`);
      await sleep(ms);
    });

/** A fault by a mode of the proxy. */
const throughProxy =
  (mode: TcpProxy['mode'], ms: number): Fault =>
  async ({ proxy }) => {
    proxy.mode = mode;
    await sleep(ms);
    proxy.mode = 'open';
  };

/** A fault that loses replies. */
const losing =
  (mode: 'deaf' | 'halving'): Fault =>
  async ({ proxy }) => {
    const before = proxy.repliesLost;
    proxy.mode = mode;
    const giveUpAt = performance.now() + 3_000;
    while (proxy.repliesLost < before + 4 && performance.now() < giveUpAt) await sleep(5);
    proxy.mode = 'open';
    assert.ok(proxy.repliesLost > before);
  };

const upTo = (ms: number): number => Math.random() * ms;
const held = 'SELECT * FROM petstore_counters FOR UPDATE';
const ofDatabase = (change: string): string => `ALTER DATABASE postgres ${change}`;
const tables = ['petstore_pets', 'petstore_counters', 'petstore_writers'];

const faults: Readonly<Record<string, Fault>> = {
  'a terminated backend': between([`${endSessions} ORDER BY random() LIMIT 1`], 0, []),
  'terminated backends': between([endSessions], 0, []),
  'a killed backend, which ends all others': async ({ url }) => {
    const [row] = await query(
      url,
      "SELECT pid FROM pg_stat_activity WHERE application_name = 'petstore' LIMIT 1",
    );
    if (row !== undefined) process.kill(Number(row['pid']), 'SIGKILL');
    await untilWorking(url);
  },
  'an immediate restart': restart('SIGQUIT'),
  'a kill -9 of the server': restart('SIGKILL'),
  'lost replies': losing('deaf'),
  'cut connections': throughProxy('closed', 100),
  silence: (scene) => throughProxy('silent', upTo(6_000))(scene),
  'a read-only database': async (scene) => {
    await withSettings({ default_transaction_read_only: 'on' }, 300)(scene);
    await sleep(50);
    scene.proxy.cut();
  },
  'a counter that is locked for longer than a statement may take': (scene) =>
    locked(held, upTo(5_000))(scene),
  'no free connection': async ({ cluster, proxy }) => {
    const others: pg.Client[] = [];
    proxy.cut();
    for (let isLeft = true; isLeft; )
      isLeft = await sessionAt(cluster.url).then(
        (other) => others.push(other) > 0,
        () => false,
      );
    await sleep(300);
    await Promise.all(others.map((other) => other.end()));
    assert.ok(others.length > 10);
  },
  'sessions that stay read-only, as after a failover': between(
    [ofDatabase('SET default_transaction_read_only = on'), endSessions],
    300,
    [ofDatabase('RESET default_transaction_read_only')],
  ),
  ...(endsIdleSessions && {
    'idle sessions that end at once': withSettings({ idle_session_timeout: "'2ms'" }, 500),
  }),
  'a changed password': withAccess(/trust/g, 'scram-sha-256'),
  'required TLS': withAccess(/^host /gm, 'hostssl '),
  'a database that refuses connections': between(
    [ofDatabase('ALLOW_CONNECTIONS false'), endSessions],
    300,
    [ofDatabase('ALLOW_CONNECTIONS true')],
    'template1',
  ),
  'a renamed database': async (scene) => {
    const run = (...statements: readonly string[]) => administer(scene, statements, 'template1');
    await run(ofDatabase('ALLOW_CONNECTIONS false'));
    // Repeated, because ended sessions block the renaming for a moment.
    await until('the other name', () =>
      run(endSessions, ofDatabase('RENAME TO elsewhere')).then(
        () => true,
        () => false,
      ),
    );
    await sleep(300);
    await run('ALTER DATABASE elsewhere RENAME TO postgres', ofDatabase('ALLOW_CONNECTIONS true'));
  },
  'a renamed table': between(['ALTER TABLE petstore_pets RENAME TO petstore_gone'], 200, [
    'ALTER TABLE petstore_gone RENAME TO petstore_pets',
  ]),
  'a locked table': (scene) =>
    locked(
      `LOCK TABLE ${tables[Math.floor(upTo(3))]} IN ACCESS EXCLUSIVE MODE`,
      upTo(8_000),
    )(scene),
  'a deadlock': ({ url }) =>
    holding(url, async (other) => {
      await other.query(`BEGIN; ${held}`);
      // Waits for the row of the writer, which waits for the counter.
      await sleep(200);
      await other.query('SELECT * FROM petstore_writers FOR UPDATE').catch(() => undefined);
    }),
  'serializable sessions with a concurrent one': async (scene) => {
    const setting = 'default_transaction_isolation';
    await administer(scene, [ofDatabase(`SET ${setting} = serializable`), endSessions]);
    await holding(scene.url, async (other) => {
      for (let count = 0; count < 300; count++)
        await other.query('UPDATE petstore_counters SET last_id = last_id').catch(() => undefined);
    });
    await administer(scene, [ofDatabase(`RESET ${setting}`), endSessions]);
  },
  'a missing synchronous standby': (scene) =>
    withSettings({ synchronous_standby_names: "'nobody'" }, upTo(6_000))(scene),
  'timeouts of its own': withSettings({ statement_timeout: '1', lock_timeout: '1' }, 300),
  'halved replies': losing('halving'),
  'garbled replies': throughProxy('garbling', 500),
  'replies in chunks of a few bytes': async ({ proxy, server }) => {
    proxy.mode = 'crumbling';
    for (let count = 0; count < 5; count++)
      assert.equal((await server.add(`in crumbs at ${performance.now()}`)).status, 201);
    proxy.mode = 'open';
  },
  'a database that is 200 ms away': async ({ proxy, server }) => {
    proxy.mode = 'far';
    proxy.cut();
    await sleep(500);
    // The outcome of the cut batch is known after a few round trips.
    await until('to be ready', async () => (await server.get('/readyz')).status === 200);
    assert.equal((await server.add(`from afar at ${performance.now()}`)).status, 201);
    proxy.mode = 'open';
  },
  // Nothing of a batch with such a row may be stored.
  'refused rows': between(
    ['ALTER TABLE petstore_pets ADD CONSTRAINT petstore_test CHECK (id % 3 > 0) NOT VALID'],
    200,
    ['ALTER TABLE petstore_pets DROP CONSTRAINT petstore_test'],
  ),
};

/** The number of faults: each once, or as `PETSTORE_TEST_CYCLES` says. */
const cycles = Number(testSetting('CYCLES') ?? Object.keys(faults).length);

/** Waits until a database accepts statements. */
async function untilWorking(url: string): Promise<void> {
  await until('the database to work', () =>
    untilRow(url, 'SELECT 1').then(
      () => true,
      () => false,
    ),
  );
}

/** Reads until `isOver`; returns the responses other than 200 and 503, and the slowest time. */
async function readAlong(
  server: StartedServer,
  isOver: () => boolean,
): Promise<{ readonly others: readonly string[]; readonly slowestMs: number }> {
  const others: string[] = [];
  const paths = ['/v1/pets?limit=5', '/v1/pets/1', '/readyz', '/v1/pets?status=sold'];
  let slowestMs = 0;
  for (let count = 0; !isOver(); count++) {
    const path = paths[count % 4] ?? '';
    const since = performance.now();
    const response = await server.get(path);
    const text = await response.text();
    slowestMs = Math.max(slowestMs, performance.now() - since);
    if (response.status !== 200 && response.status !== 503)
      others.push(`${path} ${response.status} ${text}`);
    await sleep(50);
  }
  return { others, slowestMs };
}

describe('faults of the database', { skip: withoutServer() }, () => {
  test(`a server loses and doubles no pet under load in ${cycles} faults of its database`, async (t) => {
    const all = await scene(t);
    const { server, url } = all;
    const writers = new Writers(t, server.port, 8, 80);
    let isOver = false;
    const reading = readAlong(server, () => isOver);
    reading.catch(() => undefined);
    const only = testSetting('FAULT') ?? '';
    const kinds = Object.entries(faults).filter(([kind]) => kind.includes(only));
    const slowest = { kind: '', ms: 0 };
    for (let cycle = 0; cycle < cycles; cycle++) {
      const [kind = '', fault] = kinds[cycle % kinds.length] ?? [];
      await writers.oneMore(`an add before ${kind}`);
      await fault?.(all);
      const backAt = performance.now();
      await writers.oneMore(
        `an add after ${kind}; the server logged ${server.stdout.slice(-2_000)}`,
      );
      const ms = performance.now() - backAt;
      if (ms > slowest.ms) Object.assign(slowest, { kind, ms });
      assert.ok(ms < recoveryMs, `works ${Math.round(ms)} ms after ${kind}`);
      for (const path of ['/readyz', '/v1/pets?limit=1']) {
        // A read may get a connection that still waits because of the fault.
        while ((await server.get(path)).status !== 200)
          assert.ok(performance.now() - backAt < recoveryMs, `${path} after ${kind}`);
      }
      assert.equal(server.child.exitCode, null, `the server ended after ${kind}`);
    }
    await writers.stop();
    isOver = true;
    const { others, slowestMs } = await reading;
    assert.deepEqual(others, [], 'all reads are 200 or 503');
    assert.ok(slowestMs < slowestReadMs, `a read took ${Math.round(slowestMs)} ms`);
    assert.doesNotMatch(server.stdout, /internal error/);
    const rows = await rowsIn(url);
    writers.assertKept(rows);
    t.diagnostic(
      `${writers.added} pets added, ${writers.refused} requests refused, ${rows.length} rows; slowest read ${Math.round(slowestMs)} ms, slowest recovery ${Math.round(slowest.ms)} ms, after ${slowest.kind}`,
    );
    assert.equal((await server.end()).code, 0);
  });
});
