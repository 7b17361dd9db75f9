/** The one error class, its codes, and functions that read anything that was thrown. */
import { inspect } from 'node:util';

/** The meaning of an error code for the response. */
interface CodeMeaning {
  /** The HTTP status code. */
  readonly status: number;

  /**
   * True if the connection must close, because the start of the next request is unknown (C29, C42
   * to C44).
   */
  readonly endsConnection?: true;
  /** True if the error is transient: the response has `Retry-After: 1` (C48, C57). */
  readonly isRetryable?: true;
}

/** The codes of an Error body (C50), with their meanings. */
export const errorCodes = Object.freeze({
  invalid_parameter: { status: 400 },
  invalid_json: { status: 400 },
  invalid_body: { status: 400 },
  bad_request: { status: 400, endsConnection: true },
  unauthorized: { status: 401 },
  forbidden: { status: 403 },
  not_found: { status: 404 },
  method_not_allowed: { status: 405 },
  request_timeout: { status: 408, endsConnection: true },
  idempotency_in_flight: { status: 409, isRetryable: true },
  content_too_large: { status: 413, endsConnection: true },
  unsupported_media_type: { status: 415 },
  expectation_failed: { status: 417 },
  idempotency_mismatch: { status: 422 },
  too_many_requests: { status: 429 },
  headers_too_large: { status: 431, endsConnection: true },
  internal_error: { status: 500 },
  not_implemented: { status: 501 },
  bad_gateway: { status: 502 },
  unavailable: { status: 503, isRetryable: true },
  gateway_timeout: { status: 504 },
} satisfies Record<string, CodeMeaning>);

/** Returns the meaning of a code; undefined if the code never occurs in an Error body. */
export function meaningOf(code: string): CodeMeaning | undefined {
  const codes: Readonly<Record<string, CodeMeaning>> = errorCodes;
  return Object.hasOwn(codes, code) ? codes[code] : undefined;
}

/** A code of an Error body (C50). */
export type ReplyErrorCode = keyof typeof errorCodes;

/**
 * All codes. Clients never get the codes of storages, which mean that the storage is damaged or a
 * copy differs (F3), is in use (F4), or cannot be created, read or written (F7).
 */
export type ErrorCode = ReplyErrorCode | 'storage_damaged' | 'storage_in_use' | 'storage_unusable';

/** Optional parts of a {@link PetstoreError}. */
export interface ErrorDetails {
  /** Header names and values of the response, alternating. */
  readonly headers?: readonly string[];
  /** The underlying error, which no client sees. */
  readonly cause?: unknown;
}

/**
 * A failure that a caller can act on. `code` is stable; `message` is for people and may change.
 * Frequent errors are made once, when their module is loaded, because the stack trace of a new
 * error costs more than the rest of the response.
 */
export class PetstoreError extends Error {
  override readonly name = 'PetstoreError';
  readonly code: ErrorCode;
  /** The HTTP status code; undefined for a code of storages. */
  readonly status: number | undefined;
  /** Header names and values of the response, alternating. */
  readonly headers: readonly string[];
  #body: string | undefined;

  /**
   * @param message A sentence for people; clients see it.
   * @throws TypeError if a header is not valid
   */
  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details);

    this.code = code;
    this.status = meaningOf(code)?.status;
    this.headers = Object.freeze(checkHeaders(details.headers ?? []));

    // Frozen, because requests share errors and a plugin's change would be sent unchecked.
    if (new.target === PetstoreError) Object.freeze(this);
  }

  /** Returns the Error body, a byte string of JSON. */
  get body(): string {
    const { code, message, status } = this;

    this.#body ??= Buffer.from(JSON.stringify({ code, message, status })).toString('latin1');
    return this.#body;
  }
}

const writtenByUs =
  /^(?:connection|keep-alive|content-length|content-type|cache-control|transfer-encoding|date)$/i;

/** The error for an idempotency key whose first use has not ended (C57). */
export const inFlight = new PetstoreError(
  'idempotency_in_flight',
  'The first request with this idempotency key is still in flight.',
);

