// Lines to the database that pass few bytes a second.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { PetDraft, PetStorage } from '../../dist/index.js';
import { postgresImport } from '../../dist/postgres/index.js';
import { BatchPace } from '../../dist/postgres/pace.js';
import { newDatabase, withoutDatabase } from './database.js';
import type { TcpProxy } from './proxy.js';
import {
  assertConsecutive,
  expectAdded,
  expectStored,
  hold,
  intercept,
  namesIn,
  onceOf,
  open,
  poolOf,
  openFar,
  proxied,
  rowsIn,
  untilWaiting,
} from './scene.js';

const long = (length: number, name = 'x'): PetDraft => ({
  name: name.repeat(length),
  categoryId: 1n,
});

/** A storage behind a proxy, and the URL of its database. */
interface SlowScene {
  readonly t: TestContext;
  readonly url: string;
  readonly storage: PetStorage;
  readonly proxy: TcpProxy;
}

/** Adds `count` pets of a length at once, and returns how many were refused. */
async function refusedOf(storage: PetStorage, count: number, length: number): Promise<number> {
  const { texts = assert.fail() } = storage;
  const adding = Array.from({ length: count }, async () => texts.insert(long(length)));
  const ended = await Promise.allSettled(adding);
  return ended.filter(({ status }) => status === 'rejected').length;
}

/** Opens a storage behind a proxy that passes `rate` bytes a second to the database. */
async function slowScene(t: TestContext, rate: number) {
  const scene = await openFar(t);
  await expectAdded(scene.storage, 1n);
  scene.proxy.bytesPerSecondUp = rate;
  return scene;
}

