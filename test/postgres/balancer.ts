/**
 * Owns a way to several servers through one port, each in its turn, past those that are gone. Knows
 * no animals.
 */
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import type { Ending } from '../support/at-end.js';
import { listen } from './tcp.js';

/** Passes on what one socket says, its end and its break to the other. */
function join(one: Socket, other: Socket): void {
  one.pipe(other);
  // What was sent before is still to arrive.
  one.on('close', () => other.destroySoon());
}

/**
 * Gives each connection to one port to the next of several servers of 127.0.0.1, byte for byte.
 * `counts` says how many connections each got.
 */
export async function balanceConnections(t: Ending, ports: () => readonly number[]) {
  const counts: number[] = [];
  let turn = 0;
  const { port } = await listen(
    t,
    (client, { track }) => {
      const tryNext = (left: number): void => {
        const index = turn++ % ports().length;
        counts[index] = (counts[index] ?? 0) + 1;
        const port = ports()[index] ?? assert.fail();
        const upstream = track(connect({ port, host: '127.0.0.1', allowHalfOpen: true }));
        const refused = () => (left > 1 ? tryNext(left - 1) : client.destroy());
        upstream.once('error', refused);
        upstream.once('connect', () => {
          upstream.off('error', refused);
          join(client, upstream);
          join(upstream, client);
        });
      };
      tryNext(ports().length);
    },
    { allowHalfOpen: true },
  );
  return { port, counts };
}
