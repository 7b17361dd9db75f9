/** Replies: the plain values that become responses, the reply to an error, and their checks. */
import { checkHeaders, isHeaderValue, meaningOf, PetstoreError, shortly } from './errors.js';
import { asByteString, isUtf8String, toByteString, writeJson, type ByteString } from './json.js';

/** A response as a plain value. */
export interface Reply {
  /** The HTTP status code, from 200 to 599. */
  readonly status: number;
  /** Header names and values, alternating. */
  readonly headers: readonly string[];

  /** A byte string (see `toByteString`), or a long one in pieces; omitted for no body. */
  readonly body?: ByteString | Pieces;

  /**
   * The header Content-Type. A body of JSON, or of a type with `utf-8`, must be UTF-8.
   * @defaultValue `application/json`
   */
  readonly contentType?: string;

  /**
   * The header Cache-Control (C47).
   * @defaultValue `no-store`
   */
  readonly cacheControl?: string;
  /** True if the connection must close after this response. */
  readonly endsConnection?: boolean;

  /**
   * Breaks the connection: `drop` before the first byte of the response, `truncate` after half of
   * its body. `end` is as `truncate`, but ends the connection cleanly. Through `fetch`, the
   * request or the body rejects as after a network error.
   */
  readonly cut?: 'drop' | 'truncate' | 'end';

  /**
   * The time over which the body is sent, in milliseconds, from 0 to 30,000. The head is sent at
   * once.
   * @defaultValue 0
   */
  readonly dribbleMs?: number;
  /** True if this is the stored result of an idempotency key (C57). */
  readonly isReplay?: boolean;
}

/**
 * A reply that is made once for many requests, so that its bytes can be cached. A copy, such as
 * `{ ...shared, headers }`, belongs to one request and is not cached.
 */
export class SharedResponse implements Reply {
  declare readonly status: number;
  declare readonly headers: readonly string[];

  constructor(reply: Reply) {
    Object.assign(this, reply);
    // Frozen, because plugins share this object.
    Object.freeze(this);
    Object.freeze(this.headers);
  }
}

/**
 * A long byte string in parts. They are joined only when they are sent, so that a client that does
 * not read costs no copy (C55).
 */
export class Pieces {
  readonly parts: readonly ByteString[];
  /** The length in bytes. */
  readonly length: number;

  constructor(parts: readonly ByteString[]) {
    this.parts = Object.freeze([...parts]);
    this.length = parts.reduce((bytes, part) => bytes + part.length, 0);
    // Frozen, because plugins share this object through cached pages.
    Object.freeze(this);
  }

  toString(): ByteString {
    return asByteString(this.parts.join(''));
  }
}

/**
 * Returns a reply with a JSON body, given as a byte string.
 * @throws TypeError if the body is not a byte string, because a storage may return anything
 */
export function jsonReply(
  status: number,
  body: ByteString | Pieces,
  headers: readonly string[] = [],
): Reply {
  checkBody(body);

  return { status, headers, body };
}

/** Returns a reply without a body. */
export function emptyReply(status: number, headers: readonly string[]): Reply {
  return { status, headers };
}

/**
 * Returns the reply to an error. Code that rejects a request throws a PetstoreError; `handle` in
 * request-service.ts catches it and calls this function.
 *
 * Two frequent rejections are replies that are made once and returned instead, because throwing
 * would cost 18 % of a 401 and 11 % of a 404 (`make bench PARTS=before`): the 401 of auth.ts and
 * the 404 of operations.ts for an unknown id.
 * @throws TypeError if the error is of a plugin's own class and makes no valid reply
 */
export function replyTo(error: PetstoreError): Reply {
  const { code, status = 500, headers, body } = error;

  // Errors of our own class were checked when they were made, and are frozen.
  const isOurs = Object.getPrototypeOf(error) === PetstoreError.prototype && Object.isFrozen(error);
  const checked = isOurs ? headers : checkHeaders(headers);

  const meaning = meaningOf(code);
  // An error may have its own Retry-After, and two values would not be valid.
  const hasRetryAfter = checked.some(
    (text, at) => at % 2 === 0 && text.toLowerCase() === 'retry-after',
  );
  const reply = {
    status,
    headers: meaning?.isRetryable && !hasRetryAfter ? [...checked, 'Retry-After', '1'] : checked,
    body: asByteString(body),
    endsConnection: meaning?.endsConnection === true,
  };
  return isOurs ? reply : checkReply(reply);
}

/** Header names and values: a plain object, `Headers`, or an array in which they alternate. */
export type HeaderValues = Readonly<Record<string, string>> | Headers | readonly string[];

/** The result of a plugin's handler: a reply, or the platform's `Response`. */
export type HandlerResult = Reply | Response;

/**
 * Returns a reply with `value` as JSON. It is written as by `JSON.stringify`, but a bigint becomes
 * an integer.
 * @throws TypeError if the value has no JSON, a bigint is not an int64, or a header is not valid.
 */
export function json(
  value: unknown,
  { status = 200, headers = {} }: { status?: number; headers?: HeaderValues } = {},
): Reply {
  return jsonReply(status, toByteString(writeJson(value)), headerList(headers));
}

/**
 * Returns header names and values, alternating.
 * @throws TypeError if they are not valid, or if one would frame the response.
 */
export function headerList(headers: unknown): string[] {
  if (Array.isArray(headers)) return checkHeaders(headers);

  if (headers instanceof Headers) return checkHeaders([...headers].flat());
  if (isPlainObject(headers)) return checkHeaders(Object.entries(headers).flat());
  throw new TypeError(
    'headers must be an object of names and values, or an array in which they alternate, ' +
      `not ${shortly(headers)}`,
  );
}

