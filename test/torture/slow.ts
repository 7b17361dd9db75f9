/** R9: clients that are slow, silent or gone cost neither the good ones their time nor the server its memory. */
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { messageOf } from '../../dist/errors.js';
import { assertError, Client as BareClient } from '../http/client.js';
import type { Client } from './client.js';
import { descriptorsOf, quantileOf, residentMiB } from './figures.js';
import { Ledger } from './ledger.js';
import { readAllPages } from './pages.js';
import { randomDraft } from './random.js';
import { hold, number, until, Violation, type Row, type Share } from './row.js';
import { started, type Server } from './server.js';
import { requestBytes } from './wire.js';

const fullSockets = 1_000;
const shortSockets = 200;
/** How long the row takes with and without the times of a minute. */
const longS = 90;
/** What a machine at other work may add to any answer, however it is served. */
const floorMs = 25;
/** By how much memory may stay above what it was, as a heap is never the same twice. */
const spareMiB = 64;
const slackMs = 2_000;
const unreadMs = 60_000;

export const slow: Row = {
  id: 'R9',
  title: `${number(fullSockets)} sockets of slow heads, slow bodies, slow readers, silence, half-closes and resets, while good clients work`,
  fullS: 150,
  run: async (share) => {
    const isLong = share.leftS >= longS;
    const attacked = await prepare(share);
    // The same work on a server without the others, at the same time: a busy machine slows both.
    const calm = await prepare(share);
    const before = { descriptors: descriptorsOf(attacked.server.pid), MiB: residentMiB(attacked.server.pid) };
    const working = { goOn: true };
    const clients = Promise.all([work(share, attacked, working), work(share, calm, working)]);
    clients.catch(() => undefined);
    const lag = lateness(share);
    let peakMiB = 0;
    const watching = setInterval(() => (peakMiB = Math.max(peakMiB, residentMiB(attacked.server.pid))), 200);
    share.onEnd(() => clearInterval(watching));

    const kinds = allKinds.filter(({ goneMs }) => isLong || goneMs < 40_000);
    const parts = kinds.reduce((sum, { part }) => sum + part, 0);
    const sockets = isLong ? fullSockets : shortSockets;
    const figures = await Promise.all(
      kinds.map(async (kind) => {
        const many = Math.round((sockets * kind.part) / parts);
        const times = await Promise.all(Array.from({ length: many }, () => attack(share, attacked.client.port, kind)));
        const slowest = quantileOf(times, 1);
        hold(slowest <= kind.goneMs + slackMs + lag.ms, `${kind.name}: one is there for ${Math.round(slowest)} ms`);
        return `${many} ${kind.name} ${(slowest / 1000).toFixed(1)} s`;
      }),
    );
    working.goOn = false;
    const [theirs, ours] = await clients;
    clearInterval(watching);
    attacked.server.holdNoError();
    for (const { ledger, client } of [attacked, calm]) await ledger.check(client, share.random);
    const stored = (await readAllPages(attacked.client)).size;
    hold(stored === attacked.ledger.size, `${attacked.ledger.size} animals were acknowledged, ${stored} are stored`);

    const [p99, calmP99] = [quantileOf(theirs, 0.99), quantileOf(ours, 0.99)];
    hold(p99 <= Math.max(2 * calmP99, calmP99 + floorMs), `good clients wait: p99 ${p99.toFixed(1)} ms, on a calm server ${calmP99.toFixed(1)} ms`);
    await until('the descriptors to go', 10_000, () => descriptorsOf(attacked.server.pid) <= before.descriptors);
    await until('memory to come back', 60_000, async () => {
      // A heap is swept when somebody works.
      await churn(attacked.client);
      return residentMiB(attacked.server.pid) <= before.MiB + spareMiB;
    });
    const after = residentMiB(attacked.server.pid);
    attacked.client.close();
    calm.client.close();
    const shortened = isLong ? '' : ` (of ${number(fullSockets)}; idle ones and readers, which have 60 s and more, need a larger share)`;
    return `gone at the latest: ${figures.join(', ')}${shortened}; p99 of good clients ${p99.toFixed(1)} ms, on a calm server beside it ${calmP99.toFixed(1)} ms; ${before.descriptors} descriptors before and after; ${before.MiB.toFixed(0)} MiB before, ${peakMiB.toFixed(0)} at most, ${after.toFixed(0)} after`;
  },
};

