/** Idempotency keys and the pets that they were used for (C57). */
import { inFlight, PetstoreError } from '../errors.js';
import type { IdempotencyKeyUse, StoredText } from '../storage.js';

/** The lifetime of a use in milliseconds. */
export const keptMs = 86_400_000;

// Made once, because a stack trace would cost more than the rest of a repeated request.

/** The error for a key that was used with another body. */
export const mismatch = new PetstoreError(
  'idempotency_mismatch',
  'This idempotency key was used with another body.',
);

/** Returns the stored result for a repeated use of a key. */
export function replayOf({ id, json }: StoredText): StoredText {
  return { id, json, isReplay: true };
}

/** A known use of a key. */
export interface KnownUse extends IdempotencyKeyUse {
  /** The pet; undefined while the use is in flight. */
  added: StoredText | undefined;
  /** The next use in the order of their times. */
  next: KnownUse | undefined;
}

/**
 * True if a use has expired. A use with a time in the future has not expired, so that no pet is
 * added twice after the clock was set back (C73).
 */
export function hasExpired(at: number, now: number): boolean {
  return now - at >= keptMs;
}

/** The idempotency keys of one storage; each takes about 350 bytes. */
export class IdempotencyKeys {
  readonly #uses = new Map<string, KnownUse>();

  // A linked list of the kept uses, because finding the first key of a Map is slow after many
  // deletions.
  #oldest: KnownUse | undefined;
  #newest: KnownUse | undefined;
  #lastAt: number | undefined;

  /** The number of known keys. */
  get size(): number {
    return this.#uses.size;
  }

  /** The time of the latest kept use. */
  get lastAt(): number | undefined {
    return this.#lastAt;
  }

  /**
   * Returns the first use of a key. For a new key, that is this use, in flight until `keep` or
   * `drop`.
   * @throws PetstoreError `idempotency_in_flight` or `idempotency_mismatch`
   */
  begin(keyUse: IdempotencyKeyUse): KnownUse {
    this.#forgetExpired(keyUse.at);
    const known = this.#uses.get(keyUse.key);
    if (known && !known.added) throw inFlight;
    if (!known || hasExpired(known.at, keyUse.at)) return this.#start(keyUse);

    if (known.body !== keyUse.body) throw mismatch;
    return known;
  }

  /** Ends a use with its pet, which further uses of the key get. Returns the pet. */
  keep(use: KnownUse, added: StoredText): StoredText {
    use.added = added;
    this.#lastAt = use.at;
    this.#append(use);
    return added;
  }

  #append(use: KnownUse): void {
    if (this.#newest) this.#newest.next = use;
    this.#oldest ??= use;
    this.#newest = use;
  }

  /** Ends a use without a pet, so that the key is new again. */
  drop(use: KnownUse): void {
    this.#uses.delete(use.key);
  }

  /**
   * Keeps a use that was read from a file. Later uses decide if it has expired, because the clock
   * of this machine may be wrong.
   */
  restore(keyUse: IdempotencyKeyUse, added: StoredText): void {
    this.#forgetExpired(keyUse.at);
    this.keep(this.#start(keyUse), added);
  }

  #start({ key, body, at }: IdempotencyKeyUse): KnownUse {
    const use: KnownUse = { key, body, at, added: undefined, next: undefined };
    this.#uses.set(key, use);
    return use;
  }

  /**
   * Drops at most two expired uses. Each new use calls it, so that no call takes long and expired
   * uses do not accumulate.
   */
  #forgetExpired(now: number): void {
    for (let count = 0; count < 2; count++) {
      const use = this.#oldest;
      if (!use || (use.at <= now && !hasExpired(use.at, now))) return;

      this.#oldest = use.next;
      if (!this.#oldest) this.#newest = undefined;
      if (use.at > now) {
        // Moved to the end, because a use in the future would block the uses after it.
        use.next = undefined;
        this.#append(use);
      } else if (this.#uses.get(use.key) === use) {
        // The key was not used again since.
        this.#uses.delete(use.key);
      }
    }
  }
}
