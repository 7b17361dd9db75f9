/** Owns records that last: their catalogue in memory, their journal on the disk, and the step from one to the other. Knows no animal. */
import { setTimeout as wait } from 'node:timers/promises';
import { messageOf, PetstoreError } from '../errors.js';
import { int64Max } from '../int64.js';
import type { Log } from '../log.js';
import type { Commit, InsertOnce, PetQuery, StoredText, TextPage, Texts } from '../storage.js';
import { Catalogue } from './catalogue.js';
import { GroupCommit } from './group-commit.js';
import { checkOnce, IdempotencyKeys, type KeyUse } from './idempotency.js';
import { idempotencyLine } from './idempotency-line.js';
import type { Journal } from './journal.js';
import { openJournal, type OpenJournalOptions } from './open-journal.js';
import type { TakePet } from './pet-lines.js';
import { closedError, type KeptKind } from './record-set.js';
import type { AcceptLine } from './replay.js';

/** How long closing waits for a disk that hangs before the process may end without it. */
const hungCloseMs = 1000;
/** About how many bytes a key and its record hold. */
const keyedBytes = 512;

/** What is to be added, and by which use of which idempotency key. */
interface Add<Draft> {
  readonly draft: Draft;
  readonly use: KeyUse | undefined;
}

/** One kind of records in one file. */
export class FileRecords<Draft> implements Texts<Draft, PetQuery> {
  readonly #kind: KeptKind<Draft>;
  readonly #catalogue: Catalogue;
  readonly #keys: IdempotencyKeys;
  readonly #journal: Journal;
  readonly #log: Log;
  readonly #commits: GroupCommit<Add<Draft>, StoredText>;
  readonly #watchers: ((commit: Commit) => void)[] = [];
  #closing: Promise<void> | undefined;

  private constructor(kind: KeptKind<Draft>, catalogue: Catalogue, keys: IdempotencyKeys, journal: Journal, log: Log) {
    this.#kind = kind;
    this.#catalogue = catalogue;
    this.#keys = keys;
    this.#journal = journal;
    this.#log = log;
    this.#commits = new GroupCommit({
      commit: (adds) => this.#commit(adds),
      abandoned: ({ use }) => use && keys.drop(use),
      bytesOf: ({ draft, use }) => kind.bytesOf(draft) + (use === undefined ? 0 : keyedBytes),
    });
  }

  /** Opens the file at a path; `lines` hands each record of it on. @throws as `openJournal`. */
  static async open<Draft>(
    path: string,
    options: OpenJournalOptions,
    kind: KeptKind<Draft>,
    lines: (take: TakePet) => AcceptLine,
  ): Promise<FileRecords<Draft>> {
    const catalogue = new Catalogue();
    const keys = new IdempotencyKeys();
    const keep = lines((id, status, once, source, from, to) => {
      catalogue.add(id, status, source, from, to);
      if (once !== undefined) keys.restore(once, { id: BigInt(id), json: source.slice(from, to) });
    });
    return new FileRecords(kind, catalogue, keys, await openJournal(path, options, keep), options.log);
  }

  get size(): number {
    return this.#catalogue.size;
  }

  get waiting(): number {
    return this.#commits.waiting;
  }

  onCommit(watcher: (commit: Commit) => void): void {
    this.#watchers.push(watcher);
  }

  insert(draft: Draft): Promise<StoredText> {
    return this.#commits.add({ draft, use: undefined });
  }

  /** As `insertOnce` of a {@link PetStorage}. */
  insertOnce(draft: Draft, once: InsertOnce): StoredText | Promise<StoredText> {
    checkOnce(once);
    this.#opened();
    const use = this.#keys.begin(once);
    return use.added ?? this.#commits.add({ draft, use });
  }

  get(id: bigint): string | undefined {
    return this.#opened().get(id);
  }

  list(query: PetQuery): TextPage {
    return this.#opened().page(query);
  }

  async ready(): Promise<void> {
    this.#opened();
    if (this.#commits.hung) throw new PetstoreError('unavailable', 'The disk does not answer.');
    this.#nextId(1);
    await this.#journal.checkReady();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#commits.close();
    await Promise.race([this.#journal.close(), wait(hungCloseMs, undefined, { ref: false })]);
  }

  #opened(): Catalogue {
    if (this.#closing !== undefined) throw closedError();
    return this.#catalogue;
  }

  /** A key's use ends here, when the disk has spoken: maybe long after its client was told that the disk does not answer. */
  async #commit(adds: readonly Add<Draft>[]): Promise<readonly StoredText[]> {
    try {
      return await this.#append(adds);
    } catch (error) {
      for (const { use } of adds) if (use !== undefined) this.#keys.drop(use);
      throw error;
    }
  }

  /** Ids are given here and not earlier, so that a batch that fails leaves no gap; readers see only what is durable. */
  async #append(adds: readonly Add<Draft>[]): Promise<readonly StoredText[]> {
    const firstId = this.#nextId(adds.length);
    const lines: string[] = [];
    const records = adds.map(({ draft, use }, index) => {
      const id = firstId + BigInt(index);
      const json = this.#kind.json(id, draft);
      // Before the animal: what a torn write leaves may be a record alone, which is cut, but no animal without its record.
      if (use !== undefined) lines.push(idempotencyLine(use));
      lines.push(json);
      return { stored: { id, json }, status: this.#kind.statusOf(draft), use };
    });
    const syncMilliseconds = await this.#journal.append(lines);
    for (const { stored, status, use } of records) {
      this.#catalogue.add(stored.id, status, stored.json);
      if (use !== undefined) this.#keys.keep(use, stored);
    }
    this.#tell({ count: records.length, syncMilliseconds });
    return records.map(({ stored }) => stored);
  }

  /** These records are kept: whoever fails to hear of it must not make a failure of that. */
  #tell(commit: Commit): void {
    for (const watch of this.#watchers) {
      try {
        watch(commit);
      } catch (error) {
        this.#log('error', 'a watcher of commits failed', { error: messageOf(error) });
      }
    }
  }

  /** @throws PetstoreError `unavailable` where int64 has not so many ids left: a file by hand may hold the last one. */
  #nextId(count: number): bigint {
    const { lastId } = this.#catalogue;
    if (int64Max - lastId < BigInt(count)) throw new PetstoreError('unavailable', 'There are no ids left.');
    return lastId + 1n;
  }
}
