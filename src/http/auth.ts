/** Owns the Authorization header: a bearer token in it, and the 401 for all else. Knows no key. */
import type { Awaitable } from '../awaitable.js';
import { PetstoreError } from '../errors.js';

/**
 * The name of the key that a token is, or undefined for a token that is no key. It is called with whatever the
 * client sent; it must not tell keys apart by time.
 */
export type VerifyKey = (token: string) => string | undefined | Promise<string | undefined>;

// Made once: a 401 is what an attacker asks for most, and a stack trace costs more than all the rest of it.
const missing = unauthorized('Send an API key: Authorization: Bearer <API_KEY>.', '');
const invalid = unauthorized('The API key is not valid.', '');
/** RFC 6750 section 3.1: only who tried a bearer token hears what was wrong with it (C37). */
const invalidToken = unauthorized('The API key is not valid.', ', error="invalid_token"');

/** The name of the key in an Authorization header, at once where the verifier knows it at once; undefined where there is none. */
export function keyNameOf(authorization: string | undefined, verifyKey: VerifyKey): Awaitable<string | undefined> {
  // One token of visible characters; a second header has joined ", " to it, which none can hold.
  if (authorization === undefined || !/^bearer +[\x21-\x7e]+$/i.test(authorization)) return undefined;
  return verifyKey(authorization.slice('bearer '.length).trimStart());
}

/** The `unauthorized` to a header that names no key, with its challenge (C36, C37). Not thrown: that costs a microsecond. */
export function refusalOf(authorization: string | undefined): PetstoreError {
  if (authorization === undefined) return missing;
  return /^bearer(?: |$)/i.test(authorization) ? invalidToken : invalid;
}

function unauthorized(message: string, detail: string): PetstoreError {
  return new PetstoreError('unauthorized', message, { headers: ['WWW-Authenticate', `Bearer realm="petstore"${detail}`] });
}
