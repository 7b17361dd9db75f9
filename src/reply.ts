/** A reply as a plain value, and the reply to each error. */
import { checkHeaders, PetstoreError } from './errors.js';
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
   * The header Content-Type. JSON, and what says `utf-8`, must be UTF-8. @defaultValue
   * `application/json`
   */
  readonly contentType?: string;
  /** The header Cache-Control. @defaultValue `no-store` (C47) */
  readonly cacheControl?: string;
  /** Whether the connection must end after this answer. */
  readonly closes?: boolean;
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
 * A reply with a JSON body, given as a byte string. @throws TypeError for what is none, as a
 * storage may answer.
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

/** After these nobody can tell where the next request begins (C29, C42 to C44). */
const closing = new Set<string>([
  'bad_request',
  'request_timeout',
  'content_too_large',
  'headers_too_large',
]);
/** What time may mend is tried again after one second (C48, C57). */
const passing = new Set<string>(['idempotency_in_flight', 'unavailable']);

/** The reply to an error. */
export function replyTo({ code, status = 500, headers, body }: PetstoreError): Reply {
  const allHeaders = passing.has(code) ? [...headers, 'Retry-After', '1'] : headers;
  return { status, headers: allHeaders, body: asByteString(body), closes: closing.has(code) };
}

/**
 * The reply to an error of whatever making. @throws what its members throw; TypeError where they
 * make no reply.
 */
export function checkedReplyTo(error: PetstoreError): Reply {
  const reply = replyTo(error);
  // Our own were checked as they were made, and cannot change.
  const isOurs = Object.getPrototypeOf(error) === PetstoreError.prototype && Object.isFrozen(error);
  return isOurs ? reply : checkReply(reply);
}

/** For a failure that is ours (C49). */
export const internalErrorReply = replyTo(
  new PetstoreError('internal_error', 'Something went wrong on our side.'),
);

/** The reply with its links moved from `/v1` to another path (C56). */
export function withLinksBelow(basePath: string, reply: Reply): Reply {
  const isLink = (name: string | undefined) => name === 'Location' || name === 'Link';
  if (basePath === '/v1' || !reply.headers.some(isLink)) return reply;
  const moved = (text: string) =>
    text.replace(/(^|<)\/v1(?=\/)/g, (_, before: string) => before + basePath);
  const headers = reply.headers.map((text, at) =>
    at % 2 === 1 && isLink(reply.headers[at - 1]) ? moved(text) : text,
  );
  return { ...reply, headers };
}

function checkBody(body: unknown): void {
  if (typeof body !== 'string' && !(body instanceof Pieces))
    throw new TypeError('the body of a reply must be a byte string');
}

/** A copy of what a plugin may change later. @throws TypeError where it is no reply. */
export function checkReply(reply: Reply): Reply {
  const checked = { ...reply };
  const { status, headers, body, contentType = '', cacheControl = '' }: Partial<Reply> = checked;
  if (!Number.isInteger(status) || !Array.isArray(headers) || status < 200 || status > 599)
    throw new TypeError('a handler must answer a reply with status and headers');
  // Under other names, for `headers` must not have their own.
  checked.headers = [...headers];
  checkHeaders([...checked.headers, 'Type', contentType, 'Caching', cacheControl]);
  if (body === undefined) return checked;
  checkBody(body);
  if (
    typeof body === 'string' &&
    (/^$|json|utf-8/i.test(contentType) ? !isUtf8String(body) : /[^\0-\xff]/.test(body))
  )
    throw new TypeError(
      'the body of a reply must be bytes of UTF-8: make them of a text by toByteString',
    );
  if (status === 204 || status === 205 || status === 304)
    throw new TypeError(`a ${status} has no body`);
  return checked;
}
