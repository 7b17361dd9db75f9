/** The interface of a storage. docs/extending.md explains its rules. */
import type { ByteString } from './json.js';
import type { FilterName, Pet, PetDraft, PetFilter } from './pet.js';

/** The position and the length of a page of a list. An undefined member counts as omitted. */
export interface PageQuery {
  /** The largest number of records, an integer from 1. */
  readonly limit: number;
  /** The cursor: only records with a larger id are listed. */
  readonly after?: bigint | undefined;
}

/** A page of the pets that match a filter. */
export interface PetQuery extends PageQuery, PetFilter {}

/**
 * A query whose named members a module reads, in addition to the filter. If `PetQuery` gets another
 * member, this type changes, so that a module that ignores the new member does not compile.
 */
export type ReadQuery<Names extends keyof PetQuery> = [
  Exclude<keyof PetQuery, FilterName>,
] extends [Names]
  ? PetQuery
  : { readonly 'read this member, and name it here': Exclude<keyof PetQuery, Names | FilterName> };

/** One use of an idempotency key (C57). */
export interface IdempotencyKeyUse {
  /** The SHA-256 of the API key's name and the idempotency key, in 64 lowercase hex digits. */
  readonly key: string;
  /** The SHA-256 of the body, in the same form. */
  readonly body: string;
  /** The time of the request by `PetStorage.keyClock`, in whole milliseconds since the epoch. */
  readonly at: number;
}

/**
 * A storage of pets. Methods may be called at any time. After `close`, and while the storage cannot
 * write, they reject with PetstoreError `unavailable`. If a method returns anything but a valid
 * pet, the client gets a 500; an optional field may be null.
 */
export interface PetStorage {
  /** True if an inserted pet outlives the process. */
  readonly durable: boolean;
  /** The number of pets, if the storage knows it at no cost. */
  readonly size?: number | undefined;
  /** The number of inserts that wait for the next commit, if the storage commits in batches. */
  readonly waiting?: number | undefined;
  /** Calls back after each durable commit. An error in the callback is logged. */
  onCommit?(watcher: (commit: Commit) => void): void;
  /**
   * Stores a pet and resolves once it is durable and visible. Ids are 1, 2, 3 … in the order of the
   * calls (C31).
   * @throws TypeError if the draft is not valid; PetstoreError
   */
  insert(draft: PetDraft): Promise<Pet>;
  /**
   * Stores a pet once per idempotency key. A use whose `at` is earlier than 24 hours after the
   * first use resolves to the pet of the first use. Key and pet are stored in one step. Omitted if
   * the storage keeps no idempotency keys.
   * @throws PetstoreError `idempotency_mismatch` if the body differs, `idempotency_in_flight` until
   * the first use has ended
   */
  insertOnce?(draft: PetDraft, keyUse: IdempotencyKeyUse): Promise<Pet>;
  /**
   * Returns the time for `at`, in milliseconds since the epoch, by a clock that does not follow
   * changes of the machine's clock (C73). A petstore with the option `clock` uses that instead.
   * @defaultValue a clock that starts with the petstore
   */
  readonly keyClock?: () => number;
  /** Returns the pet with this id, or undefined. */
  get(id: bigint): Promise<Pet | undefined>;
  /**
   * Returns at most `limit` pets that match a query, by ascending id.
   * @throws TypeError if the query is not valid
   */
  list(query: PetQuery): Promise<readonly Pet[]>;
  /** Rejects while inserts cannot be expected to succeed. */
  ready?(): Promise<void>;
  /**
   * Resets the storage to its seed: ids from 1, no idempotency keys, no records of plugins. Inserts
   * in flight are dropped or reject. Only in-memory storages have it, together with `onReset`.
   */
  reset?(): Promise<void>;
  /** Returns a new storage with the same seed. Only in-memory storages have it (C88). */
  fresh?(): PetStorage;
  /** Calls back at each reset, in the same event loop tick. An error in the callback is ignored. */
  onReset?(watcher: () => void): void;
  /** Waits for the inserts in flight and releases all resources. It may be called again. */
  close(): Promise<void>;
  /** The same pets as JSON texts, if the storage keeps them in that form. */
  readonly texts?: PetTexts;
  /**
   * Opens records for a plugin. `name` must be lowercase. They share the durability, readiness and
   * lifetime of the storage.
   */
  records?<Draft>(name: string, kind: RecordKind<Draft>): Records<Draft>;
}

