/**
 * A request that another server or a framework hands over (C69). What its middleware changed
 * counts. Mocks of tests and of serverless platforms have less than Node's request, so every member
 * is optional.
 */
import { performance } from 'node:perf_hooks';
import { Readable } from 'node:stream';
import { PetstoreError } from '../errors.js';
import { bodyTooLarge, type Message } from '../request.js';
import { readAll, readAndDestroy, type Ending } from './body.js';
import {
  checkFraming,
  checkSize,
  checkTarget,
  headerOf,
  headFields,
  headOf,
  type Head,
} from './head.js';
import { mountOf, type Mount, type MountedRequest } from './mount.js';

/** What the petstore uses of the host's request. */
export interface HostRequest extends MountedRequest {
  readonly method?: string | undefined;
  readonly httpVersion?: string | undefined;
  /** By names in lowercase; a mock may write them as it likes. */
  readonly headers?: Readonly<Record<string, unknown>> | null | undefined;
  /** As the client sent them, which shows repeated ones; a mock may have none. */
  readonly rawHeaders?: readonly string[] | undefined;
  readonly socket?: { readonly remoteAddress?: string | undefined } | null | undefined;
  /** The bytes of the body, kept by a body parser's `verify` or by the platform. */
  readonly rawBody?: unknown;
  /** What a body parser made of the body, or all of it on a mock. */
  readonly body?: unknown;
  readonly readableEnded?: boolean | undefined;
  readonly readableDidRead?: boolean | undefined;
  readonly readableEncoding?: string | null | undefined;
}

/** What tells a request that its response has ended. A mock may not. */
export interface HostEnding extends Ending {
  readonly destroyed?: boolean | undefined;
}

const bodyTaken =
  'the body was read before the petstore: mount the petstore before any body parser and any ' +
  'setEncoding, or keep the bytes as request.rawBody, such as by express.json({ verify: ' +
  '(request, response, bytes) => { request.rawBody = bytes } })';

/** A request of the host, as the petstore sees it. */
export class GuestRequest implements Message {
  readonly method: string;
  readonly target: string;
  readonly mountPath: Mount['mountPath'];
  readonly lacksSlash: boolean;
  readonly startedAt = performance.now();
  resetsBefore: number;

  /** The mistake of the host for which its body cannot be read. */
  mistake: TypeError | undefined;

  readonly #request: HostRequest;
  readonly #response: HostEnding;

  // Frameworks put the target back once the handler has returned, so it is read at once.
  constructor(request: HostRequest, response: HostEnding, resetsBefore: number) {
    this.resetsBefore = resetsBefore;
    this.#request = request;
    this.#response = response;
    this.method = request.method ?? '';
    const { url = '', baseUrl, originalUrl } = request;
    // Some frameworks leave only the query if the client asks for the mount path itself.
    this.target = url.startsWith('?') ? `/${url}` : url;
    const { mountPath, lacksSlash } = mountOf({ url: this.target, baseUrl, originalUrl });
    this.mountPath = mountPath;
    this.lacksSlash = lacksSlash;
  }

  get clientAddress(): string | undefined {
    return this.#request.socket?.remoteAddress;
  }

  onGone(callback: () => void): void {
    if (this.#response.destroyed === true) callback();
    else this.#response.on?.('close', callback);
  }

  /** Checks what the client sent, and reads what the host's middleware has left of it. */
  readHead(): Head {
    const { httpVersion = '1.1' } = this.#request;
    const sent = this.#sent();
    checkSize(this.target, sent);
    checkTarget(this.target);
    const sentHead = headOf(sent);
    // A mock was sent by nobody, and Node frames HTTP/2 itself.
    if (sent.length > 0 && httpVersion !== '2.0') checkFraming(httpVersion, sentHead);

    const headers = named(this.#request, sent);
    const head: Head = {};
    for (const [name, field] of headFields) {
      const value = textOf(headers[name]);
      if (value !== undefined) head[field] = allValues(value, sentHead[field], name, sent);
    }
    if (httpVersion === '1.0') delete head.expect;
    return head;
  }

  header(name: string): string | undefined {
    const sent = this.#sent();
    const value = textOf(named(this.#request, sent)[name]);
    return value === undefined ? value : allValues(value, headerOf(sent, name), name, sent);
  }

  async readBody(maxBytes: number): Promise<string> {
    const response = this.#response;
    if (response.destroyed === true)
      throw new PetstoreError('bad_request', 'The request ended before its body was read.');

    const body = this.#body();
    if (typeof body === 'string' || body instanceof Uint8Array) {
      if (Buffer.byteLength(body) > maxBytes) throw bodyTooLarge(maxBytes);
      return Buffer.from(body).toString('latin1');
    }
    // If the host responds first, or the client goes after that, Node's stream never ends.
    if (body instanceof Readable) return readAll(body, maxBytes, response);
    return readAndDestroy(() => Readable.from(body), maxBytes, response);
  }

  /** @throws TypeError if a body parser has read the body and kept no bytes of it */
  #body(): string | Uint8Array | AsyncIterable<unknown> {
    const request = this.#request;
    const { rawBody, body, readableDidRead, readableEnded, readableEncoding } = request;
    if (rawBody instanceof Uint8Array || typeof rawBody === 'string') return rawBody;

    const isUnread = readableDidRead !== true && typeof readableEncoding !== 'string';
    if (isUnread && readableEnded !== true && request instanceof Readable) return request;
    if (body instanceof Uint8Array) return body;

    if (isUnread) {
      // The stream is empty, or the request is a mock with its body in another place.
      if (typeof body === 'string' || isAsyncIterable(body)) return body;
      const isParsed = Object.keys(Object(body)).length > 0;
      if (!isParsed) return readableEnded !== true && isAsyncIterable(request) ? request : '';
    }
    this.mistake = new TypeError(bodyTaken);
    throw this.mistake;
  }

  /** The headers as the client sent them, names and values alternating; none on a mock. */
  #sent(): readonly string[] {
    const { rawHeaders } = this.#request;
    const isList = Array.isArray(rawHeaders) && rawHeaders.every(isText);
    return isList ? rawHeaders : [];
  }
}

/** The headers by their names in lowercase, which a mock may write in any case. */
function named(request: HostRequest, sent: readonly string[]): Readonly<Record<string, unknown>> {
  const headers = request.headers ?? {};
  if (sent.length > 0) return headers;
  const lower = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
  return { ...Object.fromEntries(lower), ...headers };
}

/** The text of a header's value, which middleware or a mock may give as a number or a list. */
function textOf(value: unknown): string | undefined {
  if (typeof value === 'string' || value === undefined) return value;
  if (value === null) return undefined;
  return Array.isArray(value) ? value.join(', ') : String(value);
}

/**
 * Returns all values of a header, joined by `, `. Node drops all but the first value of some
 * headers, such as Authorization: only the headers as they were sent show that there were more.
 *
 * @param value - Its value by `headers`, which counts if it is not the first one that was sent.
 * @param sentValues - All values that were sent, joined.
 */
function allValues(
  value: string,
  sentValues: string | undefined,
  name: string,
  rawHeaders: readonly string[],
): string {
  if (sentValues === undefined || value === sentValues) return value;
  const isName = (text: string, at: number) => at % 2 === 0 && text.toLowerCase() === name;
  const first = rawHeaders.findIndex(isName);
  const hasMore = rawHeaders.some((text, at) => at > first && isName(text, at));
  return hasMore && rawHeaders[first + 1] === value ? sentValues : value;
}

const isText = (value: unknown): boolean => typeof value === 'string';

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}
