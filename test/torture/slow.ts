/** R9: slow, silent or dead clients do not delay good clients, and do not use up memory. */
import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import { whole } from '../bench/report.js';
import { atEnd } from '../support/at-end.js';
import { descriptorsOf, memoryOf } from '../support/kernel.js';
import { until } from '../support/waiting.js';
import { allKinds, attack } from './attackers.js';
import { readAllPages } from './ledger.js';
import { mebibytes, quantileOf } from './measures.js';
import { atOnce, count, printDetails, seconds, type TortureRow, type Share } from './row.js';
import { Scene } from './scene.js';

const fullSockets = 1_000;
const shortSockets = 200;
/** The seconds that the row needs to test timeouts of a minute. */
const longS = 90;
/** The time in ms that a busy machine may add to any response. */
const floorMs = 25;
/** The growth of memory that is allowed, because the size of a heap varies. */
const spareBytes = 64 * 2 ** 20;
/**
 * The milliseconds by which the server may close a connection later or sooner than C44 says, in
 * addition to the lateness of this test's timers.
 */
const slackMs = 2_000;
const soonerMs = 100;
const goodClients = 4;

export const slow: TortureRow = {
  id: 'R9',
  title: `${whole(fullSockets)} badly behaved sockets (slow heads, slow bodies, slow readers, silence, half-closes, resets) beside good clients`,
  fullS: 80,
  run: async (share) => {
    const isLong = share.leftS >= longS;
    const attacked = await prepare(share);
    // A second server without bad clients does the same work at the same time, because a busy
    // machine slows both.
    const calm = await prepare(share);
    const { pid, port } = attacked.server;
    const before = { descriptors: descriptorsOf(pid), bytes: memoryOf(pid) };
    const working = { goOn: true };
    const waiting = Promise.all([work(attacked, working), work(calm, working)]);
    waiting.catch(() => undefined);
    const lag = lateness(share);

    const kinds = allKinds.filter(({ closesAfterMs }) => isLong || closesAfterMs < 40_000);
    const parts = kinds.reduce((sum, { part }) => sum + part, 0);
    const sockets = isLong ? fullSockets : shortSockets;
    const figures = await Promise.all(
      kinds.map(async (kind) => {
        const many = Math.min(kind.most ?? sockets, Math.round((sockets * kind.part) / parts));
        const times = await atOnce(many, () => attack(share, port, kind));
        const [fastest, slowest] = [quantileOf(times, 0), quantileOf(times, 1)];
        const figure = `${many} ${kind.name} after ${seconds(fastest)} to ${seconds(slowest)} s`;
        assert.ok(
          fastest >= kind.closesAfterMs - soonerMs - lag.ms &&
            slowest <= kind.closesAfterMs + (kind.toleranceMs ?? 0) + slackMs + lag.ms,
          `${figure} instead of ${seconds(kind.closesAfterMs)} s; ${toleranceText(lag)}`,
        );
        printDetails('R9', `closed ${figure}`);
        return many;
      }),
    );
    working.goOn = false;
    const [theirs = Number.NaN, ours = Number.NaN] = (await waiting).map((ms) =>
      quantileOf(ms, 0.99),
    );
    attacked.server.assertNoError();
    for (const scene of [attacked, calm]) await scene.check();
    const stored = (await readAllPages(attacked.clients)).size;
    assert.equal(stored, attacked.ledger.size, 'the number of stored pets is not that of the 201s');

    assert.ok(
      theirs <= Math.max(2 * ours, ours + floorMs),
      `good clients are slow: p99 ${theirs.toFixed(1)} ms, on a server without bad clients ${ours.toFixed(1)} ms`,
    );
    await until('all sockets to be closed', () => descriptorsOf(pid) <= before.descriptors);
    const isSmall = async (): Promise<boolean> => {
      // Garbage is collected only while the server works.
      await churn(attacked);
      return memoryOf(pid) <= before.bytes + spareBytes;
    };
    await until('the memory to shrink', isSmall, 60_000);
    const [first, peak, after] = [before.bytes, memoryOf(pid, 'VmHWM'), memoryOf(pid)].map(
      mebibytes,
    );
    for (const { clients } of [attacked, calm]) clients.close();
    const shortened = isLong ? '' : '; timeouts of 60 s and more were not tested';
    printDetails(
      'R9',
      `${toleranceText(lag)}${shortened}; ${before.descriptors} descriptors before and after`,
    );
    const closed = figures.reduce((sum, many) => sum + many, 0);
    return `${count(closed, fullSockets, 'sockets')} closed at the times of C44; p99 of good clients ${theirs.toFixed(1)} ms, without bad clients ${ours.toFixed(1)} ms; memory ${first} MiB before, ${peak} MiB at most, ${after} MiB after; descriptors as before`;
  },
};

/** Starts a server that has warmed up, and whose pages are larger than the buffers of a socket. */
async function prepare(share: Share): Promise<Scene> {
  const scene = await Scene.start(share);
  for (let index = 0; index < 100; index++)
    await scene.add({ name: `${'x'.repeat(60_000)}${index}`, categoryId: index });
  for (let round = 0; round < 20; round++) await churn(scene);
  return scene;
}

async function churn({ clients }: Scene): Promise<void> {
  await atOnce(4, () => clients.get('/v1/pets?limit=50'));
}

/** Runs good clients, and returns the milliseconds of each response. */
async function work(scene: Scene, working: { readonly goOn: boolean }): Promise<readonly number[]> {
  const waits: number[] = [];
  const good = async (): Promise<void> => {
    while (working.goOn) {
      waits.push((await scene.add()).ms);
      waits.push((await scene.clients.get('/v1/pets?after=100&limit=5')).ms);
      await wait(20);
    }
  };
  await atOnce(goodClients, good);
  return waits;
}

/** Measures the greatest lateness of this process's own timers. */
function lateness(share: Share): { ms: number } {
  const lag = { ms: 0 };
  let due = performance.now() + 50;
  const timer = setInterval(() => {
    lag.ms = Math.max(lag.ms, performance.now() - due);
    due = performance.now() + 50;
  }, 50);
  atEnd(share, () => clearInterval(timer));
  return lag;
}

/** Describes the allowed error of the times of C44. */
function toleranceText({ ms }: { readonly ms: number }): string {
  return `tolerance ${seconds(slackMs)} s, and ${seconds(ms)} s by which the timers of the test were late`;
}
