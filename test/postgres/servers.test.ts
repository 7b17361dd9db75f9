// Several servers on one database, as processes behind one port: the contract holds through all,
// and one that is killed loses nothing.
import '../support/unmeasured.js';
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { testPetstore } from '../../dist/conformance/index.js';
import { atEnd } from '../support/at-end.js';
import { apiKey, StartedServer, serverFile } from '../support/process.js';
import { balanceConnections } from './balancer.js';
import { newDatabase, withoutDatabase } from './database.js';
import { assertInTurn, readOn, rowsIn } from './scene.js';
import { Writers } from './writers.js';

const file = { after };
const servers: StartedServer[] = [];
const balancer = await balanceConnections(() => servers.map(({ port }) => port));
atEnd(file, () => balancer.close());

interface Page {
  readonly ids: readonly number[];
  readonly next: string | undefined;
}

/** A page over a connection of its own, so that the next server answers. */
async function pageOf(path: string): Promise<Page> {
  const headers = { Authorization: `Bearer ${apiKey}`, Connection: 'close' };
  const signal = AbortSignal.timeout(30_000);
  const response = await fetch(`http://127.0.0.1:${balancer.port}${path}`, { headers, signal });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  const ids = [...text.matchAll(/\{"id":(\d+),/g)].map((match) => Number(match[1]));
  return { ids, next: /<([^>]+)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1] };
}

/** The ids behind one. A server that is killed while it answers tells nothing; another is asked. */
async function idsBehind(after: bigint): Promise<readonly number[]> {
  await sleep(10);
  try {
    return (await pageOf(`/v1/pets?limit=20&after=${after}`)).ids;
  } catch (error) {
    if (error instanceof TypeError) return idsBehind(after);
    throw error;
  }
}

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

  test('what one answered 201 for, each of the others answers at once; a page goes on at the next server', async () => {
    for (let id = 1; id <= 60; id++) {
      const [one, other, third] = [0, 1, 2].map((index) => servers[(id + index) % 3]);
      const added = await one?.add(`n${id}`);
      const body = await added?.text();
      assert.equal(added?.headers.get('location'), `/v1/pets/${id}`);
      for (const server of [other, third])
        assert.equal(await (await server?.get(`/v1/pets/${id}`))?.text(), body);
      assert.equal(await (await third?.get(`/v1/pets?after=${id - 1}`))?.text(), `[${body}]`);
    }
    const ids: number[] = [];
    for (let path: string | undefined = '/v1/pets?limit=7'; path !== undefined; ) {
      const page = await pageOf(path);
      ids.push(...page.ids);
      path = page.next;
    }
    assertInTurn(ids, 60);
    assert.deepEqual(balancer.counts, [3, 3, 3]);
  });

  test('each is killed under 9 adding clients and comes back: no 201 is lost, none doubled, no page misses an id', async (t) => {
    const writers = new Writers(t, balancer.port, 9);
    let isAdding = true;
    const reading = readOn(idsBehind, () => isAdding);
    reading.catch(() => undefined);
    for (const [index, server] of servers.entries()) {
      const before = writers.added;
      while (writers.added < before + 30) await writers.oneMore();
      assert.equal((await server.end('SIGKILL')).signal, 'SIGKILL');
      await writers.oneMore('the others to go on');
      await start(index);
    }
    await writers.stop();
    isAdding = false;
    const rows = await rowsIn(url);
    writers.assertKept(rows);
    assertInTurn((await reading).ids, rows.length);
    t.diagnostic(
      `${writers.added} animals answered 201, ${writers.refused} requests not at all, ${rows.length} rows`,
    );
  });

  // Each rule opens a connection or more, and the next server takes each.
  testPetstore({ url: `http://127.0.0.1:${balancer.port}`, key: apiKey });
});
