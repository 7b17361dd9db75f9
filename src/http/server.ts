/**
 * Listening ports, for the petstore: Node's server, its limits, its connections and its end. What
 * is said on a connection is the matter of `connection`.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { clearTimeout, setImmediate, setInterval, setTimeout } from 'node:timers';
import { PetstoreError } from '../errors.js';
import { Connection, type Shared } from './connection.js';
import { closePort, takeOverServer } from './node.js';
import { httpOptions, sweepMs } from './server-options.js';
import type { TlsPair } from './tls.js';
import { HeadEnds } from './wire.js';

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
  /**
   * How long a connection may be idle between two requests before the server closes it, from 1 to
   * {@link largestKeepAliveSeconds}. Behind a load balancer it must be longer than the balancer's
   * own idle timeout.
   *
   * @defaultValue 72
   */
  readonly keepAliveSeconds?: number;
}

/** The largest `keepAliveSeconds`: one day. */
export const largestKeepAliveSeconds = 86_400;

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

/** Loads what serves HTTPS. Node's TLS is large, and most servers do without. */
export const loadTls = () => import('./tls.js');

/** Opens a port. Rejects with Node's error where that cannot be. */
export async function openPort(
  shared: Shared,
  { port = 3000, host = '127.0.0.1', tls, keepAliveSeconds = 72 }: ListenOptions,
): Promise<Port> {
  const https = tls === undefined ? undefined : (await loadTls()).createTlsServer(httpOptions, tls);
  const secure = https?.server;
  const server = secure ?? createServer(httpOptions);
  // Node reads these as members of the server alone.
  Object.assign(server, { timeout: 0, maxRequestsPerSocket: 0 });
  // 64 files are kept back for everything else (C54).
  server.maxConnections = Math.max(1, Math.min(10_000, openFileLimit() - 64));
  // One more than C43 allows shows that they are too many; Node would keep a thousand.
  server.maxHeadersCount = 101;

  const headEnds = new HeadEnds(shared.date, keepAliveSeconds);
  const connections = new Map<Socket, Connection>();
  server.on(secure ? 'secureConnection' : 'connection', (socket: Socket) => {
    connections.set(socket, new Connection(socket, shared, headEnds));
    socket.once('close', () => connections.delete(socket));
  });
  takeOverServer(server, connections);

  /** The sockets whose TLS handshake is not complete, by the addresses of both ends. */
  const handshakes = new Map<string, Socket>();
  secure?.on('connection', (socket: Socket) => {
    const ends = endsOf(socket);
    handshakes.set(ends, socket);
    socket.once('close', () => handshakes.get(ends) === socket && handshakes.delete(ends));
  });
  secure?.on('secureConnection', (socket) => handshakes.delete(endsOf(socket)));

  // A client for whom the queue has no room tries again only seconds later.
  server.listen({ port, host, backlog: 4_096 });
  await once(server, 'listening');
  const bound = server.address();
  if (bound === null || typeof bound === 'string')
    throw new TypeError('the server does not listen');
  const name = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address;

  const sweeper = setInterval(
    () => connections.forEach((each) => each.sweep(performance.now())),
    sweepMs,
  ).unref();
  const endWithoutRequest = () => {
    connections.forEach((each) => each.endWithoutRequest(stopping()));
    handshakes.forEach((socket) => socket.destroy());
  };

  let cutRequests = 0;
  const cutAll = () =>
    connections.forEach((each, socket) => {
      cutRequests += each.requestsInFlight;
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
        setTimeout(endWithoutRequest, Math.min(250, graceMs)),
        setTimeout(() => connections.forEach((each) => each.refuse(stopping())), graceMs),
        setTimeout(cutAll, graceMs + 500),
      ];
      await closed;
      for (const timer of [...timers, sweeper]) clearTimeout(timer);
    },
  };
}

/** The addresses of both ends of a socket, which the socket below TLS and that of TLS share. */
function endsOf({ localAddress, localPort, remoteAddress, remotePort }: Socket): string {
  return `${localAddress} ${localPort} ${remoteAddress} ${remotePort}`;
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
