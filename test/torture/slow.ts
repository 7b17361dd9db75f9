/**
 * R9: clients that are slow, silent or gone cost neither the good ones their time nor the server
 * its memory.
 */
import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import { whole } from '../bench/report.js';
import { atEnd } from '../support/at-end.js';
import { descriptorsOf, memoryOf } from '../support/kernel.js';
import { until } from '../support/waiting.js';
import { allKinds, attack } from './attackers.js';
import { readAllPages } from './ledger.js';
import { mebibytes, quantileOf } from './measures.js';
import { atOnce, seconds, type TortureRow, type Share } from './row.js';
import { Scene } from './scene.js';

const fullSockets = 1_000;
const shortSockets = 200;
/** How long the row takes with and without the times of a minute. */
const longS = 90;
/** What a machine at other work may add to any answer, however it is served. */
const floorMs = 25;
/** By how much memory may stay above what it was, as a heap is never the same twice. */
const spareBytes = 64 * 2 ** 20;
/**
 * How much later than C44 says one may go, and how much sooner as clocks tick, besides the lateness
 * of our own timers.
 */
const slackMs = 2_000;
const soonerMs = 100;
const goodClients = 4;

export const slow: TortureRow = {
  id: 'R9',
  title: `${whole(fullSockets)} sockets of slow heads, slow bodies, slow readers, silence, half-closes and resets, while good clients work`,
  fullS: 80,
  run: async (share) => {
    const isLong = share.leftS >= longS;
    const attacked = await prepare(share);
    // The same work on a server without the others, at the same time: a busy machine slows both.
    const calm = await prepare(share);
    const { pid, port } = attacked.server;
    const before = { descriptors: descriptorsOf(pid), bytes: memoryOf(pid) };
    const working = { goOn: true };
    const waiting = Promise.all([work(attacked, working), work(calm, working)]);
    waiting.catch(() => undefined);
    const lag = lateness(share);

    const kinds = allKinds.filter(({ goneMs }) => isLong || goneMs < 40_000);
    const parts = kinds.reduce((sum, { part }) => sum + part, 0);
    const sockets = isLong ? fullSockets : shortSockets;
    const figures = await Promise.all(
      kinds.map(async (kind) => {
        const many = Math.min(kind.most ?? sockets, Math.round((sockets * kind.part) / parts));
        const times = await atOnce(many, () => attack(share, port, kind));
        const [fastest, slowest] = [quantileOf(times, 0), quantileOf(times, 1)];
        const figure = `${many} ${kind.name} ${seconds(fastest)} to ${seconds(slowest)} s`;
        assert.ok(
          fastest >= kind.goneMs - soonerMs - lag.ms &&
            slowest <= kind.goneMs + (kind.laterMs ?? 0) + slackMs + lag.ms,
          `${figure}, not ${seconds(kind.goneMs)}; ${words(lag)}`,
        );
        return figure;
      }),
    );
    working.goOn = false;
    const [theirs = Number.NaN, ours = Number.NaN] = (await waiting).map((ms) =>
      quantileOf(ms, 0.99),
    );
    attacked.server.assertNoError();
    for (const scene of [attacked, calm]) await scene.check();
    const stored = (await readAllPages(attacked.clients)).size;
    assert.equal(stored, attacked.ledger.size, 'stored is not what was acknowledged');

    assert.ok(
      theirs <= Math.max(2 * ours, ours + floorMs),
      `good clients wait: p99 ${theirs.toFixed(1)} ms, on a calm server ${ours.toFixed(1)} ms`,
    );
    await until('the descriptors to go', () => descriptorsOf(pid) <= before.descriptors);
    const isSmall = async (): Promise<boolean> => {
      // A heap is swept when somebody works.
      await churn(attacked);
      return memoryOf(pid) <= before.bytes + spareBytes;
    };
    await until('memory to come back', isSmall, 60_000);
    const [first, peak, after] = [before.bytes, memoryOf(pid, 'VmHWM'), memoryOf(pid)].map(
      mebibytes,
    );
    for (const { clients } of [attacked, calm]) clients.close();
    const shortened = isLong
      ? ''
      : ` (of ${whole(fullSockets)}; idle ones and readers, which have 60 s and more, need a larger share)`;
    return `gone behind: ${figures.join(', ')}${shortened}; ${words(lag)}; p99 of good clients ${theirs.toFixed(1)} ms, on a calm server beside it ${ours.toFixed(1)} ms; ${before.descriptors} descriptors before and after; ${first} MiB before, ${peak} at most, ${after} after`;
  },
};

/** A server with some work behind it, and pages that are larger than a socket's buffers. */
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

/** Good clients at work; answers their waits in milliseconds. */
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

/** How late our own timers come at most: of that much nobody else is to blame. */
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

/** By how much C44's times may be missed here. */
function words({ ms }: { readonly ms: number }): string {
  return `${seconds(slackMs)} s of slack, and ${seconds(ms)} s by which our own timers were late`;
}