/** A kind of socket, and when C44 has it gone, in milliseconds. */
interface Kind {
  readonly name: string;
  readonly part: number;
  readonly goneMs: number;
  /** What it does once connected; resolves when it did all that it ever will, which may be never. */
  readonly act: (client: BareClient) => Promise<void> | void;
  /** What it is told before the end. */
  readonly told?: readonly [status: number, code: string];
}

const half = requestBytes('POST', '/v1/pets', { headers: ['Content-Length: 60'] });

const allKinds: readonly Kind[] = [
  { name: 'silent', part: 20, goneMs: 11_000, act: () => undefined },
  { name: 'slow heads', part: 25, goneMs: 10_000, told: [408, 'request_timeout'], act: (client) => trickle(client, 'GET /v1/pets HTTP/1.1\r\nX: ') },
  { name: 'half heads', part: 5, goneMs: 10_000, told: [408, 'request_timeout'], act: (client) => void client.send(half.slice(0, 30)) },
  { name: 'slow bodies', part: 20, goneMs: 30_000, told: [408, 'request_timeout'], act: (client) => trickle(client, half) },
  { name: 'half-closes', part: 10, goneMs: 0, told: [400, 'bad_request'], act: (client) => void client.send(`${half}{"name"`).half() },
  { name: 'silent half-closes', part: 5, goneMs: 0, act: (client) => void client.half() },
  {
    name: 'resets in mid-body',
    part: 10,
    goneMs: 0,
    act: async (client) => {
      client.send(`${half}{"name"`);
      await wait(100);
      client.reset();
    },
  },
  { name: 'readers that stop', part: 3, goneMs: unreadMs, act: stopReading },
  {
    name: 'idle',
    part: 5,
    goneMs: 72_000,
    act: async (client) => {
      client.send(requestBytes('GET', '/v1/pets?limit=1'));
      hold((await client.answer()).status === 200, 'an idle one is not answered first');
    },
  },
];

/** A byte now and then, for as long as anyone listens. */
async function trickle(client: BareClient, start: string): Promise<void> {
  for (client.send(start); !client.ended; client.send('x')) await wait(700);
}

/** Asks for more than the kernel takes in, and reads none of it until the server must have let go: then it ends too early. */
async function stopReading(client: BareClient): Promise<void> {
  client.pause();
  client.send(requestBytes('GET', '/v1/pets?limit=100'));
  await wait(unreadMs + 1_000);
  client.resume();
}

/** Answers after how many milliseconds the server let go of it. */
async function attack(share: Share, port: number, { name, goneMs, act, told }: Kind): Promise<number> {
  // Not all in one moment.
  await wait(share.random.below(1_000));
  const client = await BareClient.connect(port);
  share.onEnd(() => client.destroy());
  const since = performance.now();
  const acting = Promise.resolve(act(client));
  acting.catch(() => undefined);
  try {
    if (told !== undefined) assertError(await client.answer('POST', goneMs + 60_000), ...told);
    while (!client.ended) {
      await wait(20);
      if (performance.now() - since > goneMs + 60_000) throw new Violation('never ended');
    }
    return performance.now() - since;
  } catch (error) {
    throw new Violation(`${name}: ${messageOf(error)}`);
  } finally {
    client.destroy();
  }
}

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
async function work(share: Share, { client, ledger }: Running, working: { readonly goOn: boolean }): Promise<readonly number[]> {
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
