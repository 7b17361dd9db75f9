/** R11: SIGTERM under load loses nothing, cuts no well-behaved client off, and ends in time. */
import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import { whole } from '../bench/report.js';
import { Client, type RawResponse } from '../support/client.js';
import { requestBytes, connectTo } from '../support/fixture.js';
import { waitedMsOf } from '../support/kernel.js';
import { addBytes, utf8Of } from './clients.js';
import { quantileOf } from './measures.js';
import { randomDraft } from './random.js';
import { atOnce, count, inTime, seconds, type TortureRow, type Share } from './row.js';
import { Scene } from './scene.js';

const fullRounds = 50;
/** The number of rounds at once, because a round mostly waits for half-sent requests. */
const lanes = 10;
const keepers = 8;
const comers = 2;
/** The number of idle connections of each kind. */
const others = 3;
/**
 * The milliseconds for which the server keeps idle connections for a request on its way, and the
 * part of these left to chance.
 */
const lastWordMs = 250;
const spareMs = 50;
const patienceMs = 15_000;
/** The milliseconds that the server may take to end. */
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
    const { acknowledged, endsMs, refused, letGo, unaccepted, lastWords, starved } = tally;
    return `${count(endsMs.length, fullRounds, 'rounds')}, ${whole(acknowledged)} animals acknowledged: 0 lost; 0 resets of a taken connection (${whole(refused)} requests answered 503, ${whole(letGo)} connections let go between two requests, ${unaccepted} never taken); ${whole(lastWords)} requests sent on idle connections around the signal, each answered${starved === 0 ? '' : ` but ${starved}, while other work held the server up`}; exit 0 in ${seconds(quantileOf(endsMs, 0.5))} s, at most ${seconds(quantileOf(endsMs, 1))} s`;
  },
};

/**
 * Why no response came: the connection ended before the request, or the server never accepted it,
 * because it had stopped listening.
 */
type Unanswered = 'let go' | 'never taken';

/** The counts of all rounds. */
class Tally {
  acknowledged = 0;
  readonly endsMs: number[] = [];
  /** Requests that got a 503. */
  refused = 0;
  /** Connections that ended while a client's next request was on its way. */
  letGo = 0;
  /** Connections that were never accepted. */
  unaccepted = 0;
  /** Requests on idle connections around the signal that got a response. */
  lastWords = 0;
  /** Such requests without a response that came too late through no fault of the server. */
  starved = 0;
}

async function round(share: Share, tally: Tally): Promise<void> {
  const scene = await Scene.start(share);
  const { server, ledger } = scene;
  const { pid, port } = server;
  const open = (): Promise<Client> => connectTo(share, { port });

  /** Opens a connection and keeps it idle after a response. */
  const openIdle = async (): Promise<Client> => {
    const client = (await open()).send(requestBytes('GET', '/v1/pets'));
    assert.equal((await client.nextResponse()).status, 200);
    return client;
  };

  /**
   * Adds a pet and records the response. Only a connection that the server may not have accepted
   * may be reset.
   */
  const addOver = async (
    client: Client,
    mayBeUntaken: boolean,
    headers: readonly string[] = [],
  ): Promise<RawResponse | Unanswered> => {
    const sent = randomDraft(share.random);
    client.send(addBytes(sent, { headers }));
    const response = await client
      .nextResponse('POST', patienceMs)
      .catch((error: unknown): Unanswered => {
        assert.ok(
          client.hasEnded && client.received === '',
          `an answer breaks off: ${String(error)}`,
        );
        if (client.failure === undefined) return 'let go';
        assert.ok(mayBeUntaken, `who behaves is cut off: ${client.failure.message}`);
        return 'never taken';
      });
    if (typeof response === 'string') return response;
    if (response.status === 201) ledger.acknowledge(sent, { body: utf8Of(response.body) });
    else {
      assert.equal(response.status, 503, response.body);
      tally.refused++;
    }
    return response;
  };

  /** Adds pets over one connection after the other, until none can be opened. */
  const keepAdding = async (headers: readonly string[] = []): Promise<void> => {
    for (;;) {
      const client = await Client.connect(port).catch(() => undefined);
      if (client === undefined) return;
      for (let mayBeUntaken = true; !client.hasEnded; mayBeUntaken = false) {
        const response = await addOver(client, mayBeUntaken, headers);
        if (response === 'let go') tally.letGo++;
        else if (response === 'never taken') tally.unaccepted++;
        else if (response.headers.get('connection')?.includes('close')) break;
      }
      client.destroy();
    }
  };

  /** Adds a pet over an idle connection `behindMs` after the signal, which must get a response. */
  const askAtTheEnd = async (client: Client, behindMs: number): Promise<void> => {
    const since = performance.now();
    const waitedBefore = waitedMsOf(pid);
    if (behindMs > 0) await wait(behindMs);
    const sentMs = performance.now() - since;
    if ((await addOver(client, false)) !== 'let go') {
      tally.lastWords++;
      return;
    }
    // The process still waits for half-sent requests, so that the kernel still shows what delayed
    // it.
    const readMs = sentMs + waitedMsOf(pid) - waitedBefore;
    assert.ok(
      readMs > lastWordMs - spareMs,
      `a request on an idle connection is not answered, sent ${sentMs.toFixed(0)} ms behind SIGTERM, and read ${readMs.toFixed(0)} ms behind it at the latest`,
    );
    tally.starved++;
  };

  const half = requestBytes('POST', '/v1/pets', { headers: ['Content-Length: 60'] });
  const askers: Client[] = [];
  for (let index = 0; index < others; index++) {
    await openIdle();
    await open();
    (await open()).send(half.slice(0, 5 + 20 * index));
    (await open()).send(`${half}{"name":`);
    askers.push(await openIdle());
  }
  const working = Promise.all([
    atOnce(keepers, keepAdding),
    atOnce(comers, () => keepAdding(['Connection: close'])),
  ]);
  // May reject before it is awaited below.
  working.catch(() => undefined);
  await Promise.race([working, wait(50 + share.random.below(400))]);
  // The first request is sent before the signal, the others while idle connections are kept.
  const asking = Promise.all(
    askers.map((asker, index) =>
      askAtTheEnd(asker, index * share.random.below(lastWordMs / askers.length)),
    ),
  );
  asking.catch(() => undefined);
  const sentAt = performance.now();
  const { code, signal, stderr } = await inTime(server.end(), 'the end behind SIGTERM', endMs);
  tally.endsMs.push(performance.now() - sentAt);
  assert.equal(code, 0, `SIGTERM ends it with ${code ?? signal}: ${stderr}`);
  server.assertNoError();
  await Promise.all([working, asking]);
  scene.clients.close();

  await (await Scene.start(share, scene)).stop();
  tally.acknowledged += ledger.size;
}
