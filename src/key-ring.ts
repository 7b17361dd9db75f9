/** Owns the digests of the active API keys and the comparison with a token. Knows neither HTTP nor files (C40). */
import { hash, timingSafeEqual } from 'node:crypto';

/** An API key as it is kept: never the key itself. */
export interface KeyEntry {
  /** Who it was given to; appears in logs. */
  readonly name: string;
  /** SHA-256 of the key's text, 32 bytes. */
  readonly digest: Buffer;
  /** When it ends, in milliseconds since the epoch; absent for never. */
  readonly expiresAt?: number;
}

/** The digest that is kept of a key. */
export function digestOfKey(key: string): Buffer {
  return hash('sha256', key, 'buffer');
}

/** Tells which of its keys a token is. */
export class KeyRing {
  readonly #entries: readonly KeyEntry[];
  readonly #clock: () => number;
  /**
   * Tokens that were found to be keys, in memory alone, at most one for each digest: SHA-256 at each request is a tenth
   * of a small answer. What is looked up here by its whole text is a key already, or else goes the constant way.
   */
  readonly #accepted = new Map<string, KeyEntry>();

  /** @param clock Milliseconds since the epoch. */
  constructor(entries: readonly KeyEntry[], clock: () => number) {
    this.#entries = entries;
    this.#clock = clock;
  }

  /** The name of the key that a token is; undefined for an unknown or expired one. */
  verify(token: string): string | undefined {
    const accepted = this.#accepted.get(token);
    // Another entry may have the same key and still be active.
    const entry = accepted === undefined || this.#isExpired(accepted) ? this.#find(token) : accepted;
    return entry?.name;
  }

  #find(token: string): KeyEntry | undefined {
    const digest = digestOfKey(token);
    let found: KeyEntry | undefined;
    // Through to the end, so that the time says nothing about which one it is.
    for (const entry of this.#entries) {
      const isKey = timingSafeEqual(digest, entry.digest);
      if (isKey && !this.#isExpired(entry)) found = entry;
    }
    if (found !== undefined) this.#accepted.set(token, found);
    return found;
  }

  #isExpired({ expiresAt }: KeyEntry): boolean {
    return expiresAt !== undefined && this.#clock() >= expiresAt;
  }
}
