/** Owns servers of TCP that stand in the place of others until a test ends. Knows no message. */
import { once } from 'node:events';
import { createServer, type ServerOpts, type Socket } from 'node:net';
import { atEnd, type Ending } from '../support/at-end.js';

/** What listens on a free port of 127.0.0.1. */
export interface Listening {
  readonly port: number;

  /** Has a connection, also one to another server, end with the test, and be no error when it breaks. */
  readonly track: (socket: Socket) => Socket;

  /** Ends every connection. */
  readonly cut: () => void;
}

/** Does this with each connection to a free port. */
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