function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** Headers of a `Response` that are members of a reply, or that the server writes. */
const separateHeaders =
  /^(?:connection|content-length|content-type|cache-control|date|keep-alive|transfer-encoding)$/;

/**
 * Converts the result of a handler to a reply. A `Response` is read to its end.
 * @throws TypeError if the body of a `Response` was used.
 */
export async function replyOf(result: HandlerResult): Promise<Reply> {
  if (!isResponse(result)) return result;

  const { status, headers } = result;
  const contentType = headers.get('content-type') ?? 'application/octet-stream';
  const cacheControl = headers.get('cache-control');
  const body =
    result.body === null ? undefined : Buffer.from(await result.arrayBuffer()).toString('latin1');
  const isDecoded = hasDecodedBody(result);
  const kept = [...headers].filter(
    ([name]) => !separateHeaders.test(name) && !(isDecoded && name === 'content-encoding'),
  );
  return {
    status,
    headers: kept.flat(),
    ...(body !== undefined && { body: asByteString(body), contentType }),
    ...(cacheControl !== null && { cacheControl }),
  };
}

/**
 * True if `fetch` has decoded the body. Only `fetch` sets `url`, and it decodes at least these
 * codings.
 */
function hasDecodedBody({ url, headers }: Response): boolean {
  const codings = headers.get('content-encoding') ?? '';
  return Boolean(url) && /^(?:(?:x-)?gzip|deflate|br|[ ,])+$/i.test(codings);
}

/** True if the value is a `Response`, also of another realm, as under Jest. */
function isResponse(value: HandlerResult): value is Response {
  return typeof Object(value).arrayBuffer === 'function';
}

/** True if `reply` has the members of `other` and no more. */
export function isSameReply(reply: Reply, other: Reply): boolean {
  const members: Readonly<Record<string, unknown>> = { ...reply };
  const others: Readonly<Record<string, unknown>> = { ...other };
  const names = Object.keys(members);
  return (
    names.length === Object.keys(others).length &&
    names.every((name) => name === 'headers' || members[name] === others[name]) &&
    Array.isArray(reply.headers) &&
    reply.headers.length === other.headers.length &&
    reply.headers.every((text, index) => text === other.headers[index])
  );
}

/** The reply to an error in this program (C49). */
export const internalErrorReply = replyTo(
  new PetstoreError('internal_error', 'The server failed; its log has the reason.'),
);

/** Returns the reply with `/v1` replaced by `basePath` in its links (C56). */
export function withLinksBelow(basePath: string, reply: Reply): Reply {
  const { headers } = reply;

  // In any letter case, because the names of a `Response` are in lowercase.
  const isLink = (name = '') => /^(?:location|link)$/i.test(name);
  if (basePath === '/v1' || !headers.some(isLink)) return reply;

  const moved = headers.map((text, at) =>
    at % 2 === 1 && isLink(headers[at - 1]) ? linkBelow(basePath, text) : text,
  );

  return { ...reply, headers: moved };
}

/** Replaces `/v1` by `basePath` in a path, or in paths in angle brackets. */
export function linkBelow(basePath: string, link: string): string {
  return link.replace(/(?<=^|<)\/v1(?=\/)/g, () => basePath);
}

/** The longest time over which a body is sent on purpose. */
const longestDribbleMs = 30_000;

/**
 * Returns a checked copy of a plugin's reply, because the plugin may change its own later.
 * @param source The function of the plugin that returned the reply, for messages.
 * @param known A checked reply; a body that is the same as its body is not checked again.
 * @throws TypeError if it is not a reply.
 */
export function checkReply(reply: Reply, source = 'a handler', known?: Reply): Reply {
  const checked = { ...reply };
  const { status, headers, body, contentType = '', cacheControl = '' }: Partial<Reply> = checked;
  if (!Number.isInteger(status) || !Array.isArray(headers) || status < 200 || status > 599)
    throw new TypeError(
      `${source} must return a reply, with a status from 200 to 599 and an array of headers, ` +
        `not ${shortly(reply)}`,
    );

  checked.headers = checkHeaders(headers);
  if (!isHeaderValue(contentType) || !isHeaderValue(cacheControl))
    throw new TypeError('contentType and cacheControl of a reply must be values of a header');

  for (const name of ['endsConnection', 'isReplay'] as const)
    if (![undefined, true, false].includes(checked[name]))
      throw new TypeError(`${name} of a reply must be true or false`);

  if (![undefined, 'drop', 'truncate', 'end'].includes(checked.cut))
    throw new TypeError('the member `cut` of a reply must be `drop`, `truncate` or `end`');

  const { dribbleMs = 0 } = checked;
  if (!(Number.isInteger(dribbleMs) && dribbleMs >= 0 && dribbleMs <= longestDribbleMs))
    throw new TypeError(`dribbleMs of a reply must be an integer from 0 to ${longestDribbleMs}`);

  if (body === undefined) return checked;

  if (body !== known?.body || contentType !== (known?.contentType ?? ''))
    checkBodyOf(contentType, body);
  if (status === 204 || status === 205 || status === 304)
    throw new TypeError(`a ${status} has no body`);

  return checked;
}

/** @throws TypeError if the body is not bytes of this type. */
function checkBodyOf(contentType: string, body: unknown): void {
  checkBody(body);

  const isUtf8 = /^$|json|utf-8/i.test(contentType);
  if (typeof body === 'string' && (isUtf8 ? !isUtf8String(body) : /[^\0-\xff]/.test(body)))
    throw new TypeError(
      'the body of a reply must be bytes of UTF-8: make them of a text by toByteString',
    );
}

function checkBody(body: unknown): void {
  if (typeof body !== 'string' && !(body instanceof Pieces))
    throw new TypeError('the body of a reply must be a byte string');
}
