/** A reply as a plain value, the reply to each error, and the checks of what plugins reply. */
import { checkHeaders, isHeaderValue, meanings, PetstoreError, shortly } from './errors.js';
import { asByteString, isUtf8String, type ByteString } from './json.js';

/** What goes back to the client. */
export interface Reply {
  /** An HTTP status, from 200 to 599. */
  readonly status: number;
  /** Names and values, alternating. */
  readonly headers: readonly string[];

  /**
   * A byte string, which `toByteString` makes of a text, or a long one in pieces; absent for none.
   */
  readonly body?: ByteString | Pieces;

  /**
   * The header Content-Type. JSON, and what says `utf-8`, must be UTF-8.
   * @defaultValue `application/json`
   */
  readonly contentType?: string;

  /**
   * The header Cache-Control (C47).
   * @defaultValue `no-store`
   */
  readonly cacheControl?: string;
  /** Whether the connection must end after this answer. */
  readonly endsConnection?: boolean;

  /**
   * How the connection breaks in place of a whole answer: before its first byte, or after half of
   * its body. Through `fetch` the request rejects as for a network error.
   */
  readonly cut?: 'drop' | 'truncate';
}

/**
 * A response that many requests get, made once. Its bytes are kept as they were last sent. A copy
 * of it, such as `{ ...shared, headers }`, is a response of one request.
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
 * A long byte string, joined only as it is sent: a client that does not read it costs no copy
 * (C55).
 */
export class Pieces {
  readonly parts: readonly ByteString[];
  /** In bytes. */
  readonly length: number;

  constructor(parts: readonly ByteString[]) {
    this.parts = Object.freeze([...parts]);
    this.length = parts.reduce((bytes, part) => bytes + part.length, 0);
    // A kept page is handed to plugins with every reply that has it.
    Object.freeze(this);
  }

  toString(): ByteString {
    return asByteString(this.parts.join(''));
  }
}

/**
 * A reply with a JSON body, given as a byte string.
 * @throws TypeError for a body that is none, as a storage may answer.
 */
export function jsonReply(
  status: number,
  body: ByteString | Pieces,
  headers: readonly string[] = [],
): Reply {
  checkBody(body);

  return { status, headers, body };
}

/** A reply without a body. */
export function emptyReply(status: number, headers: readonly string[]): Reply {
  return { status, headers };
}

/**
 * The reply to an error. This is how an error becomes an answer: whatever refuses a request throws
 * a PetstoreError, and the function `answer` of petstore.ts, which catches it, makes the reply.
 *
 * Two refusals are replies that were made once and are returned, for they are the same for every
 * request and so common that throwing, up to a microsecond, would be 3 % of the answer: the 401 of
 * auth.ts and the 404 to the id of no animal, of operations.ts.
 * @throws what members of another's error throw; TypeError where they make no reply.
 */
export function replyTo(error: PetstoreError): Reply {
  const { code, status = 500, headers, body } = error;

  // Our own were checked as they were made, and cannot change.
  const isOurs = Object.getPrototypeOf(error) === PetstoreError.prototype && Object.isFrozen(error);
  const checked = isOurs ? headers : checkHeaders(headers);

  const meaning = meanings.get(code);
  const reply = {
    status,
    headers: meaning?.isRetryable ? [...checked, 'Retry-After', '1'] : checked,
    body: asByteString(body),
    endsConnection: meaning?.endsConnection === true,
  };
  return isOurs ? reply : checkReply(reply);
}

/** The reply to a failure that is ours (C49). */
export const internalErrorReply = replyTo(
  new PetstoreError('internal_error', 'Something went wrong on our side.'),
);

/** The reply with its links moved from `/v1` to another path (C56). */
export function withLinksBelow(basePath: string, reply: Reply): Reply {
  const { headers } = reply;

  const isLink = (name: string | undefined) => name === 'Location' || name === 'Link';
  if (basePath === '/v1' || !headers.some(isLink)) return reply;

  const moved = headers.map((text, at) =>
    at % 2 === 1 && isLink(headers[at - 1]) ? linkBelow(basePath, text) : text,
  );

  return { ...reply, headers: moved };
}

/** A path, or paths in angle brackets, moved from `/v1` to another path. */
export function linkBelow(basePath: string, link: string): string {
  return link.replace(/(?<=^|<)\/v1(?=\/)/g, () => basePath);
}

/**
 * Returns a checked copy of a reply of a plugin, which may change its own later.
 * @param source - The function of the plugin that returned the reply, for messages.
 * @throws TypeError if it is not a reply.
 */
export function checkReply(reply: Reply, source = 'a handler'): Reply {
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

  if (![undefined, true, false].includes(checked.endsConnection))
    throw new TypeError('endsConnection of a reply must be true or false');

  if (![undefined, 'drop', 'truncate'].includes(checked.cut))
    throw new TypeError('the cut of a reply must be drop or truncate');

  if (body === undefined) return checked;

  checkBody(body);

  const isUtf8 = /^$|json|utf-8/i.test(contentType);
  if (typeof body === 'string' && (isUtf8 ? !isUtf8String(body) : /[^\0-\xff]/.test(body)))
    throw new TypeError(
      'the body of a reply must be bytes of UTF-8: make them of a text by toByteString',
    );

  if (status === 204 || status === 205 || status === 304)
    throw new TypeError(`a ${status} has no body`);

  return checked;
}

function checkBody(body: unknown): void {
  if (typeof body !== 'string' && !(body instanceof Pieces))
    throw new TypeError('the body of a reply must be a byte string');
}