/**
 * Returns a checked copy of an array of header names and values, alternating. It is in this module,
 * because errors check their own headers.
 * @throws TypeError if the value is not such an array (RFC 9110 sections 5.1 and 5.5), or if a
 * header could contradict one that the server writes.
 */
export function checkHeaders(headers: unknown): string[] {
  if (!Array.isArray(headers))
    throw new TypeError(
      `headers must be an array of names and values, alternating, not ${shortly(headers)}`,
    );

  const checked: string[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    const name: unknown = headers[i];
    const value: unknown = headers[i + 1];
    const isName = typeof name === 'string' && /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name);
    if (!isName || !isHeaderValue(value))
      throw new TypeError(
        `${shortly(name)} and ${shortly(value)} are not the name and the value of a header`,
      );

    if (writtenByUs.test(name)) throw new TypeError(`the server writes the header ${name} itself`);
    checked.push(name, value);
  }
  return checked;
}

/** Returns a value as one short line, for messages. */
export function shortly(value: unknown): string {
  return inspect(value, {
    depth: 0,
    breakLength: Infinity,
    maxStringLength: 60,
    maxArrayLength: 3,
  });
}

/**
 * True if a value is a valid header value (RFC 9110 section 5.5): one line of single-byte
 * characters.
 */
export function isHeaderValue(value: unknown): value is string {
  return typeof value === 'string' && /^[\t\x20-\x7e\x80-\xff]*$/.test(value);
}

/** True if a value is a PetstoreError. Never throws, even for a revoked proxy. */
export function isPetstoreError(thrown: unknown): thrown is PetstoreError {
  try {
    return thrown instanceof PetstoreError;
  } catch {
    return false;
  }
}

/** Returns the code of an error, such as `ENOENT`, or undefined. Never throws. */
export function codeOf(thrown: unknown): string | undefined {
  try {
    // Not by `instanceof`: under Jest, Node's errors are of another realm.
    const code: unknown = Object(thrown).code;
    return typeof code === 'string' ? code : undefined;
  } catch {
    return undefined;
  }
}

/** The flags of Node that allow what its permission model denies. */
const permissionFlags: Readonly<Record<string, string>> = {
  FileSystemRead: '--allow-fs-read',
  FileSystemWrite: '--allow-fs-write',
  ChildProcess: '--allow-child-process',
  WorkerThreads: '--allow-worker',
  Net: '--allow-net',
};

/** Returns the reason, with a hint, if Node's permission model denied an access; else undefined. */
export function denialOf(thrown: unknown): string | undefined {
  if (codeOf(thrown) !== 'ERR_ACCESS_DENIED' || !(thrown instanceof Error)) return undefined;

  const permission = 'permission' in thrown ? thrown.permission : undefined;
  const resource = 'resource' in thrown ? thrown.resource : undefined;
  const what = typeof resource === 'string' && resource !== '' ? `access to ${resource}` : 'it';
  // If the error does not name the permission, its message may name the flag.
  const flag = permissionFlags[String(permission)] ?? /--allow-[a-z-]+/.exec(thrown.message)?.[0];
  // The permission model disables some functions, such as fsync, whatever the flags.
  const hint =
    flag === undefined
      ? `${thrown.message.replace(/\.$/, '')}; start Node without --permission`
      : `start Node with ${flag}`;
  return `Node's permission model denies ${what}: ${hint}`;
}

/** Returns the message of anything that was thrown, in one line. Never throws. */
export function reasonOf(thrown: unknown): string {
  try {
    const denial = denialOf(thrown);
    if (denial !== undefined) return denial;

    // Connecting to a host with several addresses fails once per address.
    if (thrown instanceof AggregateError) return thrown.errors.map(reasonOf).join(', ');

    const message: unknown = thrown instanceof Error ? thrown.message : thrown;
    return (typeof message === 'string' ? message : inspect(message)).split('\n', 1)[0] ?? '';
  } catch {
    return 'an error that cannot be read';
  }
}

/** Returns anything that was thrown, with its stack and causes. Never throws. */
export function detailOf(thrown: unknown): string {
  try {
    return inspect(thrown);
  } catch {
    return reasonOf(thrown);
  }
}
