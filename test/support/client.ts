/**
 * The one HTTP client of tests and torture, on a bare socket: it sends the very bytes it is given
 * and reads answers by the letter of RFC 9112.
 */
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { patienceMs } from './waiting.js';

/** One answer, as it came over the wire. */
export interface Answer {
  readonly status: number;
  readonly version: string;
  /** Values by lower-case name, in the order of their lines. */
  readonly headers: ReadonlyMap<string, readonly string[]>;
  /** A byte string. */
  readonly body: string;
  /** The whole head, for what must not be in it. */
  readonly head: string;
}

/** One connection. Texts are byte strings: a char is a byte. */
export class Client {
  readonly #socket: Socket;
  #received = '';
  #ended = false;
  #wake: () => void = () => undefined;
  /** How the connection broke, where it did not end in peace. */
  failure: Error | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on('data', (chunk: Buffer) => this.#note(chunk.toString('latin1')));
    socket.on('end', () => this.#finish());
    socket.on('error', (error) => this.#finish(error));
    socket.on('close', () => this.#finish());
  }

  static async connect(port: number): Promise<Client> {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    await new Promise<void>((resolve, reject) =>
      socket.once('connect', resolve).once('error', reject),
    );
    return new Client(socket);
  }

  /** Sends a text whole. */
  send(text: string): this {
    this.#socket.write(text, 'latin1');
    return this;
  }

  /** Sends a text in pieces that the server reads one at a time. */
  async drip(text: string, bytesEach = 1): Promise<this> {
    for (let at = 0; at < text.length && !this.#socket.destroyed; at += bytesEach) {
      this.send(text.slice(at, at + bytesEach));
      await new Promise((resolve) => setImmediate(resolve));
    }
    return this;
  }

  /** Closes the sending side only. */
  half(): this {
    this.#socket.end();
    return this;
  }

  /** Goes away without a word. */
  destroy(): void {
    this.#socket.destroy();
  }

  /** Goes away by a reset. */
  reset(): void {
    this.#socket.resetAndDestroy();
  }

  /** Stops reading, so that the server's answers pile up. */
  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** What came and was not yet taken as an answer. */
  get rest(): string {
    return this.#received;
  }

  /** Whether it is closed for good, not only ended by the server. */
  get gone(): boolean {
    return this.#socket.closed;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** The next answer, interim ones included; `method` is what was asked, as HEAD has no body. */
  async answer(method = 'GET', withinMs = patienceMs): Promise<Answer> {
    const headEnd = await this.#until(() => this.#received.indexOf('\r\n\r\n'), withinMs);
    const head = this.#received.slice(0, headEnd);
    const [statusLine = '', ...lines] = head.split('\r\n');
    const [, version, status] =
      /^HTTP\/(1\.[01]) ([1-9][0-9]{2}) [ -~]*$/.exec(statusLine) ??
      assert.fail(`no status line: ${statusLine}`);
    const headers = new Map<string, string[]>();
    for (const line of lines) {
      const [, name = '', value = ''] =
        /^([!#$%&'*+.^_`|~0-9A-Za-z-]+): ([\t -~]*)$/.exec(line) ??
        assert.fail(`no header line: ${line}`);
      headers.set(name.toLowerCase(), [...(headers.get(name.toLowerCase()) ?? []), value]);
    }
    assert.equal(
      headers.get('transfer-encoding'),
      undefined,
      'an answer of known length is not chunked',
    );
    const lengths = headers.get('content-length') ?? [];
    assert.ok(lengths.length <= 1, 'at most one Content-Length');
    const bodiless =
      method === 'HEAD' || status?.startsWith('1') || status === '204' || status === '304';
    const length = bodiless
      ? 0
      : Number(lengths[0] ?? assert.fail('an answer with a body has a Content-Length'));
    const bodyAt = headEnd + 4;
    await this.#until(() => (this.#received.length >= bodyAt + length ? 0 : -1), withinMs);
    const body = this.#received.slice(bodyAt, bodyAt + length);
    this.#received = this.#received.slice(bodyAt + length);
    return { status: Number(status), version: version ?? '', headers, body, head };
  }

  /**
   * Waits for the server to close its side; answers how long that took, in milliseconds. Nothing
   * more may have come.
   */
  async closed(withinMs = patienceMs): Promise<number> {
    const since = performance.now();
    await this.#until(() => (this.#ended ? 0 : -1), withinMs, 'the connection to end');
    assert.equal(this.#received, '', 'nothing comes behind the last answer');
    return performance.now() - since;
  }

  async #until(found: () => number, withinMs: number, what = 'an answer'): Promise<number> {
    const deadline = performance.now() + withinMs;
    for (;;) {
      const at = found();
      if (at >= 0) return at;
      if (this.#ended)
        assert.fail(
          `the connection ended before ${what}; so far: ${this.#soFar()} ${this.failure?.message ?? ''}`,
        );
      const left = deadline - performance.now();
      if (left <= 0) assert.fail(`${withinMs} ms passed before ${what}; so far: ${this.#soFar()}`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, left);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  #soFar(): string {
    return JSON.stringify(this.#received.slice(0, 200));
  }

  #note(text: string): void {
    this.#received += text;
    this.#wake();
  }

  #finish(error?: Error): void {
    this.failure ??= error;
    this.#ended = true;
    this.#wake();
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
    if (this.#client?.ended) this.end();
    this.#client ??= await Client.connect(this.#port).catch(() => undefined);
    const client = this.#client;
    try {
      const answer = await client?.send(bytes).answer('GET', withinMs);
      if (answer?.headers.get('connection')?.includes('close')) this.end();
      return answer;
    } catch (error) {
      this.end();
      if (client?.ended) return undefined;
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
