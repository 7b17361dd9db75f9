/**
 * A request that another server or a framework passes to `handler` (C69, C70). The petstore sees it
 * as middleware has changed it.
 */
import { performance } from 'node:perf_hooks';
import { Readable } from 'node:stream';
import { PetstoreError } from '../errors.js';
import { bodyTooLarge, type Message } from '../request.js';
import { readAll, readAndDestroy, readArrived, type CloseEmitter } from './body.js';
import {
  checkFraming,
  checkSize,
  checkTarget,
  headerValue,
  headMembers,
  toHead,
  type Head,
} from './head.js';
import { mountOf, type Mount, type MountedRequest } from './mount.js';

/**
 * The members of the host's request that the petstore uses. All are optional, because mocks of
 * tests and serverless platforms have fewer than Node's request.
 */
export interface HostRequest extends MountedRequest {
  readonly method?: string | undefined;
  readonly httpVersion?: string | undefined;
  /** By lowercase names; a mock may use any case. */
  readonly headers?: Readonly<Record<string, unknown>> | null | undefined;
  /** Alternating names and values, as the client sent them; a mock may have none. */
  readonly rawHeaders?: readonly string[] | undefined;
  readonly socket?: { readonly remoteAddress?: string | undefined } | null | undefined;
  /** The bytes of the body, if the platform or the `verify` of a body parser stored them. */
  readonly rawBody?: unknown;
  /** The result of a body parser; on a mock, the body itself. */
  readonly body?: unknown;
  readonly readableEnded?: boolean | undefined;
  readonly readableDidRead?: boolean | undefined;
  readonly readableEncoding?: string | null | undefined;
}

/** The members of the host's response that tell if the request has ended. */
export interface HostResponse extends CloseEmitter {
  readonly destroyed?: boolean | undefined;
}

const bodyReadBefore =
  'the body was read before the petstore: mount the petstore before any body parser and any ' +
  'setEncoding, or keep the bytes as request.rawBody, such as by express.json({ verify: ' +
  '(request, response, bytes) => { request.rawBody = bytes } })';

/** A request of a host, as the petstore sees it. */
export class GuestRequest implements Message {
  readonly method: string;
  readonly target: string;
  readonly mountPath: Mount['mountPath'];
  readonly lacksSlash: boolean;
  readonly startedAt = performance.now();
  resetsBefore: number;

  /** The error of the host's code because of which the body cannot be read. */
  mistake: TypeError | undefined;

  readonly #request: HostRequest;
  readonly #response: HostResponse;

  // The target is read at once, because frameworks restore it after the handler has returned.
  constructor(request: HostRequest, response: HostResponse, resetsBefore: number) {
    this.resetsBefore = resetsBefore;
    this.#request = request;
    this.#response = response;
    this.method = request.method ?? '';
    const { url = '', baseUrl, originalUrl } = request;
    // For a request of the mount path itself, some frameworks leave only the query.
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

  /** Checks the headers as the client sent them, and reads them as the middleware left them. */
  readHead(): Head {
    const { httpVersion = '1.1' } = this.#request;
    const sent = this.#sentHeaders();
    checkSize(this.target, sent);
    checkTarget(this.target);
    const sentHead = toHead(sent);
    // A mock has no framing, and Node checks the framing of HTTP/2.
    if (sent.length > 0 && httpVersion !== '2.0') checkFraming(httpVersion, sentHead);

    const headers = headersByName(this.#request, sent);
    const head: Head = { ...sentHead };
    for (const [name, member] of headMembers) {
      const value = headers[name];
      // Usually no middleware has changed it.
      if (value === sentHead[member]) continue;
      const text = toHeaderText(value);
      if (text === undefined) delete head[member];
      else head[member] = allValues(text, sentHead[member], name, sent);
    }
    if (httpVersion === '1.0') delete head.expect;
    return head;
  }

  header(name: string): string | undefined {
    const sent = this.#sentHeaders();
    const value = toHeaderText(headersByName(this.#request, sent)[name]);
    return value === undefined ? value : allValues(value, headerValue(sent, name), name, sent);
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
    // The stream never ends if the host responds first, or if the client leaves after that. The
    // `close` of the response ends the reading.
    if (body instanceof Readable) {
      const length = this.#request.headers?.['content-length'];
      return readArrived(body, maxBytes, length) ?? readAll(body, maxBytes, response);
    }
    return readAndDestroy(() => Readable.from(body), maxBytes, response);
  }

  /**
   * Returns the body, from where the host has it.
   * @throws TypeError if a body parser has read the body and stored no bytes of it
   */
  #body(): string | Uint8Array | AsyncIterable<unknown> {
    const request = this.#request;
    const { rawBody, body, readableDidRead, readableEnded, readableEncoding } = request;
    if (rawBody instanceof Uint8Array || typeof rawBody === 'string') return rawBody;

    const isUnread = readableDidRead !== true && typeof readableEncoding !== 'string';
    if (isUnread && readableEnded !== true && request instanceof Readable) return request;
    if (body instanceof Uint8Array) return body;

    if (isUnread) {
      // The stream is empty, or the request is a mock with its body in `body`.
      if (typeof body === 'string' || isAsyncIterable(body)) return body;
      const isParsed = Object.keys(Object(body)).length > 0;
      if (!isParsed) return readableEnded !== true && isAsyncIterable(request) ? request : '';
    }
    this.mistake = new TypeError(bodyReadBefore);
    throw this.mistake;
  }

  /** Returns alternating names and values as the client sent them; none for a mock. */
  #sentHeaders(): readonly string[] {
    const { rawHeaders } = this.#request;
    const isList = Array.isArray(rawHeaders) && rawHeaders.every(isText);
    return isList ? rawHeaders : [];
  }
}

/** Returns the headers by lowercase names. Those of a mock may be in any case. */
function headersByName(
  request: HostRequest,
  sent: readonly string[],
): Readonly<Record<string, unknown>> {
  const headers = request.headers ?? {};
  if (sent.length > 0) return headers;
  const lower = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
  return { ...Object.fromEntries(lower), ...headers };
}

/** Returns a header as text. Middleware or a mock may have set a number or an array. */
function toHeaderText(value: unknown): string | undefined {
  if (typeof value === 'string' || value === undefined) return value;
  if (value === null) return undefined;
  return Array.isArray(value) ? value.join(', ') : String(value);
}

/**
 * Returns all values of a header, joined by `, `. Of some headers, such as Authorization, Node
 * keeps only the first value in `headers`; the others are in `rawHeaders`.
 * @param value The value in `headers`. If it differs from the first one sent, middleware has
 * changed it, and it is returned.
 * @param sentValues All values that the client sent, joined.
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
