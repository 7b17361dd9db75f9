/**
 * The contract between the petstore and what keeps its animals; docs/extending.md has its rules at
 * length.
 */
import type { ByteString } from './json.js';
import type { FilterName, Pet, PetDraft, PetFilter } from './pet.js';

/** A page; a member that is undefined counts as absent. */
export interface PageQuery {
  /** How many at most: an integer of at least 1. */
  readonly limit: number;
  /** Only ids above this one. */
  readonly after?: bigint | undefined;
}

/** A page of the pets whose fields have the values of a filter. */
export interface PetQuery extends PageQuery, PetFilter {}

/**
 * A query of which a module reads these members and the filter. If `PetQuery` gets another member,
 * this is another type, so that a module that would ignore the member does not compile.
 */
export type ReadQuery<Names extends keyof PetQuery> = [
  Exclude<keyof PetQuery, FilterName>,
] extends [Names]
  ? PetQuery
  : { readonly 'read this member, and name it here': Exclude<keyof PetQuery, Names | FilterName> };

/** One use of an idempotency key, which tells a repeated insert from a new one (C57). */
export interface IdempotencyKeyUse {
  /** Of the API key's name and the key: a SHA-256 in 64 small hexadecimal digits. */
  readonly key: string;
  /** What was sent with it: a SHA-256 too. */
  readonly body: string;
  /** When it came, in whole milliseconds since the epoch, by `PetStorage.keyClock`. */
  readonly at: number;
}

/**
 * Keeps animals. Every method may be called at any time; after `close` all reject with
 * PetstoreError `unavailable`, as does an insert while no writes are taken. An answer that is no
 * animal (a status of null counts as absent) is a 500.
 */
export interface PetStorage {
  /** Whether an animal whose insert resolved outlives the process. */
  readonly durable: boolean;
  /** How many animals it holds, where that costs nothing. */
  readonly size?: number | undefined;
  /** How many inserts wait for the next commit, where it commits in batches. */
  readonly waiting?: number | undefined;
  /**
   * Calls back after each commit that lasts, where it commits in batches. A watcher that throws
   * does no harm.
   */
  onCommit?(watcher: (commit: Commit) => void): void;
  /**
   * Kept and visible once it resolves, as 1, 2, 3 … in order of the calls (C31). @throws TypeError,
   * PetstoreError
   */
  insert(draft: PetDraft): Promise<Pet>;
  /**
   * As `insert`, but once for a key: for 24 hours, from one `at` to a later one, the first animal
   * is answered again; also for an earlier `at`. Key and animal are kept in one step, or neither
   * is. Absent where it keeps no keys.
   * @throws PetstoreError `idempotency_mismatch` for another body, `idempotency_in_flight` before
   * the first is kept.
   */
  insertOnce?(draft: PetDraft, keyUse: IdempotencyKeyUse): Promise<Pet>;
  /**
   * Returns the time for `at` of `insertOnce` in milliseconds since the epoch, by a clock that goes
   * on evenly while the machine's clock is set (C73). A petstore with a clock of its own uses that.
   * @defaultValue a clock that begins when the petstore is made
   */
  readonly keyClock?: () => number;
  /** The animal of this id, or undefined. */
  get(id: bigint): Promise<Pet | undefined>;
  /**
   * The animals of a query by ascending id, at most `limit`. @throws TypeError for a query against
   * the rules.
   */
  list(query: PetQuery): Promise<readonly Pet[]>;
  /** Resolves while inserts can be expected to succeed, else rejects. */
  ready?(): Promise<void>;
  /**
   * Has the storage begin anew: with the animals that it began with, ids from 1, no idempotency
   * keys and no records. An insert that has not ended by then is forgotten or rejects. Only a
   * storage that forgets has it, and then it has `onReset`.
   */
  reset?(): Promise<void>;
  /**
   * Calls back at each reset, in the event-loop tick in which the storage begins anew. A watcher
   * that throws does no harm.
   */
  onReset?(watcher: () => void): void;
  /** Waits for inserts under way and lets go of everything. Calling it again is fine. */
  close(): Promise<void>;
  /** The same storage in JSON texts, where it keeps those. */
  readonly texts?: PetTexts;
  /**
   * Opens a plugin's records under a name of small letters: kept, ready and closed with the
   * animals.
   */
  records?<Draft>(name: string, kind: RecordKind<Draft>): Records<Draft>;
}

