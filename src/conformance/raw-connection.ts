/**
 * A connection to the tested server that sends any bytes unchanged, and reads responses strictly by
 * RFC 9112. An HTTP client would repair or refuse some of them.
 */
import { connect, isIP, type Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { clearTimeout, setTimeout } from 'node:timers';
import { ReceivedBytes } from './received-bytes.js';

/** The default time for one response, or for the end of a connection, in milliseconds. */
export const defaultPatienceMs = 10_000;

/** The bound in bytes of a head together with the interim responses before it. */
const maxHeadBytes = 2 ** 16;

/** The bound of a response in bytes. A page of 100 pets of 64 KiB each has 6.25 MiB. */
const maxResponseBytes = 2 ** 24;

/** The bound in bytes of the sizes, extensions and trailers of a chunked body. */
const maxFramingBytes = 2 ** 18;

/** The bound in bytes of what all connections of a run hold at once. */
const maxHeldBytes = 2 ** 26;

/** The maximum number of bytes that a report shows of a response. */
export const maxShownBytes = 2 ** 16;

/** The number of bytes that the connections of one run hold. */
export interface HeldBytes {
  count: number;
}

/** An HTTP response as it was received. */
export interface RawResponse {
  readonly status: number;
  readonly version: '1.0' | '1.1';
  /** Values by lowercase name, in the order of their lines. */
  readonly headers: ReadonlyMap<string, readonly string[]>;
  /** A byte string. */
  readonly body: string;
  /** The bytes sent since the previous response. */
  readonly sent: string;
  /** The bytes of the response. */
  readonly came: string;
}

/** The error if no HTTP response was received. Its message is the reason. */
export class NoResponse extends Error {
  override readonly name = 'NoResponse';
  readonly sent: string;
  /** The bytes that were received. */
  readonly came: string;

  constructor(reason: string, sent: string, came: string) {
    super(reason);
    this.sent = sent;
    this.came = came;
  }
}

/** The error for a response 429 on a connection that does not accept it. */
export class RateLimited extends Error {
  override readonly name = 'RateLimited';
  /** The value of Retry-After in seconds; undefined if it is absent or a date. */
  readonly retryAfterSeconds: number | undefined;

  constructor({ headers }: Pick<RawResponse, 'headers'>) {
    super('the server limits the rate of requests');
    const [seconds = ''] = headers.get('retry-after') ?? [];
    this.retryAfterSeconds = /^\d{1,6}$/.test(seconds) ? Number(seconds) : undefined;
  }
}

/**
 * Connects a socket to the host and port of a URL.
 *
 * @throws Error of the system, or if connecting takes longer than `patienceMs`
 */
export async function connectTo(url: URL, patienceMs = defaultPatienceMs): Promise<Socket> {
  const isSecure = url.protocol === 'https:';
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = Number(url.port || (isSecure ? 443 : 80));

  // Imported on demand, because loading TLS takes time and most tested servers use plain HTTP.
  const socket = isSecure
    ? (await import('node:tls')).connect({
        host,
        port,
        ...(isIP(host) === 0 && { servername: host }),
      })
    : connect({ host, port, allowHalfOpen: true });

  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => {
      socket.destroy(new Error(`no connection within ${patienceMs} ms`));
    }, patienceMs);
    socket.once('close', () => clearTimeout(timer));
    socket.once('error', reject);
    socket.once(isSecure ? 'secureConnect' : 'connect', () => {
      clearTimeout(timer);
      resolve();
    });
  });
  return socket;
}

/** The options of a connection. */
export interface ConnectionOptions {
  /** The count that the connections of a run share. */
  readonly held?: HeldBytes;
  /** The time for one response, in milliseconds. */
  readonly patienceMs?: number;
  /** True if a response 429 is a `RateLimited` error. */
  readonly refusesRateLimit?: boolean;
}

