/** Owns the contract between the petstore and whatever keeps its animals: types only. Knows no backend. */
import type { Pet, PetDraft, PetStatus } from './pet.js';

/** Which animals to list: the first `limit` of those with this status and an id above `after`. */
export interface PetQuery {
  /** At least 1. */
  readonly limit: number;
  /** Only animals with exactly this status. */
  readonly status?: PetStatus;
  /** Only ids above this one. */
  readonly after?: bigint;
}

/**
 * Keeps animals. Anyone may write one; the README has the rules and the suite that proves them.
 *
 * Every method may be called at any time and by many at once. After `close` they reject with a
 * `PetstoreError` `unavailable`, as does an insert while the storage takes no writes.
 */
export interface PetStorage {
  /** Whether an animal whose insert resolved outlives the process. */
  readonly durable: boolean;

  /** How many animals it holds, where that costs nothing to say. */
  readonly size?: number;

  /** How many inserts wait for a commit that has not begun, for a storage that commits in batches. */
  readonly waiting?: number;

  /** Calls back behind each commit that lasts, for a storage that commits in batches. A watcher that throws does no harm. */
  onCommit?(watcher: (commit: Commit) => void): void;

  /**
   * Keeps an animal under the next id and resolves once it is kept, and only then visible to readers.
   * Ids only grow and are never used twice, over restarts too (C31).
   * @throws TypeError for a draft against the rules; PetstoreError `unavailable` where it could not be kept.
   */
  insert(draft: PetDraft): Promise<Pet>;

  /** The animal of this id, or undefined. */
  get(id: bigint): Promise<Pet | undefined>;

  /** The animals of a query by ascending id (C5), at most `limit`. */
  list(query: PetQuery): Promise<readonly Pet[]>;

  /** Resolves while inserts can be expected to succeed, else rejects with why not; `/readyz` asks it. */
  ready?(): Promise<void>;

  /** Waits for the inserts under way and lets go of everything. Calling it again is fine. */
  close(): Promise<void>;

  /**
   * The same storage in JSON texts, for one that keeps those: saves reading them and writing them again.
   * Absent is fine; see `textsOf`.
   */
  readonly texts?: PetTexts;
}

/** A batch of animals that went to the disk together. */
export interface Commit {
  readonly pets: number;
  /** How long the disk took to say that it has them. */
  readonly syncMilliseconds: number;
}

/**
 * A storage's animals as their one JSON text each (see `petJson`), a byte string; else as {@link PetStorage} says.
 * What is in memory may be answered, or refused, at once: a promise costs more than finding it.
 */
export interface PetTexts {
  insert(draft: PetDraft): PetText | Promise<PetText>;
  get(id: bigint): string | undefined | Promise<string | undefined>;
  list(query: PetQuery): PetTextPage | Promise<PetTextPage>;
}

/** The id and the JSON text of one animal. */
export interface PetText {
  readonly id: bigint;
  readonly json: string;
}

/**
 * At most `limit` texts, and where more animals match, the last one's id: the `after` of the next page. A storage that
 * hands out the same object again promises that nothing in it has changed.
 */
export interface PetTextPage {
  readonly texts: readonly string[];
  readonly next?: bigint;
}
