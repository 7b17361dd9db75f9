/**
 * A bare connection to the server under test: it sends the very bytes that it is given, and reads
 * answers by RFC 9112. Nothing between a rule and the wire repairs or refuses anything.
 */
import { connect, isIP, type Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { clearTimeout, setTimeout } from 'node:timers';
import { ReceivedBytes } from './received-bytes.js';

/** The time for one response, or for the end of a connection, in milliseconds. */
const patienceMs = 10_000;

/** The bound of a head in bytes, that of the interim responses in front of it included. */
const maxHeadBytes = 2 ** 16;

/** The bound of a response in bytes. A page of 100 pets of 64 KiB each has 6.25 MiB. */
const maxResponseBytes = 2 ** 24;

/** The bound of the bytes of a body in chunks that are not its own: sizes, extensions, trailers. */
const maxFramingBytes = 2 ** 18;

/** The bound of the bytes that all connections of a run hold at once. */
const maxHeldBytes = 2 ** 26;

/** The bound of the bytes that are shown of a response that breaks a rule. */
export const maxShownBytes = 2 ** 16;

/** The number of bytes that the connections of one run hold. */
export interface HeldBytes {
  count: number;
}

/** One answer of HTTP, as it came over the wire. */
export interface Answer {
  readonly status: number;
  /** Values by lower-case name, in the order of their lines. */
  readonly headers: ReadonlyMap<string, readonly string[]>;
  /** Each character is a byte. */
  readonly body: string;
  /** What was sent from the first `send` behind an answer on. */
  readonly sent: string;
  /** Its own bytes. */
  readonly came: string;
}

/** No answer came, or none that HTTP knows; the message says what came instead. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
  /** The bytes that were sent. */
  readonly sent: string;
  /** The bytes that came. */
  readonly came: string;

  constructor(reason: string, sent: string, came: string) {
    super(reason);
    this.sent = sent;
    this.came = came;
  }
}

/**
 * A socket that is connected to the host and port of an address.
 *
 * @throws Error of the system where nothing listens there, or not within ten seconds
 */
