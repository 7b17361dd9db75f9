/**
 * Owns a way to several servers through one port, each in its turn, past those that are gone. Knows
 * no animals.
 */
import assert from 'node:assert/strict';
import { connect, createServer, type Socket } from 'node:net';

/** One port before the ports of several servers of 127.0.0.1. */
export interface Balancer {
  readonly port: number;
  /** How many connections each server got, in the order of their ports. */
  readonly counts: readonly number[];
  close(): Promise<void>;
}

/** Gives each connection to the next server, byte for byte. */
export async function balanceConnections(ports: () => readonly number[]): Promise<Balancer> {
  const counts: number[] = [];
  const sockets = new Set<Socket>();
  let turn = 0;

  const track = (socket: Socket): void => {
    sockets.add(socket.setNoDelay(true).on('error', () => undefined));
    socket.on('close', () => sockets.delete(socket));
  };
  /** Passes on what one socket says, its end and its break to the other. */
  const join = (one: Socket, other: Socket): void => {
    one.pipe(other);
    // What was sent before is still to arrive.
    one.on('close', () => other.destroySoon());
  };

  const server = createServer({ allowHalfOpen: true }, (client) => {
    track(client);
    const tryNext = (left: number): void => {
      const index = turn++ % ports().length;
      counts[index] = (counts[index] ?? 0) + 1;
      const port = ports()[index] ?? assert.fail();
      const upstream = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
      track(upstream);
      const refused = (): void => void (left > 1 ? tryNext(left - 1) : client.destroy());
      upstream.once('error', refused);
      upstream.once('connect', () => {
        upstream.removeListener('error', refused);
        join(client, upstream);
        join(upstream, client);
      });
    };
    tryNext(ports().length);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return {
    port: address.port,
    counts,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
