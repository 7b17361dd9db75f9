/**
 * The one HTTP client of tests and torture: the conformance suite's connection, with what only
 * tests of our own server may do and ask.
 */
import assert from 'node:assert/strict';
import {
  connectTo,
  RawConnection,
  type RawResponse as Answer,
} from '../../dist/conformance/raw-connection.js';
import { patienceMs } from './waiting.js';

export type { Answer };

/** A connection of the conformance suite that asks more of answers, and may behave badly. */
export class Client extends RawConnection {
  /** How the connection broke, where it did not end in peace. */
  failure: Error | undefined;

  static async connect(port: number): Promise<Client> {
    const client = new Client(await connectTo(new URL(`http://127.0.0.1:${port}`)));
    client.socket.once('error', (error) => (client.failure = error));
    return client;
  }

  /** Sends a text in pieces that the server reads one at a time. */
  async drip(text: string, bytesEach = 1): Promise<this> {
    for (let at = 0; at < text.length && !this.socket.destroyed; at += bytesEach) {
      this.send(text.slice(at, at + bytesEach));
      await new Promise((resolve) => setImmediate(resolve));
    }
    return this;
  }

  /** Goes away by a reset. */
  reset(): void {
    this.socket.resetAndDestroy();
  }

  /** Stops reading, so that the server's answers pile up. */
  pause(): void {
    this.socket.pause();
  }

  resume(): void {
    this.socket.resume();
  }

  /** Whether it is closed for good, not only ended by the server. */
  get isClosed(): boolean {
    return this.socket.closed;
  }

  /** The next answer, which must say its length in one way, and nothing that is not printable. */
  async answer(method = 'GET', withinMs = patienceMs): Promise<Answer> {
    const answer = await super.nextResponse(method, withinMs);
    const [head = ''] = answer.came.split('\r\n\r\n', 1);
    assert.match(head, /^HTTP\/1\.1 \d{3} [ -~]*(\r\n[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t -~]*)*$/);
    assert.ok(!answer.headers.has('transfer-encoding'), 'an answer of known length is not chunked');

    const { status } = answer;
    const hasNoBody = method === 'HEAD' || status < 200 || status === 204 || status === 304;
    const length = header(answer, 'Content-Length');
    assert.ok(hasNoBody || length !== undefined, 'an answer with a body has a Content-Length');
    return answer;
  }

  /** Expects the next answers, each as `assertAnswer` does; answers the last of them. */
  async expect(...expected: readonly (number | string)[]): Promise<Answer> {
    let last: Answer | undefined;
    for (const each of expected) {
      last = await this.answer();
      assertAnswer(last, each);
    }
    return last ?? assert.fail('nothing is expected');
  }

  /**
   * Waits for the server to close its side; answers how long that took, in milliseconds. Nothing
   * more may have come.
   */
  async closed(withinMs = patienceMs): Promise<number> {
    const since = performance.now();
    const hasEnded = await this.ends(withinMs);
    assert.equal(this.received, '', 'nothing comes behind the last answer');
    assert.ok(hasEnded, `${withinMs} ms passed before the connection ended`);
    return performance.now() - since;
  }
}

/**
 * A client that asks one thing after the other, over one connection for as long as the server keeps
 * it.
 */
export class Caller {
  readonly #port: number;
  #client: Client | undefined;

  constructor(port: number) {
    this.#port = port;
  }

  /**
   * The answer to the bytes of a request that is no HEAD; undefined where the server is gone, or
   * goes before it has answered.
   */
  async ask(bytes: string, withinMs?: number): Promise<Answer | undefined> {
    if (this.#client?.hasEnded) this.end();
    this.#client ??= await Client.connect(this.#port).catch(() => undefined);
    const client = this.#client;
    try {
      const answer = await client?.send(bytes).answer('GET', withinMs);
      if (answer?.headers.get('connection')?.includes('close')) this.end();
      return answer;
    } catch (error) {
      this.end();
      if (client?.hasEnded) return undefined;
      throw error;
    }
  }

  end(): void {
    this.#client?.destroy();
    this.#client = undefined;
  }
}

/** The one value of a header; undefined where it is absent, a failure where it came twice. */
export function header(answer: Answer, name: string): string | undefined {
  const values = answer.headers.get(name.toLowerCase()) ?? [];
  assert.ok(values.length <= 1, `${name} came ${values.length} times`);
  return values[0];
}

/**
 * Expects an answer.
 *
 * @param expected Its status; with more, also the code of its error, or its whole body, as in
 * `404 not_found` and `200 []`.
 */
export function assertAnswer(answer: Answer, expected: number | string, what?: string): void {
  const [, code] = /^[45]\d\d ([a-z_]+)$/.exec(String(expected)) ?? [];
  if (code !== undefined)
    return void assertError(answer, Number.parseInt(String(expected), 10), code);

  const came = typeof expected === 'number' ? answer.status : `${answer.status} ${answer.body}`;
  assert.equal(came, expected, what ?? answer.body);
}

/** The Error body by the letter of the specification and of P3; answers its message. */
export function assertError(answer: Answer, status: number, code: string): string {
  assert.deepEqual([answer.status, codeOf(answer)], [status, code], answer.body);
  assert.equal(header(answer, 'Content-Type'), 'application/json');
  assertCommonHeaders(answer);
  const body: unknown = JSON.parse(Buffer.from(answer.body, 'latin1').toString('utf8'));
  assert.ok(
    typeof body === 'object' &&
      body !== null &&
      'message' in body &&
      typeof body.message === 'string',
  );
  assert.deepEqual(body, { code, message: body.message, status });
  assert.match(body.message, /^\S[^\n\r]*\.$/);
  return body.message;
}

/** What every answer carries (C47). */
export function assertCommonHeaders(answer: Answer): void {
  assert.equal(header(answer, 'Cache-Control'), 'no-store');
  assert.equal(header(answer, 'X-Content-Type-Options'), 'nosniff');
  assert.match(header(answer, 'Date') ?? '', /^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/);
}

function codeOf(answer: Answer): unknown {
  try {
    const body: unknown = JSON.parse(answer.body);
    return typeof body === 'object' && body !== null && 'code' in body ? body.code : undefined;
  } catch {
    return undefined;
  }
}
