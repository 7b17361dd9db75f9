/**
 * Bearer keys: the Authorization header, the 401 to all else, and finding digests (C36 to C40).
 */
import { hash } from 'node:crypto';
import { PetstoreError } from './errors.js';
import { replyTo, SharedResponse, type Reply } from './reply.js';

/**
 * The name of the key that a token is; undefined or empty for none. How long it takes must not tell
 * one key from another.
 */
export type VerifyKey = (token: string) => string | undefined | Promise<string | undefined>;

/** The bearer token of an Authorization header; of two, which come joined by ", ", none. */
export function tokenOf(authorization = ''): string | undefined {
  return /^bearer +[\x21-\x7e]+$/i.test(authorization)
    ? authorization.slice('bearer '.length).trimStart()
    : undefined;
}

// Made once, and returned instead of thrown: `replyTo` says why.
const missing = unauthorized('Send an API key: Authorization: Bearer <API_KEY>.');
const invalid = unauthorized('The API key is not valid.');
/** The reply to a bearer token, which alone has this detail (C37; RFC 6750 section 3.1). */
const invalidToken = unauthorized('The API key is not valid.', ', error="invalid_token"');

/** The 401 to an Authorization header that has no key. */
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

/** An API key as it is kept. */
export interface KeyEntry {
  /** Who it was given to, for logs. */
  readonly name: string;
  /** `digestOfKey` of the key. */
  readonly digest: Buffer;
  /** When it ends, in milliseconds since the epoch; absent for never. */
  readonly expiresAt?: number;
}

/** What is kept of a key: its SHA-256, 32 bytes. */
export function digestOfKey(key: string): Buffer {
  return hash('sha256', key, 'buffer');
}

/** Finds the key that a token is (C40), in a time that does not depend on the number of keys. */
export class KeyRing {
  /** The entries by their digests, as byte strings; of one key there may be several. */
  readonly #entries = new Map<string, KeyEntry[]>();
  readonly #clock: () => number;

  /**
   * The tokens that were accepted, and their keys: a SHA-256 for each request would be 24 % of a
   * small answer (`make bench PARTS=speed`).
   */
  readonly #accepted = new Map<string, KeyEntry>();

  /**
   * @param clock Milliseconds since the epoch.
   * @throws TypeError for a digest that is not 32 bytes
   */
  constructor(entries: readonly KeyEntry[], clock: () => number) {
    this.#clock = clock;

    for (const entry of entries) {
      if (entry.digest.length !== 32)
        throw new TypeError('the digest of a key must be 32 bytes, as of digestOfKey');

      const text = entry.digest.toString('latin1');
      const others = this.#entries.get(text);
      if (others === undefined) this.#entries.set(text, [entry]);
      else others.push(entry);
    }
  }

  /** The name of the key that a token is, unless unknown or expired. */
  verify(token: string): string | undefined {
    const accepted = this.#accepted.get(token);
    if (accepted !== undefined && this.#isActive(accepted)) return accepted.name;

    // The time of this look-up tells nothing about a digest that differs in its last bytes alone: a
    // Map compares texts only if their hashes are equal, and each process has its own hash seed.
    const found = this.#entries
      .get(digestOfKey(token).toString('latin1'))
      ?.findLast((entry) => this.#isActive(entry));

    if (found !== undefined) this.#accepted.set(token, found);
    return found?.name;
  }

  /** Most keys have no end, and reading the clock for each request would take a microsecond. */
  #isActive({ expiresAt }: KeyEntry): boolean {
    return expiresAt === undefined || this.#clock() < expiresAt;
  }
}
