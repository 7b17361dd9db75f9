/** R11: SIGTERM in the middle of work loses nothing, cuts nobody off who behaves, and is over in time. */
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { Client as BareClient, type Answer } from '../http/client.js';
import { quantileOf, waitedMs } from './figures.js';
import { Ledger } from './ledger.js';
import { randomDraft } from './random.js';
import { count, hold, number, Violation, type Row, type Share } from './row.js';
import { started } from './server.js';
import { addBytes, requestBytes, textOf } from './wire.js';

const fullRounds = 50;
/** A round mostly waits for the grace of half-sent requests, so that several fit beside each other. */
const lanes = 10;
const keepers = 8;
const comers = 2;
/** Of each kind of connection that asks for nothing just then. */
const others = 3;
const endMs = 10_000;
/** How long the server keeps idle connections for a request that is on its way, and how much of that we leave to chance. */
const lastWordMs = 250;
const spareMs = 50;

export const stop: Row = {
  id: 'R11',
  title: 'SIGTERM under load, with idle, silent and half-sent connections open',
  fullS: 100,
  run: async (share) => {
    const tally: Tally = { rounds: 0, acknowledged: 0, refused: 0, letGo: 0, unaccepted: 0, lastWords: 0, starved: 0, endsMs: [] };
    let begun = 0;
    await Promise.all(
      Array.from({ length: lanes }, async () => {
        while (share.goOn(begun, fullRounds)) {
          begun++;
          await round(share, tally);
          tally.rounds++;
        }
      }),
    );
    const { rounds, acknowledged, refused, letGo, unaccepted, lastWords, starved, endsMs } = tally;
    return `${count(rounds, fullRounds, 'rounds')}, ${number(acknowledged)} animals acknowledged: 0 lost; 0 resets of a taken connection (${number(refused)} requests answered 503, ${number(letGo)} connections let go between two requests, ${unaccepted} never taken); ${number(lastWords)} requests sent on idle connections around the signal, each answered${starved === 0 ? '' : ` but ${starved}, while other work held the server up`}; exit 0 in ${seconds(quantileOf(endsMs, 0.5))} s, at most ${seconds(quantileOf(endsMs, 1))} s`;
  },
};

interface Tally {
  rounds: number;
  acknowledged: number;
  /** Answered 503. */
  refused: number;
  /** Connections that ended in peace while a client's next request was on its way. */
  letGo: number;
  /** Connections that the kernel made and the server never took, as it had stopped listening. */
  unaccepted: number;
  /** Requests on idle connections around the signal that were answered. */
  lastWords: number;
  /** Such requests that were not, but came too late by no fault of the server. */
  starved: number;
  readonly endsMs: number[];
}

async function round(share: Share, tally: Tally): Promise<void> {
  const path = join(share.folder(), 'pets.jsonl');
  const ledger = new Ledger();
  const { server, client } = await started(share, path);
  const bystanders = await openBystanders(client.port);
  const askers = await openIdle(client.port);
  share.onEnd(() => [...bystanders, ...askers].forEach((each) => each.destroy()));
  const working = Promise.all([
    ...Array.from({ length: keepers }, () => keepAdding(share, client.port, ledger, tally)),
    ...Array.from({ length: comers }, () => comeAndAdd(share, client.port, ledger, tally)),
  ]);
  // It fails while we wait for something else, and is asked for below.
  working.catch(() => undefined);
  await Promise.race([working, wait(50 + share.random.below(400))]);
  // The first asks before the signal, which finds its request on the way; the others while idle connections are kept.
  const asking = Promise.all(askers.map((asker, index) => askAtTheEnd(share, asker, server.pid, index * share.random.below(lastWordMs / askers.length), ledger, tally)));
  asking.catch(() => undefined);
  const sentAt = performance.now();
  const { code, signal, stderr } = await Promise.race([server.end('SIGTERM'), wait(endMs + 5_000).then(() => new Violation(`it is still there ${endMs / 1000 + 5} s behind SIGTERM`))]).then((ended) => {
    if (ended instanceof Violation) throw ended;
    return ended;
  });
  const tookMs = performance.now() - sentAt;
  hold(code === 0, `SIGTERM ends it with ${code ?? signal}: ${stderr}`);
  hold(tookMs <= endMs, `SIGTERM takes ${Math.round(tookMs)} ms`);
  server.holdNoError();
  await Promise.all([working, asking]);
  bystanders.forEach((each) => each.destroy());
  client.close();

  const again = await started(share, path);
  await ledger.check(again.client, share.random);
  again.client.close();
  hold((await again.server.end('SIGTERM')).code === 0, 'with nobody there it does not end with 0');
  tally.acknowledged += ledger.size;
  tally.endsMs.push(tookMs);
}

