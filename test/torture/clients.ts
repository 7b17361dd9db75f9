/** HTTP clients that keep responses byte for byte and reuse their connections. */
import assert from 'node:assert/strict';
import { SerialClient } from '../support/client.js';
import { requestBytes, type RequestParts } from '../support/fixture.js';
import type { SentDraft } from './random.js';

/**
 * A response, its body as text, and the time at which its request was sent by {@link monotonicS}.
 */
export interface TimedAnswer {
  readonly status: number;
  readonly body: string;
  readonly ms: number;
  readonly sentAtS: number;
}

/** Returns the kernel's monotonic clock in seconds, which all processes share. */
export function monotonicS(): number {
  return Number(process.hrtime.bigint()) / 1e9;
}

/** Returns the bytes of a request that adds a pet. */
export function addBytes(draft: SentDraft, words: RequestParts = {}): string {
  const body = Buffer.from(JSON.stringify(draft)).toString('latin1');
  return requestBytes('POST', '/v1/pets', { ...words, body });
}

/** Returns a body from the wire as text. */
export function utf8Of(byteString: string): string {
  return Buffer.from(byteString, 'latin1').toString();
}

/** Long enough for a disk that hangs, because rows have limits of their own. */
const patienceMs = 600_000;

/** Clients of one port, as many as there are requests in flight. Rejects if a connection breaks. */
export class Clients {
  readonly #port: number;
  readonly #idle: SerialClient[] = [];

  constructor(port: number) {
    this.#port = port;
  }

  /** Returns the response to a GET, which must be 200. */
  async get(path: string): Promise<TimedAnswer> {
    const response = await this.#ask(requestBytes('GET', path));
    assert.equal(response.status, 200, `GET ${path} is answered ${response.status}`);
    return response;
  }

  /** Returns the response of `/readyz`, which may be 200 or 503. */
  readiness(): Promise<TimedAnswer> {
    return this.#ask(requestBytes('GET', '/readyz'));
  }

  add(draft: SentDraft): Promise<TimedAnswer> {
    return this.#ask(addBytes(draft));
  }

  close(): void {
    for (const caller of this.#idle.splice(0)) caller.end();
  }

  async #ask(bytes: string): Promise<TimedAnswer> {
    const sentAtS = monotonicS();
    const caller = this.#idle.pop() ?? new SerialClient(this.#port);
    const { status, body } =
      (await caller.send(bytes, patienceMs)) ?? assert.fail('the server is gone');
    this.#idle.push(caller);
    return { status, body: utf8Of(body), ms: 1000 * (monotonicS() - sentAtS), sentAtS };
  }
}
