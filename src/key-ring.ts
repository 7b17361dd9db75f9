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

  /** @param clock Milliseconds since the epoch. */
  constructor(entries: readonly KeyEntry[], clock: () => number) {
    this.#entries = entries;
    this.#clock = clock;
  }

  /** The name of the key that a token is; undefined for an unknown or expired one. */
  verify(token: string): string | undefined {
    const digest = digestOfKey(token);
    const now = this.#clock();
    let name: string | undefined;
    // Through to the end, so that the time says nothing about which one it is.
    for (const entry of this.#entries) {
      const isKey = timingSafeEqual(digest, entry.digest);
      const isActive = entry.expiresAt === undefined || now < entry.expiresAt;
      if (isKey && isActive) name = entry.name;
    }
    return name;
  }
}