/** A batch of pets that one commit made durable. */
export interface Commit {
  /** The number of pets. */
  readonly count: number;
  /** The time to write and sync the batch; in a database, including retries. */
  readonly syncMilliseconds: number;
}

/** Records as JSON texts. A method may also return or throw synchronously. */
export interface Texts<Draft, Query extends PageQuery = PageQuery> {
  /** Stores a record under the next id. */
  insert(draft: Draft): StoredText | Promise<StoredText>;
  /** Returns the text of this id, or undefined. */
  get(id: bigint): ByteString | undefined | Promise<ByteString | undefined>;
  /** Returns the texts of a query by ascending id. */
  list(query: Query): TextPage | Promise<TextPage>;
}

/** Records of a plugin. They can be used at once; if opening fails, all calls reject. */
export interface Records<Draft> extends Texts<Draft> {
  insert(draft: Draft): Promise<StoredText>;
  get(id: bigint): Promise<ByteString | undefined>;
  list(query: PageQuery): Promise<TextPage>;
  /** Resolves once the records are open; rejects with a TypeError if the name is not valid. */
  readonly opened: Promise<void>;
}

/** The pets of a storage as JSON texts (see `petJson`). */
export interface PetTexts extends Texts<PetDraft, PetQuery> {
  /** Present if the storage has `insertOnce`. */
  insertOnce?(draft: PetDraft, keyUse: IdempotencyKeyUse): StoredText | Promise<StoredText>;
}

/** The pets of any storage as JSON texts. */
export interface StorageTexts extends Required<PetTexts> {
  /** False if the storage keeps no idempotency keys, so that `insertOnce` rejects (C57). */
  readonly keepsKeys: boolean;
}

/** A stored record. */
export interface StoredText {
  /** A positive int64. */
  readonly id: bigint;
  /** Its JSON text. */
  readonly json: ByteString;
  /** True if the record was stored by an earlier use of its idempotency key, else omitted. */
  readonly isReplay?: true;
}

/** A page of at most `limit` texts; fewer if they are long. A page with `next` never changes. */
export interface TextPage {
  /** The texts, by ascending id. */
  readonly texts: readonly ByteString[];
  /** The cursor of the next page; omitted on the last page. */
  readonly next?: bigint;
}

/** The format of a plugin's records. */
export interface RecordKind<Draft> {
  /**
   * Writes a draft as one line of JSON of at most 128 MiB, with `id` first and nowhere else. It is
   * called by `insert`, so that later changes to the draft have no effect.
   */
  readonly json: (id: bigint, draft: Draft) => ByteString;
  /**
   * Parses a record's JSON, which may have been edited by hand.
   * @throws PetstoreError if it is not valid
   */
  readonly parse: (json: ByteString) => { readonly id: bigint; readonly draft: Draft };
}

/** A target to which texts are copied with their ids. No other program may add meanwhile. */
export interface TextTarget {
  /**
   * Stores texts in one commit. Their ids ascend from the last id of the target.
   * @throws PetstoreError
   */
  adopt(texts: readonly StoredText[]): Promise<void>;
  /** Waits for the commit in flight and releases all resources. */
  close(): Promise<void>;
}

/**
 * Returns for each count the SHA-256 of the first `count` pets of a source, in 64 lowercase hex
 * digits. Omits the counts beyond the end of the source.
 */
export type StartDigests = (counts: ReadonlySet<number>) => ReadonlyMap<number, string>;

/** The source of an import, such as a file (F11). */
export interface ImportSource {
  /** The SHA-256 of the whole source, in 64 lowercase hex digits. */
  readonly digest: string;
  /** Recognises a source that has grown since it was imported. @defaultValue none */
  readonly startDigests?: StartDigests;
}

/** A target that imports each pet of a source once, even if the import is interrupted (F11). */
export interface ImportTarget {
  /** The number of pets, from the start of the source, that were stored before. */
  readonly start: number;
  /**
   * Stores the next pets of the source and the new position in one commit. Resolves to the
   * position, which is further on if another process imports the same source. Waits while the
   * outcome is unknown.
   * @param startDigest The digest of the source up to the last of these pets.
   * @throws PetstoreError
   */
  add(drafts: readonly PetDraft[], startDigest?: string): Promise<number>;
  /** Waits for the commit in flight and releases all resources. */
  close(): Promise<void>;
}
