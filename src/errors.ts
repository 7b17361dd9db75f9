/** Owns the one error class and the closed list of its codes; knows neither HTTP nor files. */
import { inspect } from 'node:util';

/** What a client reads in the `code` of an Error body (C50). Their statuses stand in `http/reply`. */
export type ReplyErrorCode =
  | 'invalid_parameter'
  | 'invalid_json'
  | 'invalid_body'
  | 'bad_request'
  | 'unauthorized'
  | 'not_found'
  | 'method_not_allowed'
  | 'request_timeout'
  | 'idempotency_in_flight'
  | 'content_too_large'
  | 'unsupported_media_type'
  | 'expectation_failed'
  | 'idempotency_mismatch'
  | 'too_many_requests'
  | 'headers_too_large'
  | 'internal_error'
  | 'not_implemented'
  | 'unavailable';

/**
 * What opening a storage rejects with; no client ever sees these.
 * `storage_damaged` (F3): the file holds what no crash explains. `storage_in_use` (F4): another process owns it.
 * `storage_unusable` (F7): it cannot be created, read or written.
 */
export type StorageErrorCode = 'storage_damaged' | 'storage_in_use' | 'storage_unusable';

/** Every code that a {@link PetstoreError} can have. */
export type ErrorCode = ReplyErrorCode | StorageErrorCode;

/** What a {@link PetstoreError} may carry besides its code and message. */
export interface ErrorDetails {
  /** Header names and values, alternating, that the answer carries beside its Error body. */
  readonly headers?: readonly string[];
  /** What went wrong underneath, for the log; never for the client. */
  readonly cause?: unknown;
}

/** The one failure that a caller can act on: `code` is stable, `message` is for people and may change. */
export class PetstoreError extends Error {
  override readonly name = 'PetstoreError';
  readonly code: ErrorCode;
  /** Header names and values, alternating; empty for most. */
  readonly headers: readonly string[];

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, 'cause' in details ? { cause: details.cause } : undefined);
    this.code = code;
    this.headers = Object.freeze([...(details.headers ?? [])]);
  }
}

/** The text of anything thrown, for a log line or for the message of an error that wraps it. */
export function messageOf(thrown: unknown): string {
  if (thrown instanceof Error) return thrown.message;
  // Not `String`, which some objects have no answer to.
  return typeof thrown === 'string' ? thrown : inspect(thrown);
}
