/** Owns the Idempotency-Key header: its grammar, and the digests that are all that is kept of it. Knows no storage. */
import { hash } from 'node:crypto';
import { PetstoreError } from '../errors.js';
import type { InsertOnce } from '../storage.js';

/** A request that asks to count once. */
export interface KeyedRequest {
  /** The header as it came. */
  readonly idempotencyKey: string;
  /** The name of the API key, whose own idempotency key it is. */
  readonly keyName: string;
  /** A byte string. */
  readonly body: string;
}

/** What its schema says in the OpenAPI document. */
export const idempotencyKeySchema = { type: 'string', minLength: 1, maxLength: 255, pattern: '^[!-~]+$' };

/**
 * What makes the insert of a request count once; `now` is in milliseconds since the epoch.
 * @throws PetstoreError `invalid_parameter` for any other value; one that came twice holds a space.
 */
export function parseInsertOnce({ idempotencyKey, keyName, body }: KeyedRequest, now: number): InsertOnce {
  if (!/^[!-~]{1,255}$/.test(idempotencyKey)) {
    throw new PetstoreError('invalid_parameter', 'Idempotency-Key must be given only once, as 1 to 255 visible ASCII characters.');
  }
  // As JSON, so that no two pairs of texts make the same.
  const key = hash('sha256', JSON.stringify([keyName, idempotencyKey]));
  return { key, body: hash('sha256', Buffer.from(body, 'latin1')), at: Math.floor(now) };
}
