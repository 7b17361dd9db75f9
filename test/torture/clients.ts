/** Clients that keep what they were answered byte for byte, over connections that they keep. */
import assert from 'node:assert/strict';
import { Caller } from '../support/client.js';
import { bytesOf, type Words } from '../support/fixture.js';
import type { SentDraft } from './random.js';

/** An answer, its body as text, and when its request began to be sent by {@link monotonicS}. */
export interface TimedAnswer {
  readonly status: number;
  readonly body: string;
  readonly ms: number;
  readonly sentAtS: number;
}

/** The kernel's monotonic clock in seconds, which other processes read too. */
export function monotonicS(): number {
  return Number(process.hrtime.bigint()) / 1e9;
}

/** The bytes that add an animal. */
export function addBytes(draft: SentDraft, words: Words = {}): string {
  const body = Buffer.from(JSON.stringify(draft)).toString('latin1');
  return bytesOf('POST', '/v1/pets', { ...words, body });
}

/** A body as it came over the wire, as text. */
export function utf8Of(byteString: string): string {
  return Buffer.from(byteString, 'latin1').toString();
}

/** Long enough for a disk that stands still: rows have their own limits. */
const patienceMs = 600_000;

/** As many clients of one port as there are requests under way. One that breaks rejects. */
export class Clients {
  readonly #port: number;
  readonly #idle: Caller[] = [];

  constructor(port: number) {
    this.#port = port;
  }

  /** What a GET is answered, which must be a 200. */
  async get(path: string): Promise<TimedAnswer> {
    const answer = await this.#ask(bytesOf('GET', path));
    assert.equal(answer.status, 200, `GET ${path} is answered ${answer.status}`);
    return answer;
  }

  /** Whether it is ready: the answer, which may be a 200 or a 503. */
  readiness(): Promise<TimedAnswer> {
    return this.#ask(bytesOf('GET', '/readyz'));
  }

  add(draft: SentDraft): Promise<TimedAnswer> {
    return this.#ask(addBytes(draft));
  }

  /** Closes the connections. */
  close(): void {
    for (const caller of this.#idle.splice(0)) caller.end();
  }

  async #ask(bytes: string): Promise<TimedAnswer> {
    const sentAtS = monotonicS();
    const caller = this.#idle.pop() ?? new Caller(this.#port);
    const { status, body } =
      (await caller.ask(bytes, patienceMs)) ?? assert.fail('the server is gone');
    this.#idle.push(caller);
    return { status, body: utf8Of(body), ms: 1000 * (monotonicS() - sentAtS), sentAtS };
  }
}
