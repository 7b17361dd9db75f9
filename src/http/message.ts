/** Owns the bytes of one exchange on Node's HTTP server: the request in, the reply out. Knows no route and no key. */
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http';
import { PetstoreError } from '../errors.js';
import { tooLarge } from './content.js';
import { sendAndDrain } from './drain.js';
import { joined, parseHead, type Head } from './head.js';
import { errorReply, type Reply } from './reply.js';
import { WholeRequest } from './whole-request.js';
import { WholeResponse } from './whole-response.js';
import { keptOpenHeaders, replyText, wireHeaders } from './wire.js';

/** A request as the pipeline sees it, from a socket or from `fetch`. */
export interface Message {
  readonly method: string;
  /** The request target, not normalised. */
  readonly target: string;
  /** Whether it waited so long for the server to come to it that it is refused. */
  readonly isOverdue: boolean;
  /** @throws PetstoreError `bad_request` or `headers_too_large`, see `parseHead`. */
  readHead(): Head;
  /** A header that the petstore itself doesn't read, by its name in lower case. */
  header(name: string): string | undefined;
  /**
   * The body as a byte string. Call it once, and only once the body is wanted: it answers `Expect: 100-continue` (C45).
   * @throws PetstoreError, at once or by the promise: `content_too_large` past `maxBytes`; `bad_request` where it breaks off or is no HTTP.
   */
  readBody(maxBytes: number): Promise<string>;
  /** Hears that the reply, which is still to come, will not end the connection: what came behind need not wait for it. */
  staysOpen(): void;
}

/** One request of a socket and the way back for its reply. */
export class Exchange implements Message {
  readonly method: string;
  readonly target: string;
  isOverdue = false;
  /** Whether its connection has brought another request behind it. */
  isFollowed = false;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #awaitsContinue: boolean;
  /** Why the rest of this request will never come; then that is its answer, whatever else it asked for. */
  #failure: PetstoreError | undefined;
  #rejectBody: ((error: PetstoreError) => void) | undefined;
  #isLast: boolean | undefined;
  #onSent: () => void = () => undefined;
  #onDecided: () => void = () => undefined;

  /** @param awaitsContinue Whether the client waits for a `100 Continue` that nobody has sent yet. */
  constructor(request: IncomingMessage, response: ServerResponse, awaitsContinue: boolean) {
    this.method = request.method ?? '';
    this.target = request.url ?? '';
    this.#request = request;
    this.#response = response;
    this.#awaitsContinue = awaitsContinue;
  }

  /** Whether all of it has come. */
  get isComplete(): boolean {
    return this.#request.complete;
  }

  /** Whether its reply ends the connection; undefined until that is known. */
  get isLast(): boolean | undefined {
    return this.#isLast;
  }

  readHead(): Head {
    const head = parseHead(this.#request);
    // Node's parser drops what the same packet brought behind it, so that nobody could tell where the next request begins.
    if (head.upgrade !== undefined) {
      this.#response.shouldKeepAlive = false;
      this.decide(true);
    }
    return head;
  }

  header(name: string): string | undefined {
    const { rawHeaders } = this.#request;
    let value: string | undefined;
    for (let i = 0; i < rawHeaders.length; i += 2) if (rawHeaders[i]?.toLowerCase() === name) value = joined(value, rawHeaders[i + 1] ?? '');
    return value;
  }

  staysOpen(): void {
    this.decide(false);
  }

  /** Says whether its reply ends the connection, as soon as that is known: nothing behind a last reply is carried out. */
  decide(isLast: boolean): void {
    this.#isLast ||= isLast;
    this.#onDecided();
  }

  /** Calls back once the reply has left, unless it is the connection's last. */
  onSent(callback: () => void): void {
    this.#onSent = callback;
  }

  /** Calls back once `isLast` is known. */
  onDecided(callback: () => void): void {
    this.#onDecided = callback;
  }

  /** Gives up a request that is not complete and not answered; false for any other. */
  fail(error: PetstoreError): boolean {
    if (this.#request.complete || this.#response.headersSent) return false;
    this.#failure ??= error;
    this.#rejectBody?.(error);
    return true;
  }

  readBody(maxBytes: number): Promise<string> {
    const request = this.#request;
    // Both would be waited for in vain: a body that a framework around us has read, and one whose client has gone.
    if (request.readableEnded) throw new TypeError('the body was read before the petstore could; mount it ahead of any body parser');
    if (request.destroyed) throw brokenOff();
    if (this.#awaitsContinue) this.#response.writeContinue();
    if (request instanceof WholeRequest && request.hasEnded) return Promise.resolve('');
    return new Promise((resolve, reject) => {
      let body = '';
      const onData = (chunk: Buffer): void => {
        body += chunk.toString('latin1');
        if (body.length > maxBytes) fail(tooLarge(maxBytes));
      };
      const onEnd = (): void => {
        stop();
        resolve(body);
      };
      const onClose = (): void => fail(brokenOff());
      const fail = (error: PetstoreError): void => {
        stop();
        reject(error);
      };
      const stop = (): void => {
        this.#rejectBody = undefined;
        request.off('data', onData).off('end', onEnd).off('close', onClose);
      };
      if (this.#failure !== undefined) return reject(this.#failure);
      this.#rejectBody = fail;
      request.on('data', onData).on('end', onEnd).on('close', onClose);
    });
  }

  /**
   * Writes the whole reply, and ends the connection where the reply or an unread body asks for it (C51), or where the
   * server stops and no request came behind this one. Answers the reply that was written, which is another one for a
   * request that has failed meanwhile.
   * @throws TypeError for a header that is none; then nothing was written.
   */
  send(reply: Reply, isStopping: boolean): Reply {
    const request = this.#request;
    const response = this.#response;
    const failed = this.#failure && errorReply(this.#failure);
    // It may be the reply already, with more headers.
    const actual = failed === undefined || failed.body === reply.body ? reply : failed;
    // A framework around us may have answered meanwhile, out of patience for one.
    if (response.headersSent || response.writableEnded) return actual;
    const isLast = actual.closes === true || !request.complete || !response.shouldKeepAlive || (isStopping && !this.isFollowed);
    if (response instanceof WholeResponse && response.isReady && !isLast) {
      response.sendWhole(actual.status, replyText(actual, this.method), this.#onSent);
      return actual;
    }
    const headers = wireHeaders(isLast ? { ...actual, closes: true } : actual);
    // Another server than ours says its own time.
    if (response instanceof WholeResponse && !isLast) headers.push(...keptOpenHeaders);
    // Its words again, or a second try would go out with those of a first that Node refused.
    response.writeHead(actual.status, STATUS_CODES[actual.status], headers);
    this.#isLast = isLast;
    // Before Node's own listener, as in `sendWhole`.
    if (!isLast) response.prependListener('finish', this.#onSent);
    const body = this.method === 'HEAD' ? undefined : actual.body;
    if (!request.complete && this.#failure === undefined) sendAndDrain(request, response, body);
    else if (body === undefined) response.end();
    else response.end(body, 'latin1');
    return actual;
  }
}

function brokenOff(): PetstoreError {
  return new PetstoreError('bad_request', 'The connection ended in the middle of the body.');
}
