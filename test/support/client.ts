/** The HTTP client of the tests: the connection of the conformance suite, with stricter checks. */
import assert from 'node:assert/strict';
import {
  connectTo,
  RawConnection,
  type RawResponse,
} from '../../dist/conformance/raw-connection.js';
import { patienceMs } from './waiting.js';

export type { RawResponse };

/** A client connection that checks each response, and can misbehave. */
export class Client extends RawConnection {
  /** The error of the socket, if any. */
  failure: Error | undefined;

  static async connect(port: number): Promise<Client> {
    const client = new Client(await connectTo(new URL(`http://127.0.0.1:${port}`)));
    client.socket.once('error', (error) => (client.failure = error));
    return client;
  }

  /** Sends a text in parts of `bytesEach`, each in a tick of its own. */
  async drip(text: string, bytesEach = 1): Promise<this> {
    for (let at = 0; at < text.length && !this.socket.destroyed; at += bytesEach) {
      this.send(text.slice(at, at + bytesEach));
      await new Promise((resolve) => setImmediate(resolve));
    }
    return this;
  }

  reset(): void {
    this.socket.resetAndDestroy();
  }

  pause(): void {
    this.socket.pause();
  }

  resume(): void {
    this.socket.resume();
  }

  /** True if the socket is closed on both sides. */
  get isClosed(): boolean {
    return this.socket.closed;
  }

  /** Receives the next response, and checks its head: printable lines, and one length. */
  override async nextResponse(method = 'GET', withinMs = patienceMs): Promise<RawResponse> {
    const response = await super.nextResponse(method, withinMs);
    const [head = ''] = response.came.split('\r\n\r\n', 1);
    assert.match(head, /^HTTP\/1\.1 \d{3} [ -~]*(\r\n[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t -~]*)*$/);
    assert.ok(
      !response.headers.has('transfer-encoding'),
      'a response of known length must not be chunked',
    );

    const { status } = response;
    const hasNoBody = method === 'HEAD' || status < 200 || status === 204 || status === 304;
    const length = header(response, 'Content-Length');
    assert.ok(hasNoBody || length !== undefined, 'a response with a body needs a Content-Length');
    return response;
  }

  /** Receives the next responses, checks each by `assertResponse`, and returns the last. */
  async expect(...expected: readonly (number | string)[]): Promise<RawResponse> {
    let last: RawResponse | undefined;
    for (const each of expected) {
      last = await this.nextResponse();
      assertResponse(last, each);
    }
    return last ?? assert.fail('nothing is expected');
  }

  /**
   * Waits until the server closes its side, and returns the time in milliseconds. Fails if more
   * bytes arrive.
   */
  async closed(withinMs = patienceMs): Promise<number> {
    const since = performance.now();
    const hasEnded = await this.ends(withinMs);
    assert.equal(this.received, '', 'bytes arrived after the last response');
    assert.ok(hasEnded, `${withinMs} ms passed before the connection ended`);
    return performance.now() - since;
  }
}

/** A client that sends requests one at a time, on one connection while the server keeps it open. */
export class SerialClient {
  readonly #port: number;
  #client: Client | undefined;

  constructor(port: number) {
    this.#port = port;
  }

  /**
   * Sends the bytes of a request other than HEAD, and returns the response; undefined if the
   * connection ends before a response.
   */
  async send(bytes: string, withinMs?: number): Promise<RawResponse | undefined> {
    if (this.#client?.hasEnded) this.end();
    this.#client ??= await Client.connect(this.#port).catch(() => undefined);
    const client = this.#client;
    try {
      const response = await client?.send(bytes).nextResponse('GET', withinMs);
      if (response?.headers.get('connection')?.includes('close')) this.end();
      return response;
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

/** Returns a header; undefined if it is absent. Fails if it is repeated. */
export function header(response: RawResponse, name: string): string | undefined {
  const values = response.headers.get(name.toLowerCase()) ?? [];
  assert.ok(values.length <= 1, `${name} has ${values.length} values`);
  return values[0];
}

/**
 * Checks a response.
 * @param expected - The status, optionally with the error code or the whole body, as in
 * `404 not_found` and `200 []`.
 */
export function assertResponse(
  response: RawResponse,
  expected: number | string,
  what?: string,
): void {
  const [, code] = /^[45]\d\d ([a-z_]+)$/.exec(String(expected)) ?? [];
  if (code !== undefined)
    return void assertError(response, Number.parseInt(String(expected), 10), code);

  const came =
    typeof expected === 'number' ? response.status : `${response.status} ${response.body}`;
  assert.equal(came, expected, what ?? response.body);
}

/** Checks an Error body by the specification and P3, and returns its message. */
export function assertError(response: RawResponse, status: number, code: string): string {
  assert.deepEqual([response.status, codeOf(response)], [status, code], response.body);
  assert.equal(header(response, 'Content-Type'), 'application/json');
  assertCommonHeaders(response);
  const body: unknown = JSON.parse(Buffer.from(response.body, 'latin1').toString('utf8'));
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

/** Checks the headers of every response (C47). */
export function assertCommonHeaders(response: RawResponse): void {
  assert.equal(header(response, 'Cache-Control'), 'no-store');
  assert.equal(header(response, 'X-Content-Type-Options'), 'nosniff');
  assert.match(header(response, 'Date') ?? '', /^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/);
}

function codeOf(response: RawResponse): unknown {
  try {
    const body: unknown = JSON.parse(response.body);
    return typeof body === 'object' && body !== null && 'code' in body ? body.code : undefined;
  } catch {
    return undefined;
  }
}
