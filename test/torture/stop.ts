/**
 * R11: after SIGTERM under load, no pet is lost, good clients get responses, and the end is in
 * time.
 */
import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import { whole } from '../bench/report.js';
import { Client, type RawResponse } from '../support/client.js';
import { requestBytes, connectTo } from '../support/fixture.js';
import { waitedMsOf } from '../support/kernel.js';
import { addBytes, utf8Of } from './clients.js';
import { quantileOf } from './measures.js';
import { randomDraft } from './random.js';
import {
  atOnce,
  count,
  inTime,
  printDetails,
  seconds,
  type TortureRow,
  type Share,
} from './row.js';
import { Scene } from './scene.js';

const fullRounds = 50;
/** The number of concurrent rounds, because a round mostly waits for half-sent requests. */
const lanes = 10;
const keepers = 8;
const comers = 2;
/** The number of other connections of each kind. */
const others = 3;
/**
 * The milliseconds for which the server keeps idle connections open after SIGTERM, for requests
 * that are on their way; and the part of this time that is not tested.
 */
const idleGraceMs = 250;
const spareMs = 50;
const patienceMs = 15_000;
/** The most milliseconds from SIGTERM to the end of the process. */
const endMs = 10_000;

export const stop: TortureRow = {
  id: 'R11',
  title: 'SIGTERM under load, with idle, silent and half-sent connections open',
  fullS: 50,
  run: async (share) => {
    const tally = new Tally();
    let begun = 0;
    const lane = async (): Promise<void> => {
      while (share.goOn(begun++, fullRounds)) await round(share, tally);
    };
    await atOnce(lanes, lane);
    const { acknowledged, endsMs, refused, closedIdle, unaccepted, lateRequests, starved } = tally;
    printDetails(
      'R11',
      `${whole(refused)} requests got 503, ${whole(closedIdle)} idle connections were closed before the next request, ${unaccepted} connections were never accepted; ${starved} requests on idle connections got no response, because other work delayed the server`,
    );
    return `${count(endsMs.length, fullRounds, 'rounds')}, ${whole(acknowledged)} pets acknowledged: 0 lost, 0 accepted connections reset, ${whole(lateRequests)} of ${whole(lateRequests + starved)} requests near SIGTERM got a response; exit code 0 in ${seconds(quantileOf(endsMs, 0.5))} s, at most ${seconds(quantileOf(endsMs, 1))} s`;
  },
};

/**
 * The reason for no response: the server closed the connection before the request, or never
 * accepted it because it had stopped listening.
 */
type NoResponse = 'closed' | 'never accepted';

/** The counts of all rounds together. */
class Tally {
  acknowledged = 0;
  readonly endsMs: number[] = [];
  /** Requests that got a 503. */
  refused = 0;
  /** Connections that the server closed while the next request was on its way. */
  closedIdle = 0;
  /** Connections that were never accepted. */
  unaccepted = 0;
  /** Requests on idle connections near SIGTERM that got a response. */
  lateRequests = 0;
  /** Such requests that got no response, because other work of this machine made them late. */
  starved = 0;
}

async function round(share: Share, tally: Tally): Promise<void> {
  const scene = await Scene.start(share);
  const { server, ledger } = scene;
  const { pid, port } = server;
  const open = (): Promise<Client> => connectTo(share, { port });

  /** Opens a connection that is idle after a first response. */
  const openIdle = async (): Promise<Client> => {
    const client = (await open()).send(requestBytes('GET', '/v1/pets'));
    assert.equal((await client.nextResponse()).status, 200);
    return client;
  };

  /**
   * Adds a pet and records the response. The connection may be reset only if the server may not
   * have accepted it.
   */
  const addOver = async (
    client: Client,
    mayBeUnaccepted: boolean,
    headers: readonly string[] = [],
  ): Promise<RawResponse | NoResponse> => {
    const sent = randomDraft(share.random);
    client.send(addBytes(sent, { headers }));
    const response = await client
      .nextResponse('POST', patienceMs)
      .catch((error: unknown): NoResponse => {
        assert.ok(
          client.hasEnded && client.received === '',
          `a response is incomplete: ${String(error)}`,
        );
        if (client.failure === undefined) return 'closed';
        assert.ok(
          mayBeUnaccepted,
          `the connection of a good client was reset: ${client.failure.message}`,
        );
        return 'never accepted';
      });
    if (typeof response === 'string') return response;
    if (response.status === 201) ledger.acknowledge(sent, { body: utf8Of(response.body) });
    else {
      assert.equal(response.status, 503, response.body);
      tally.refused++;
    }
    return response;
  };

  /** Adds pets over one connection after the other, until the server accepts no more. */
  const keepAdding = async (headers: readonly string[] = []): Promise<void> => {
    for (;;) {
      const client = await Client.connect(port).catch(() => undefined);
      if (client === undefined) return;
      for (let mayBeUnaccepted = true; !client.hasEnded; mayBeUnaccepted = false) {
        const response = await addOver(client, mayBeUnaccepted, headers);
        if (response === 'closed') tally.closedIdle++;
        else if (response === 'never accepted') tally.unaccepted++;
        else if (response.headers.get('connection')?.includes('close')) break;
      }
      client.destroy();
    }
  };

  /** Adds a pet over an idle connection `afterMs` after SIGTERM, which must get a response. */
  const addNearTheEnd = async (client: Client, afterMs: number): Promise<void> => {
    const since = performance.now();
    const waitedBefore = waitedMsOf(pid);
    if (afterMs > 0) await wait(afterMs);
    const sentMs = performance.now() - since;
    if ((await addOver(client, false)) !== 'closed') {
      tally.lateRequests++;
      return;
    }
    // The process still waits for half-sent requests, so that the kernel still has its figures.
    const readMs = sentMs + waitedMsOf(pid) - waitedBefore;
    assert.ok(
      readMs > idleGraceMs - spareMs,
      `a request on an idle connection got no response; it was sent ${sentMs.toFixed(0)} ms after SIGTERM, and read at most ${readMs.toFixed(0)} ms after it`,
    );
    tally.starved++;
  };

  const half = requestBytes('POST', '/v1/pets', { headers: ['Content-Length: 60'] });
  const lateClients: Client[] = [];
  for (let index = 0; index < others; index++) {
    await openIdle();
    await open();
    (await open()).send(half.slice(0, 5 + 20 * index));
    (await open()).send(`${half}{"name":`);
    lateClients.push(await openIdle());
  }
  const working = Promise.all([
    atOnce(keepers, keepAdding),
    atOnce(comers, () => keepAdding(['Connection: close'])),
  ]);
  // It may reject before it is awaited below.
  working.catch(() => undefined);
  await Promise.race([working, wait(50 + share.random.below(400))]);
  // Sends the first request before SIGTERM, and the others while idle connections are kept open.
  const addingLate = Promise.all(
    lateClients.map((client, index) =>
      addNearTheEnd(client, index * share.random.below(idleGraceMs / lateClients.length)),
    ),
  );
  addingLate.catch(() => undefined);
  const sentAt = performance.now();
  const { code, signal, stderr } = await inTime(server.end(), 'the shutdown after SIGTERM', endMs);
  tally.endsMs.push(performance.now() - sentAt);
  assert.equal(code, 0, `the server ended with ${code ?? signal} after SIGTERM: ${stderr}`);
  server.assertNoError();
  await Promise.all([working, addingLate]);
  scene.clients.close();

  await (await Scene.start(share, scene)).stop();
  tally.acknowledged += ledger.size;
}
