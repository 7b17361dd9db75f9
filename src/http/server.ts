/**
 * Listening ports, for the petstore: Node's server, its limits and its end; connections do the
 * talking.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';
import { PetstoreError } from '../errors.js';
import { Connection, headMs, requestMs, type Shared } from './connection.js';
import { Exchange, SilentResponse } from './exchange.js';
import type { ParserError } from './wire.js';

/** Where to listen. */
export interface ListenOptions {
  /** The port; 0 takes a free one. @defaultValue 3000 */
  readonly port?: number;
  /**
   * The name or address of the interface; `0.0.0.0` and `::` are all of them. @defaultValue
   * `127.0.0.1`
   */
  readonly host?: string;
  /** With it, HTTPS is served. */
  readonly tls?: TlsPair;
}

/** A certificate chain and its private key, in PEM. */
export interface TlsPair {
  /** The chain, the server's own certificate first. */
  readonly cert: string | Buffer;
  /** The key of the server's own certificate, without a passphrase. */
  readonly key: string | Buffer;
}

/** A port that the petstore listens on. */
export interface Listening {
  /** Its base address, without a slash at the end. */
  readonly url: string;
  /** The port, never 0. */
  readonly port: number;
  /**
   * Takes another certificate for new connections. @throws TypeError without TLS; OpenSSL's: the
   * old one stays.
   */
  readonly setTls: (tls: TlsPair) => void;
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
  // Connections see to that: Node's timer is set and ended anew for each request.
  keepAliveTimeout: 0,
  connectionsCheckingInterval: sweepMs,
};

/**
 * Opens a port; `stop` lets requests under way finish, and resolves once all of its connections
 * have ended.
 */
export async function openPort(
  shared: Shared,
  { port: wanted = 3000, host = '127.0.0.1', tls }: ListenOptions,
) {
  // Imported only here: Node's TLS is large, and most servers do without.
  const https = tls && (await import('node:https'));
  const secure = https?.createServer({ ...serverOptions, ...tls, handshakeTimeout: 10_000 });
  const server = secure ?? createServer(serverOptions);
  // 64 files are kept back for everything else (C54).
  server.maxConnections = Math.max(1, Math.min(10_000, openFileLimit() - 64));
  // One more than C43 allows shows that they are too many; Node would keep a thousand.
  server.maxHeadersCount = 101;
  // Read by Node's `socketOnEnd`: a client may close its sending side after its request and still
  // wait for the answer.
  Object.assign(server, { httpAllowHalfOpen: true });

  /** By their sockets; under HTTPS beside them, without one, the sockets below TLS. */
  const connections = new Map<Socket, Connection | undefined>();
  const keep = (socket: Socket, connection?: Connection): void => {
    connections.set(socket, connection);
    socket.once('close', () => connections.delete(socket));
  };
  const open = (socket: Socket): void => {
    // Under HTTPS not before: a client that went while it shook hands would be kept until its time
    // is up.
    socket.allowHalfOpen = true;
    keep(socket, new Connection(socket, shared));
  };
  const accept = (exchange: Exchange): void => connections.get(exchange.socket)?.accept(exchange);
  secure?.on('connection', (socket: Socket) => keep(socket));
  server.on(secure ? 'secureConnection' : 'connection', open);
  server.on('request', (exchange, response) => {
    exchange.response = response;
    accept(exchange);
  });
  // Node makes no response for it: the answer, in its turn, ends the connection.
  server.on('connect', accept);
  server.on('clientError', (error: ParserError, socket: Socket) => {
    const connection = connections.get(socket);
    // To a TLS socket that never shook hands, nothing can be answered.
    if (connection === undefined) socket.destroy();
    else connection.fail(error);
  });
  // A client beyond those that may wait to be taken tries again only seconds later.
  server.listen({ port: wanted, host, backlog: 4_096 });
  await once(server, 'listening');
  const endIdle = () =>
    connections.forEach((each, socket) => {
      each?.endIfIdle();
      // A socket below TLS that has sent nothing is not even shaking hands.
      if (each === undefined && socket.bytesRead === 0) socket.destroy();
    });
  const sweep = () => connections.forEach((each) => each?.sweep(performance.now()));
  const sweeper = setInterval(sweep, sweepMs).unref();

  const given = server.address();
  if (given === null || typeof given === 'string')
    throw new TypeError('the server does not listen');
  const { address, family, port } = given;
  return {
    url: `${secure ? 'https' : 'http'}://${family === 'IPv6' ? `[${address}]` : address}:${port}`,
    port,
    setTls: ({ cert, key }: TlsPair): void => {
      if (secure === undefined) throw new TypeError('the server listens without TLS');
      secure.setSecureContext({ cert, key });
    },
    /** Whoever still sends after `graceMs` is told why it ends; then the rest is cut. */
    stop: async (graceMs: number): Promise<void> => {
      // First, this turn of the event loop takes what waits to be taken: the rest is reset.
      await new Promise((resolve) => setImmediate(resolve));
      // Not http.Server's own close, which destroys idle connections: a client may be just sending.
      const closed = new Promise((resolve) => NetServer.prototype.close.call(server, resolve));
      const timers = [
        // On an idle one a request may be on its way.
        setTimeout(endIdle, Math.min(250, graceMs)),
        setTimeout(() => connections.forEach((each) => each?.refuse(stopping())), graceMs),
        setTimeout(() => connections.forEach((_, socket) => socket.destroy()), graceMs + 500),
      ];
      await closed;
      for (const timer of [...timers, sweeper]) clearTimeout(timer);
      // Only this ends the interval with which Node checks its timeouts.
      server.close();
    },
  };
}

/** `Infinity` where the system doesn't say. */
function openFileLimit(): number {
  try {
    return Number(
      /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? Infinity,
    );
  } catch {
    return Infinity;
  }
}

/** What a client hears that comes too late (C48). */
export function stopping(): PetstoreError {
  return new PetstoreError('unavailable', 'The petstore is stopping.');
}
