/** A listening port: Node's server, its limits, its connections and its shutdown. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server, type ServerOptions } from 'node:http';
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { clearTimeout, setImmediate, setInterval, setTimeout } from 'node:timers';
import { PetstoreError } from '../errors.js';
import { Connection, type PortConnection, type SharedState } from './connection.js';
import { connectionsOf, type ConnectionEvent } from './open-connections.js';
import { serveDocumented } from './documented.js';
import { closePort, takeOverServer } from './node.js';
import { documentedOptions, fastOptions, sweepMs } from './server-options.js';
import type { TlsPair } from './tls.js';
import { ConnectionHeaders } from './wire.js';

/** The options of `listen`. */
export interface ListenOptions {
  /**
   * The port; 0 takes a free one.
   * @defaultValue 3000
   */
  readonly port?: number;
  /**
   * The name or address of the network interface; `0.0.0.0` and `::` are all interfaces.
   * @defaultValue `127.0.0.1`
   */
  readonly host?: string;
  /** The certificate and key for HTTPS; omitted for HTTP. */
  readonly tls?: TlsPair;
  /**
   * The time for which a connection may be idle between two requests before the server closes it,
   * from 1 to {@link largestKeepAliveSeconds}. Behind a load balancer it must be longer than the
   * balancer's own idle timeout.
   * @defaultValue 72
   */
  readonly keepAliveSeconds?: number;
  /**
   * Which interface of Node the port uses (C79, C80). `auto` and `check` use undocumented behaviour
   * of Node, which is faster, unless a self-check shows that this Node lacks it.
   * `auto` checks only versions of Node that were not tested; `check` checks every version.
   * `documented` never uses it.
   * @defaultValue `auto`; `check` if the environment variable PETSTORE_SELF_CHECK is 1
   */
  readonly nodeInterface?: NodeInterface;
}

/** The interface of Node that a port may use (C79, C80). */
export type NodeInterface = 'auto' | 'check' | 'documented';

/** The interface of Node that a port uses (C79). */
export type HttpMode = 'fast' | 'documented';

/** The largest `keepAliveSeconds`: one day. */
export const largestKeepAliveSeconds = 86_400;

/** A port that the petstore listens on. */
export interface Listening {
  /** The base address, without a slash at the end. */
  readonly url: string;
  readonly port: number;
  /**
   * Replaces the certificate and key for new connections.
   * @throws TypeError if the port listens without TLS, or if the pair cannot be used; the old pair
   * then stays in use
   */
  readonly setTls: (tls: TlsPair) => void;
  /**
   * The interface of Node in use: `fast` with undocumented behaviour of Node, or only the
   * `documented` one (C79).
   */
  readonly mode: HttpMode;
  /** The number of requests that were cut because they took too long during `close`. */
  readonly cutRequests: number;
}

/** An open port. */
export interface Port {
  /** The result of `listen`. */
  readonly listening: Listening;
  readonly server: Server;
  /**
   * Closes the port, lets requests in flight finish, and resolves once all connections are closed.
   * After `graceMs`, a request that is still arriving gets a 503. Half a second later, all
   * connections are destroyed.
   */
  readonly stop: (graceMs: number) => Promise<void>;
}

/** Loads the HTTPS module, because Node's TLS is large and most servers do not need it. */
export const loadTls = () => import('./tls.js');

/**
 * Opens a port.
 * @param nodeOptions Options of Node's server that replace those of the port.
 * @throws TypeError if the TLS pair cannot be used; otherwise the error of Node if it cannot listen
 */
