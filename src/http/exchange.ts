/** One request of a connection of our own server: the bytes of its body as they come, for the request path. */
import { IncomingMessage, ServerResponse, type IncomingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import { PetstoreError } from '../errors.js';
import { bodyTooLarge, type Message } from '../request.js';
import { headerOf, parseHead, type Head } from './head.js';

/** How many bytes of a body are held that nobody has asked for yet; then its socket is read no further. */
const heldBytes = 65_536;

const noHeaders: IncomingHttpHeaders = {};

/**
 * Node's request, handed to `createServer` by its option of that name, without its stream: a stream flows, ends and is
 * destroyed in five ticks after each answer, though most requests have no body. Worth 0 to 20 % by row
 * (`make bench PARTS=speed` without it). A body is collected in one buffer, however small the chunks that it comes in.
 */
export class BodyRequest extends IncomingMessage {
  #bytes: Buffer | undefined;
  #length = 0;
  /** Nobody reads headers by name but Node, for Expect, which is answered by ourselves: to make the table is 2 %. */
  override headers = noHeaders;
  /** Whether all of the body has come; until then, Node adds a listener for that to each request it lets go of. */
  override readableEnded = false;
  #isDiscarded = false;
  #upgrade = false;
  #reader: { readonly maxBytes: number; resolve(body: string): void; reject(error: PetstoreError): void } | undefined;

  /** Takes in what the parser has of the body; null for its end. */
  override push(chunk: unknown): boolean {
    if (chunk === null) this.readableEnded = true;
    else if (Buffer.isBuffer(chunk) && !this.#isDiscarded) this.#append(chunk);
    this.#settle();
    if (this.#reader === undefined && !this.#isDiscarded && this.#length > heldBytes) this.socket.pause();
    return true;
  }

  /** Resolves to the body, a byte string, once all of it has come; see `Message.readBody`. */
  text(maxBytes: number): Promise<string> {
    if (this.readableEnded && this.#length <= maxBytes) return Promise.resolve(this.#text());
    return new Promise((resolve, reject) => {
      this.#reader = { maxBytes, resolve, reject };
      if (this.socket.isPaused()) this.socket.resume();
      this.#settle();
    });
  }

  /** The rest of the body will never come: whoever reads it hears of that. */
  fail(error: PetstoreError): void {
    this.#reader?.reject(error);
    this.discard();
  }

  /** Lets go of the body, and of all that still comes. */
  discard(): void {
    this.#isDiscarded = true;
    this.#bytes = undefined;
  }

  /** Node dumps and ends requests as the streams that these are not. A request that came whole is carried out (C53). */
  override resume(): this {
    return this;
  }

  override destroy(): this {
    return this;
  }

  /** What Node asks to know whether HTTP ends here. It does on a socket that is destroyed: nothing more is parsed. */
  get upgrade(): boolean {
    return this.#upgrade || this.socket.destroyed;
  }

  set upgrade(value: boolean) {
    // Node's constructor sets it before there is a field.
    if (#upgrade in this) this.#upgrade = value;
  }

  #text(): string {
    return this.#bytes?.toString('latin1', 0, this.#length) ?? '';
  }

  #append(chunk: Buffer): void {
    const length = this.#length + chunk.length;
    if (this.#bytes === undefined) this.#bytes = chunk;
    else {
      if (length > this.#bytes.length) {
        // Doubled, but not beyond what will be read.
        const most = Math.max(length, this.#reader?.maxBytes ?? heldBytes);
        const grown = Buffer.allocUnsafeSlow(Math.min(2 * length, most));
        this.#bytes.copy(grown, 0, 0, this.#length);
        this.#bytes = grown;
      }
      chunk.copy(this.#bytes, this.#length);
    }
    this.#length = length;
  }

  #settle(): void {
    if (this.#reader === undefined) return;
    const { maxBytes, resolve, reject } = this.#reader;
    if (this.#length > maxBytes) {
      reject(bodyTooLarge(maxBytes));
      this.discard();
    } else if (this.readableEnded) resolve(this.#text());
  }
}

/**
 * Node's response, to which nobody writes: Node only looks it up on the socket, to know whether an answer is still to
 * come. `ServerResponse` would add a listener to the socket for each request, and take it away again.
 */
export class SilentResponse extends ServerResponse<BodyRequest> {
  override assignSocket(socket: AnsweringSocket): void {
    socket._httpMessage = this;
  }

  override detachSocket(socket: AnsweringSocket): void {
    socket._httpMessage = undefined;
  }
}

/** A socket with the name by which Node knows the response that is on its way. */
interface AnsweringSocket extends Socket {
  _httpMessage?: ServerResponse | undefined;
}

/** One request of a socket, from its head to its answer. */
export class Exchange implements Message {
  readonly method: string;
  readonly target: string;
  readonly startedAt = performance.now();
  readonly #request: BodyRequest;
  readonly #response: SilentResponse | undefined;
  /** Whether the client waits for a `100 Continue` that nobody has sent yet (C45). */
  #awaitsContinue = false;
  #keepsAlive: boolean;
  #isAnswered = false;
  #failure: PetstoreError | undefined;

  /** @param response Node's, for its own bookkeeping; it makes none for a CONNECT. */
  constructor(request: BodyRequest, response: SilentResponse | undefined) {
    this.method = request.method ?? '';
    this.target = request.url ?? '';
    this.#request = request;
    this.#response = response;
    this.#keepsAlive = response?.shouldKeepAlive === true;
  }

  /** Whether all of it has come. */
  get isComplete(): boolean {
    return this.#request.complete;
  }

  /** Whether the connection can go on after the answer: the client asks for that, and all of the request has come. */
  get keepsAlive(): boolean {
    return this.#keepsAlive && this.#request.complete;
  }

  /** Why the rest of this request will never come; then that is its answer, whatever else it asked for. */
  get failure(): PetstoreError | undefined {
    return this.#failure;
  }

  get clientAddress(): string | undefined {
    return this.#request.socket.remoteAddress;
  }

  readHead(): Head {
    const head = parseHead(this.#request);
    // Node's parser drops what the same packet brought after it: nobody could tell where the next request begins.
    if (head.upgrade !== undefined) this.#keepsAlive = false;
    this.#awaitsContinue = head.expect?.toLowerCase() === '100-continue';
    return head;
  }

  header(name: string): string | undefined {
    return headerOf(this.#request.rawHeaders, name);
  }

  readBody(maxBytes: number): Promise<string> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    if (this.#awaitsContinue) this.#request.socket.write('HTTP/1.1 100 Continue\r\n\r\n');
    return this.#request.text(maxBytes);
  }

  /** Gives up a request that is not complete and not answered; false for any other. */
  fail(error: PetstoreError): boolean {
    if (this.#request.complete || this.#isAnswered) return false;
    this.#failure ??= error;
    this.#request.fail(error);
    return true;
  }

  /** Its answer is on its way; what still comes of its body is dropped. */
  answered(status: number): void {
    this.#isAnswered = true;
    this.#request.discard();
    if (this.#response !== undefined) this.#response.statusCode = status;
  }

  /** Its answer has left: tells Node, which then lets go of the request. */
  finish(): void {
    if (this.#response === undefined || this.#request.socket.destroyed) return;
    this.#response.finished = true;
    this.#response.emit('finish');
  }
}

/** The error of a request whose client went before all of its body had come (C53). */
export function brokenOff(): PetstoreError {
  return new PetstoreError('bad_request', 'The connection ended in the middle of the body.');
}
