/** HTTP clients that keep responses byte for byte and reuse their connections. */
import assert from 'node:assert/strict';
import { SerialClient } from '../support/client.js';
import { requestBytes, type RequestParts } from '../support/fixture.js';
import type { SentDraft } from './random.js';

/** A response, its duration, and the time at which its request was sent, by {@link monotonicS}. */
export interface TimedResponse {
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
export function addBytes(draft: SentDraft, parts: RequestParts = {}): string {
  const body = Buffer.from(JSON.stringify(draft)).toString('latin1');
  return requestBytes('POST', '/v1/pets', { ...parts, body });
}

/** Decodes the UTF-8 of a byte string. */
export function utf8Of(byteString: string): string {
  return Buffer.from(byteString, 'latin1').toString();
}

/** The timeout of a request: long, because a disk may hang. Rows check their own limits. */
const patienceMs = 600_000;

/** HTTP clients of one port: one for each request in flight. Rejects if a connection breaks. */
export class Clients {
  readonly #port: number;
  readonly #idle: SerialClient[] = [];

  constructor(port: number) {
    this.#port = port;
  }

  /** Returns the response to a GET, which must be 200. */
  async get(path: string): Promise<TimedResponse> {
    const response = await this.#send(requestBytes('GET', path));
    assert.equal(response.status, 200, `the response to GET ${path} is ${response.status}`);
    return response;
  }

  /** Returns the response to GET /readyz, of any status. */
  readiness(): Promise<TimedResponse> {
    return this.#send(requestBytes('GET', '/readyz'));
  }

  add(draft: SentDraft): Promise<TimedResponse> {
    return this.#send(addBytes(draft));
  }

  close(): void {
    for (const caller of this.#idle.splice(0)) caller.end();
  }

  async #send(bytes: string): Promise<TimedResponse> {
    const sentAtS = monotonicS();
    const caller = this.#idle.pop() ?? new SerialClient(this.#port);
    const { status, body } =
      (await caller.send(bytes, patienceMs)) ?? assert.fail('the server is gone');
    this.#idle.push(caller);
    return { status, body: utf8Of(body), ms: 1000 * (monotonicS() - sentAtS), sentAtS };
  }
}
