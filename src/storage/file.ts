/** Owns the storage that lasts: the catalogue in memory, the journal on the disk, and the step from one to the other. */
import { resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { checkNames } from '../calling.js';
import { messageOf, PetstoreError } from '../errors.js';
import { int64Max } from '../int64.js';
import type { Log } from '../log.js';
import { checkDraft, petJson, type PetDraft } from '../pet.js';
import type { Commit, PetStorage, PetText, PetTexts } from '../storage.js';
import { Catalogue } from './catalogue.js';
import { nodeDisk, type Disk } from './disk.js';
import { GroupCommit } from './group-commit.js';
import type { Journal } from './journal.js';
import { lockingOn } from './lock.js';
import { openJournal } from './open-journal.js';
import { petLines } from './pet-lines.js';
import { petsOf } from './texts.js';

/** What a file storage may be given. */
export interface FileStorageOptions {
  /** Hears of a torn tail and of every change of state. @defaultValue nobody */
  readonly log?: Log;
  /** Milliseconds since the epoch. @defaultValue `Date.now` */
  readonly clock?: () => number;
  /** The file functions, for tests of faults. @defaultValue this machine's */
  readonly disk?: Disk;
}

/** How long closing waits for a disk that hangs before the process may end without it. */
const hungCloseMs = 1000;

/**
 * Opens the storage in a file of JSON Lines, made where missing (F8), and resolves once all of its animals are read and
 * on the disk. One process at a time has the file.
 * @throws PetstoreError `storage_unusable` (F7), `storage_in_use` (F4) or `storage_damaged` (F3), one line each.
 */
export async function fileStorage(path: string, options: FileStorageOptions = {}): Promise<PetStorage> {
  checkNames('option of fileStorage', options, ['log', 'clock', 'disk'] satisfies (keyof FileStorageOptions)[]);
  const { log = () => undefined, clock = Date.now, disk = nodeDisk } = options;
  const catalogue = new Catalogue();
  const keep = petLines((id, status, json) => catalogue.add(id, status, json));
  const locking = lockingOn(process.platform);
  const journal = await openJournal(resolve(path), { disk, locking, log, clock }, keep);
  return new FileStorage(catalogue, journal, log);
}

class FileStorage implements PetStorage {
  readonly durable = true;
  readonly texts: PetTexts;
  readonly insert: PetStorage['insert'];
  readonly get: PetStorage['get'];
  readonly list: PetStorage['list'];
  readonly #catalogue: Catalogue;
  readonly #journal: Journal;
  readonly #log: Log;
  readonly #commits: GroupCommit<PetDraft, PetText>;
  readonly #watchers: ((commit: Commit) => void)[] = [];
  #closing: Promise<void> | undefined;

  constructor(catalogue: Catalogue, journal: Journal, log: Log) {
    this.#catalogue = catalogue;
    this.#journal = journal;
    this.#log = log;
    this.#commits = new GroupCommit({
      commit: (drafts) => this.#commit(drafts),
      // A text of two bytes a char, and what goes with it.
      bytesOf: (draft) => 2 * draft.name.length + 128,
    });
    this.texts = {
      insert: (draft) => {
        checkDraft(draft);
        return this.#commits.add(draft);
      },
      get: (id) => this.#opened().get(id),
      list: (query) => this.#opened().page(query),
    };
    ({ insert: this.insert, get: this.get, list: this.list } = petsOf(this.texts));
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
    if (this.#closing !== undefined) throw new PetstoreError('unavailable', 'The storage is closed.');
    return this.#catalogue;
  }

  /** Ids are given here and not earlier, so that a batch that fails leaves no gap; readers see only what is durable. */
  async #commit(drafts: readonly PetDraft[]): Promise<readonly PetText[]> {
    const firstId = this.#nextId(drafts.length);
    const pets = drafts.map((draft, index) => {
      const id = firstId + BigInt(index);
      return { id, status: draft.status, json: petJson(id, draft) };
    });
    const syncMilliseconds = await this.#journal.append(pets.map((pet) => pet.json));
    for (const { id, status, json } of pets) this.#catalogue.add(id, status, json);
    this.#tell({ pets: pets.length, syncMilliseconds });
    return pets;
  }

  /** These animals are kept: whoever fails to hear of it must not make a failure of that. */
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
