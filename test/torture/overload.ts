/**
 * R10: under overload, accepted requests get responses in time, other requests get 503, and memory
 * stays bounded.
 */
import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import { whole } from '../bench/report.js';
import { requestBytes } from '../support/fixture.js';
import { descriptorLimitOf, memoryOf } from '../support/kernel.js';
import { addBytes } from './clients.js';
import { Crowd } from './crowd.js';
import { mebibytes, quantileOf, stretchSince } from './measures.js';
import { printDetails, type TortureRow } from './row.js';
import { Scene } from './scene.js';

const fullMs = 20_000;
const times = 5;
const acceptedMs = 1_000;
const normalMs = 2_000;
/** The time in ms that a response may take in addition to twice the normal time. */
const floorMs = 50;
/** The growth of memory that is allowed, in addition to the bytes of each added pet. */
const spareBytes = 512 * 2 ** 20;
const petBytes = 1_000;
const requests = [
  addBytes({ name: 'Rex', categoryId: 5, status: 'sold' }),
  requestBytes('GET', '/v1/pets/1'),
];

export const overload: TortureRow = {
  id: 'R10',
  title: `overload: ${times} times the requests a second that the server can handle, on file storage`,
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

    // Each client has at most one request in flight; requests without a free client are skipped.
    // There are enough clients for a tenth of a second of work.
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
      stretched > 1.2 ? `; other work slowed this machine ${stretched.toFixed(1)} times` : '';
    // The limit allows for the time that other work on this machine takes.
    const accepted = [200, 201].flatMap((status) => crowd.waits.get(status) ?? []);
    const p99 = quantileOf(accepted, 0.99);
    assert.ok(
      p99 <= acceptedMs * stretched,
      `accepted requests are slow: p99 of ${whole(accepted.length)} is ${Math.round(p99)} ms${busy}`,
    );
    crowd.close();

    const adds = [calm, crowd].reduce((sum, { waits }) => sum + (waits.get(201)?.length ?? 0), 0);
    const peakBytes = memoryOf(pid, 'VmHWM');
    const memory = `memory ${mebibytes(beforeBytes)} MiB before, ${mebibytes(peakBytes)} MiB at most`;
    assert.ok(
      peakBytes <= beforeBytes + spareBytes + adds * petBytes,
      `${memory} with ${whole(adds)} pets added`,
    );
    await scene.stop();

    const responses = [...crowd.waits]
      .sort(([one], [other]) => one - other)
      .map(([status, waits]) => {
        const slow = Math.round(quantileOf(waits, 0.99));
        return `${whole(waits.length)} ${status} (p99 ${slow} ms)`;
      });
    const timesOf = (requests: number): string => ((requests * 1_000) / ms / perSecond).toFixed(1);
    printDetails(
      'R10',
      // A client with a request in flight sends no other request.
      `${whole(connections)} clients with one request at a time, ${(ms / 1_000).toFixed(0)} s of ${timesOf(crowd.sent + crowd.unsent)} times the normal rate, of which ${timesOf(crowd.sent)} times was sent, because the other clients waited for responses: ${responses.join(', ')}; last response ${Math.round(settledMs)} ms after the load; ${whole(adds)} pets added${busy}`,
    );
    return `handles ${whole(perSecond)} requests a second without overload; under overload: p99 of accepted requests ${Math.round(p99)} ms, ${whole(crowd.waits.get(503)?.length ?? 0)} of ${whole(crowd.sent)} requests get 503, 0 lost; ${memory}`;
  },
};

/**
 * Waits until every request has an allowed response, and responses are as fast as before the load.
 * Returns the milliseconds from the end of the load to the last response.
 */
async function backToNormal(
  crowd: Crowd,
  scene: Scene,
  before: number,
  scope: () => number,
): Promise<number> {
  const since = performance.now();
  const isInTime = (): boolean => performance.now() - since <= normalMs * scope();
  while (crowd.inFlight > 0 && isInTime()) await wait(5);
  const settledMs = performance.now() - since;
  assert.equal(crowd.inFlight, 0, `no response ${Math.round(settledMs)} ms after the load`);
  assert.equal(crowd.lost, 0, 'the server closed connections');
  for (const status of crowd.waits.keys())
    assert.ok([200, 201, 503].includes(status), `some responses are ${status}`);
  let p99: number;
  do p99 = await normalP99(scene);
  while (p99 > (2 * before + floorMs) * scope() && isInTime());
  assert.ok(
    p99 <= (2 * before + floorMs) * scope(),
    `a response takes ${p99.toFixed(0)} ms after the load, and ${before.toFixed(0)} ms before it`,
  );
  return settledMs;
}

/** Returns the p99 in milliseconds of 30 requests, sent one after the other. */
async function normalP99(scene: Scene): Promise<number> {
  const waits: number[] = [];
  for (let index = 0; index < 15; index++) {
    waits.push((await scene.clients.get('/v1/pets')).ms, (await scene.add()).ms);
  }
  return quantileOf(waits, 0.99);
}
