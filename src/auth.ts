/** Bearer authentication: the Authorization header, its 401, and the key ring (C36 to C40). */
import { hash } from 'node:crypto';
import { PetstoreError } from './errors.js';
import { replyTo, SharedResponse, type Reply } from './reply.js';

/**
 * Returns the name of the API key with this token, or undefined if the token is not valid. Its
 * duration must not reveal how many characters of a wrong token are right.
 *
 * @param clock Returns milliseconds since the epoch; given while a reset has set the clock (C87).
 */
export type VerifyKey = (
  token: string,
  clock?: () => number,
) => string | undefined | Promise<string | undefined>;

/** Returns the bearer token of an Authorization header; undefined if the header is repeated. */
export function tokenOf(authorization = ''): string | undefined {
  return /^bearer +[\x21-\x7e]+$/i.test(authorization)
    ? authorization.slice('bearer '.length).trimStart()
    : undefined;
}

// Made once and returned, not thrown, because a 401 is frequent (see `replyTo`).
const missing = unauthorized('Send an API key: Authorization: Bearer <API_KEY>.');
const invalid = unauthorized('The API key is not valid.');
/** The reply to a bearer token that is not valid (C37; RFC 6750 section 3.1). */
const invalidToken = unauthorized('The API key is not valid.', ', error="invalid_token"');

/** Returns the 401 for an Authorization header without a valid key. */
export function refusalOf(authorization: string | undefined): Reply {
  if (authorization === undefined) return missing;

  return /^bearer(?: |$)/i.test(authorization) ? invalidToken : invalid;
}

function unauthorized(message: string, detail = ''): Reply {
  return new SharedResponse(
    replyTo(
      new PetstoreError('unauthorized', message, {
        headers: ['WWW-Authenticate', `Bearer realm="petstore"${detail}`],
      }),
    ),
  );
}

/** A stored API key. */
export interface KeyEntry {
  /** The name of its owner, for logs. */
  readonly name: string;
  /** `digestOfKey` of the key. */
  readonly digest: Buffer;
  /** The time at which it expires, in milliseconds since the epoch; omitted for never. */
  readonly expiresAt?: number;
}

/** Returns the SHA-256 of a key, in 32 bytes. */
export function digestOfKey(key: string): Buffer {
  return hash('sha256', key, 'buffer');
}

/** The accepted API keys (C40). Verifying takes the same time with one key as with 100,000. */
export class KeyRing {
  /** The entries by digest in hexadecimal; a key may have several. */
  readonly #entries = new Map<string, KeyEntry[]>();
  readonly #clock: () => number;

  /**
   * The accepted tokens with their keys. Hashing each request's token would take 24 % of a response
   * (`make bench PARTS=speed`).
   */
  readonly #accepted = new Map<string, KeyEntry>();

  /**
   * @param clock Returns milliseconds since the epoch.
   * @throws TypeError if a digest is not 32 bytes long
   */
  constructor(entries: readonly KeyEntry[], clock: () => number) {
    this.#clock = clock;

    for (const entry of entries) {
      if (entry.digest.length !== 32)
        throw new TypeError('the digest of a key must be 32 bytes, as of digestOfKey');

      const hex = entry.digest.toString('hex');
      const others = this.#entries.get(hex);
      if (others === undefined) this.#entries.set(hex, [entry]);
      else others.push(entry);
    }
  }

  /**
   * Returns the name of the key with this token; undefined if it is unknown or expired.
   *
   * @param clock Returns milliseconds since the epoch.
   * @defaultValue the clock of the constructor
   */
  verify(token: string, clock = this.#clock): string | undefined {
    const accepted = this.#accepted.get(token);
    if (accepted !== undefined && isActive(accepted, clock)) return accepted.name;

    // The time of this lookup reveals nothing about a digest: a Map compares strings only if their
    // hashes are equal, and each process has its own hash seed.
    const found = this.#entries
      .get(hash('sha256', token, 'hex'))
      ?.findLast((entry) => isActive(entry, clock));

    if (found !== undefined) this.#accepted.set(token, found);
    return found?.name;
  }
}

/** True if a key has not expired. The clock is read only if needed, because it takes 1 µs. */
function isActive({ expiresAt }: KeyEntry, clock: () => number): boolean {
  return expiresAt === undefined || clock() < expiresAt;
}
