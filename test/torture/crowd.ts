/**
 * Many clients that have at most one request in flight each. They read only the status and the
 * length of a response, so that they are faster than the server.
 */
import { connect, type Socket } from 'node:net';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { atEnd } from '../support/at-end.js';
import { until } from '../support/waiting.js';
import { atOnce, type Share } from './row.js';

/** A client. */
interface Member {
  readonly socket: Socket;
  /** The time at which the request in flight was sent. */
  sentAt?: number | undefined;
  received: string;
}

/** The clients' connections, and the results of their requests. */
export class Crowd {
  /** The milliseconds from a request to its response, by status. */
  readonly waits = new Map<number, number[]>();
  /**
   * The number of requests that were sent, and of those that were skipped without a free client.
   */
  sent = 0;
  unsent = 0;
  /** The number of connections that ended. */
  lost = 0;
  readonly #members: Member[] = [];
  readonly #requests: readonly string[];
  #next = 0;
  #onResponse: (member: Member) => void = () => undefined;

  private constructor(requests: readonly string[]) {
    this.#requests = requests;
  }

  /** Opens connections. Together they send these requests one after the other, repeatedly. */
  static async open(
    share: Share,
    port: number,
    requests: readonly string[],
    connections: number,
  ): Promise<Crowd> {
    const crowd = new Crowd(requests);
    atEnd(share, () => crowd.close());
    // In groups, because a full accept queue of the kernel would delay some for seconds.
    while (crowd.#members.length < connections) {
      const some = Math.min(200, connections - crowd.#members.length);
      await atOnce(some, () => crowd.#open(port));
    }
    return crowd;
  }

  /** Sends the next request after each response, and returns the rate in responses a second. */
  async follow(ms: number): Promise<number> {
    let responses = 0;
    this.#onResponse = (member) => {
      responses++;
      this.#send(member);
    };
    for (const member of this.#members) this.#send(member);
    await wait(ms);
    const rate = (1000 * responses) / ms;
    this.#onResponse = () => undefined;
    await until('the last responses', () => this.inFlight === 0);
    return rate;
  }

  /** Sends `perSecond` requests a second over clients without a request in flight. */
  async push(perSecond: number, ms: number): Promise<void> {
    const startedAt = performance.now();
    for (let requested = 0, now = 0; now < ms; await wait(2)) {
      now = performance.now() - startedAt;
      const due = Math.floor((Math.min(now, ms) * perSecond) / 1000);
      let left = due - requested;
      requested = due;
      for (let tried = 0; left > 0 && tried < this.#members.length; tried++) {
        const member = this.#members[this.#next++ % this.#members.length];
        if (member === undefined || member.sentAt !== undefined || member.socket.destroyed)
          continue;
        this.#send(member);
        left--;
      }
      this.unsent += left;
    }
  }

  /** The number of requests in flight. */
  get inFlight(): number {
    return this.#members.filter(({ sentAt }) => sentAt !== undefined).length;
  }

  close(): void {
    for (const { socket } of this.#members) socket.destroy();
  }

  async #open(port: number): Promise<void> {
    const socket = connect({ port, host: '127.0.0.1' }).setNoDelay(true);
    await once(socket, 'connect');
    const member: Member = { socket, received: '' };
    this.#members.push(member);
    socket.on('data', (chunk: Buffer) => this.#read(member, chunk.toString('latin1')));
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.lost++;
      member.sentAt = undefined;
    });
  }

  #send(member: Member): void {
    member.sentAt = performance.now();
    member.socket.write(this.#requests[this.sent++ % this.#requests.length] ?? '', 'latin1');
  }

  #read(member: Member, chunk: string): void {
    member.received += chunk;
    const [, status, length] =
      /^HTTP\/1\.1 (\d+).*?\r\nContent-Length: (\d+)\r\n/s.exec(member.received) ?? [];
    const bodyAt = member.received.indexOf('\r\n\r\n') + 4;
    if (status === undefined || bodyAt < 4 || member.received.length < bodyAt + Number(length))
      return;
    const waits = this.waits.get(Number(status)) ?? [];
    this.waits.set(Number(status), waits);
    waits.push(performance.now() - (member.sentAt ?? Number.NaN));
    member.sentAt = undefined;
    member.received = '';
    this.#onResponse(member);
  }
}
