/** R9: clients that are slow, silent or gone cost good clients no time and the server no memory. */
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
/** The seconds that the row needs to try the times of a minute. */
const longS = 90;
/** The milliseconds that a busy machine may add to any response. */
const floorMs = 25;
/** The growth of memory that is allowed, because a heap is never the same twice. */
const spareBytes = 64 * 2 ** 20;
/**
 * The milliseconds by which a connection may end later or sooner than C44 says, besides the
 * lateness of the test's timers.
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
    // The same work on a server without slow clients at the same time, because a busy machine slows
    // both.
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
      // A heap is collected only while there is work.
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

/** Starts a server with some requests behind it, and pages larger than a socket's buffers. */
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

/** Runs good clients; returns the milliseconds of their responses. */
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

/** Measures how late the timers of this process are, for which nothing else is to blame. */
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

/** Returns the allowed error of C44's times in words. */
function words({ ms }: { readonly ms: number }): string {
  return `${seconds(slackMs)} s of slack, and ${seconds(ms)} s by which our own timers were late`;
}
