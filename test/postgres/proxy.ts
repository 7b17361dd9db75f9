/** Owns a way to the database that fails on demand. Knows the bytes that pass, but not their meaning. */
import assert from 'node:assert/strict';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * `open` passes everything on. `silent`: nothing passes, neither is anything closed. `deaf`: what the client says arrives,
 * what the server answers is lost, and the connection with it. `halving`: half of it arrives. `garbling`: its first byte
 * is another. `far`: everything takes 200 ms each way. `crumbling`: in pieces of few bytes. `closed`: every connection ends
 * at once.
 */
export type ProxyMode = 'open' | 'silent' | 'deaf' | 'halving' | 'garbling' | 'far' | 'crumbling' | 'closed';

const farMs = 200;
const crumbBytes = 7;

/** A proxy on a free port of 127.0.0.1 before a port of another server. */
export class TcpProxy {
  readonly #server: Server;
  readonly #to: number;
  readonly #host: string;
  readonly #sockets = new Set<Socket>();
  #mode: ProxyMode = 'open';
  /** How many bytes came from clients. */
  bytesSent = 0;
  /** How many replies were lost with their connection. */
  repliesLost = 0;

  private constructor(to: number, host: string) {
    this.#to = to;
    this.#host = host;
    this.#server = createServer((client) => this.#accept(client));
  }

  static async start(to: number, host = '127.0.0.1'): Promise<TcpProxy> {
    const proxy = new TcpProxy(to, host);
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get port(): number {
    const address = this.#server.address();
    assert.ok(typeof address === 'object' && address !== null);
    return address.port;
  }

  /** The same URL by way of the proxy. */
  urlFor(url: string): string {
    return Object.assign(new URL(url), { host: `127.0.0.1:${this.port}` }).href;
  }

  /** What connections do from now on, old and new. Those that were silent never speak again. */
  set mode(mode: ProxyMode) {
    this.#mode = mode;
    if (mode === 'closed') this.cut();
  }

  get mode(): ProxyMode {
    return this.#mode;
  }

  /** Ends every connection. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #accept(client: Socket): void {
    if (this.#mode === 'closed') {
      client.destroy();
      return;
    }
    const server = connect(this.#to, this.#host);
    let isSilent = false;
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(one);
      one.setNoDelay(true);
      one.on('error', () => undefined);
      one.on('close', () => {
        this.#sockets.delete(one);
        // A cable that is cut tells nobody.
        if (!isSilent) other.destroy();
      });
      let arrived: Promise<void> | undefined;
      one.on('data', (bytes: Buffer) => {
        isSilent ||= this.#mode === 'silent';
        if (isSilent) return;
        if (one === client) this.bytesSent += bytes.length;
        const deliver = (): void => {
          if (one === server) this.#answer(bytes, client);
          else server.write(bytes);
        };
        if (this.#mode !== 'far' && arrived === undefined) {
          deliver();
          return;
        }
        // What comes behind never overtakes.
        const dueAt = performance.now() + (this.#mode === 'far' ? farMs : 0);
        const mine = (arrived ?? Promise.resolve())
          .then(() => sleep(Math.max(0, dueAt - performance.now()), undefined, { ref: false }))
          .then(() => {
            if (arrived === mine) arrived = undefined;
            deliver();
          });
        arrived = mine;
      });
    }
  }

  #answer(bytes: Buffer, client: Socket): void {
    const mode = this.#mode;
    if (mode === 'crumbling') {
      for (let at = 0; at < bytes.length; at += crumbBytes) setImmediate(() => client.write(bytes.subarray(at, at + crumbBytes)));
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
