/** A request on a connection of the petstore's own server. */
import { performance } from 'node:perf_hooks';
import type { PetstoreError } from '../errors.js';
import { bodyTooLarge, type Message } from '../request.js';
import { headerValue, parseHead, wantsClose, type Head } from './head.js';
import { NodeRequest } from './node.js';

/** The size of an unread body at which the server stops reading the socket. */
const maxUnreadBytes = 65_536;

/** A request as the petstore sees it. Its body is collected in one buffer. */
export class Exchange extends NodeRequest implements Message {
  readonly startedAt = performance.now();
  resetsBefore = 0;

  /**
   * The error that ended the request before its body was complete. It becomes the response, unless
   * `readBody` has thrown it.
   */
  failure: PetstoreError | undefined;

  /** The number of bytes that had arrived on the connection at the end of this request. */
  bytesAtEnd: number | undefined;

  /** True if the client waits for a `100 Continue` (C45). */
  #awaitsContinue = false;
  /**
   * True if there is an Upgrade header. The connection must close after such a request, because
   * Node's parser drops the rest of the packet.
   */
  #hasUpgrade = false;
  /** True if the client wants the connection to close after this request. */
  #wantsClose = false;

  /** A buffer whose first `#length` bytes are the body so far. */
  #bytes: Buffer | undefined;
  #length = 0;
  /** True if the body is not needed any more. */
  #isDiscarded = false;
  /** The limit of the reader of the body; undefined if nothing reads it. */
  #maxBytes: number | undefined;
  /** Wakes the reader if the body is complete, exceeds `#maxBytes`, or has failed. */
  #wakeReader: (() => void) | undefined;
  #onGone: (() => void) | undefined;

  get target(): string {
    return this.url ?? '';
  }

  get clientAddress(): string | undefined {
    return this.socket.remoteAddress;
  }

  /** True if the connection can stay open after this request, and the client wants that. */
  get keepsAlive(): boolean {
    const canStayOpen = this.response !== undefined && !this.#hasUpgrade;
    return this.readableEnded && canStayOpen && !this.#wantsClose;
  }

  /** True if the body is incomplete and still needed. Only then can the request fail. */
  get isArriving(): boolean {
    return !this.readableEnded && !this.#isDiscarded;
  }

  readHead(): Head {
    const head = parseHead(this);
    this.#hasUpgrade = head.upgrade !== undefined;
    this.#wantsClose = wantsClose(this.httpVersion, head.connection);
    this.#awaitsContinue = head.expect?.toLowerCase() === '100-continue';
    return head;
  }

  header(name: string): string | undefined {
    return headerValue(this.rawHeaders, name);
  }

  async readBody(maxBytes: number): Promise<string> {
    if (this.#awaitsContinue && !this.#isDiscarded)
      this.socket.write('HTTP/1.1 100 Continue\r\n\r\n');

    if (this.isArriving && this.#length <= maxBytes) {
      this.#maxBytes = maxBytes;
      if (this.socket.isPaused()) this.socket.resume();
      await new Promise<void>((resolve) => (this.#wakeReader = resolve));
    }

    const { failure } = this;
    if (failure !== undefined) {
      this.failure = undefined;
      throw failure;
    }
    if (this.#length > maxBytes) {
      this.discardBody();
      throw bodyTooLarge(maxBytes);
    }
    return this.#bytes?.toString('latin1', 0, this.#length) ?? '';
  }

  /** Fails the request with an error if it is still arriving. */
  fail(error: PetstoreError): void {
    if (!this.isArriving) return;
    this.failure = error;
    this.discardBody();
    this.#wakeReader?.();
  }

  onGone(callback: () => void): void {
    this.#onGone = callback;
    if (this.socket.destroyed || this.socket.readableEnded) callback();
  }

  /** Reports that the client is gone, or has closed its side of the connection. */
  reportGone(): void {
    this.#onGone?.();
  }

  /** Drops the body, and ignores the rest of it. */
  discardBody(): void {
    this.#isDiscarded = true;
    this.#bytes = undefined;
    this.#length = 0;
  }

  /** Stores a chunk. Pauses the socket if too much is unread, and wakes the reader at the end. */
  protected override receive(chunk: Buffer | null): void {
    if (chunk === null) this.bytesAtEnd = this.socket.bytesRead;
    else if (!this.#isDiscarded) this.#append(chunk);

    if (this.#maxBytes === undefined) {
      if (this.#length > maxUnreadBytes) this.socket.pause();
    } else if (chunk === null || this.#length > this.#maxBytes) this.#wakeReader?.();
  }

  /** Appends a chunk to the body. A full buffer is replaced by one of twice the needed size. */
  #append(chunk: Buffer): void {
    const at = this.#length;
    this.#length += chunk.length;
    if (this.#bytes === undefined) this.#bytes = chunk;
    else if (this.#length <= this.#bytes.length) chunk.copy(this.#bytes, at);
    else this.#bytes = Buffer.concat([this.#bytes.subarray(0, at), chunk], 2 * this.#length);
  }
}
