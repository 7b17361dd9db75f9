/** Listening ports, for the petstore: Node's server, its limits and its end; connections do the talking. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { Server as TlsServer } from 'node:https';
import { Server as NetServer, type AddressInfo, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { PetstoreError } from '../errors.js';
import { Connection, type Shared } from './connection.js';
import { Exchange, SilentResponse } from './exchange.js';
import type { ParserError } from './wire.js';

/** Where to listen. */
export interface ListenOptions {
  /** The port; 0 takes a free one. @defaultValue 3000 */
  readonly port?: number;
  /** The name or address of the interface; `0.0.0.0` and `::` are all of them. @defaultValue `127.0.0.1` */
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
  /** Takes another certificate for new connections. @throws TypeError without TLS; OpenSSL's: the old one stays. */
  readonly setTls: (tls: TlsPair) => void;
}

/** How often times are looked at (C44). */
const sweepMs = 500;
const serverOptions = {
  IncomingMessage: Exchange,
  ServerResponse: SilentResponse,
  // Checked by ourselves, as all of C42 and C43: Node answers some such requests without a body, and serves others.
  requireHostHeader: false,
  // A target and header lines of 16 KiB each, and room to see that they are more.
  maxHeaderSize: 40_000,
  // Times of C44.
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  // Connections see to that: Node's timer is set and ended anew for each request.
  keepAliveTimeout: 0,
  connectionsCheckingInterval: sweepMs,
};
const cutMs = 500;
/** How long an idle connection is kept once we stop, as a request may be on its way. */
const idleGraceMs = 250;
/** Most connections, and how many files are kept back for everything else (C54). */
const maxConnections = 10_000;
const spareFiles = 64;
/** Most connections that wait to be taken: a client beyond tries again only seconds later. */
const maxPending = 4_096;

type AnyServer = Server<typeof Exchange, typeof SilentResponse> | SecureServer;
type SecureServer = TlsServer<typeof Exchange, typeof SilentResponse>;

export class HttpServer {
  readonly #server: AnyServer;
  /** By their sockets; under HTTPS beside them, without one, the sockets below TLS. */
  readonly #connections = new Map<Duplex, Connection | undefined>();
  readonly #sweeper: NodeJS.Timeout;
  readonly port: number;
  readonly url: string;

  private constructor(server: AnyServer, { address, family, port }: AddressInfo, shared: Shared) {
    this.#server = server;
    this.port = port;
    const scheme = isSecure(server) ? 'https' : 'http';
    this.url = `${scheme}://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
    server.maxConnections = Math.max(1, Math.min(maxConnections, openFileLimit() - spareFiles));
    // One more than C43 allows shows that they are too many; Node would keep a thousand.
    server.maxHeadersCount = 101;
    // A client may close its sending side after its request and still wait for the answer.
    Object.assign(server, { httpAllowHalfOpen: true });
    const keep = (socket: Socket, connection?: Connection): void => {
      this.#connections.set(socket, connection);
      socket.once('close', () => this.#connections.delete(socket));
    };
    const open = (socket: Socket): void => {
      // Under HTTPS not before: a client that went while it shook hands would be kept until its time is up.
      socket.allowHalfOpen = true;
      keep(socket, new Connection(socket, shared));
    };
    if (isSecure(server)) server.on('connection', (socket: Socket) => keep(socket)).on('secureConnection', open);
    else server.on('connection', open);
    const accept = (exchange: Exchange): void => this.#connections.get(exchange.socket)?.accept(exchange);
    server.on('request', (exchange, response) => {
      exchange.response = response;
      accept(exchange);
    });
    // Node makes no response for it: the answer, in its turn, ends the connection.
    server.on('connect', accept);
    server.on('clientError', (error: ParserError, socket) => {
      const connection = this.#connections.get(socket);
      // To a TLS socket that never shook hands, nothing can be answered.
      if (connection === undefined) socket.destroy();
      else connection.fail(error);
    });
    this.#sweeper = setInterval(() => {
      const now = performance.now();
      this.#connections.forEach((each) => each?.sweep(now));
    }, sweepMs).unref();
  }

  static async listen(shared: Shared, { port = 3000, host = '127.0.0.1', tls }: ListenOptions): Promise<HttpServer> {
    const server =
      tls === undefined
        ? createServer(serverOptions)
        : // Imported only here: Node's TLS is large, and most servers do without.
          (await import('node:https')).createServer({ ...serverOptions, ...tls, handshakeTimeout: 10_000 });
    server.listen(port, host, maxPending);
    // It is made within the same turn of the event loop: no connection comes before.
    await once(server, 'listening');
    const address = server.address();
    if (address === null || typeof address === 'string') throw new TypeError('the server does not listen');
    return new HttpServer(server, address, shared);
  }

  setTls({ cert, key }: TlsPair): void {
    if (!isSecure(this.#server)) throw new TypeError('the server listens without TLS');
    this.#server.setSecureContext({ cert, key });
  }

  /** Lets requests under way finish. Whoever still sends after `graceMs` is told why it ends; then the rest is cut. */
  async stop(graceMs: number): Promise<void> {
    // First, this turn of the event loop takes what waits to be taken: the rest is reset.
    await new Promise((resolve) => setImmediate(resolve));
    // Not http.Server's own close, which destroys idle connections: a client may be just sending.
    const closed = new Promise((resolve) => NetServer.prototype.close.call(this.#server, resolve));
    const timers = [
      setTimeout(() => this.#connections.forEach((each) => each?.endIfIdle()), Math.min(idleGraceMs, graceMs)),
      setTimeout(() => this.#connections.forEach((each) => each?.refuse(stopping())), graceMs),
      setTimeout(() => this.#connections.forEach((_, socket) => socket.destroy()), graceMs + cutMs),
    ];
    await closed;
    timers.forEach((timer) => clearTimeout(timer));
    clearInterval(this.#sweeper);
    // Only this ends the interval with which Node checks its timeouts.
    this.#server.close();
  }
}

function isSecure(server: AnyServer): server is SecureServer {
  return 'setSecureContext' in server;
}

/** How many files the process may open; `Infinity` where the system doesn't say. */
function openFileLimit(): number {
  try {
    return Number(/^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? Infinity);
  } catch {
    return Infinity;
  }
}

/** What a client hears that comes too late (C48). */
export function stopping(): PetstoreError {
  return new PetstoreError('unavailable', 'The petstore is stopping.');
}
