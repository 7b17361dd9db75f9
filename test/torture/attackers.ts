/** Sockets that are slow, silent or closed, and the time at which C44 closes each. Black box. */
import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import { assertError, type Client } from '../support/client.js';
import { requestBytes, connectTo } from '../support/fixture.js';
import { until } from '../support/waiting.js';
import type { Share } from './row.js';
import { reasonOf } from '../../dist/index.js';

/** The times of C44, in milliseconds. */
const headMs = 10_000;
const requestMs = 30_000;
const unreadMs = 60_000;
const idleMs = 72_000;
/** A lower bound: rejects a time that is far too short, and passes on a busy machine. */
const justInTimeMs = unreadMs - 5_000;

export interface Kind {
  readonly name: string;
  /** The share of this kind among all sockets. */
  readonly part: number;
  /**
   * The greatest number of these sockets. More unread pages of 6 MB would fill the 64 MiB of C55,
   * and end sooner.
   */
  readonly most?: number;
  /** The earliest time at which C44 closes the socket, in milliseconds. */
  readonly goneMs: number;
  /** The milliseconds by which it may be closed later. */
  readonly laterMs?: number;
  /**
   * Sends or reads after the connection is open. Resolves when the socket does nothing more, which
   * may be never.
   */
  readonly act: (client: Client) => unknown;
  /** The response before the end, if any. */
  readonly told?: readonly [status: number, code: string];
}

const half = requestBytes('POST', '/v1/pets', { headers: ['Content-Length: 60'] });
const largePage = requestBytes('GET', '/v1/pets?limit=100');
const smallPage = requestBytes('GET', '/v1/pets?limit=1');
const late = { told: [408, 'request_timeout'] } as const;

/** All kinds of sockets. A page of the server must be larger than the buffers of a socket. */
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
    // A reader that stops does not see when it is dropped, because the kernel still hands over its
    // buffer.
    name: 'readers that stop (seen once they read again)',
    part: 2,
    most: 6,
    goneMs: unreadMs,
    act: (client) => pauseFor(client, unreadMs + 1_000),
  },
  {
    // A reader that goes on in time gets the whole response, and the next.
    name: 'readers that go on',
    part: 1,
    most: 3,
    goneMs: justInTimeMs,
    act: async (client) => {
      await pauseFor(client, justInTimeMs);
      assert.equal((await client.nextResponse()).status, 200);
      assert.equal((await client.send(smallPage).nextResponse()).status, 200);
      client.endSending();
    },
  },
  {
    name: 'idle',
    part: 5,
    goneMs: idleMs,
    act: async (client) => assert.equal((await client.send(smallPage).nextResponse()).status, 200),
  },
];

/** Sends a byte now and then until the connection ends. */
async function trickle(client: Client, start: string): Promise<void> {
  for (client.send(start); !client.hasEnded; client.send('x')) await wait(700);
}

/** Requests more than the kernel buffers, and reads nothing for `ms`. */
async function pauseFor(client: Client, ms: number): Promise<void> {
  client.pause();
  client.send(largePage);
  await wait(ms);
  client.resume();
}

/** Opens a socket of a kind; returns the milliseconds until the server closed it. */
export async function attack(
  share: Share,
  port: number,
  { name, goneMs, act, told }: Kind,
): Promise<number> {
  // Spreads the sockets over a second.
  await wait(share.random.below(1_000));
  const client = await connectTo(share, { port });
  const since = performance.now();
  try {
    const acting = Promise.resolve(act(client));
    acting.catch(() => undefined);
    if (told !== undefined)
      assertError(await client.nextResponse('POST', goneMs + 60_000), ...told);
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
