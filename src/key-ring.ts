/** Owns the digests of the active API keys and the comparison with a token. Knows neither HTTP nor files (C40). */
import { createHash, timingSafeEqual } from 'node:crypto';

/** An API key as it is kept: never the key itself. */
export interface KeyEntry {
  /** Who it was given to; appears in logs. */
  readonly name: string;
  /** SHA-256 of the key's text, 32 bytes. */
  readonly digest: Buffer;
  /** When it ends, in milliseconds since the epoch; absent for never. */
  readonly expiresAt?: number;
}

/**
 * How many accepted tokens are remembered, in memory only, so that a busy client costs no digest a request. A token
 * that is none is never among them, and what a look-up of it takes says nothing about those that are.
 */
const rememberedTokens = 1_000;

/** The digest that is kept of a key. */
export function digestOfKey(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

/** Tells which of its keys a token is. */
export class KeyRing {
  readonly #entries: readonly KeyEntry[];
  readonly #clock: () => number;
  readonly #accepted = new Map<string, KeyEntry>();

  /** @param clock Milliseconds since the epoch. */
  constructor(entries: readonly KeyEntry[], clock: () => number) {
    this.#entries = entries;
    this.#clock = clock;
  }

  /** The name of the key that a token is; undefined for an unknown or expired one. */
  verify(token: string): string | undefined {
    const entry = this.#accepted.get(token) ?? this.#compare(token);
    if (entry === undefined) return undefined;
    if (entry.expiresAt !== undefined && this.#clock() >= entry.expiresAt) return undefined;
    return entry.name;
  }

  #compare(token: string): KeyEntry | undefined {
    const digest = digestOfKey(token);
    let found: KeyEntry | undefined;
    // Through to the end, so that the time says nothing about which one it is.
    for (const entry of this.#entries) {
      if (timingSafeEqual(digest, entry.digest)) found = entry;
    }
    if (found === undefined) return undefined;
    if (this.#accepted.size >= rememberedTokens) this.#accepted.clear();
    this.#accepted.set(token, found);
    return found;
  }
}