describe('a slow line to the database', { skip: withoutDatabase(), concurrency: 2 }, () => {
  test('adds 64 pets of 60 kB at once over 2 MB/s, and sends each byte once', async (t) => {
    const { url, sql, storage, proxy } = await slowScene(t, 2_000_000);
    const before = proxy.bytesSent;
    assert.equal(await refusedOf(storage, 64, 60_000), 0);
    await expectStored(url, 65);
    const sent = proxy.bytesSent - before;
    assert.ok(sent < 1.05 * 64 * 60_000, `${sent} bytes were sent`);
    const writers = Number(await sql('SELECT count(*) FROM petstore_writers'));
    assert.ok(writers <= 3, `${writers} writers: two of batches, and that of readiness`);
  });

  test('adds 64 pets of 20 kB at once over 300 kB/s', async (t) => {
    const { url, storage } = await slowScene(t, 300_000);
    assert.equal(await refusedOf(storage, 64, 20_000), 0);
    await expectStored(url, 65);
  });

  test('adds pets although a batch is too large for the line, and then sends smaller batches', async (t) => {
    const { url, storage, proxy } = await slowScene(t, Number.POSITIVE_INFINITY);
    // On a fast line the batches grow.
    for (let count = 0; count < 6; count++) assert.equal(await refusedOf(storage, 40, 60_000), 0);
    proxy.bytesPerSecondUp = 300_000;
    await refusedOf(storage, 40, 60_000);
    let refused = 40;
    for (let count = 0; refused > 0 && count < 10; count++)
      refused = await refusedOf(storage, 20, 20_000);
    assert.equal(refused, 0);
    assertConsecutive((await rowsIn(url)).map(({ id }) => id));
  });

  test('batches stay large while other servers make each add wait', async (t) => {
    const { url, storage, proxy } = await openFar(t);
    let received = 0;
    for (let count = 0; count < 3; count++) {
      const release = await hold(t, url);
      const first = storage.insert(long(10));
      await untilWaiting(url, 1);
      const others = Array.from({ length: 300 }, () => storage.insert(long(1_000)));
      // Longer than a batch may take on the line.
      await sleep(1_200);
      received = proxy.bytesReceived;
      await release();
      await Promise.all([first, ...others]);
    }
    assert.ok(proxy.bytesReceived - received < 3_000, 'few statements carry them');
  });

  /** Adds a pet in a batch that waits for another transaction, for this time in ms. */
  const addWaiting =
    (ms: number) =>
    async ({ t, url, storage }: SlowScene) => {
      const release = await hold(t, url);
      const adding = storage.insert(long(10)).catch(() => undefined);
      await untilWaiting(url, 1);
      await Promise.race([sleep(ms), adding]);
      await release();
      await adding;
    };
  /** Adds a pet in a batch that takes 400 ms on the line. */
  const addFar = async ({ storage, proxy }: SlowScene) => {
    proxy.mode = 'far';
    await storage.insert(long(10));
    proxy.mode = 'open';
  };

  type Insert = (draft: PetDraft) => unknown;
  const inOrder = ({ insert }: PetStorage): Insert => insert;
  const inAnyOrder = ({ texts = assert.fail() }: PetStorage): Insert => texts.insert;
  const withKeys = ({ texts }: PetStorage): Insert => {
    const insertOnce = texts?.insertOnce ?? assert.fail();
    let uses = 0;
    return (draft) => insertOnce(draft, onceOf(`${++uses}`));
  };
  const cases: readonly {
    readonly what: string;
    readonly isSent?: true;
    readonly count?: number;
    readonly maxConnections?: number;
    readonly before?: (scene: SlowScene) => Promise<void>;
    readonly insertOf?: (storage: PetStorage) => Insert;
  }[] = [
    { what: '40 kB that wait', isSent: true },
    { what: '40 kB with idempotency keys', insertOf: withKeys, isSent: true },
    { what: '40 kB whose ids are in the order of the calls', insertOf: inOrder },
    { what: 'only 20 kB', count: 1 },
    { what: '40 kB, if there are two connections', maxConnections: 2 },
    { what: '40 kB, after a batch that waited', before: addWaiting(300) },
    { what: '40 kB, after a batch that was late', before: addWaiting(10_000) },
    { what: '40 kB, after a small batch that took long', before: addFar },
  ];

  for (const { what, isSent, count = 2, maxConnections = 7, before, insertOf } of cases)
    test(`a second batch is ${isSent ? '' : 'not '}sent for ${what}`, async (t) => {
      const { url, far, proxy } = await proxied(t);
      const storage = await open(t, far, { maxConnections });
      await storage.insert(long(10));
      await before?.({ t, url, storage, proxy });

      const insert = (insertOf ?? inAnyOrder)(storage);
      const release = await hold(t, url);
      const all = [insert(long(10))];
      await untilWaiting(url, 1);
      const sent = proxy.bytesSent;
      for (let n = 0; n < count; n++) all.push(insert(long(20_000)));
      if (isSent) await untilWaiting(url, 2);
      else await sleep(200);
      assert.equal(proxy.bytesSent - sent > 20_000, isSent ?? false);
      await release();
      await Promise.all(all);
    });

  test('a batch returns the times at which it arrived, locked the counter and ended', async (t) => {
    const url = await newDatabase();
    const pool = await poolOf(t, { url });
    const results: Readonly<Record<string, unknown>>[] = [];
    intercept(pool, async ({ text }, send) => {
      const result = await send();
      if (text.includes('taken_at')) results.push(result.rows[0]);
      return result;
    });
    const storage = await open(t, pool);
    const before = Date.now();
    const release = await hold(t, url);
    const adding = storage.insert(long(10));
    await untilWaiting(url, 1);
    await sleep(100);
    await release();
    await adding;
    const names = ['received_at', 'taken_at', 'ended_at'];
    const [received = 0, taken = 0, ended = 0] = names.map((name) =>
      Number(results.at(-1)?.[name]),
    );
    assert.ok(before - 1 < received && taken <= ended && ended < Date.now() + 1);
    assert.ok(taken - received >= 100, `${taken - received} ms passed before it had the counter`);
  });

  test('no second batch is sent after four batches that waited for a commit', () => {
    const pace = new BatchPace();
    let at = 0;
    /** Notes a batch that was received `waitMs` before a commit of 20 ms had ended. */
    const note = (waitMs: number) => {
      at += 20;
      pace.note(1e6, 30, { receivedAt: at - waitMs, takenAt: at, endedAt: at + 1 });
      at += 1;
      return pace.overlapBytes === Number.POSITIVE_INFINITY;
    };
    assert.deepEqual([0, 15, 15, 15, 5, 15, 15, 15].map(note), Array(8).fill(false));
    assert.equal(note(15), true);
  });

  test('F11 imports a line of 4 MB over 300 kB/s', async (t) => {
    const { url, far, proxy } = await slowScene(t, 300_000);
    const logged: string[] = [];
    const target = await postgresImport(far, 'ab'.repeat(32), (_, message) => logged.push(message));
    const before = proxy.bytesSent;
    assert.equal(await target.add([long(4_000_000)]), 1);
    await target.close();
    assert.deepEqual(logged, [], 'it is sent once');
    assert.ok(proxy.bytesSent - before < 4_100_000);
    assert.equal((await namesIn(url))[1]?.length, 4_000_000);
  });
});