/** A connection. Its texts are byte strings. */
export class RawConnection {
  protected readonly socket: Socket;
  readonly #held: HeldBytes;
  readonly #patienceMs: number;
  readonly #refusesRateLimit: boolean;
  readonly #received = new ReceivedBytes();
  #sent = '';
  #isAnswered = false;
  #hasEnded = false;
  /** The bound that the server has exceeded; empty if it has not. */
  #exceeded = '';
  #wake: () => void = () => undefined;

  /** @param socket A socket from {@link connectTo}. */
  constructor(
    socket: Socket,
    {
      held = { count: 0 },
      patienceMs = defaultPatienceMs,
      refusesRateLimit = false,
    }: ConnectionOptions = {},
  ) {
    this.socket = socket;
    this.#held = held;
    this.#patienceMs = patienceMs;
    this.#refusesRateLimit = refusesRateLimit;
    socket.setNoDelay(true);

    socket.on('data', (chunk: Buffer) => {
      this.#receive(chunk);
      this.#wake();
    });
    for (const event of ['end', 'error', 'close'])
      socket.on(event, () => {
        this.#hasEnded = true;
        this.#wake();
      });
  }

  /** The bytes received since the last response that was read. */
  get received(): string {
    return this.#received.text();
  }

  /** True if the server has ended the connection, or the connection broke. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Sends bytes unchanged. */
  send(bytes: string): this {
    this.#sent = this.#isAnswered ? bytes : this.#sent + bytes;
    this.#isAnswered = false;
    this.socket.write(bytes, 'latin1');
    return this;
  }

  /** Closes the sending side, and goes on reading. */
  endSending(): this {
    this.socket.end();
    return this;
  }

  /** Closes the connection at once, and drops bytes that were not read. */
  destroy(): void {
    this.socket.destroy();
    this.#take(this.#received.length);
  }

  /**
   * Returns the next response, which may have the status 100 or 101. Skips other interim responses
   * (RFC 9110 §15.2).
   *
   * @param method The method of the request, because a response to HEAD has no body.
   * @throws NoResponse if no valid response arrives in time and within the bounds
   */
  async nextResponse(method = 'GET', withinMs = this.#patienceMs): Promise<RawResponse> {
    return this.#responseAfter((status) => status > 101 && status < 200, method, withinMs);
  }

  /**
   * Returns the next response that is not an interim response.
   *
   * @throws NoResponse as `nextResponse`
   * @throws RateLimited if the connection does not accept 429
   */
  async finalResponse(method = 'GET', withinMs = this.#patienceMs): Promise<RawResponse> {
    const isInterim = (status: number) => status < 200 && status !== 101;
    const response = await this.#responseAfter(isInterim, method, withinMs);
    if (response.status === 429 && this.#refusesRateLimit) throw new RateLimited(response);
    return response;
  }

  async #responseAfter(
    isSkipped: (status: number) => boolean,
    method: string,
    withinMs: number,
  ): Promise<RawResponse> {
    const deadline = performance.now() + withinMs;
    let interimBytes = 0;
    for (;;) {
      const headLength = await this.#until(deadline, withinMs, this.#headEnd(interimBytes));
      const head = this.#readHead(headLength);
      const { status, headers } = head;
      if (isSkipped(status)) {
        interimBytes += headLength;
        this.#take(headLength);
        continue;
      }

      const hasNoBody = method === 'HEAD' || status < 200 || status === 204 || status === 304;
      const body = new ReceivedBytes();
      const end = hasNoBody
        ? headLength
        : await this.#until(
            deadline,
            withinMs,
            this.#bodyEnd(headers, headLength, body),
            framingOf(headers, headLength),
          );

      const came = this.#received.text(0, end);
      this.#take(end);
      this.#isAnswered = status >= 200;
      return { ...head, body: body.text(), sent: this.#sent, came };
    }
  }

  /**
   * Returns true if the server ends the connection within a time in milliseconds, and sends nothing
   * before.
   */
  async ends(withinMs = this.#patienceMs): Promise<boolean> {
    await this.#wait(performance.now() + withinMs, () => this.#hasEnded);
    return this.#hasEnded && this.#exceeded === '' && this.#received.length === 0;
  }

