/**
 * R10: whoever is served under too much load is served in time, the others hear 503, and nothing
 * grows without bound.
 */
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Client } from './client.js';
import { descriptorLimit, quantileOf, residentMiB, stretchSince } from './figures.js';
import { Pressure, type PressureOptions } from './pressure.js';
import { hold, number, type Row } from './row.js';
import { started } from './server.js';
import { addBytes, requestBytes } from './wire.js';

const fullMs = 20_000;
const times = 5;
const acceptedMs = 1_000;
const normalMs = 2_000;
/**
 * What an answer may take at normal times on a machine that also does other work, beyond twice what
 * it took before.
 */
const floorMs = 50;
/** Beyond what the animals themselves take, which is no more than so many bytes each. */
const spareMiB = 512;
const animalBytes = 1_000;
/** Only these may be answered. */
const allowed: ReadonlySet<number> = new Set([200, 201, 503]);

export const overload: Row = {
  id: 'R10',
  title: `${times} times the requests a second that it can take, on file storage`,
  fullS: 60,
  run: async (share) => {
    const { server, client } = await started(share, join(share.folder(), 'pets.jsonl'));
    const first = await client.add({ name: 'first', categoryId: 1 });
    hold(first.status === 201, `an add is answered ${first.status}`);
    const [add, get] = [
      addBytes({ name: 'Rex', categoryId: 5, status: 'sold' }),
      requestBytes('GET', '/v1/pets/1'),
    ].map((text) => Buffer.from(text, 'latin1'));
    hold(add !== undefined && get !== undefined, 'nothing to ask');
    const crowd = async (options: Omit<PressureOptions, 'port'>): Promise<Pressure> => {
      const pressure = await Pressure.open({ port: client.port, ...options });
      share.onEnd(() => pressure.close());
      return pressure;
    };
    let peakMiB = 0;
    const watching = setInterval(() => (peakMiB = Math.max(peakMiB, residentMiB(server.pid))), 100);
    share.onEnd(() => clearInterval(watching));

    const calm = await crowd({ connections: 64, depth: 1, requests: [add, get] });
    await calm.follow(1_000);
    const perSecond = await calm.follow(2_000);
    calm.close();
    const beforeMiB = residentMiB(server.pid);
    const before = await normalP99(client);

    // A client asks for one thing at a time, and what finds all of them waiting is not asked at
    // all: a tenth of a second of work.
    const connections = Math.max(
      100,
      Math.min(5_000, Math.floor(perSecond / 10), descriptorLimit() - 200),
    );
    const ms = Math.max(5_000, Math.min(fullMs, (share.leftS - 5) * 1_000));
    const many = await crowd({ connections, depth: 1, requests: [add, get] });
    const stretch = stretchSince([server.pid, process.pid]);
    await many.push(times * perSecond, ms);
    const stretched = stretch();
    const manyWords = await backToNormal(many, client, before, stretch);
    holdAccepted(many, stretched);
    many.close();

    clearInterval(watching);

    const adds = [calm, many].reduce(
      (sum, { tally }) => sum + (tally.waits.get(201)?.length ?? 0),
      0,
    );
    const mostMiB = beforeMiB + spareMiB + (adds * animalBytes) / 2 ** 20;
    hold(
      peakMiB <= mostMiB,
      `memory grows to ${Math.round(peakMiB)} MiB, from ${Math.round(beforeMiB)}`,
    );
    hold(
      server.log.every((line) => !line.includes('"level":"error"')),
      () => `the log tells of an error: ${server.log.join('\n')}`,
    );
    hold((await server.end('SIGTERM')).code === 0, 'it does not end with 0');
    return [
      `takes ${number(Math.round(perSecond))} requests a second`,
      `${number(connections)} clients of one request at a time, ${offered(many, ms, perSecond)}: ${manyWords}${stretchWords(stretched)}`,
      `memory ${Math.round(beforeMiB)} MiB before, ${Math.round(peakMiB)} at most with ${number(adds)} animals added`,
    ].join('; ');
  },
};

/**
 * Whoever is not refused is served in time; what others on this machine take of it is not the
 * server's doing.
 */
function holdAccepted({ tally }: Pressure, stretched: number): void {
  const accepted = [200, 201].flatMap((status) => tally.waits.get(status) ?? []);
  const p99 = quantileOf(accepted, 0.99);
  hold(
    p99 <= acceptedMs * stretched,
    `accepted requests wait: p99 of ${number(accepted.length)} is ${Math.round(p99)} ms${stretchWords(stretched)}`,
  );
}

/**
 * A client that still waits for its answer does not ask again: what found all of them so was not
 * sent.
 */
function offered({ sent, tally }: Pressure, ms: number, perSecond: number): string {
  const timesOf = (requests: number): string => ((requests * 1_000) / ms / perSecond).toFixed(1);
  return `${(ms / 1_000).toFixed(0)} s of ${timesOf(sent + tally.unsent)} times that, ${timesOf(sent)} of it sent while all others waited for their answers`;
}

function stretchWords(stretched: number): string {
  return stretched > 1.2 ? ` (other work stretched these times ${stretched.toFixed(1)} times)` : '';
}

/** Everything gets an answer that is allowed, and the next client hears nothing of it all. */
async function backToNormal(
  pressure: Pressure,
  client: Client,
  before: number,
  stretch: () => number,
): Promise<string> {
  const since = performance.now();
  const isInTime = (): boolean => performance.now() - since <= normalMs * stretch();
  while (pressure.unanswered > 0 && isInTime()) await wait(5);
  const settledMs = performance.now() - since;
  hold(
    pressure.unanswered === 0,
    `${pressure.unanswered} requests are not answered ${Math.round(settledMs)} ms behind the load`,
  );
  const { waits, lost } = pressure.tally;
  hold(lost === 0, `${lost} connections are gone`);
  for (const status of waits.keys()) hold(allowed.has(status), `some are answered ${status}`);
  const isNormal = async (): Promise<boolean> =>
    (await normalP99(client)) <= (2 * before + floorMs) * stretch();
  let normal = await isNormal();
  while (!normal && isInTime()) normal = await isNormal();
  hold(
    normal,
    `${Math.round(performance.now() - since)} ms behind the load an answer still takes more than twice the ${before.toFixed(0)} ms before it`,
  );
  const words = [...waits]
    .sort(([a], [b]) => a - b)
    .map(
      ([status, times]) =>
        `${number(times.length)} ${status} (p99 ${Math.round(quantileOf(times, 0.99))} ms)`,
    );
  return `${words.join(', ')}, all answered ${Math.round(settledMs)} ms behind the end`;
}

/** Of a few requests one after the other. */
async function normalP99(client: Client): Promise<number> {
  const waits: number[] = [];
  for (let index = 0; index < 30; index++) {
    const { status, ms } =
      index % 2 === 0
        ? await client.get('/v1/pets')
        : await client.add({ name: 'normal', categoryId: 1 });
    hold(status === 200 || status === 201, `at normal times an answer is ${status}`);
    waits.push(ms);
  }
  return quantileOf(waits, 0.99);
}
