/** A round-robin TCP balancer in front of several servers. */
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import type { Ending } from '../support/at-end.js';
import { listen } from './tcp.js';

/** Passes bytes, end and errors of one socket on to another. */
function join(one: Socket, other: Socket): void {
  one.pipe(other);
  // Destroyed only after all pending bytes are sent.
  one.on('close', () => other.destroySoon());
}

/**
 * Passes each connection on to the next server of 127.0.0.1, and skips servers that refuse it.
 * `counts` has the number of connections of each server.
 */
export async function balanceConnections(t: Ending, ports: () => readonly number[]) {
  const counts: number[] = [];
  let connection = 0;
  const { port } = await listen(
    t,
    (client, { track }) => {
      const tryNext = (left: number): void => {
        const index = connection++ % ports().length;
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
