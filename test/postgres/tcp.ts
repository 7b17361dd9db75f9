/** TCP servers that run until a test ends. */
import { once } from 'node:events';
import { createServer, type ServerOpts, type Socket } from 'node:net';
import { atEnd, type Ending } from '../support/at-end.js';

/** A TCP server on a free port of 127.0.0.1. */
export interface Listening {
  readonly port: number;

  /** Ends a socket with the test and ignores its errors. */
  readonly track: (socket: Socket) => Socket;

  /** Ends all connections. */
  readonly cut: () => void;
}

/** Listens on a free port and calls `serve` for each connection. */
export async function listen(
  t: Ending,
  serve: (socket: Socket, listening: Listening) => void,
  options: ServerOpts = {},
): Promise<Listening> {
  const sockets = new Set<Socket>();
  const track = (socket: Socket) => {
    sockets.add(socket.setNoDelay(true).on('error', () => undefined));
    return socket.on('close', () => sockets.delete(socket));
  };
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  const server = createServer(options, (socket) => serve(track(socket), listening));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const listening = { port: Object(server.address()).port, track, cut };
  atEnd(t, async () => {
    cut();
    await new Promise((resolve) => server.close(resolve));
  });
  return listening;
}
