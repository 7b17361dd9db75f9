/** A client that keeps what it was answered byte for byte, over connections that it keeps. */
import { Caller } from '../support/client.js';
import { bytesOf } from '../support/fixture.js';
import type { SentDraft } from './random.js';

export interface Answer {
  readonly status: number;
  readonly body: string;
  readonly ms: number;
  /** When its request began to be sent, as {@link monotonicS} has it. */
  readonly sentAtS: number;
}

/** The kernel's monotonic clock in seconds, which other processes read too. */
export function monotonicS(): number {
  return Number(process.hrtime.bigint()) / 1e9;
}

/** Long enough for a disk that stands still: rows have their own limits. */
const patienceMs = 600_000;

/**
 * Speaks to one port of 127.0.0.1, over as many connections as it has requests under way. One that
 * breaks rejects.
 */
export class Client {
  readonly port: number;
  readonly #authorization: string;
  readonly #idle: Caller[] = [];

  constructor(port: number, key: string) {
    this.port = port;
    this.#authorization = `Bearer ${key}`;
  }

  get(path: string): Promise<Answer> {
    return this.#send('GET', path);
  }

  add(draft: SentDraft): Promise<Answer> {
    return this.#send('POST', '/v1/pets', Buffer.from(JSON.stringify(draft)).toString('latin1'));
  }

  /** Closes its connections. */
  close(): void {
    for (const caller of this.#idle.splice(0)) caller.end();
  }

  async #send(method: string, path: string, body?: string): Promise<Answer> {
    const sentAtS = monotonicS();
    const caller = this.#idle.pop() ?? new Caller(this.port);
    const bytes = bytesOf(method, path, {
      authorization: this.#authorization,
      ...(body && { body }),
    });
    const answer = await caller.ask(bytes, patienceMs);
    if (answer === undefined) throw new Error(`${method} ${path}: the server is gone`);
    this.#idle.push(caller);
    const ms = 1000 * (monotonicS() - sentAtS);
    return {
      status: answer.status,
      body: Buffer.from(answer.body, 'latin1').toString(),
      ms,
      sentAtS,
    };
  }
}
