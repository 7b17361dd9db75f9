/**
 * Sockets that are slow, silent or gone, and when C44 has the server let go of each. Knows no
 * server's inside.
 */
import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import { assertError, type Client } from '../support/client.js';
import { bytesOf, connectTo } from '../support/fixture.js';
import { until } from '../support/waiting.js';
import type { Share } from './row.js';
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
  /** When C44 has it gone, and no sooner, in milliseconds. */
  readonly goneMs: number;
  /** By how much later it may go. */
  readonly laterMs?: number;
  /**
   * What it does once connected; resolves when it did all that it ever will, which may be never.
   */
  readonly act: (client: Client) => unknown;
  /** What it is told before the end. */
  readonly told?: readonly [status: number, code: string];
}

const half = bytesOf('POST', '/v1/pets', { headers: ['Content-Length: 60'] });
const largePage = bytesOf('GET', '/v1/pets?limit=100');
const smallPage = bytesOf('GET', '/v1/pets?limit=1');
const late = { told: [408, 'request_timeout'] } as const;

/**
 * All kinds. One page of the server that they meet must be more than the buffers of a socket hold.
 */
export const allKinds: readonly Kind[] = [
  { name: 'silent', part: 20, goneMs: headMs, laterMs: 1_000, act: () => undefined },
  {
    name: 'slow heads',
    part: 25,
    goneMs: headMs,
    ...late,
    act: (client) => trickle(client, 'GET /v1/pets HTTP/1.1\r\nX: '),
  },
  {
    name: 'half heads',
    part: 5,
    goneMs: headMs,
    ...late,
    act: (client) => client.send(half.slice(0, 30)),
  },
  {
    name: 'slow bodies',
    part: 20,
    goneMs: requestMs,
    ...late,
    act: (client) => trickle(client, half),
  },
  {
    name: 'half-closes',
    part: 10,
    goneMs: 0,
    told: [400, 'bad_request'],
    act: (client) => client.send(`${half}{"name"`).endSending(),
  },
  { name: 'silent half-closes', part: 5, goneMs: 0, act: (client) => client.endSending() },
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
  {
    // What stops can't see how early it was dropped, as the kernel still hands over what it holds.
    name: 'readers that stop (seen once they read again)',
    part: 2,
    most: 6,
    goneMs: unreadMs,
    act: (client) => pauseFor(client, unreadMs + 1_000),
  },
  {
    // One that reads while there is time gets all of its answer, and the next.
    name: 'readers that go on',
    part: 1,
    most: 3,
    goneMs: justInTimeMs,
    act: async (client) => {
      await pauseFor(client, justInTimeMs);
      assert.equal((await client.answer()).status, 200);
      assert.equal((await client.send(smallPage).answer()).status, 200);
      client.endSending();
    },
  },
  {
    name: 'idle',
    part: 5,
    goneMs: idleMs,
    act: async (client) => assert.equal((await client.send(smallPage).answer()).status, 200),
  },
];

/** A byte now and then, for as long as anyone listens. */
async function trickle(client: Client, start: string): Promise<void> {
  for (client.send(start); !client.hasEnded; client.send('x')) await wait(700);
}

/** Asks for more than the kernel takes in, and reads none of it for a time. */
async function pauseFor(client: Client, ms: number): Promise<void> {
  client.pause();
  client.send(largePage);
  await wait(ms);
  client.resume();
}

/** Lets one at a server; answers after how many milliseconds the server let go of it. */
export async function attack(
  share: Share,
  port: number,
  { name, goneMs, act, told }: Kind,
): Promise<number> {
  // Not all in one moment.
  await wait(share.random.below(1_000));
  const client = await connectTo(share, { port });
  const since = performance.now();
  try {
    const acting = Promise.resolve(act(client));
    acting.catch(() => undefined);
    if (told !== undefined) assertError(await client.answer('POST', goneMs + 60_000), ...told);
    await until('its end', () => client.hasEnded, goneMs + 60_000);
    const goneBehindMs = performance.now() - since;
    await acting;
    return goneBehindMs;
  } catch (error) {
    assert.fail(`${name}: ${reasonOf(error)}`);
  } finally {
    client.destroy();
  }
}
