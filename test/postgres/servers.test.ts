// Several servers on one database, as processes behind one port: the contract holds through all,
// and one that is killed loses nothing.
import '../support/unmeasured.js';
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEnd } from '../support/at-end.js';
import { apiKey } from '../support/process.js';
import { balanceConnections, type Balancer } from './balancer.js';
import { newDatabase, query, withoutDatabase } from './database.js';
import { Processes } from './servers.js';
import { passHttpSuite } from './suite.js';
import { Writers } from './writers.js';

interface Scene {
  readonly url: string;
  readonly processes: Processes;
  readonly balancer: Balancer;
}

async function scene(t: TestContext): Promise<Scene> {
  const url = await newDatabase();
  const processes = await Processes.start(url, apiKey);
  atEnd(t, () => processes.end());
  const balancer = await balanceConnections(() => processes.ports);
  atEnd(t, () => balancer.close());
  return { url, processes, balancer };
}

interface Page {
  readonly ids: readonly number[];
  readonly next: string | undefined;
}

const deadline = (): AbortSignal => AbortSignal.timeout(30_000);

/** A page over a connection of its own, so that the next server answers. */
async function pageOf(port: number, path: string): Promise<Page> {
  const headers = { Authorization: `Bearer ${apiKey}`, Connection: 'close' };
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers, signal: deadline() });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  const ids = [...text.matchAll(/\{"id":(\d+),/g)].map((match) => Number(match[1]));
  return { ids, next: /<([^>]+)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1] };
}

/**
 * Reads on from the last id seen, by whichever server is next, until nothing is added and nothing
 * is left.
 */
async function readOn(
  port: number,
  isAdding: () => boolean,
): Promise<{ readonly ids: readonly number[]; readonly pages: number }> {
  const ids: number[] = [];
  for (let pages = 0; ; pages++) {
    const wasAdding = isAdding();
    // A server that is killed while it answers tells nothing; another is asked.
    const page = await pageOf(port, `/v1/pets?limit=20&after=${ids.at(-1) ?? 0}`).catch(
      (error: unknown) => {
        if (error instanceof TypeError) return undefined;
        throw error;
      },
    );
    if (page === undefined) continue;
    ids.push(...page.ids);
    await sleep(10);
    assert.equal(
      ids.at(-1) ?? 0,
      ids.length,
      `a page behind ${ids.length - page.ids.length} begins with ${page.ids[0]}`,
    );
    if (page.ids.length === 0 && !wasAdding) return { ids, pages };
  }
}

async function rowsOf(
  url: string,
): Promise<readonly { readonly id: number; readonly json: string }[]> {
  const rows = await query(
    url,
    "SELECT id, convert_from(json, 'UTF8') AS json FROM petstore_pets ORDER BY id",
  );
  return rows.map(({ id, json }) => ({ id: Number(id), json: String(json) }));
}

describe('three servers on one database', { skip: withoutDatabase() }, () => {
  test('the HTTP suite passes through them, each connection at the next', (t) =>
    passHttpSuite(t, 'servers'));

  test('what one answered 201 for, each of the others answers at once; a page goes on at the next server', async (t) => {
    const { processes, balancer } = await scene(t);
    for (let id = 1; id <= 60; id++) {
      const [one, other, third] = [0, 1, 2].map((index) => processes.servers[(id + index) % 3]);
      const added = await one?.add(`n${id}`);
      const body = await added?.text();
      assert.equal(added?.headers.get('location'), `/v1/pets/${id}`);
      for (const server of [other, third])
        assert.equal(await (await server?.get(`/v1/pets/${id}`))?.text(), body);
      assert.equal(await (await third?.get(`/v1/pets?after=${id - 1}`))?.text(), `[${body}]`);
    }
    const before = [...balancer.counts];
    const ids: number[] = [];
    for (let path: string | undefined = '/v1/pets?limit=7'; path !== undefined; ) {
      const page = await pageOf(balancer.port, path);
      ids.push(...page.ids);
      path = page.next;
    }
    assert.deepEqual(
      ids,
      Array.from({ length: 60 }, (_, index) => index + 1),
    );
    assert.deepEqual(
      balancer.counts.map((count, index) => count - (before[index] ?? 0)),
      [3, 3, 3],
    );
  });

  test('each is killed under 9 adding clients and comes back: no 201 is lost, none doubled, no page misses an id', async (t) => {
    const { url, processes, balancer } = await scene(t);
    const writers = new Writers(balancer.port);
    atEnd(t, () => writers.stop());
    writers.start(9);
    let isAdding = true;
    const reading = readOn(balancer.port, () => isAdding);
    reading.catch(() => undefined);
    for (let round = 0; round < 6; round++) {
      const before = writers.added;
      const server = processes.servers[round % 3];
      while (writers.added < before + 30)
        await Promise.race([
          writers.oneMore(),
          sleep(15_000, undefined, { ref: false }).then(() => assert.fail('nothing is added')),
        ]);
      assert.equal((await server?.end('SIGKILL'))?.signal, 'SIGKILL');
      const since = performance.now();
      await Promise.race([writers.oneMore(), sleep(20_000, undefined, { ref: false })]);
      assert.ok(performance.now() - since < 19_000, 'the others go on');
      await processes.startOne(round % 3);
    }
    await writers.stop();
    isAdding = false;
    const seen = await reading;
    const rows = await rowsOf(url);
    assert.deepEqual(writers.others, [], 'nothing but 201 and 503 was answered');
    const { missing, doubled } = writers.compare(rows);
    assert.deepEqual({ missing, doubled }, { missing: [], doubled: [] });
    assert.deepEqual(
      rows.map(({ id }) => id),
      rows.map((_, index) => index + 1),
      'ids are 1, 2, 3 …',
    );
    assert.deepEqual(
      seen.ids,
      rows.map(({ id }) => id),
      'whoever pages on sees each, in order',
    );
    assert.ok(seen.pages > 20, `only ${seen.pages} pages`);
    t.diagnostic(
      `${writers.added} animals answered 201, ${writers.refused} requests not at all, ${rows.length} rows, ${seen.pages} pages while they came`,
    );
  });
});
