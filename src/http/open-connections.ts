/** The open connections of a server. */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** The event of a new connection: of HTTP, or of HTTPS after the TLS handshake. */
export type ConnectionEvent = 'connection' | 'secureConnection';

/** Returns the open connections of a server, each made by `create`, by their sockets. */
export function connectionsOf<Connection>(
  server: Server,
  event: ConnectionEvent,
  create: (socket: Socket) => Connection,
): ReadonlyMap<Socket, Connection> {
  const connections = new Map<Socket, Connection>();
  server.on(event, (socket: Socket) => {
    connections.set(socket, create(socket));
    socket.once('close', () => connections.delete(socket));
  });
  return connections;
}
