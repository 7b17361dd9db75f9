/** The error class that callers act on, its codes, and the way to read whatever was thrown. */
import { inspect } from 'node:util';

/** The HTTP status of every code of an Error body (C50). */
export const statuses = {
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
} as const;

/** A code of an Error body (C50). */
export type ReplyErrorCode = keyof typeof statuses;

/**
 * Every code. A storage is damaged (F3), or its copy differs; in use (F4); or cannot be made, read
 * or written (F7).
 */
export type ErrorCode = ReplyErrorCode | 'storage_damaged' | 'storage_in_use' | 'storage_unusable';

/** What else a {@link PetstoreError} may carry. */
export interface ErrorDetails {
  /** Header names and values of the answer, alternating. */
  readonly headers?: readonly string[];
  /** What went wrong underneath; no client sees it. */
  readonly cause?: unknown;
}

// Errors that requests cause often are made once, at load: a stack trace costs more than the rest
// of the answer.

/**
 * The one failure that a caller can act on: `code` is stable, `message` is for people and may
 * change.
 */
export class PetstoreError extends Error {
  override readonly name = 'PetstoreError';
  /** Which failure it is. */
  readonly code: ErrorCode;
  /** The HTTP status; undefined where no client sees the code. */
  readonly status: number | undefined;
  /** Header names and values, alternating; empty for most. */
  readonly headers: readonly string[];
  #body: string | undefined;

  /**
   * @param message A sentence for people, the client's included. @throws TypeError for headers that
   * are none.
   */
  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details);
    this.code = code;
    const statusOf: Readonly<Partial<Record<ErrorCode, number>>> = statuses;
    this.status = Object.hasOwn(statuses, code) ? statusOf[code] : undefined;
    this.headers = Object.freeze([...(details.headers ?? [])]);
    checkHeaders(this.headers);
    // Many are made once, for all petstores: what a plugin changes would be sent unchecked.
    if (new.target === PetstoreError) Object.freeze(this);
  }

  /** The Error body, a byte string of JSON. */
  get body(): string {
    const { code, message, status } = this;
    this.#body ??= Buffer.from(JSON.stringify({ code, message, status })).toString('latin1');
    return this.#body;
  }
}

const writtenByUs =
  /^(?:connection|keep-alive|content-length|content-type|cache-control|transfer-encoding|date)$/i;

/**
 * @throws TypeError for what is no header (RFC 9110 sections 5.1 and 5.5), or could contradict one
 * that we write.
 */
export function checkHeaders(headers: readonly unknown[]): void {
  for (let i = 0; i < headers.length; i += 2) {
    const [name, value] = [headers[i], headers[i + 1]];
    const isName = typeof name === 'string' && /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name);
    if (!isName || typeof value !== 'string' || !/^[\t\x20-\x7e\x80-\xff]*$/.test(value))
      throw new TypeError(
        `headers must be names and values, alternating: ${inspect(name)} and its value are none`,
      );
    if (writtenByUs.test(name))
      throw new TypeError(`the header ${name} is written where the reply is sent`);
  }
}

/** Whether it was thrown by the petstore. Never throws: of a revoked proxy nothing can be asked. */
export function isPetstoreError(thrown: unknown): thrown is PetstoreError {
  try {
    return thrown instanceof PetstoreError;
  } catch {
    return false;
  }
}

/** The code of whatever was thrown, such as `ENOENT`; undefined where it has none. Never throws. */
export function codeOf(thrown: unknown): string | undefined {
  try {
    return thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'string'
      ? thrown.code
      : undefined;
  } catch {
    return undefined;
  }
}

/** Whatever was thrown in one line. Never throws. */
export function reasonOf(thrown: unknown): string {
  try {
    // Of a host with several addresses, one for each.
    if (thrown instanceof AggregateError) return thrown.errors.map(reasonOf).join(', ');
    const said: unknown = thrown instanceof Error ? String(thrown.message) : thrown;
    return (typeof said === 'string' ? said : inspect(said)).split('\n', 1)[0] ?? '';
  } catch {
    return 'an error that cannot be read';
  }
}

/** Whatever was thrown, stack and causes included. Never throws. */
export function detailOf(thrown: unknown): string {
  try {
    return inspect(thrown);
  } catch {
    return reasonOf(thrown);
  }
}