/** Idle behind an answer, silent, with half a head, with half a body. */
async function openBystanders(port: number): Promise<readonly BareClient[]> {
  const idle = await openIdle(port);
  const half = requestBytes('POST', '/v1/pets', { headers: ['Content-Length: 60'] });
  const opened: BareClient[] = [];
  for (let index = 0; index < others; index++) {
    const [silent, inHead, inBody] = [await BareClient.connect(port), await BareClient.connect(port), await BareClient.connect(port)];
    inHead.send(half.slice(0, 5 + 20 * index));
    inBody.send(`${half}{"name":`);
    opened.push(silent, inHead, inBody);
  }
  return [...idle, ...opened];
}

/** Connections that are kept behind an answer. */
async function openIdle(port: number): Promise<readonly BareClient[]> {
  const opened: BareClient[] = [];
  for (let index = 0; index < others; index++) {
    const client = await BareClient.connect(port);
    client.send(requestBytes('GET', '/v1/pets'));
    hold((await client.answer()).status === 200, 'a list is not answered 200');
    opened.push(client);
  }
  return opened;
}

/** Adds over an idle connection so long behind now, which is when the server is told to stop: that must be answered. */
async function askAtTheEnd(share: Share, client: BareClient, pid: number, behindMs: number, ledger: Ledger, tally: Tally): Promise<void> {
  const since = performance.now();
  const waitedBefore = waitedMs(pid);
  if (behindMs > 0) await wait(behindMs);
  const sentMs = performance.now() - since;
  const sent = randomDraft(share.random);
  client.send(addBytes(sent));
  const answer = await answerOrEnd(client);
  // The process still waits for those that are half-sent, so that the kernel can still be asked what held it up.
  const readMs = sentMs + waitedMs(pid) - waitedBefore;
  if (answer !== undefined) {
    book(ledger, tally, sent, answer);
    tally.lastWords++;
  } else {
    hold(readMs > lastWordMs - spareMs, `a request on an idle connection is not answered, sent ${sentMs.toFixed(0)} ms behind SIGTERM, and read ${readMs.toFixed(0)} ms behind it at the latest`);
    tally.starved++;
  }
}

/** Adds over one connection until the server ends it. */
async function keepAdding(share: Share, port: number, ledger: Ledger, tally: Tally): Promise<void> {
  const client = await BareClient.connect(port);
  share.onEnd(() => client.destroy());
  for (let isNew = true; !client.ended; isNew = false) {
    const sent = randomDraft(share.random);
    client.send(addBytes(sent));
    const answer = await answerOrEnd(client, isNew);
    if (answer === undefined) countUnanswered(client, tally);
    else book(ledger, tally, sent, answer);
    if (answer?.headers.get('connection')?.includes('close')) break;
  }
  client.destroy();
}

/** Adds over a connection of its own each time, until there is none to be had. */
async function comeAndAdd(share: Share, port: number, ledger: Ledger, tally: Tally): Promise<void> {
  for (;;) {
    const client = await BareClient.connect(port).catch(() => undefined);
    if (client === undefined) return;
    const sent = randomDraft(share.random);
    client.send(addBytes(sent, { headers: ['Connection: close'] }));
    const answer = await answerOrEnd(client, true);
    client.destroy();
    if (answer === undefined) countUnanswered(client, tally);
    else book(ledger, tally, sent, answer);
  }
}

/** Undefined where the connection ended in peace before an answer began; one that was never taken may also be reset. */
async function answerOrEnd(client: BareClient, isNew = false): Promise<Answer | undefined> {
  try {
    return await client.answer('POST', endMs + 5_000);
  } catch (error) {
    hold(client.ended && client.rest === '', () => `an answer breaks off: ${String(error)}`);
    hold(isNew || client.failure === undefined, () => `a client that behaves is cut off: ${client.failure?.message}`);
    return undefined;
  }
}

/** Only one that was never taken may end otherwise than in peace. */
function countUnanswered({ failure }: BareClient, tally: Tally): void {
  if (failure === undefined) tally.letGo++;
  else tally.unaccepted++;
}

function book(ledger: Ledger, tally: Tally, sent: ReturnType<typeof randomDraft>, { status, body }: Answer): void {
  if (status === 201) ledger.acknowledge(sent, { body: textOf(body) });
  else {
    hold(status === 503, `an add is answered ${status}: ${body}`);
    tally.refused++;
  }
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(1);
}
