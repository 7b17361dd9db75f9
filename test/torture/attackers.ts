/**
 * Sockets that are slow, silent or gone, and when C44 has the server let go of each. Knows no
 * server's inside.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { assertError, Client as BareClient } from '../support/client.js';
import { hold, Violation, type Share } from './row.js';
import { requestBytes } from './wire.js';
import { reasonOf } from '../../dist/index.js';

/** Times of C44. */
const headMs = 10_000;
const requestMs = 30_000;
const unreadMs = 60_000;
const idleMs = 72_000;
/** Late enough to tell a time that is far too short, early enough for a machine that is busy. */
const justInTimeMs = unreadMs - 5_000;

/** A kind of socket. */
export interface Kind {
  readonly name: string;
  /** How many of them there are among those of the other kinds. */
  readonly part: number;
  /**
   * How many there may be at all: more pages of 6 MB that nobody reads would fill the 64 MiB of
   * C55, and end sooner.
   */
  readonly most?: number;
  /** How long C44 leaves it in peace, in milliseconds. */
  readonly keptMs: number;
  /** When C44 has it gone, in milliseconds. */
  readonly goneMs: number;
  /**
   * What it does once connected; resolves when it did all that it ever will, which may be never.
   */
  readonly act: (client: BareClient) => Promise<void> | void;
  /** What it is told before the end. */
  readonly told?: readonly [status: number, code: string];
}

const half = requestBytes('POST', '/v1/pets', { headers: ['Content-Length: 60'] });
const largePage = requestBytes('GET', '/v1/pets?limit=100');
const late = [408, 'request_timeout'] as const;

/**
 * All kinds. One page of the server that they meet must be more than the buffers of a socket hold.
 */
export const allKinds: readonly Kind[] = [
  { name: 'silent', part: 20, keptMs: headMs, goneMs: 11_000, act: () => undefined },
  {
    name: 'slow heads',
    part: 25,
    keptMs: headMs,
    goneMs: headMs,
    told: late,
    act: (client) => trickle(client, 'GET /v1/pets HTTP/1.1\r\nX: '),
  },
  {
    name: 'half heads',
    part: 5,
    keptMs: headMs,
    goneMs: headMs,
    told: late,
    act: (client) => void client.send(half.slice(0, 30)),
  },
  {
    name: 'slow bodies',
    part: 20,
    keptMs: requestMs,
    goneMs: requestMs,
    told: late,
    act: (client) => trickle(client, half),
  },
  {
    name: 'half-closes',
    part: 10,
    keptMs: 0,
    goneMs: 0,
    told: [400, 'bad_request'],
    act: (client) => void client.send(`${half}{"name"`).half(),
  },
  {
    name: 'silent half-closes',
    part: 5,
    keptMs: 0,
    goneMs: 0,
    act: (client) => void client.half(),
  },
  {
    name: 'resets in mid-body',
    part: 10,
    keptMs: 0,
    goneMs: 0,
    act: async (client) => {
      client.send(`${half}{"name"`);
      await wait(100);
      client.reset();
    },
  },
  {
    name: 'readers that stop (seen once they read again)',
    part: 2,
    most: 6,
    keptMs: unreadMs,
    goneMs: unreadMs,
    act: stopReading,
  },
  {
    name: 'readers that go on',
    part: 1,
    most: 3,
    keptMs: justInTimeMs,
    goneMs: justInTimeMs,
    act: readOnInTime,
  },
  {
    name: 'idle',
    part: 5,
    keptMs: idleMs,
    goneMs: idleMs,
    act: async (client) => {
      client.send(requestBytes('GET', '/v1/pets?limit=1'));
      hold((await client.answer()).status === 200, 'an idle one is not answered first');
    },
  },
];

/** A byte now and then, for as long as anyone listens. */
async function trickle(client: BareClient, start: string): Promise<void> {
  for (client.send(start); !client.hasEnded; client.send('x')) await wait(700);
}

/**
 * Asks for more than the kernel takes in, and reads none of it until the server must have let go:
 * then it ends too early.
 */
async function stopReading(client: BareClient): Promise<void> {
  client.pause();
  client.send(largePage);
  await wait(unreadMs + 1_000);
  client.resume();
}

/**
 * As one that stops, but reads while there is time: then it gets all of its answer, and the next.
 * What stops can't see how early it was dropped, as the kernel still hands over what it holds.
 */
async function readOnInTime(client: BareClient): Promise<void> {
  client.pause();
  client.send(largePage);
  await wait(justInTimeMs);
  client.resume();
  hold((await client.answer()).status === 200, 'a page is not answered 200');
  client.send(requestBytes('GET', '/v1/pets?limit=1'));
  hold(
    (await client.answer()).status === 200,
    'behind a page that is read late nothing more is answered',
  );
  client.half();
}

/** Lets one at a server; answers after how many milliseconds the server let go of it. */
export async function attack(
  share: Share,
  port: number,
  { name, goneMs, act, told }: Kind,
): Promise<number> {
  // Not all in one moment.
  await wait(share.random.below(1_000));
  const client = await BareClient.connect(port);
  share.onEnd(() => client.destroy());
  const since = performance.now();
  try {
    const acting = Promise.resolve(act(client));
    acting.catch(() => undefined);
    if (told !== undefined) assertError(await client.answer('POST', goneMs + 60_000), ...told);
    while (!client.hasEnded) {
      await wait(20);
      if (performance.now() - since > goneMs + 60_000) throw new Violation('never ended');
    }
    const goneBehindMs = performance.now() - since;
    await acting;
    return goneBehindMs;
  } catch (error) {
    throw new Violation(`${name}: ${reasonOf(error)}`);
  } finally {
    client.destroy();
  }
}
