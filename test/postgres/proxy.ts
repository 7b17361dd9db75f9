/**
 * Owns a way to the database that fails on demand. Knows the bytes that pass, but not their
 * meaning.
 */
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Ending } from '../support/at-end.js';
import { listen, type Listening } from './tcp.js';

/**
 * `open` passes everything on. `silent`: nothing passes, neither is anything closed. `deaf`: what
 * the client says arrives, what the server answers is lost, and the connection with it. `halving`:
 * half of it arrives. `garbling`: its first byte is another. `far`: everything takes 200 ms each
 * way. `crumbling`: in pieces of few bytes. `closed`: every connection ends at once.
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

/** An error as it stands on the wire, by its fields' letters. */
export function errorMessage(fields: Readonly<Record<string, string>>): Buffer {
  const body = Object.entries(fields).map(([letter, text]) => `${letter}${text}\0`);
  const bytes = Buffer.from(`E\0\0\0\0${body.join('')}\0`);
  bytes.writeUInt32BE(bytes.length - 1, 1);
  return bytes;
}

/** What follows an error that a session survives. */
const readyMessage = Buffer.from('Z\0\0\0\x05I');

/** A proxy on a free port of 127.0.0.1 before a port of another server. */
export class TcpProxy {
  readonly #to: URL;
  #listening: Listening | undefined;
  /** The ends of silent connections whose other end has gone. */
  readonly #left: Socket[] = [];
  #mode: ProxyMode = 'open';
  /** How many bytes came from clients. */
  bytesSent = 0;
  /** How many bytes came from the server. */
  bytesAnswered = 0;
  /** How fast they go on to the clients, all connections together. */
  bytesPerSecond = Number.POSITIVE_INFINITY;
  #narrowUntil = 0;
  /** How many replies were lost with their connection, or to a fault. */
  repliesLost = 0;
  /**
   * The fields of an error that stands in the place of each reply; one whose severity is not ERROR
   * ends the connection.
   */
  fault: Readonly<Record<string, string>> | undefined;
  private constructor(to: URL) {
    this.#to = to;
  }

  /** One before the server of a URL, until the test ends. */
  static async before(t: Ending, url: string): Promise<TcpProxy> {
    const proxy = new TcpProxy(new URL(url));
    proxy.#listening = await listen(t, (client, { track }) => proxy.#accept(client, track));
    return proxy;
  }

  /** The same URL by way of the proxy. */
  get url(): string {
    return Object.assign(new URL(this.#to), { host: `127.0.0.1:${this.#listening?.port}` }).href;
  }

  /**
   * What connections do from now on, old and new. Those that were silent never speak again; once
   * the silence is over, an end that the other has left hears of it, as by a keep-alive: else
   * sessions that nobody has would fill the database.
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
      one.on('close', () => {
        // A cable that is cut tells nobody, before it is mended.
        if (isSilent && this.#mode === 'silent') this.#left.push(other);
        else other.destroy();
      });
      const isReply = one === server;
      let arrived: Promise<unknown> | undefined;
      one.on('data', (bytes: Buffer) => {
        isSilent ||= this.#mode === 'silent';
        if (isSilent) return;
        if (isReply) this.bytesAnswered += bytes.length;
        else this.bytesSent += bytes.length;
        const deliver = () => (isReply ? this.#answer(bytes, client) : server.write(bytes));
        const delayMs = (this.#mode === 'far' ? farMs : 0) + (isReply ? this.#delayOf(bytes) : 0);
        if (delayMs === 0 && arrived === undefined) {
          deliver();
          return;
        }
        // What waits here for its turn is not to be read from the other end.
        if (this.bytesPerSecond !== Number.POSITIVE_INFINITY) one.pause();
        // What comes behind never overtakes.
        const mine = Promise.all([arrived, sleep(delayMs, undefined, { ref: false })]).then(() => {
          if (arrived === mine) arrived = undefined;
          deliver();
          one.resume();
        });
        arrived = mine;
      });
    }
  }

  /** How many milliseconds these bytes are on their way, behind those before. */
  #delayOf(bytes: Buffer): number {
    const now = performance.now();
    this.#narrowUntil =
      Math.max(this.#narrowUntil, now) + (1_000 * bytes.length) / this.bytesPerSecond;
    return this.#narrowUntil - now;
  }

  #answer(reply: Buffer, client: Socket): void {
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