export async function openPort(
  shared: SharedState,
  mode: HttpMode,
  { port = 3000, host = '127.0.0.1', tls, keepAliveSeconds = 72 }: ListenOptions,
  nodeOptions: ServerOptions = {},
): Promise<Port> {
  const ofMode = mode === 'fast' ? fastOptions : documentedOptions(keepAliveSeconds);
  const options = { ...ofMode, ...nodeOptions };
  const https = tls === undefined ? undefined : (await loadTls()).createTlsServer(options, tls);
  const secure = https?.server;
  const server = secure ?? createServer(options);
  // Node reads these only as members of the server, not as options.
  Object.assign(server, { timeout: 0, maxRequestsPerSocket: 0 });
  // With a listener, Node closes no connection by a timeout of its own.
  server.on('timeout', () => undefined);
  // 64 files are reserved for everything else (C54).
  server.maxConnections = Math.max(1, Math.min(10_000, openFileLimit() - 64));
  // One header more than C43 allows is enough to reject a request. Node's default is 1,000.
  server.maxHeadersCount = 101;

  const connectionHeaders = new ConnectionHeaders(shared.date, keepAliveSeconds);
  const event = secure ? 'secureConnection' : 'connection';
  const connections: ReadonlyMap<Socket, PortConnection> =
    mode === 'fast'
      ? serveFast(server, event, shared, connectionHeaders)
      : serveDocumented(server, event, shared, connectionHeaders);

  /** The sockets whose TLS handshake is not complete, by the result of `addressesOf`. */
  const handshakes = new Map<string, Socket>();
  secure?.on('connection', (socket: Socket) => {
    const addresses = addressesOf(socket);
    handshakes.set(addresses, socket);
    socket.once(
      'close',
      () => handshakes.get(addresses) === socket && handshakes.delete(addresses),
    );
  });
  secure?.on('secureConnection', (socket) => handshakes.delete(addressesOf(socket)));

  // If the queue of new connections is full, a client tries again only after seconds.
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
  const closeIdle = () => {
    connections.forEach((each) => each.closeIfIdle(stoppingError()));
    handshakes.forEach((socket) => socket.destroy());
  };

  let cutRequests = 0;
  const destroyAll = () =>
    connections.forEach((each, socket) => {
      cutRequests += each.requestsInFlight;
      socket.destroy();
    });

  const listening: Listening = {
    url: `${secure ? 'https' : 'http'}://${name}:${bound.port}`,
    port: bound.port,
    mode,
    setTls: (pair) => {
      if (https === undefined) throw new TypeError('setTls needs a port that listens with TLS');
      https.setPair(pair);
    },
    get cutRequests() {
      return cutRequests;
    },
  };

  return {
    listening,
    server,
    stop: async (graceMs) => {
      // Waits for a tick, in which Node accepts the connections in the kernel's queue. The kernel
      // resets later connections.
      await new Promise((resolve) => setImmediate(resolve));

      const closed = closePort(server);
      const timers = [
        // A request may be on its way on an idle connection.
        setTimeout(closeIdle, Math.min(250, graceMs)),
        setTimeout(
          () => connections.forEach((each) => each.closeWithError(stoppingError())),
          graceMs,
        ),
        setTimeout(destroyAll, graceMs + 500),
      ];
      await closed;
      for (const timer of [...timers, sweeper]) clearTimeout(timer);
    },
  };
}

/** Serves the connections of a server by undocumented behaviour of Node. */
function serveFast(
  server: Server,
  event: ConnectionEvent,
  shared: SharedState,
  headers: ConnectionHeaders,
): ReadonlyMap<Socket, Connection> {
  const create = (socket: Socket) => new Connection(socket, shared, headers);
  const connections = connectionsOf(server, event, create);
  takeOverServer(server, connections);
  return connections;
}

/** Returns the addresses of both ends, which a TLS socket shares with its TCP socket. */
function addressesOf({ localAddress, localPort, remoteAddress, remotePort }: Socket): string {
  return `${localAddress} ${localPort} ${remoteAddress} ${remotePort}`;
}

/** Returns the limit of open files of the process; `Infinity` if the system does not report it. */
function openFileLimit(): number {
  try {
    return Number(
      /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? Infinity,
    );
  } catch {
    return Infinity;
  }
}

/** Returns the error for requests during and after the shutdown (C48). */
export function stoppingError(): PetstoreError {
  return new PetstoreError('unavailable', 'The petstore is stopping.');
}
