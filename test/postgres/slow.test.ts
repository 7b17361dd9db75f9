// Lines to the database that pass few bytes a second.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { PetDraft, PetStorage } from '../../dist/index.js';
import { postgresImport } from '../../dist/postgres/index.js';
import { withoutDatabase } from './database.js';
import type { TcpProxy } from './proxy.js';
import {
  assertConsecutive,
  expectAdded,
  expectStored,
  hold,
  namesIn,
  open,
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
interface Slow {
  readonly t: TestContext;
  readonly url: string;
  readonly storage: PetStorage;
  readonly proxy: TcpProxy;
}

/** Adds `count` pets of a length at once, and returns how many were refused. */
async function refusedOf(storage: PetStorage, count: number, length: number): Promise<number> {
  const adding = Array.from({ length: count }, () => storage.insert(long(length)));
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

  /** A batch of one pet that waits for another transaction, for this time in ms. */
  const waits =
    (ms: number) =>
    async ({ t, url, storage }: Slow) => {
      const release = await hold(t, url);
      const adding = storage.insert(long(10)).catch(() => undefined);
      await untilWaiting(url, 1);
      await Promise.race([sleep(ms), adding]);
      await release();
      await adding;
    };
  /** A batch of one pet that takes 400 ms on the line. */
  const travels = async ({ storage, proxy }: Slow) => {
    proxy.mode = 'far';
    await storage.insert(long(10));
    proxy.mode = 'open';
  };

  for (const { what, count, maxConnections = 7, before, isSent = false } of [
    { what: '40 kB are sent', count: 2, isSent: true },
    { what: '20 kB are not sent', count: 1 },
    { what: '40 kB are not sent over two connections', count: 2, maxConnections: 2 },
    { what: '40 kB are not sent after a batch that waited', count: 2, before: waits(300) },
    { what: '40 kB are not sent after a batch that was late', count: 2, before: waits(10_000) },
    { what: '40 kB are not sent after a small batch that took long', count: 2, before: travels },
  ])
    test(`while the database carries out a batch, ${what}`, async (t) => {
      const { url, far, proxy } = await proxied(t);
      const storage = await open(t, far, { maxConnections });
      await storage.insert(long(10));
      await before?.({ t, url, storage, proxy });

      const release = await hold(t, url);
      const all = [storage.insert(long(10))];
      await untilWaiting(url, 1);
      const sent = proxy.bytesSent;
      for (let n = 0; n < count; n++) all.push(storage.insert(long(20_000)));
      if (isSent) await untilWaiting(url, 2);
      else await sleep(200);
      assert.equal(proxy.bytesSent - sent > 20_000, isSent);
      await release();
      await Promise.all(all);
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
