/**
 * R10: under overload, accepted requests get responses in time, the others get 503, and nothing
 * grows without bound.
 */
import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import { whole } from '../bench/report.js';
import { requestBytes } from '../support/fixture.js';
import { descriptorLimitOf, memoryOf } from '../support/kernel.js';
import { addBytes } from './clients.js';
import { Crowd } from './crowd.js';
import { mebibytes, quantileOf, stretchSince } from './measures.js';
import type { TortureRow } from './row.js';
import { Scene } from './scene.js';

const fullMs = 20_000;
const times = 5;
const acceptedMs = 1_000;
const normalMs = 2_000;
/** The milliseconds that a response may take on a busy machine, beyond twice the normal time. */
const floorMs = 50;
/** The memory beyond the pets themselves, which take at most so many bytes each. */
const spareBytes = 512 * 2 ** 20;
const animalBytes = 1_000;
const requests = [
  addBytes({ name: 'Rex', categoryId: 5, status: 'sold' }),
  requestBytes('GET', '/v1/pets/1'),
];

export const overload: TortureRow = {
  id: 'R10',
  title: `${times} times the requests a second that a server can handle, on file storage`,
  fullS: 60,
  run: async (share) => {
    const scene = await Scene.start(share);
    await scene.add();
    const { pid, port } = scene.server;

    const calm = await Crowd.open(share, port, requests, 64);
    await calm.follow(1_000);
    const perSecond = await calm.follow(2_000);
    calm.close();
    const beforeBytes = memoryOf(pid);
    const before = await normalP99(scene);

    // Each client has one request in flight; requests that find no free client are skipped. Enough
    // clients for a tenth of a second of work.
    const connections = Math.max(
      100,
      Math.min(5_000, Math.floor(perSecond / 10), descriptorLimitOf(process.pid) - 200),
    );
    const ms = Math.max(5_000, Math.min(fullMs, (share.leftS - 5) * 1_000));
    const crowd = await Crowd.open(share, port, requests, connections);
    const scope = stretchSince(pid);
    await crowd.push(times * perSecond, ms);
    const stretched = scope();
    const settledMs = await backToNormal(crowd, scene, before, scope);
    const busy =
      stretched > 1.2 ? ` (other work stretched these times ${stretched.toFixed(1)} times)` : '';
    // Accepted requests get responses in time, less the time that other work on this machine takes.
    const accepted = [200, 201].flatMap((status) => crowd.waits.get(status) ?? []);
    const p99 = quantileOf(accepted, 0.99);
    assert.ok(
      p99 <= acceptedMs * stretched,
      `accepted requests wait: p99 of ${whole(accepted.length)} is ${Math.round(p99)} ms${busy}`,
    );
    crowd.close();

    const adds = [calm, crowd].reduce((sum, { waits }) => sum + (waits.get(201)?.length ?? 0), 0);
    const peakBytes = memoryOf(pid, 'VmHWM');
    const memory = `memory ${mebibytes(beforeBytes)} MiB before, ${mebibytes(peakBytes)} at most with ${whole(adds)} animals added`;
    assert.ok(peakBytes <= beforeBytes + spareBytes + adds * animalBytes, memory);
    await scene.stop();

    const responses = [...crowd.waits]
      .sort(([one], [other]) => one - other)
      .map(([status, waits]) => {
        const slow = Math.round(quantileOf(waits, 0.99));
        return `${whole(waits.length)} ${status} (p99 ${slow} ms)`;
      });
    const timesOf = (asked: number): string => ((asked * 1_000) / ms / perSecond).toFixed(1);
    return [
      `takes ${whole(Math.round(perSecond))} requests a second`,
      // A client that waits for a response sends no other request.
      `${whole(connections)} clients of one request at a time, ${(ms / 1_000).toFixed(0)} s of ${timesOf(crowd.sent + crowd.unsent)} times that, ${timesOf(crowd.sent)} of it sent while all others waited for their answers: ${responses.join(', ')}, all answered ${Math.round(settledMs)} ms behind the end${busy}`,
      memory,
    ].join('; ');
  },
};

/**
 * Waits until every request has an allowed response and the next client is unaffected. Returns the
 * milliseconds from the end of the load to the last response.
 */
async function backToNormal(
  crowd: Crowd,
  scene: Scene,
  before: number,
  scope: () => number,
): Promise<number> {
  const since = performance.now();
  const isInTime = (): boolean => performance.now() - since <= normalMs * scope();
  while (crowd.unanswered > 0 && isInTime()) await wait(5);
  const settledMs = performance.now() - since;
  assert.equal(crowd.unanswered, 0, `not answered ${Math.round(settledMs)} ms behind the load`);
  assert.equal(crowd.lost, 0, 'connections are gone');
  for (const status of crowd.waits.keys())
    assert.ok([200, 201, 503].includes(status), `some are answered ${status}`);
  let p99: number;
  do p99 = await normalP99(scene);
  while (p99 > (2 * before + floorMs) * scope() && isInTime());
  assert.ok(
    p99 <= (2 * before + floorMs) * scope(),
    `behind the load an answer takes ${p99.toFixed(0)} ms, ${before.toFixed(0)} before it`,
  );
  return settledMs;
}

/** Returns the p99 of some requests, one after the other. */
async function normalP99(scene: Scene): Promise<number> {
  const waits: number[] = [];
  for (let index = 0; index < 15; index++) {
    waits.push((await scene.clients.get('/v1/pets')).ms, (await scene.add()).ms);
  }
  return quantileOf(waits, 0.99);
}
