// Several servers on one database, as processes behind one port: the contract holds through all,
// and one that is killed loses nothing.
import '../support/unmeasured.js';
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { testPetstore } from '../../dist/conformance/index.js';
import { atEnd } from '../support/at-end.js';
import { apiKey, StartedServer, serverFile } from '../support/process.js';
import { balanceConnections } from './balancer.js';
import { newDatabase, withoutDatabase } from './database.js';
import { rowsIn } from './scene.js';
import { Writers } from './writers.js';

const file = { after };
const servers: StartedServer[] = [];
const balancer = await balanceConnections(file, () => servers.map(({ port }) => port));

describe('three servers on one database', { skip: withoutDatabase() }, () => {
  let url: string;
  const folder = mkdtempSync(join(tmpdir(), 'petstore-servers-'));
  atEnd(file, () => rmSync(folder, { recursive: true, force: true }));

  /** Starts the server of a place, once more where it is gone. */
  async function start(index: number): Promise<void> {
    const server = new StartedServer(process.execPath, [serverFile, '--storage', url], {
      cwd: folder,
      env: { PETSTORE_API_KEYS: apiKey, PORT: '0' },
    });
    atEnd(file, () => server.end('SIGKILL'));
    await server.said('listening');
    // Until it listens its place is that of the one before, where nobody answers.
    servers[index] = server;
  }

  before(async () => {
    url = await newDatabase();
    await Promise.all([0, 1, 2].map(start));
  });

  test('what one answered 201 for, each of the others answers at once', async () => {
    for (let id = 1; id <= 60; id++) {
      const [one, ...others] = [0, 1, 2].map((index) => servers[(id + index) % 3]);
      const body = await (await one?.add(`n${id}`))?.text();
      for (const server of others) {
        assert.equal(await (await server?.get(`/v1/pets/${id}`))?.text(), body);
        assert.equal(await (await server?.get(`/v1/pets?after=${id - 1}`))?.text(), `[${body}]`);
      }
    }
  });

  test('each is killed under 9 adding clients and comes back: no 201 is lost, none doubled', async (t) => {
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
    assert.equal(balancer.counts.length, 3, 'each server had its turn');
    t.diagnostic(`${writers.added} animals answered 201, ${writers.refused} requests not at all`);
  });

  // Each rule opens a connection or more, and the next server takes each.
  testPetstore({ url: `http://127.0.0.1:${balancer.port}`, key: apiKey });
});
