/** Badly behaved sockets, and the time at which C44 closes each. Black box. */
import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import { assertError, type Client } from '../support/client.js';
import { requestBytes, connectTo } from '../support/fixture.js';
import { until } from '../support/waiting.js';
import type { Share } from './row.js';
import { reasonOf } from '../../dist/index.js';

/** The timeouts of C44, in milliseconds. */
const headMs = 10_000;
const requestMs = 30_000;
const unreadMs = 60_000;
const idleMs = 72_000;
/** A reader that pauses for this time must not be cut off, even on a busy machine. */
const justInTimeMs = unreadMs - 5_000;

/** A kind of bad behaviour. */
export interface Kind {
  readonly name: string;
  /** The number of sockets of this kind, relative to the other kinds. */
  readonly part: number;
  /**
   * The most sockets of this kind. With more of them, unread pages of 6 MB would fill the 64 MiB of
   * C55, and the server would close them sooner.
   */
  readonly most?: number;
  /** The time after which C44 closes the socket, in milliseconds. */
  readonly closesAfterMs: number;
  /** The milliseconds by which the server may be late. */
  readonly toleranceMs?: number;
  /**
   * Carries out the behaviour on an open connection. May never resolve.
   */
  readonly act: (client: Client) => unknown;
  /** The error response before the server closes the socket, if any. */
  readonly expected?: readonly [status: number, code: string];
}

const half = requestBytes('POST', '/v1/pets', { headers: ['Content-Length: 60'] });
const largePage = requestBytes('GET', '/v1/pets?limit=100');
const smallPage = requestBytes('GET', '/v1/pets?limit=1');
const late = { expected: [408, 'request_timeout'] } as const;

/** All kinds of bad behaviour. A page of the server must be larger than the buffers of a socket. */
export const allKinds: readonly Kind[] = [
  { name: 'silent', part: 20, closesAfterMs: headMs, toleranceMs: 1_000, act: () => undefined },
  {
    name: 'slow heads',
    part: 25,
    closesAfterMs: headMs,
    ...late,
    act: (client) => trickle(client, 'GET /v1/pets HTTP/1.1\r\nX: '),
  },
  {
    name: 'half heads',
    part: 5,
    closesAfterMs: headMs,
    ...late,
    act: (client) => client.send(half.slice(0, 30)),
  },
  {
    name: 'slow bodies',
    part: 20,
    closesAfterMs: requestMs,
    ...late,
    act: (client) => trickle(client, half),
  },
  {
    name: 'half-closes',
    part: 10,
    closesAfterMs: 0,
    expected: [400, 'bad_request'],
    act: (client) => client.send(`${half}{"name"`).endSending(),
  },
  { name: 'silent half-closes', part: 5, closesAfterMs: 0, act: (client) => client.endSending() },
  {
    name: 'resets in mid-body',
    part: 10,
    closesAfterMs: 0,
    act: async (client) => {
      client.send(`${half}{"name"`);
      await wait(100);
      client.reset();
    },
  },
  {
    // Notices the end only when it reads again, because the kernel still delivers its buffer.
    name: 'readers that stop (seen once they read again)',
    part: 2,
    most: 6,
    closesAfterMs: unreadMs,
    act: (client) => pauseFor(client, unreadMs + 1_000),
  },
  {
    // Reads again in time, and gets the whole response and the next one.
    name: 'readers that go on',
    part: 1,
    most: 3,
    closesAfterMs: justInTimeMs,
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
    closesAfterMs: idleMs,
    act: async (client) => assert.equal((await client.send(smallPage).nextResponse()).status, 200),
  },
];

/** Sends one byte at a time until the connection ends. */
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
  { name, closesAfterMs, act, expected }: Kind,
): Promise<number> {
  // Spreads the sockets over a second.
  await wait(share.random.below(1_000));
  const client = await connectTo(share, { port });
  const since = performance.now();
  try {
    const acting = Promise.resolve(act(client));
    acting.catch(() => undefined);
    if (expected !== undefined)
      assertError(await client.nextResponse('POST', closesAfterMs + 60_000), ...expected);
    await until('the server to close the socket', () => client.hasEnded, closesAfterMs + 60_000);
    const closedAfterMs = performance.now() - since;
    await acting;
    return closedAfterMs;
  } catch (error) {
    assert.fail(`${name}: ${reasonOf(error)}`);
  } finally {
    client.destroy();
  }
}
