/** One request of a connection of our own server, from its head to its answer. */
import { performance } from 'node:perf_hooks';
import type { PetstoreError } from '../errors.js';
import { bodyTooLarge, type Message } from '../request.js';
import { headerOf, parseHead, type Head } from './head.js';
import { NodeRequest } from './node.js';

/**
 * How many bytes of a body are held that nobody has asked for; then its socket is read no further.
 */
const heldBytes = 65_536;

/** The option `close` in the list of a Connection header (RFC 9110 section 7.6.1). */
const closeOption = /(?:^|,)[ \t]*close[ \t]*(?:,|$)/i;

/** A request as the petstore sees it, whose body is one buffer. */
export class Exchange extends NodeRequest implements Message {
  readonly startedAt = performance.now();
  resetsBefore = 0;

  /**
   * Why the rest of the request will never come, until `readBody` has thrown it. It is the answer,
   * whatever was asked for.
   */
  failure: PetstoreError | undefined;

  /** Whether the client waits for a `100 Continue` that nobody has sent yet (C45). */
  #awaitsContinue = false;
  /**
   * Whether there is an Upgrade header: then Node's parser drops what the same packet brought
   * behind the request, and the connection must end.
   */
  #hasUpgrade = false;
  /** True if the client says `close`, which Node 20 does not see before a tab. */
  #wantsClose = false;

  /** What has come of the body, at its beginning; the rest of the buffer is room for more. */
  #bytes: Buffer | undefined;
  #length = 0;
  /** Whether nobody wants the body any more. */
  #isDiscarded = false;
  /** How many bytes of body its reader takes; undefined while nobody reads it. */
  #maxBytes: number | undefined;
  /** Tells its reader that the body has come, is over `#maxBytes`, or that no more will come. */
  #wakeReader: (() => void) | undefined;
  /** Tells whoever waits for this request that its client is gone. */
  #onGone: (() => void) | undefined;

  get target(): string {
    return this.url ?? '';
  }

  get clientAddress(): string | undefined {
    return this.socket.remoteAddress;
  }

  /** Whether the connection can go on behind this request, and the client wants that. */
  get keepsAlive(): boolean {
    const canGoOn = this.response?.shouldKeepAlive === true && !this.#hasUpgrade;
    return this.complete && canGoOn && !this.#wantsClose;
  }

  /** Whether its body still comes, and somebody may want it: only then can the request fail. */
  get isArriving(): boolean {
    return !this.complete && !this.#isDiscarded;
  }

  readHead(): Head {
    const head = parseHead(this);
    this.#hasUpgrade = head.upgrade !== undefined;
    this.#wantsClose = head.connection !== undefined && closeOption.test(head.connection);
    this.#awaitsContinue = head.expect?.toLowerCase() === '100-continue';
    return head;
  }

  header(name: string): string | undefined {
    return headerOf(this.rawHeaders, name);
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
      this.discard();
      throw bodyTooLarge(maxBytes);
    }
    return this.#bytes?.toString('latin1', 0, this.#length) ?? '';
  }

  /** Gives the request up for an error, if it is still arriving. */
  fail(error: PetstoreError): void {
    if (!this.isArriving) return;
    this.failure = error;
    this.discard();
    this.#wakeReader?.();
  }

  onGone(callback: () => void): void {
    this.#onGone = callback;
    if (this.socket.destroyed || this.socket.readableEnded) callback();
  }

  /** Says that the client is gone, or has closed its side of the connection. */
  leave(): void {
    this.#onGone?.();
  }

  /** Lets go of what has come of the body and of what still will. */
  discard(): void {
    this.#isDiscarded = true;
    this.#bytes = undefined;
    this.#length = 0;
  }

  /** Takes in what comes of the body, and stops where that is more than is held or read. */
  protected override receive(chunk: Buffer | null): void {
    if (chunk !== null && !this.#isDiscarded) this.#append(chunk);

    if (this.#maxBytes === undefined) {
      if (this.#length > heldBytes) this.socket.pause();
    } else if (chunk === null || this.#length > this.#maxBytes) this.#wakeReader?.();
  }

  /** Puts a chunk behind what has come; the buffer is doubled where it is full. */
  #append(chunk: Buffer): void {
    const at = this.#length;
    this.#length += chunk.length;
    if (this.#bytes === undefined) this.#bytes = chunk;
    else if (this.#length <= this.#bytes.length) chunk.copy(this.#bytes, at);
    else this.#bytes = Buffer.concat([this.#bytes.subarray(0, at), chunk], 2 * this.#length);
  }
}
