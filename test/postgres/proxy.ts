/** A TCP proxy in front of a database that fails on demand. */
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Ending } from '../support/at-end.js';
import { listen, type Listening } from './tcp.js';

/**
 * The behaviour of a proxy:
 * - `open` passes everything on.
 * - `silent` passes nothing on and closes nothing.
 * - `deaf` drops each reply of the server and its connection.
 * - `halving` passes half of each reply on, then ends the connection.
 * - `garbling` changes the first byte of each reply.
 * - `far` delays everything by 200 ms each way.
 * - `crumbling` splits replies into chunks of a few bytes.
 * - `closed` ends every connection at once.
 */
export type ProxyMode =
  | 'open'
  | 'silent'
  | 'deaf'
  | 'halving'
  | 'garbling'
  | 'far'
  | 'crumbling'
  | 'closed';

const farMs = 200;
const crumbBytes = 7;

/** The proxy reads on this many milliseconds before delayed bytes arrive. */
const aheadMs = 20;

/** Returns the bytes of an ErrorResponse, given its fields by their letters. */
export function errorMessage(fields: Readonly<Record<string, string>>): Buffer {
  const body = Object.entries(fields).map(([letter, text]) => `${letter}${text}\0`);
  const bytes = Buffer.from(`E\0\0\0\0${body.join('')}\0`);
  bytes.writeUInt32BE(bytes.length - 1, 1);
  return bytes;
}

/** The ReadyForQuery message, which follows an error that keeps the session. */
const readyMessage = Buffer.from('Z\0\0\0\x05I');

/** A proxy on a free port of 127.0.0.1 in front of another server. */
export class TcpProxy {
  readonly #to: URL;
  #listening: Listening | undefined;
  /** The sockets of silent connections whose other end has closed. */
  readonly #left: Socket[] = [];
  #mode: ProxyMode = 'open';
  /** The bytes received from clients. */
  bytesSent = 0;
  /** The bytes received from the server. */
  bytesReceived = 0;
  /** The rate of all connections together towards clients. */
  bytesPerSecond = Number.POSITIVE_INFINITY;
  /** The rate of all connections together towards the server. */
  bytesPerSecondUp = Number.POSITIVE_INFINITY;
  #narrowUntil = { down: 0, up: 0 };
  /** The number of replies that were dropped or replaced by a fault. */
  repliesLost = 0;
  /**
   * The fields of an error that replaces each reply. A severity other than ERROR ends the
   * connection.
   */
  fault: Readonly<Record<string, string>> | undefined;

  private constructor(to: URL) {
    this.#to = to;
  }

  /** Starts a proxy in front of the server of a URL, until the test ends. */
  static async before(t: Ending, url: string): Promise<TcpProxy> {
    const proxy = new TcpProxy(new URL(url));
    proxy.#listening = await listen(t, (client, { track }) => proxy.#accept(client, track));
    return proxy;
  }

  /** The URL of the server through the proxy. */
  get url(): string {
    return Object.assign(new URL(this.#to), { host: `127.0.0.1:${this.#listening?.port}` }).href;
  }

  /**
   * The behaviour of old and new connections. A connection that was silent stays silent. After the
   * silence, sockets whose other end has closed are closed too, as by a keep-alive, so that
   * abandoned sessions do not fill the database.
   */
  set mode(mode: ProxyMode) {
    this.#mode = mode;
    if (mode === 'closed') this.cut();
    if (mode !== 'silent') for (const socket of this.#left.splice(0)) socket.destroy();
  }

  get mode(): ProxyMode {
    return this.#mode;
  }

  /** Ends every connection. */
  cut(): void {
    this.#listening?.cut();
  }

  #accept(client: Socket, track: Listening['track']): void {
    if (this.#mode === 'closed') {
      client.destroy();
      return;
    }
    const server = track(connect(Number(this.#to.port || 5432), this.#to.hostname));
    let isSilent = false;
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      let arrived: Promise<unknown> | undefined;
      one.on('close', () => {
        // During a silence the other end must not notice.
        if (isSilent && this.#mode === 'silent') this.#left.push(other);
        else void Promise.resolve(arrived).then(() => other.destroy());
      });
      const isReply = one === server;
      one.on('data', (bytes: Buffer) => {
        isSilent ||= this.#mode === 'silent';
        if (isSilent) return;
        if (isReply) this.bytesReceived += bytes.length;
        else this.bytesSent += bytes.length;
        const deliver = () => (isReply ? this.#reply(bytes, client) : server.write(bytes));
        const delayMs = (this.#mode === 'far' ? farMs : 0) + this.#delayOf(bytes, isReply);
        if (delayMs === 0 && arrived === undefined) {
          deliver();
          return;
        }
        // Reads on shortly before these bytes arrive: little is buffered, and the line is never idle.
        if (this.#rateOf(isReply) !== Number.POSITIVE_INFINITY && delayMs > aheadMs) {
          one.pause();
          setTimeout(() => one.resume(), delayMs - aheadMs).unref();
        }
        // Later bytes never overtake earlier ones.
        const mine = Promise.all([arrived, sleep(delayMs, undefined, { ref: false })]).then(() => {
          if (arrived === mine) arrived = undefined;
          deliver();
        });
        arrived = mine;
      });
    }
  }

  #rateOf(isReply: boolean): number {
    return isReply ? this.bytesPerSecond : this.bytesPerSecondUp;
  }

  /** Returns after how many ms these bytes arrive at the rate, after earlier bytes. */
  #delayOf(bytes: Buffer, isReply: boolean): number {
    const now = performance.now();
    const direction = isReply ? 'down' : 'up';
    const since = Math.max(this.#narrowUntil[direction], now);
    this.#narrowUntil[direction] = since + (1_000 * bytes.length) / this.#rateOf(isReply);
    return this.#narrowUntil[direction] - now;
  }

  #reply(reply: Buffer, client: Socket): void {
    const mode = this.#mode;
    const fault = this.fault;
    const isEnd = fault !== undefined && (fault['V'] ?? fault['S']) !== 'ERROR';
    const end = isEnd ? Buffer.alloc(0) : readyMessage;
    const bytes = fault === undefined ? reply : Buffer.concat([errorMessage(fault), end]);
    if (fault !== undefined) this.repliesLost++;
    if (isEnd) {
      client.end(bytes);
      return;
    }
    if (mode === 'crumbling') {
      for (let at = 0; at < bytes.length; at += crumbBytes)
        setImmediate(() => client.write(bytes.subarray(at, at + crumbBytes)));
      return;
    }
    if (mode === 'garbling') bytes[0] = Math.floor(Math.random() * 256);
    if (mode === 'halving') client.write(bytes.subarray(0, bytes.length / 2));
    else if (mode !== 'deaf') client.write(bytes);
    if (mode !== 'deaf' && mode !== 'halving') return;
    this.repliesLost++;
    client.destroySoon();
  }
}
