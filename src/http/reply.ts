/** Owns the reply as a plain value, and the one table from error code to status. Knows no socket. */
import { PetstoreError, type ReplyErrorCode } from '../errors.js';
import { toByteString } from '../json.js';

/** What goes back to the client. */
export interface Reply {
  readonly status: number;
  /** Names and values, alternating; what every answer carries is added where it is sent. */
  readonly headers: readonly string[];
  /** A byte string; absent for an answer without a body. */
  readonly body?: string;
  /** @defaultValue `application/json` */
  readonly contentType?: string;
  /**
   * Whether the connection must end behind this answer. Where that comes by a promise, or to a request with a body, requests
   * that were sent right behind are carried out all the same.
   */
  readonly closes?: boolean;
  /** Whether this very object is answered many times and never changes, so that its bytes are worth keeping for a second. */
  readonly isKept?: boolean;
}

const statuses: Readonly<Record<ReplyErrorCode, number>> = {
  invalid_parameter: 400,
  invalid_json: 400,
  invalid_body: 400,
  bad_request: 400,
  unauthorized: 401,
  not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  idempotency_in_flight: 409,
  content_too_large: 413,
  unsupported_media_type: 415,
  expectation_failed: 417,
  idempotency_mismatch: 422,
  too_many_requests: 429,
  headers_too_large: 431,
  internal_error: 500,
  not_implemented: 501,
  unavailable: 503,
};

/** Behind these nobody can tell where the next request begins, or whether it was sent at all (C29, C42 to C44). */
const closing: ReadonlySet<string> = new Set(['bad_request', 'request_timeout', 'content_too_large', 'headers_too_large']);

/** What time alone may mend asks to be tried again after one second (C48). */
const passing: ReadonlySet<string> = new Set(['idempotency_in_flight', 'unavailable']);
const retryAfter: readonly string[] = ['Retry-After', '1'];

/** Every code that an Error body can have, in the order of C50. */
export const replyErrorCodes = Object.keys(statuses);

/** A reply with a JSON body, given as a byte string. */
export function jsonReply(status: number, body: string, headers: readonly string[] = []): Reply {
  return { status, headers, body };
}

/** A reply without a body. */
export function emptyReply(status: number, headers: readonly string[]): Reply {
  return { status, headers };
}

/** What frames a reply; a second one of them would make two ends of it. A reply that `closes` says so. */
const writtenByUs: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'content-length', 'content-type', 'transfer-encoding', 'date']);

/**
 * What a handler answered, unless it is no reply at all.
 * @throws TypeError for that, so that a plugin without types gets a 500 (C49) and breaks nobody else's answer.
 */
export function checkReply(reply: Reply): Reply {
  const isReply =
    Number.isInteger(reply?.status) && reply.status >= 200 && reply.status <= 599 && Array.isArray(reply.headers) && reply.headers.length % 2 === 0;
  if (!isReply) throw new TypeError('a handler must answer a reply with status and headers, names and values alternating');
  for (let i = 0; i < reply.headers.length; i += 2) {
    const [name, value]: unknown[] = [reply.headers[i], reply.headers[i + 1]];
    if (typeof name !== 'string' || typeof value !== 'string') throw new TypeError('the names and values of headers must be strings');
    if (writtenByUs.has(name.toLowerCase())) throw new TypeError(`a reply must not have the header ${name}: it is written where it is sent`);
  }
  if (reply.body !== undefined && typeof reply.body !== 'string') throw new TypeError('the body of a reply must be a byte string');
  if (reply.body !== undefined && (reply.status === 204 || reply.status === 304)) throw new TypeError(`a ${reply.status} has no body`);
  return reply;
}

/** The replies to errors, kept as long as those: some are made once and thrown again and again. */
const errorReplies = new WeakMap<PetstoreError, Reply>();

/** The Error body of the specification, with its status; undefined for an error that is not for clients (C49). */
export function errorReply(error: unknown): Reply | undefined {
  if (!(error instanceof PetstoreError) || !isReplyCode(error.code)) return undefined;
  const known = errorReplies.get(error);
  if (known !== undefined) return known;
  const reply = replyOf(error.code, error);
  // What is thrown once more was made once, to be thrown often.
  errorReplies.set(error, { ...reply, isKept: true });
  return reply;
}

function replyOf(code: ReplyErrorCode, { message, headers }: Pick<PetstoreError, 'message' | 'headers'>): Reply {
  const status = statuses[code];
  return {
    status,
    headers: passing.has(code) ? [...headers, ...retryAfter] : headers,
    body: toByteString(JSON.stringify({ code, message, status })),
    closes: closing.has(code),
  };
}

/** A reply to a failure that is no accident, made once: to throw an error costs more than the rest of such a reply. */
export function constantReply(code: ReplyErrorCode, message: string): Reply {
  return { ...replyOf(code, { message, headers: [] }), isKept: true };
}

/** What a client hears of a failure that is ours. */
export const internalErrorReply = constantReply('internal_error', 'Something went wrong on our side.');

function isReplyCode(code: string): code is ReplyErrorCode {
  return Object.hasOwn(statuses, code);
}