export async function connectTo(url: URL): Promise<Socket> {
  const isSecure = url.protocol === 'https:';
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = Number(url.port || (isSecure ? 443 : 80));

  // This is imported only here, as Node's TLS is large, and most servers do without.
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

/** One connection. Texts are strings of which each character is a byte. */
export class Connection {
  protected readonly socket: Socket;
  readonly #held: HeldBytes;
  readonly #received = new ReceivedBytes();
  #sent = '';
  #isAnswered = false;
  #hasEnded = false;
  /** The bound that the server has exceeded; empty if it has not. */
  #exceeded = '';
  #wake: () => void = () => undefined;

  /**
   * @param socket A socket of {@link connectTo}.
   * @param held Shared by the connections of a run.
   */
  constructor(socket: Socket, held: HeldBytes = { count: 0 }) {
    this.socket = socket;
    this.#held = held;
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

  /** What came, and was not yet taken as an answer. */
  get received(): string {
    return this.#received.text();
  }

  /** Whether the server has ended the connection, or it broke. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Sends bytes as they are. */
  send(bytes: string): this {
    this.#sent = this.#isAnswered ? bytes : this.#sent + bytes;
    this.#isAnswered = false;
    this.socket.write(bytes, 'latin1');
    return this;
  }

  /** Says that nothing more will be sent, and goes on reading. */
  half(): this {
    this.socket.end();
    return this;
  }

  /** Closes the connection at once. Bytes that were not read are dropped. */
  destroy(): void {
    this.socket.destroy();
    this.#take(this.#received.length);
  }

  /**
   * Returns the next response. An interim response is one too if it has the status 100 or 101; all
   * others are skipped (RFC 9110 §15.2).
   *
   * @param method The method of the request, because a response to HEAD has no body.
   * @throws NoAnswer if none comes in time, or none that HTTP knows, or one over the bounds
   */
  async answer(method = 'GET', withinMs = patienceMs): Promise<Answer> {
    const deadline = performance.now() + withinMs;
    let interimBytes = 0;
    for (;;) {
      const headLength = await this.#until(deadline, withinMs, this.#headEnd(interimBytes));
      const { status, headers } = this.#readHead(headLength);
      if (status > 101 && status < 200) {
        interimBytes += headLength;
        this.#take(headLength);
        continue;
      }

      const hasNoBody = method === 'HEAD' || status < 200 || status === 204 || status === 304;
      const body = new ReceivedBytes();
      const end = hasNoBody
        ? headLength
        : await this.#until(deadline, withinMs, this.#bodyEnd(headers, headLength, body));

      const came = this.#received.text(0, end);
      this.#take(end);
      this.#isAnswered = status >= 200;
      return { status, headers, body: body.text(), sent: this.#sent, came };
    }
  }

  /**
   * Whether the server ends the connection, and sends nothing before that.
   *
   * @param withinMs How long that is waited for, in milliseconds.
   */
  async ends(withinMs = patienceMs): Promise<boolean> {
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

  /** Finds the end of the next head, without reading any byte twice. */
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

  /** Reads a head of so many bytes. */
  #readHead(length: number): Pick<Answer, 'status' | 'headers'> {
    const [statusLine = '', ...lines] = this.#received.text(0, length - 4).split('\r\n');
    const status = Number(/^HTTP\/1\.[01] ([1-9]\d\d)( |$)/.exec(statusLine)?.[1]);
    if (Number.isNaN(status)) this.#fail('no answer of HTTP/1.1');

    const headers = new Map<string, string[]>();
    for (const line of lines) {
      const [name = ''] = line.split(':', 1);
      const value = line.slice(name.length + 1);
      if (name === line || name === '' || /\s/.test(name) || /[\r\n]/.test(value))
        this.#fail(`a header line that is none: ${line.slice(0, 100)}`);

      const values = headers.get(name.toLowerCase());
      if (values === undefined) headers.set(name.toLowerCase(), [withoutSpaces(value)]);
      else values.push(withoutSpaces(value));
    }
    return { status, headers };
  }

  /** Finds the end of a body, which is appended to `body`. */
  #bodyEnd(
    headers: Answer['headers'],
    from: number,
    body: ReceivedBytes,
  ): () => number | undefined {
    const lengths = new Set(headers.get('content-length'));
    const codings = headers.get('transfer-encoding') ?? [];
    if (codings.at(-1)?.toLowerCase() === 'chunked') return this.#chunkedBodyEnd(from, body);

    const [lengthText] = lengths;
    if (lengthText !== undefined && (lengths.size > 1 || !/^\d+$/.test(lengthText)))
      this.#fail(`a Content-Length that is none: ${[...lengths].join(', ').slice(0, 100)}`);
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

  /** Finds the end of a body in chunks (RFC 9112 §7.1), without reading any byte twice. */
  #chunkedBodyEnd(from: number, body: ReceivedBytes): () => number | undefined {
    let at = from;
    let searchedTo = from;
    /** The size of the chunk at `at`; undefined if a line comes next. */
    let size: number | undefined;
    let isInTrailers = false;

    /** Returns the next line and moves behind it; undefined if it is not complete. */
    const nextLine = (): string | undefined => {
      const end = this.#received.indexOf('\r\n', searchedTo);
      searchedTo = Math.max(at, this.#received.length - 1);
      if (end < 0) return undefined;

      // The rest of the line is an extension of the chunk, or a trailer, which nobody reads.
      const line = this.#received.text(at, Math.min(end, at + 20));
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
            this.#fail('a chunk without an end of line');
          body.append(this.#received.bytes(at, end));
          moveTo(end + 2);
          size = undefined;
        }

        const line = nextLine();
        if (line === undefined) return undefined;
        if (isInTrailers && line === '') return at;
        if (isInTrailers) continue;

        const [, digits = ''] = /^([0-9A-Fa-f]{1,8})[ \t]*(?:;|$)/.exec(line) ?? [];
        const said = Number.parseInt(digits, 16);
        if (Number.isNaN(said)) this.#fail('a chunk without a size');
        if (at + said > maxResponseBytes) this.#fail('the response is longer than 16 MiB');
        if (said === 0) isInTrailers = true;
        else size = said;
      }
    };
  }

  /**
   * Waits until `find` returns an offset, and returns it.
   *
   * @throws NoAnswer if the connection ends before that, exceeds a bound, or takes too long
   */
  async #until(
    deadline: number,
    withinMs: number,
    find: () => number | undefined,
  ): Promise<number> {
    let found: number | undefined;
    await this.#wait(deadline, () => (found = find()) !== undefined || this.#hasEnded);
    if (found !== undefined) return found;
    if (this.#exceeded !== '') this.#fail(this.#exceeded);

    const { length } = this.#received;
    const part = length === 0 ? '' : `, behind ${length} bytes of it`;
    if (this.#hasEnded) this.#fail(`the connection ended before the response did${part}`);
    this.#fail(`the response is not complete after ${withinMs / 1_000} s${part}`);
  }

  /** @throws NoAnswer always */
  #fail(reason: string): never {
    throw new NoAnswer(reason, this.#sent, this.#received.text(0, maxShownBytes));
  }

  /** Waits until something holds, or until the deadline. */
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

/** Returns a header's value without the spaces and tabs around it, in linear time. */
function withoutSpaces(value: string): string {
  const isSpace = (at: number) => value[at] === ' ' || value[at] === '\t';
  let start = 0;
  let end = value.length;
  while (start < end && isSpace(start)) start++;
  while (end > start && isSpace(end - 1)) end--;
  return value.slice(start, end);
}
