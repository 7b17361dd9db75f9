/** Owns records that last: their catalogue in memory, their journal on the disk, and the step from one to the other. Knows no animal. */
import { setTimeout as wait } from 'node:timers/promises';
import { messageOf, PetstoreError } from '../errors.js';
import { int64Max } from '../int64.js';
import type { Log } from '../log.js';
import type { Commit, PetQuery, StoredText, TextPage, Texts } from '../storage.js';
import { Catalogue } from './catalogue.js';
import { GroupCommit } from './group-commit.js';
import type { Journal } from './journal.js';
import { openJournal, type OpenJournalOptions } from './open-journal.js';
import type { TakePet } from './pet-lines.js';
import { closedError, type KeptKind } from './record-set.js';
import type { AcceptLine } from './replay.js';

/** How long closing waits for a disk that hangs before the process may end without it. */
const hungCloseMs = 1000;

/** One kind of records in one file. */
export class FileRecords<Draft> implements Texts<Draft, PetQuery> {
  readonly #kind: KeptKind<Draft>;
  readonly #catalogue: Catalogue;
  readonly #journal: Journal;
  readonly #log: Log;
  readonly #commits: GroupCommit<Draft, StoredText>;
  readonly #watchers: ((commit: Commit) => void)[] = [];
  #closing: Promise<void> | undefined;

  private constructor(kind: KeptKind<Draft>, catalogue: Catalogue, journal: Journal, log: Log) {
    this.#kind = kind;
    this.#catalogue = catalogue;
    this.#journal = journal;
    this.#log = log;
    this.#commits = new GroupCommit({ commit: (drafts) => this.#commit(drafts), bytesOf: kind.bytesOf });
  }

  /** Opens the file at a path; `lines` hands each record of it on. @throws as `openJournal`. */
  static async open<Draft>(path: string, options: OpenJournalOptions, kind: KeptKind<Draft>, lines: (take: TakePet) => AcceptLine): Promise<FileRecords<Draft>> {
    const catalogue = new Catalogue();
    const keep = lines((id, status, json) => catalogue.add(id, status, json));
    return new FileRecords(kind, catalogue, await openJournal(path, options, keep), options.log);
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
    return this.#commits.add(draft);
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

  /** Ids are given here and not earlier, so that a batch that fails leaves no gap; readers see only what is durable. */
  async #commit(drafts: readonly Draft[]): Promise<readonly StoredText[]> {
    const firstId = this.#nextId(drafts.length);
    const records = drafts.map((draft, index) => {
      const id = firstId + BigInt(index);
      return { id, status: this.#kind.statusOf(draft), json: this.#kind.json(id, draft) };
    });
    const syncMilliseconds = await this.#journal.append(records.map((record) => record.json));
    for (const { id, status, json } of records) this.#catalogue.add(id, status, json);
    this.#tell({ count: records.length, syncMilliseconds });
    return records;
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