/** A batch of animals that was synced together. */
export interface Commit {
  /** Of animals. */
  readonly count: number;
  /**
   * How long it took to write and sync them; in a database, from the look at their keys to the last
   * try.
   */
  readonly syncMilliseconds: number;
}

/** Records as their one JSON text each. Each method may also answer, or throw, synchronously. */
export interface Texts<Draft, Query extends PageQuery = PageQuery> {
  /** Keeps a record under the next id. */
  insert(draft: Draft): StoredText | Promise<StoredText>;
  /** The text of this id, or undefined. */
  get(id: bigint): ByteString | undefined | Promise<ByteString | undefined>;
  /** The texts of a query by ascending id. */
  list(query: Query): TextPage | Promise<TextPage>;
}

/**
 * A plugin's records, usable at once; where opening failed, every use rejects with `unavailable`.
 */
export interface Records<Draft> extends Texts<Draft> {
  insert(draft: Draft): Promise<StoredText>;
  get(id: bigint): Promise<ByteString | undefined>;
  list(query: PageQuery): Promise<TextPage>;
  /** Rejects as opening a storage does, and with a TypeError for a name against the rules. */
  readonly opened: Promise<void>;
}

/** A storage's animals as their texts (see `petJson`). */
export interface PetTexts extends Texts<PetDraft, PetQuery> {
  /** Present where the storage has it. */
  insertOnce?(draft: PetDraft, keyUse: IdempotencyKeyUse): StoredText | Promise<StoredText>;
}

/** The texts of any storage, whatever it keeps. */
export interface StorageTexts extends Required<PetTexts> {
  /** False if `insertOnce` rejects every key: `invalid_parameter` (C57). */
  readonly keepsKeys: boolean;
}

/** One record as it is kept. */
export interface StoredText {
  /** A positive int64. */
  readonly id: bigint;
  /** Its JSON text. */
  readonly json: ByteString;
}

/** At most `limit` texts, fewer where they are long. A page with `next` never changes. */
export interface TextPage {
  /** By ascending id. */
  readonly texts: readonly ByteString[];
  /** The last id, `after` of the next page; absent where no more records match. */
  readonly next?: bigint;
}

/** How a plugin's records are written and read. */
export interface RecordKind<Draft> {
  /**
   * The one JSON text of a draft, of one line and at most 128 MiB, `id` first and nowhere else. It
   * is made as the draft is given to `insert`: what happens to that afterwards changes nothing.
   */
  readonly json: (id: bigint, draft: Draft) => ByteString;
  /**
   * The inverse, of a text that a person may have edited. @throws PetstoreError for no such record.
   */
  readonly parse: (json: ByteString) => { readonly id: bigint; readonly draft: Draft };
}

/** Takes texts with the ids that they have; nobody else may add to the storage meanwhile. */
export interface TextTarget {
  /** Keeps texts of ascending ids, all above those there, in one commit. @throws PetstoreError */
  adopt(texts: readonly StoredText[]): Promise<void>;
  /** Waits for the commit under way and lets go. */
  close(): Promise<void>;
}

/**
 * Computes SHA-256 digests, in 64 lowercase hexadecimal digits, of the first pets of a source: for
 * each of these counts that the source has.
 */
export type StartDigests = (counts: ReadonlySet<number>) => ReadonlyMap<number, string>;

/** What an import adds, such as a file (F11). */
export interface ImportSource {
  /** The SHA-256 of all of it, in 64 lowercase hexadecimal digits. */
  readonly digest: string;
  /** Tells a source that has grown since it was imported. @defaultValue it is not recognized */
  readonly startDigests?: StartDigests;
}

/**
 * Takes the animals of one source, such as a file, each of them once, whatever breaks off (F11).
 */
export interface ImportTarget {
  /** How many animals of the source, from its first on, were there as it was opened. */
  readonly start: number;
  /**
   * Adds the next ones of the source and the place behind them in one commit, or none; answers that
   * place, which is further on where somebody else imports the same source. It waits for as long as
   * nobody can say what became of them.
   * @param startDigest That of the pets of the source up to the last of these, which tells the
   * source once it has grown.
   * @throws PetstoreError
   */
  add(drafts: readonly PetDraft[], startDigest?: string): Promise<number>;
  /** Waits for the commit under way and lets go. */
  close(): Promise<void>;
}
