/** Which idempotency keys were used for which animals, each for 24 hours (C57), for every storage that keeps keys. */
import { PetstoreError } from '../errors.js';
import type { InsertOnce, StoredText } from '../storage.js';

/** How long a key is kept from its first use. */
export const keptMs = 86_400_000;
/** Times of fewer than 16 digits, until the year 33658. */
const maxAt = 999_999_999_999_999;

// Made once: a client that repeats itself may do so often, and a stack trace costs more than all the rest.
export const inFlight = new PetstoreError(
  'idempotency_in_flight',
  'The first request with this idempotency key is still under way.',
);
export const mismatch = new PetstoreError('idempotency_mismatch', 'This idempotency key was used with another body.');

/** One use of a key. */
export interface KeyUse extends InsertOnce {
  /** The animal that it added; undefined while it is under way. */
  readonly added: StoredText | undefined;
}

/**
 * Refuses what a program, not a client, hands over: it would be a record that no start can read.
 * @throws TypeError that names the member.
 */
export function checkOnce(once: InsertOnce): void {
  if (typeof once !== 'object' || once === null)
    throw new TypeError('what makes an insert count once must be an object');
  for (const name of ['key', 'body'] as const) {
    if (typeof once[name] !== 'string' || !/^[0-9a-f]{64}$/.test(once[name]))
      throw new TypeError(`${name} must be a SHA-256 in small hexadecimal digits`);
  }
  if (!Number.isInteger(once.at) || once.at < 0 || once.at > maxAt)
    throw new TypeError(`at must be an integer from 0 to ${maxAt}`);
}

/** A day away, in the future too: the clock went wrong, then or now, and who knows when it would end. */
export function isTooFar(at: number, now: number): boolean {
  return Math.abs(now - at) >= keptMs;
}

/** A use of a key in the list of those that are kept, the oldest first. */
interface Use extends InsertOnce {
  added: StoredText | undefined;
  /** The one that was kept after this one. */
  next: Use | undefined;
}

function hasExpired({ added, at }: Use, now: number): boolean {
  return added !== undefined && isTooFar(at, now);
}

/** The keys of one storage; each takes some 350 bytes. */
export class IdempotencyKeys {
  readonly #uses = new Map<string, Use>();
  // Those that are kept, in a list of their own: whoever looks for the oldest at the front of a Map steps over the
  // holes of all that were deleted there, each time.
  #oldest: Use | undefined;
  #newest: Use | undefined;

  /** How many keys it holds. */
  get size(): number {
    return this.#uses.size;
  }

  /**
   * The use of a key: the first one with its animal; or a new one without, which is under way until `keep` or `drop`
   * ends it.
   * @throws PetstoreError `idempotency_in_flight` or `idempotency_mismatch`.
   */
  begin(once: InsertOnce): KeyUse {
    this.#forgetExpired(once.at);
    const known = this.#uses.get(once.key);
    if (known === undefined || hasExpired(known, once.at)) return this.#start(once);
    if (known.added === undefined) throw inFlight;
    if (known.body !== once.body) throw mismatch;
    return known;
  }

  /** Ends a use that added an animal. */
  keep(use: KeyUse, added: StoredText): void {
    const kept = this.#uses.get(use.key);
    if (kept !== use) return;
    kept.added = added;
    if (this.#newest === undefined) this.#oldest = kept;
    else this.#newest.next = kept;
    this.#newest = kept;
  }

  /** Ends a use that added nothing: the key is new again. */
  drop(use: KeyUse): void {
    this.#uses.delete(use.key);
  }

  /**
   * Takes in a key that was kept before, as it was then; a later use of the same key counts. What has expired is told
   * by later ones, never by this machine's clock: that may be wrong, or another than theirs.
   */
  restore(once: InsertOnce, added: StoredText): void {
    this.#forgetExpired(once.at);
    this.keep(this.#start(once), added);
  }

  #start({ key, body, at }: InsertOnce): Use {
    const use: Use = { key, body, at, added: undefined, next: undefined };
    this.#uses.set(key, use);
    return use;
  }

  /** At most two for each that comes, so that it never takes long and yet keeps up. */
  #forgetExpired(now: number): void {
    for (let count = 0; count < 2 && this.#oldest !== undefined && hasExpired(this.#oldest, now); count++) {
      const { key, next }: Use = this.#oldest;
      // It may have been used anew since.
      if (this.#uses.get(key) === this.#oldest) this.#uses.delete(key);
      this.#oldest = next;
      if (next === undefined) this.#newest = undefined;
    }
  }
}
