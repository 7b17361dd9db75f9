/**
 * R9: clients that are slow, silent or gone cost neither the good ones their time nor the server
 * its memory.
 */
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { allKinds, attack } from './attackers.js';
import type { Client } from './client.js';
import { descriptorsOf, quantileOf, residentMiB } from './figures.js';
import { Ledger } from './ledger.js';
import { readAllPages } from './pages.js';
import { randomDraft } from './random.js';
import { hold, number, until, type Row, type Share } from './row.js';
import { started, type Server } from './server.js';

const fullSockets = 1_000;
const shortSockets = 200;
/** How long the row takes with and without the times of a minute. */
const longS = 90;
/** What a machine at other work may add to any answer, however it is served. */
const floorMs = 25;
/** By how much memory may stay above what it was, as a heap is never the same twice. */
const spareMiB = 64;
/**
 * How much later than C44 says one may go, and how much sooner as clocks tick, besides the lateness
 * of our own timers.
 */
const slackMs = 2_000;
const soonerMs = 100;

export const slow: Row = {
  id: 'R9',
  title: `${number(fullSockets)} sockets of slow heads, slow bodies, slow readers, silence, half-closes and resets, while good clients work`,
  fullS: 80,
  run: async (share) => {
    const isLong = share.leftS >= longS;
    const attacked = await prepare(share);
    // The same work on a server without the others, at the same time: a busy machine slows both.
    const calm = await prepare(share);
    const before = {
      descriptors: descriptorsOf(attacked.server.pid),
      MiB: residentMiB(attacked.server.pid),
    };
    const working = { goOn: true };
    const clients = Promise.all([work(share, attacked, working), work(share, calm, working)]);
    clients.catch(() => undefined);
    const lag = lateness(share);
    let peakMiB = 0;
    const watching = setInterval(
      () => (peakMiB = Math.max(peakMiB, residentMiB(attacked.server.pid))),
      200,
    );
    share.onEnd(() => clearInterval(watching));

    const kinds = allKinds.filter(({ goneMs }) => isLong || goneMs < 40_000);
    const parts = kinds.reduce((sum, { part }) => sum + part, 0);
    const sockets = isLong ? fullSockets : shortSockets;
    const figures = await Promise.all(
      kinds.map(async (kind) => {
        const many = Math.min(kind.most ?? sockets, Math.round((sockets * kind.part) / parts));
        const times = await Promise.all(
          Array.from({ length: many }, () => attack(share, attacked.client.port, kind)),
        );
        const [fastest, slowest] = [quantileOf(times, 0), quantileOf(times, 1)];
        hold(
          fastest >= kind.keptMs - soonerMs - lag.ms,
          `${kind.name}: one is dropped behind ${Math.round(fastest)} ms, not ${kind.keptMs}; ${words(lag)}`,
        );
        hold(
          slowest <= kind.goneMs + slackMs + lag.ms,
          `${kind.name}: one is there for ${Math.round(slowest)} ms, not ${kind.goneMs}; ${words(lag)}`,
        );
        return `${many} ${kind.name} ${seconds(fastest)} to ${seconds(slowest)} s`;
      }),
    );
    working.goOn = false;
    const [theirs, ours] = await clients;
    clearInterval(watching);
    attacked.server.holdNoError();
    for (const { ledger, client } of [attacked, calm]) await ledger.check(client, share.random);
    const stored = (await readAllPages(attacked.client)).size;
    hold(
      stored === attacked.ledger.size,
      `${attacked.ledger.size} animals were acknowledged, ${stored} are stored`,
    );

    const [p99, calmP99] = [quantileOf(theirs, 0.99), quantileOf(ours, 0.99)];
    hold(
      p99 <= Math.max(2 * calmP99, calmP99 + floorMs),
      `good clients wait: p99 ${p99.toFixed(1)} ms, on a calm server ${calmP99.toFixed(1)} ms`,
    );
    await until(
      'the descriptors to go',
      10_000,
      () => descriptorsOf(attacked.server.pid) <= before.descriptors,
    );
    await until('memory to come back', 60_000, async () => {
      // A heap is swept when somebody works.
      await churn(attacked.client);
      return residentMiB(attacked.server.pid) <= before.MiB + spareMiB;
    });
    const after = residentMiB(attacked.server.pid);
    attacked.client.close();
    calm.client.close();
    const shortened = isLong
      ? ''
      : ` (of ${number(fullSockets)}; idle ones and readers, which have 60 s and more, need a larger share)`;
    return `gone behind: ${figures.join(', ')}${shortened}; ${words(lag)}; p99 of good clients ${p99.toFixed(1)} ms, on a calm server beside it ${calmP99.toFixed(1)} ms; ${before.descriptors} descriptors before and after; ${before.MiB.toFixed(0)} MiB before, ${peakMiB.toFixed(0)} at most, ${after.toFixed(0)} after`;
  },
};

interface Running {
  readonly server: Server;
  readonly client: Client;
  readonly ledger: Ledger;
}

/** A server with some work behind it, and pages that are larger than a socket's buffers. */
async function prepare(share: Share): Promise<Running> {
  const { server, client } = await started(share, join(share.folder(), 'pets.jsonl'));
  const ledger = new Ledger();
  for (let index = 0; index < 100; index++) {
    const sent = { name: `${'x'.repeat(60_000)}${index}`, categoryId: index };
    ledger.acknowledge(sent, await client.add(sent));
  }
  for (let round = 0; round < 20; round++) await churn(client);
  return { server, client, ledger };
}

async function churn(client: Client): Promise<void> {
  await Promise.all(Array.from({ length: 4 }, () => client.get('/v1/pets?limit=50')));
}

const goodClients = 4;

/** Good clients at work; answers their waits in milliseconds. */
async function work(
  share: Share,
  { client, ledger }: Running,
  working: { readonly goOn: boolean },
): Promise<readonly number[]> {
  const waits: number[] = [];
  await Promise.all(
    Array.from({ length: goodClients }, async () => {
      while (working.goOn) {
        const sent = randomDraft(share.random);
        const added = await client.add(sent);
        hold(added.status === 201, `an add is answered ${added.status}`);
        ledger.acknowledge(sent, added);
        const listed = await client.get('/v1/pets?after=100&limit=5');
        hold(listed.status === 200, `a list is answered ${listed.status}`);
        waits.push(added.ms, listed.ms);
        await wait(20);
      }
    }),
  );
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
  share.onEnd(() => clearInterval(timer));
  return lag;
}

/** By how much C44's times may be missed here. */
function words({ ms }: { readonly ms: number }): string {
  return `${seconds(slackMs)} s of slack, and ${seconds(ms)} s by which our own timers were late`;
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(1);
}
