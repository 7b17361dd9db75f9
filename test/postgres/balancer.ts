/**
 * Owns ways to several servers through one port, each in its turn, past those that are gone. Knows
 * no animals.
 */
import assert from 'node:assert/strict';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** One port before the ports of several servers of 127.0.0.1. */
export interface Balancer {
  readonly port: number;
  /** How many connections or requests each server got, in the order of their ports. */
  readonly counts: readonly number[];
  close(): Promise<void>;
}

/** Gives each connection to the next server, byte for byte. */
export async function balanceConnections(ports: () => readonly number[]): Promise<Balancer> {
  const turns = new Turns(ports);
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (client) => {
    track(sockets, client);
    client.on('error', () => undefined);
    const tryNext = (left: number): void => {
      const upstream = connect({ port: turns.next(), host: '127.0.0.1', allowHalfOpen: true });
      track(sockets, upstream);
      const refused = (): void => {
        if (left > 1) tryNext(left - 1);
        else client.destroy();
      };
      upstream.once('error', refused);
      upstream.once('connect', () => {
        upstream.removeListener('error', refused);
        join(client, upstream);
        join(upstream, client);
      });
    };
    tryNext(ports().length);
  });
  return listening(server, turns.counts, sockets);
}

class Turns {
  readonly counts: number[] = [];
  readonly #ports: () => readonly number[];
  #turn = 0;

  constructor(ports: () => readonly number[]) {
    this.#ports = ports;
  }

  next(): number {
    const ports = this.#ports();
    const index = this.#turn++ % ports.length;
    this.counts[index] = (this.counts[index] ?? 0) + 1;
    const port = ports[index];
    assert.ok(port !== undefined);
    return port;
  }
}

/** Passes on what one socket says, its end and its break to the other. */
function join(one: Socket, other: Socket): void {
  one.setNoDelay(true);
  one.pipe(other);
  one.on('error', () => undefined);
  // What was sent before is still to arrive.
  one.on('close', () => other.destroySoon());
}

function track(sockets: Set<Socket>, socket: Socket): void {
  sockets.add(socket);
  socket.on('close', () => sockets.delete(socket));
}

async function listening(
  server: Server,
  counts: readonly number[],
  sockets: ReadonlySet<Socket>,
): Promise<Balancer> {
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
