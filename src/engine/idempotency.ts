/** Which idempotency keys were used for which animals (C57), for storages that keep keys. */
import { inFlight, PetstoreError } from '../errors.js';
import type { IdempotencyKeyUse, StoredText } from '../storage.js';

/** How long a use is kept. */
export const keptMs = 86_400_000;

// Made once, as is `inFlight`, for a client may repeat as fast as it can: a stack trace costs more
// than all the rest of a repeat.

/** What a key is answered by that was used with another body. */
export const mismatch = new PetstoreError(
  'idempotency_mismatch',
  'This idempotency key was used with another body.',
);

/** A use that a storage knows of. */
export interface KnownUse extends IdempotencyKeyUse {
  /** Its animal; undefined while it is under way. */
  added: StoredText | undefined;
  /** The one kept after it. */
  next: KnownUse | undefined;
}

/**
 * True if a use at one time has expired at another. One from the future has not: a clock that was
 * set back must not add a pet twice (C73).
 */
export function hasExpired(at: number, now: number): boolean {
  return now - at >= keptMs;
}

/** The keys of one storage; each takes some 350 bytes. */
export class IdempotencyKeys {
  readonly #uses = new Map<string, KnownUse>();

  // The uses that are kept, in their order, linked by `next`: a Map is slow to tell its first entry
  // once many were deleted.
  #oldest: KnownUse | undefined;
  #newest: KnownUse | undefined;
  #lastAt: number | undefined;

  /** How many keys are known. */
  get size(): number {
    return this.#uses.size;
  }

  /** The time of the use that was kept last. */
  get lastAt(): number | undefined {
    return this.#lastAt;
  }

  /**
   * The first use of a key; or this one where the key is new, under way until `keep` or `drop`.
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

  /** Ends a use by its pet, which all further uses of the key get. Returns the pet. */
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

  /** Ends a use without an animal: the key is new again. */
  drop(use: KnownUse): void {
    this.#uses.delete(use.key);
  }

  /**
   * Keeps a use that was read from a file. What has expired is told by later uses, for the clock of
   * this machine may be wrong.
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
   * Forgets at most two uses that have expired. This is called for each new one, so that no call
   * takes long and expired uses never pile up.
   */
  #forgetExpired(now: number): void {
    for (let count = 0; count < 2; count++) {
      const use = this.#oldest;
      if (!use || (use.at <= now && !hasExpired(use.at, now))) return;

      this.#oldest = use.next;
      if (!this.#oldest) this.#newest = undefined;
      if (use.at > now) {
        // A use from the future must not keep those behind it for ever.
        use.next = undefined;
        this.#append(use);
      } else if (this.#uses.get(use.key) === use) {
        // The key was not used anew since.
        this.#uses.delete(use.key);
      }
    }
  }
}
