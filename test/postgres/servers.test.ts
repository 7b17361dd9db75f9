// Three server processes on one database behind a TCP balancer.
import '../support/unmeasured.js';
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { testPetstore } from '../../dist/conformance/index.js';
import { atEnd } from '../support/at-end.js';
import { migratePostgres } from '../../dist/postgres/index.js';
import { apiKey, folder, StartedServer, serverFile, startServer } from '../support/process.js';
import { balanceConnections } from './balancer.js';
import { Cluster } from './cluster.js';
import { newDatabase, query, sessionAt, withoutDatabase, withoutServer } from './database.js';
import { rowsIn } from './scene.js';
import { until } from '../support/waiting.js';
import { Writers } from './writers.js';

const file = { after };
const servers: StartedServer[] = [];
const balancer = await balanceConnections(file, () => servers.map(({ port }) => port));

describe('three servers on one database', { skip: withoutDatabase() }, () => {
  let url: string;
  const home = mkdtempSync(join(tmpdir(), 'petstore-servers-'));
  atEnd(file, () => rmSync(home, { recursive: true, force: true }));

  /** Starts or restarts the server of one index. */
  async function start(index: number): Promise<void> {
    const server = new StartedServer(process.execPath, [serverFile, '--storage', url], {
      cwd: home,
      env: { PETSTORE_API_KEYS: apiKey, PORT: '0' },
    });
    atEnd(file, () => server.end('SIGKILL'));
    await server.waitForLog('listening');
    // Until the server listens, the index has the port of its ended predecessor.
    servers[index] = server;
  }

  before(async () => {
    url = await newDatabase();
    await Promise.all([0, 1, 2].map(start));
  });

  test('every server serves a pet as soon as one has responded with 201', async () => {
    for (let id = 1; id <= 60; id++) {
      const [one, ...others] = [0, 1, 2].map((index) => servers[(id + index) % 3]);
      const body = await (await one?.add(`n${id}`))?.text();
      for (const server of others) {
        assert.equal(await (await server?.get(`/v1/pets/${id}`))?.text(), body);
        assert.equal(await (await server?.get(`/v1/pets?after=${id - 1}`))?.text(), `[${body}]`);
      }
    }
  });

  test('three servers lose and double no pet while each is killed under load', async (t) => {
    const writers = new Writers(t, balancer.port, 9);
    for (const [index, server] of servers.entries()) {
      const before = writers.added;
      while (writers.added < before + 30) await writers.oneMore();
      assert.equal((await server.end('SIGKILL')).signal, 'SIGKILL');
      await writers.oneMore('the others to go on');
      await start(index);
    }
    await writers.stop();
    writers.assertKept(await rowsIn(url));
    assert.equal(balancer.counts.length, 3, 'each server got connections');
    t.diagnostic(`${writers.added} pets added, ${writers.refused} requests without a 201`);
  });

  // Each rule opens connections, which the balancer spreads over the servers.
  testPetstore({ url: `http://127.0.0.1:${balancer.port}`, key: apiKey });
});

describe('a database of 25 connections', { skip: withoutServer() }, () => {
  test('serves three servers whose pools are full', async (t) => {
    const cluster = await Cluster.start(['max_connections=25', 'superuser_reserved_connections=3']);
    atEnd(t, () => cluster.remove());
    await migratePostgres(cluster.url);
    await query(
      cluster.url,
      'CREATE ROLE petstore LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO petstore',
    );
    const url = Object.assign(new URL(cluster.url), { username: 'petstore' }).href;
    const three = await Promise.all(
      [1, 2, 3].map(() => startServer(t, ['--storage', url], { cwd: folder(t) })),
    );

    for (let round = 0; round < 3; round++) {
      // The only session besides those of the servers, because 22 are available to all roles.
      const holder = await sessionAt(cluster.url);
      atEnd(t, () => holder.end());
      await holder.query('BEGIN; LOCK petstore_pets IN ACCESS EXCLUSIVE MODE');
      // Different pages need a connection each.
      const responses = three.flatMap((server) =>
        Array.from({ length: 20 }, (_, index) =>
          index % 4 === 0
            ? server.add(`${round} ${index}`)
            : server.get(`/v1/pets?after=${100 * round + index}`),
        ),
      );
      await until('full pools', async () => {
        const { rows } = await holder.query(
          'SELECT 1 FROM pg_locks WHERE NOT granted HAVING count(DISTINCT pid) = 21',
        );
        return rows.length > 0;
      });
      await holder.end();
      const statuses = await Promise.all(
        responses.map(async (response) => (await response).status),
      );
      assert.deepEqual([...new Set(statuses)].toSorted(), [200, 201]);
    }
    assert.equal((await rowsIn(cluster.url)).length, 45);
  });
});
