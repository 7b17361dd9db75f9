/**
 * A bare connection to the server under test: it sends the very bytes that it is given, and reads
 * answers by RFC 9112. Nothing between a rule and the wire repairs or refuses anything.
 */
import { connect, isIP, type Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { clearTimeout, setTimeout } from 'node:timers';

/** How long an answer, or the end of a connection, is waited for, in milliseconds. */
const patienceMs = 10_000;

/** More than any page has; a server that sends without end is no reason to fill the memory. */
const mostBytes = 2 ** 24;

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
  #sent = '';
  #received = '';
  #isAnswered = false;
  #hasEnded = false;
  #wake: () => void = () => undefined;

  /** Takes a socket of {@link connectTo}. */
  constructor(socket: Socket) {
    this.socket = socket;
    socket.setNoDelay(true);

    socket.on('data', (chunk: Buffer) => {
      this.#received += chunk.toString('latin1');
      if (this.#received.length > mostBytes) socket.destroy();
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
    return this.#received;
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

  /** Closes the connection, whatever is under way. */
  destroy(): void {
    this.socket.destroy();
  }

  /**
   * The next answer, an interim one (1xx) too.
   *
   * @param method What the request's method was: an answer to HEAD has no body.
   * @throws NoAnswer where none comes, or none that HTTP knows
   */
  async answer(method = 'GET', withinMs = patienceMs): Promise<Answer> {
    const deadline = performance.now() + withinMs;
    const headLength = await this.#until(deadline, () => this.#received.indexOf('\r\n\r\n') + 4, 3);

    const [statusLine = '', ...lines] = this.#received.slice(0, headLength - 4).split('\r\n');
    const status = Number(/^HTTP\/1\.[01] ([1-9]\d\d)( |$)/.exec(statusLine)?.[1]);
    if (Number.isNaN(status))
      throw new NoAnswer('no answer of HTTP/1.1', this.#sent, this.#received);

    const headers = new Map<string, string[]>();
    for (const line of lines) {
      const [, name = '', value = ''] = /^([^:\s]+):[ \t]*(.*?)[ \t]*$/.exec(line) ?? [];
      if (name === '')
        throw new NoAnswer(`a header line that is none: ${line}`, this.#sent, this.#received);
      headers.set(name.toLowerCase(), [...(headers.get(name.toLowerCase()) ?? []), value]);
    }

    const hasNoBody = method === 'HEAD' || status < 200 || status === 204 || status === 304;
    const isChunked = headers.get('transfer-encoding')?.at(-1)?.toLowerCase() === 'chunked';
    const [lengthText] = headers.get('content-length') ?? [];
    const [body, end] = hasNoBody
      ? ['', headLength]
      : isChunked
        ? await this.#chunkedBody(headLength, deadline)
        : await this.#plainBody(headLength, lengthText, deadline);

    const came = this.#received.slice(0, end);
    this.#received = this.#received.slice(end);
    this.#isAnswered = status >= 200;
    return { status, headers, body, sent: this.#sent, came };
  }

  /**
   * Whether the server ends the connection, and sends nothing before that.
   *
   * @param withinMs How long that is waited for, in milliseconds.
   */
  async ends(withinMs = patienceMs): Promise<boolean> {
    await this.#wait(performance.now() + withinMs, () => this.#hasEnded);
    return this.#hasEnded && this.#received === '';
  }

  /** A body whose length is said, or that ends with the connection; and the offset of its end. */
  async #plainBody(
    from: number,
    lengthText: string | undefined,
    deadline: number,
  ): Promise<readonly [body: string, end: number]> {
    if (lengthText === undefined) await this.#wait(deadline, () => this.#hasEnded);
    else await this.#until(deadline, () => this.#received.length, from + Number(lengthText) - 1);

    const end = lengthText === undefined ? this.#received.length : from + Number(lengthText);
    return [this.#received.slice(from, end), end];
  }

  /** A body in chunks (RFC 9112 §7.1), and the offset of its end. */
  async #chunkedBody(
    from: number,
    deadline: number,
  ): Promise<readonly [body: string, end: number]> {
    let body = '';
    for (let at = from; ; ) {
      const dataAt = await this.#until(deadline, () => this.#received.indexOf('\r\n', at) + 2, 1);
      const [, digits] =
        /^([0-9A-Fa-f]{1,8})[ \t]*(?:;|\r)/.exec(this.#received.slice(at, dataAt)) ?? [];
      const size = Number.parseInt(digits ?? '', 16);
      if (Number.isNaN(size))
        throw new NoAnswer('a chunk without a size', this.#sent, this.#received);
      at = dataAt + size + 2;

      await this.#until(deadline, () => this.#received.length, at - 1);
      if (size === 0) return [body, at];
      body += this.#received.slice(dataAt, dataAt + size);
    }
  }

  /** Waits until a number of what was received is over another; answers it. */
  async #until(deadline: number, value: () => number, over: number): Promise<number> {
    await this.#wait(deadline, () => value() > over || this.#hasEnded);
    if (value() > over) return value();

    const reason = this.#hasEnded ? 'the connection ended' : 'no whole answer came in time';
    throw new NoAnswer(
      this.#received === '' ? reason : `${reason} behind a part`,
      this.#sent,
      this.#received,
    );
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