  /** Keeps a chunk, or ends the connection if it exceeds a bound. */
  #receive(chunk: Buffer): void {
    if (this.#exceeded !== '') return;

    if (this.#received.length + chunk.length > maxResponseBytes)
      this.#exceeded = 'the response is longer than 16 MiB';
    else if (this.#held.count + chunk.length > maxHeldBytes)
      this.#exceeded = 'the responses to requests sent at once are longer than 64 MiB';
    if (this.#exceeded !== '') {
      this.socket.destroy();
      return;
    }

    this.#held.count += chunk.length;
    this.#received.append(chunk);
  }

  /** Removes the first `count` bytes of what was received. */
  #take(count: number): void {
    this.#held.count -= count;
    this.#received.drop(count);
  }

  /** Returns a function that finds the end of the next head. It reads no byte twice. */
  #headEnd(interimBytes: number): () => number | undefined {
    let searchedTo = 0;
    return () => {
      const at = this.#received.indexOf('\r\n\r\n', searchedTo);
      searchedTo = Math.max(0, this.#received.length - 3);
      const length = interimBytes + (at < 0 ? this.#received.length : at + 4);
      if (length > maxHeadBytes) this.#fail('the head of the response is longer than 64 KiB');
      return at < 0 ? undefined : at + 4;
    };
  }

  /** Parses the head, whose length in bytes is known. */
  #readHead(length: number): Pick<RawResponse, 'status' | 'version' | 'headers'> {
    const [statusLine = '', ...lines] = this.#received.text(0, length - 4).split('\r\n');
    const [, minor, code] = /^HTTP\/1\.([01]) ([1-9]\d\d)( |$)/.exec(statusLine) ?? [];
    const status = Number(code);
    if (Number.isNaN(status)) this.#fail('the first line is not a status line of HTTP/1.1');

    const headers = new Map<string, string[]>();
    for (const line of lines) {
      const [name = ''] = line.split(':', 1);
      const value = line.slice(name.length + 1);
      if (name === line || name === '' || /\s/.test(name) || /[\r\n]/.test(value))
        this.#fail(`an invalid header line: ${line.slice(0, 100)}`);

      const values = headers.get(name.toLowerCase());
      if (values === undefined) headers.set(name.toLowerCase(), [withoutSpaces(value)]);
      else values.push(withoutSpaces(value));
    }
    return { status, version: minor === '0' ? '1.0' : '1.1', headers };
  }

  /** Returns a function that finds the end of a body, and appends the content to `body`. */
  #bodyEnd(
    headers: RawResponse['headers'],
    from: number,
    body: ReceivedBytes,
  ): () => number | undefined {
    const lengths = new Set(headers.get('content-length'));
    const codings = headers.get('transfer-encoding') ?? [];
    if (codings.at(-1)?.toLowerCase() === 'chunked') return this.#chunkedBodyEnd(from, body);

    const [lengthText] = lengths;
    if (lengthText !== undefined && (lengths.size > 1 || !/^\d+$/.test(lengthText)))
      this.#fail(`an invalid Content-Length: ${[...lengths].join(', ').slice(0, 100)}`);
    const length = Number(lengthText ?? 0);
    if (from + length > maxResponseBytes)
      this.#fail(`its Content-Length of ${lengthText} is over the bound of 16 MiB`);

    return () => {
      const isWhole =
        lengthText === undefined
          ? this.#hasEnded && this.#exceeded === ''
          : this.#received.length >= from + length;
      if (!isWhole) return undefined;

      const end = lengthText === undefined ? this.#received.length : from + length;
      body.append(this.#received.bytes(from, end));
      return end;
    };
  }

  /** Does the same for a chunked body (RFC 9112 §7.1). It reads no byte twice. */
  #chunkedBodyEnd(from: number, body: ReceivedBytes): () => number | undefined {
    let at = from;
    let searchedTo = from;
    /** The size of the chunk at `at`; undefined if a line is next. */
    let size: number | undefined;
    let isInTrailers = false;

    /** Returns the next line and moves past it; undefined if it is incomplete. */
    const nextLine = (): string | undefined => {
      const end = this.#received.indexOf('\r\n', searchedTo);
      searchedTo = Math.max(at, this.#received.length - 1);
      if (end < 0) return undefined;

      // The rest of the line is a chunk extension or a trailer, which is ignored.
      const line = this.#received.text(at, Math.min(end, at + 200));
      moveTo(end + 2);
      return line;
    };
    const moveTo = (offset: number) => {
      at = offset;
      searchedTo = offset;
    };

    return () => {
      for (;;) {
        if (searchedTo - from - body.length > maxFramingBytes)
          this.#fail('the sizes, extensions and trailers of its chunks are longer than 256 KiB');

        if (size !== undefined) {
          const end = at + size;
          if (this.#received.length < end + 2) return undefined;
          if (this.#received.text(end, end + 2) !== '\r\n')
            this.#fail('a chunk does not end with CR LF');
          body.append(this.#received.bytes(at, end));
          moveTo(end + 2);
          size = undefined;
        }

        const line = nextLine();
        if (line === undefined) return undefined;
        if (isInTrailers && line === '') return at;
        if (isInTrailers) continue;

        const [, digits = ''] = /^0*([0-9A-Fa-f]{1,8})[ \t]*(?:;|$)/.exec(line) ?? [];
        const said = Number.parseInt(digits, 16);
        if (Number.isNaN(said)) this.#fail('a chunk has no size');
        if (at + said > maxResponseBytes) this.#fail('the response is longer than 16 MiB');
        if (said === 0) isInTrailers = true;
        else size = said;
      }
    };
  }

  /**
   * Waits until `find` returns an offset, and returns it.
   *
   * @throws NoResponse if the connection ends before that, exceeds a bound, or takes too long
   */
  async #until(
    deadline: number,
    withinMs: number,
    find: () => number | undefined,
    framing = '',
  ): Promise<number> {
    let found: number | undefined;
    await this.#wait(deadline, () => (found = find()) !== undefined || this.#hasEnded);
    if (found !== undefined) return found;
    if (this.#exceeded !== '') this.#fail(this.#exceeded);

    const { length } = this.#received;
    const part = length === 0 ? '' : `, after ${length} bytes${framing}`;
    if (this.#hasEnded)
      this.#fail(
        length === 0
          ? 'the server closed the connection without a response'
          : `the connection ended before the response did${part}`,
      );
    this.#fail(
      length === 0
        ? `there is no response after ${withinMs / 1_000} s`
        : `the response is not complete after ${withinMs / 1_000} s${part}`,
    );
  }

  /** @throws NoResponse always */
  #fail(reason: string): never {
    throw new NoResponse(reason, this.#sent, this.#received.text(0, maxShownBytes));
  }

  /** Waits until `holds` returns true, or until the deadline. */
  async #wait(deadline: number, holds: () => boolean): Promise<void> {
    while (!holds()) {
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) return;

      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }
}

/** Says how the end of a body is known, for a response that is not complete. */
function framingOf(headers: RawResponse['headers'], headLength: number): string {
  const [length] = headers.get('content-length') ?? [];
  if (headers.has('transfer-encoding')) return '; its last chunk is missing';
  return length === undefined
    ? '; it has no Content-Length, so that only the end of the connection can end it'
    : `; its head has ${headLength} bytes, and its Content-Length is ${length}`;
}

/** Trims spaces and tabs in linear time, which a regular expression would not. */
function withoutSpaces(value: string): string {
  const isSpace = (at: number) => value[at] === ' ' || value[at] === '\t';
  let start = 0;
  let end = value.length;
  while (start < end && isSpace(start)) start++;
  while (end > start && isSpace(end - 1)) end--;
  return value.slice(start, end);
}
