/**
 * Clients of a server that is told to stop: at work, asking for nothing, half-sent, or late; and
 * what each of them may see.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { Client as BareClient, type Answer } from '../support/client.js';
import { waitedMs } from './figures.js';
import type { Ledger } from './ledger.js';
import { randomDraft } from './random.js';
import { hold, type Share } from './row.js';
import { addBytes, requestBytes, textOf } from './wire.js';

/**
 * How long the server keeps idle connections for a request that is on its way, and how much of that
 * we leave to chance.
 */
export const lastWordMs = 250;
const spareMs = 50;
/** Of each kind of connection that asks for nothing just then. */
const others = 3;
const patienceMs = 15_000;

/** What the clients of all rounds met. */
export interface Tally {
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
}

/** Idle behind an answer, silent, with half a head, with half a body. */
export async function openBystanders(port: number): Promise<readonly BareClient[]> {
  const idle = await openIdle(port);
  const half = requestBytes('POST', '/v1/pets', { headers: ['Content-Length: 60'] });
  const opened: BareClient[] = [];
  for (let index = 0; index < others; index++) {
    const [silent, inHead, inBody] = [
      await BareClient.connect(port),
      await BareClient.connect(port),
      await BareClient.connect(port),
    ];
    inHead.send(half.slice(0, 5 + 20 * index));
    inBody.send(`${half}{"name":`);
    opened.push(silent, inHead, inBody);
  }
  return [...idle, ...opened];
}

/** Connections that are kept behind an answer. */
export async function openIdle(port: number): Promise<readonly BareClient[]> {
  const opened: BareClient[] = [];
  for (let index = 0; index < others; index++) {
    const client = await BareClient.connect(port);
    client.send(requestBytes('GET', '/v1/pets'));
    hold((await client.answer()).status === 200, 'a list is not answered 200');
    opened.push(client);
  }
  return opened;
}

/**
 * Adds over an idle connection so long behind now, which is when the server is told to stop: that
 * must be answered.
 */
export async function askAtTheEnd(
  share: Share,
  client: BareClient,
  pid: number,
  behindMs: number,
  ledger: Ledger,
  tally: Tally,
): Promise<void> {
  const since = performance.now();
  const waitedBefore = waitedMs(pid);
  if (behindMs > 0) await wait(behindMs);
  const sentMs = performance.now() - since;
  const sent = randomDraft(share.random);
  client.send(addBytes(sent));
  const answer = await answerOrEnd(client);
  // The process still waits for those that are half-sent, so that the kernel can still be asked
  // what held it up.
  const readMs = sentMs + waitedMs(pid) - waitedBefore;
  if (answer !== undefined) {
    book(ledger, tally, sent, answer);
    tally.lastWords++;
  } else {
    hold(
      readMs > lastWordMs - spareMs,
      `a request on an idle connection is not answered, sent ${sentMs.toFixed(0)} ms behind SIGTERM, and read ${readMs.toFixed(0)} ms behind it at the latest`,
    );
    tally.starved++;
  }
}

/** Adds over one connection until the server ends it. */
export async function keepAdding(
  share: Share,
  port: number,
  ledger: Ledger,
  tally: Tally,
): Promise<void> {
  const client = await BareClient.connect(port);
  share.onEnd(() => client.destroy());
  for (let isNew = true; !client.hasEnded; isNew = false) {
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
export async function comeAndAdd(
  share: Share,
  port: number,
  ledger: Ledger,
  tally: Tally,
): Promise<void> {
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

/**
 * Undefined where the connection ended in peace before an answer began; one that was never taken
 * may also be reset.
 */
async function answerOrEnd(client: BareClient, isNew = false): Promise<Answer | undefined> {
  try {
    return await client.answer('POST', patienceMs);
  } catch (error) {
    hold(client.hasEnded && client.received === '', () => `an answer breaks off: ${String(error)}`);
    hold(
      isNew || client.failure === undefined,
      () => `a client that behaves is cut off: ${client.failure?.message}`,
    );
    return undefined;
  }
}

/** Only one that was never taken may end otherwise than in peace. */
function countUnanswered({ failure }: BareClient, tally: Tally): void {
  if (failure === undefined) tally.letGo++;
  else tally.unaccepted++;
}

function book(
  ledger: Ledger,
  tally: Tally,
  sent: ReturnType<typeof randomDraft>,
  { status, body }: Answer,
): void {
  if (status === 201) ledger.acknowledge(sent, { body: textOf(body) });
  else {
    hold(status === 503, `an add is answered ${status}: ${body}`);
    tally.refused++;
  }
}
