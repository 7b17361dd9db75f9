/** A client that keeps what it was answered byte for byte, over connections that it keeps. */
import { Client as BareClient } from '../support/client.js';
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

/** Speaks to one port of 127.0.0.1, over as many connections as it has requests under way. One that breaks rejects. */
export class Client {
  readonly port: number;
  readonly #authorization: string;
  readonly #idle: BareClient[] = [];

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
    for (const connection of this.#idle.splice(0)) connection.destroy();
  }

  async #send(method: string, path: string, body?: string): Promise<Answer> {
    const sentAtS = monotonicS();
    const connection = await this.#connection();
    try {
      connection.send(bytesOf(method, path, { authorization: this.#authorization, ...(body && { body }) }));
      const answer = await connection.answer(method, patienceMs);
      const text = Buffer.from(answer.body, 'latin1').toString();
      const ms = 1000 * (monotonicS() - sentAtS);
      if (answer.headers.get('connection')?.includes('close')) connection.destroy();
      else this.#idle.push(connection);
      return { status: answer.status, body: text, ms, sentAtS };
    } catch (error) {
      connection.destroy();
      throw error;
    }
  }

  async #connection(): Promise<BareClient> {
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      if (!idle.ended) return idle;
      idle.destroy();
    }
    return BareClient.connect(this.port);
  }
}
