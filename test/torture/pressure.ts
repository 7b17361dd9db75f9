/** A crowd that asks at a rate of its own, whether it is answered or not. Knows no row. */
import { connect, type Socket } from 'node:net';

/** How a crowd asks. */
export interface PressureOptions {
  readonly port: number;
  readonly connections: number;
  /** Most requests of one connection that are not answered yet. */
  readonly depth: number;
  /** The bytes of each request, in turn. */
  readonly requests: readonly Buffer[];
}

/** What became of the requests so far. */
export interface Tally {
  /** Milliseconds from sending to the answer, by status. */
  readonly waits: Map<number, number[]>;
  /** Requests that found every connection full. */
  unsent: number;
  /** Connections that ended. */
  lost: number;
}

interface Lane {
  readonly socket: Socket;
  readonly sentAt: number[];
  received: string;
}

/** The crowd's connections. */
export class Pressure {
  readonly tally: Tally = { waits: new Map(), unsent: 0, lost: 0 };
  readonly #lanes: Lane[];
  readonly #depth: number;
  readonly #requests: readonly Buffer[];
  #next = 0;
  #sent = 0;
  #onAnswer: (lane: Lane) => void = () => undefined;

  private constructor(lanes: Lane[], { depth, requests }: PressureOptions) {
    this.#lanes = lanes;
    this.#depth = depth;
    this.#requests = requests;
    for (const lane of lanes) {
      lane.socket.setNoDelay(true).on('data', (chunk: Buffer) => this.#read(lane, chunk));
      lane.socket.on('error', () => undefined);
      lane.socket.on('close', () => this.#lose(lane));
    }
  }

  static async open(options: PressureOptions): Promise<Pressure> {
    const lanes: Lane[] = [];
    // Not all at once: a full queue of connections would make some of them wait for seconds,
    // whatever the server does.
    while (lanes.length < options.connections) {
      const some = Math.min(200, options.connections - lanes.length);
      lanes.push(
        ...(await Promise.all(Array.from({ length: some }, () => openLane(options.port)))),
      );
    }
    return new Pressure(lanes, options);
  }

  /**
   * Asks as fast as it is answered, one request a connection; answers how many answers a second
   * came.
   */
  async follow(ms: number): Promise<number> {
    let answers = 0;
    let goesOn = true;
    this.#onAnswer = (lane) => {
      answers++;
      if (goesOn) this.#send(lane, 1);
    };
    for (const lane of this.#lanes) this.#send(lane, 1);
    await sleep(ms);
    const rate = (1000 * answers) / ms;
    goesOn = false;
    await this.settle(10_000);
    this.#onAnswer = () => undefined;
    return rate;
  }

  /** Asks so many times a second, whatever comes back. */
  async push(perSecond: number, ms: number): Promise<void> {
    const startedAt = performance.now();
    let asked = 0;
    for (;;) {
      const now = performance.now() - startedAt;
      const due = Math.floor((Math.min(now, ms) * perSecond) / 1000);
      this.#spread(due - asked);
      asked = due;
      if (now >= ms) return;
      await sleep(2);
    }
  }

  /** Waits until everything is answered; answers how much is not. */
  async settle(withinMs: number): Promise<number> {
    const until = performance.now() + withinMs;
    while (this.unanswered > 0 && performance.now() < until) await sleep(2);
    return this.unanswered;
  }

  get unanswered(): number {
    return this.#lanes.reduce((sum, { sentAt }) => sum + sentAt.length, 0);
  }

  /** Requests that were sent. */
  get sent(): number {
    return this.#sent;
  }

  close(): void {
    for (const { socket } of this.#lanes) socket.destroy();
  }

  /** Gives each lane in turn its even part. */
  #spread(many: number): void {
    const lanes = this.#lanes.length;
    const each = Math.max(1, Math.ceil(many / lanes));
    let left = many;
    for (let tried = 0; left > 0 && tried < lanes; tried++) {
      const lane = this.#lanes[this.#next++ % lanes];
      if (lane === undefined) return;
      const room = Math.min(each, left, this.#depth - lane.sentAt.length);
      if (room <= 0 || lane.socket.destroyed) continue;
      this.#send(lane, room);
      left -= room;
    }
    this.tally.unsent += left;
  }

  #send({ socket, sentAt }: Lane, many: number): void {
    const now = performance.now();
    const pieces: Buffer[] = [];
    for (let index = 0; index < many; index++) {
      const piece = this.#requests[this.#sent++ % this.#requests.length];
      if (piece !== undefined) pieces.push(piece);
      sentAt.push(now);
    }
    socket.write(pieces.length === 1 ? (pieces[0] ?? '') : Buffer.concat(pieces));
  }

  /** Answers without bodies of their own lengths are not expected here. */
  #read(lane: Lane, chunk: Buffer): void {
    const now = performance.now();
    let text = lane.received + chunk.toString('latin1');
    let at = 0;
    for (;;) {
      const headEnd = text.indexOf('\r\n\r\n', at);
      if (headEnd < 0) break;
      const lengthAt = text.indexOf('Content-Length: ', at) + 16;
      const end = headEnd + 4 + Number(text.slice(lengthAt, text.indexOf('\r\n', lengthAt)));
      if (end > text.length) break;
      const status = Number(text.slice(at + 9, at + 12));
      const sentAt = lane.sentAt.shift();
      if (sentAt !== undefined) {
        let waits = this.tally.waits.get(status);
        if (waits === undefined) this.tally.waits.set(status, (waits = []));
        waits.push(now - sentAt);
      }
      at = end;
      this.#onAnswer(lane);
    }
    if (at > 0) text = text.slice(at);
    lane.received = text;
  }

  #lose(lane: Lane): void {
    this.tally.lost++;
    lane.sentAt.length = 0;
  }
}

async function openLane(port: number): Promise<Lane> {
  const socket = connect({ port, host: '127.0.0.1' });
  await new Promise<void>((resolve, reject) =>
    socket.once('connect', resolve).once('error', reject),
  );
  return { socket, sentAt: [], received: '' };
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
