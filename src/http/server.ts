/**
 * Listening ports, for the petstore: Node's server, its limits, its connections and its end. What
 * is said on a connection is the matter of `connection`.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { Socket } from 'node:net';
import { PetstoreError } from '../errors.js';
import { Connection, headMs, requestMs, type Shared } from './connection.js';
import { Exchange } from './exchange.js';
import { closePort, SilentResponse, takeOverServer } from './node.js';
import type { TlsPair } from './tls.js';

/** Where to listen. */
export interface ListenOptions {
  /**
   * The port; 0 takes a free one.
   *
   * @defaultValue 3000
   */
  readonly port?: number;
  /**
   * The name or address of the interface; `0.0.0.0` and `::` are all of them.
   *
   * @defaultValue `127.0.0.1`
   */
  readonly host?: string;
  /** With it, HTTPS is served. */
  readonly tls?: TlsPair;
}

/** A port that the petstore listens on. */
export interface Listening {
  /** Its base address, without a slash at the end. */
  readonly url: string;
  /** The port, never 0. */
  readonly port: number;
  /**
   * Takes another certificate for new connections.
   *
   * @throws TypeError if the port listens without TLS, or if the pair cannot be used. The old pair
   * then stays in use.
   */
  readonly setTls: (tls: TlsPair) => void;
  /** How many requests were cut because they took too long while the petstore closed. */
  readonly cutRequests: number;
}

/** A port as the petstore has it. */
export interface Port {
  /** The port as the caller of `listen` has it. */
  readonly listening: Listening;
  /**
   * Takes no further connection, lets requests under way finish, and resolves once all connections
   * have ended. Whoever still sends after `graceMs` is told why it ends; then the rest is cut.
   */
  readonly stop: (graceMs: number) => Promise<void>;
}

/** How often times are looked at (C44). */
const sweepMs = 500;

const serverOptions = {
  IncomingMessage: Exchange,
  ServerResponse: SilentResponse,
  // Checked by ourselves, as all of C42 and C43: Node answers some such requests without a body,
  // and serves others.
  requireHostHeader: false,
  // A target and header lines of 16 KiB each, and room to see that they are more.
  maxHeaderSize: 40_000,
  headersTimeout: headMs,
  requestTimeout: requestMs,
  // Each connection sees to that itself: Node sets a timer and ends it for each request.
  keepAliveTimeout: 0,
  connectionsCheckingInterval: sweepMs,
};

/** Loads what serves HTTPS. Node's TLS is large, and most servers do without. */
export const loadTls = () => import('./tls.js');

/** Opens a port. Rejects with Node's error where that cannot be. */
export async function openPort(
  shared: Shared,
  { port = 3000, host = '127.0.0.1', tls }: ListenOptions,
): Promise<Port> {
  const https =
    tls === undefined
      ? undefined
      : (await loadTls()).createTlsServer({ ...serverOptions, handshakeTimeout: 10_000 }, tls);
  const secure = https?.server;
  const server = secure ?? createServer(serverOptions);
  // 64 files are kept back for everything else (C54).
  server.maxConnections = Math.max(1, Math.min(10_000, openFileLimit() - 64));
  // One more than C43 allows shows that they are too many; Node would keep a thousand.
  server.maxHeadersCount = 101;

  /**
   * The connections by their sockets. Under HTTPS the sockets below TLS are among the keys, too,
   * and have no connection.
   */
  const connections = new Map<Socket, Connection | undefined>();
  const keep = (socket: Socket, connection?: Connection): void => {
    connections.set(socket, connection);
    socket.once('close', () => connections.delete(socket));
  };
  secure?.on('connection', (socket: Socket) => keep(socket));
  server.on(secure ? 'secureConnection' : 'connection', (socket: Socket) =>
    keep(socket, new Connection(socket, shared)),
  );
  takeOverServer(server, connections);

  // A client for whom the queue has no room tries again only seconds later.
  server.listen({ port, host, backlog: 4_096 });
  await once(server, 'listening');
  const bound = server.address();
  if (bound === null || typeof bound === 'string')
    throw new TypeError('the server does not listen');
  const name = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address;

  const sweeper = setInterval(
    () => connections.forEach((each) => each?.sweep(performance.now())),
    sweepMs,
  ).unref();
  const endIdle = () =>
    connections.forEach((each, socket) => {
      each?.endIfIdle();
      // A socket below TLS that has sent nothing is not even shaking hands.
      if (each === undefined && socket.bytesRead === 0) socket.destroy();
    });

  let cutRequests = 0;
  const cutAll = () =>
    connections.forEach((each, socket) => {
      cutRequests += each?.requestsInFlight ?? 0;
      socket.destroy();
    });

  const listening: Listening = {
    url: `${secure ? 'https' : 'http'}://${name}:${bound.port}`,
    port: bound.port,
    setTls: (pair) => {
      if (https === undefined) throw new TypeError('the server listens without TLS');
      https.setPair(pair);
    },
    get cutRequests() {
      return cutRequests;
    },
  };

  return {
    listening,
    stop: async (graceMs) => {
      // This turn of the event loop still accepts the clients that wait; all others are reset.
      await new Promise((resolve) => setImmediate(resolve));

      const closed = closePort(server);
      const timers = [
        // On an idle connection a request may be on its way.
        setTimeout(endIdle, Math.min(250, graceMs)),
        setTimeout(() => connections.forEach((each) => each?.refuse(stopping())), graceMs),
        setTimeout(cutAll, graceMs + 500),
      ];
      await closed;
      for (const timer of [...timers, sweeper]) clearTimeout(timer);
    },
  };
}

/** How many files the process may have open; `Infinity` where the system does not say. */
function openFileLimit(): number {
  try {
    return Number(
      /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? Infinity,
    );
  } catch {
    return Infinity;
  }
}

/** The error for whoever comes once the petstore stops (C48). */
export function stopping(): PetstoreError {
  return new PetstoreError('unavailable', 'The petstore is stopping.');
}
