/** Owns the storage that lasts: the animals in their file, and whatever else is kept beside them in files of its own. */
import { resolve } from 'node:path';
import { checkNames } from '../calling.js';
import { PetstoreError } from '../errors.js';
import type { Log } from '../log.js';
import { checkDraft, petJson, type PetDraft } from '../pet.js';
import type { Commit, PetStorage, PetTexts, RecordKind, Records } from '../storage.js';
import { nodeDisk, type Disk } from './disk.js';
import { FileRecords } from './file-records.js';
import { lockingOn } from './lock.js';
import type { OpenJournalOptions } from './open-journal.js';
import { recordsWhenOpen } from './opening.js';
import { petLines, recordLines } from './pet-lines.js';
import { closedError, keptKindOf, RecordNames, type KeptKind } from './record-set.js';
import { petsOf } from './texts.js';

/** What a file storage may be given. */
export interface FileStorageOptions {
  /** Hears of a torn tail and of every change of state. @defaultValue nobody */
  readonly log?: Log;
  /** Milliseconds since the epoch: the time in the name of a torn tail's copy. @defaultValue `Date.now` */
  readonly clock?: () => number;
  /** The file functions, for tests of faults. @defaultValue this machine's */
  readonly disk?: Disk;
}

/**
 * Opens the storage in a file of JSON Lines, made where missing (F8), and resolves once all of its animals are read and
 * on the disk. One process at a time has the file. Records of a plugin's own are in `PATH.NAME`.
 * @throws PetstoreError `storage_unusable` (F7), `storage_in_use` (F4) or `storage_damaged` (F3), one line each.
 */
export async function fileStorage(path: string, options: FileStorageOptions = {}): Promise<PetStorage> {
  checkNames('option of fileStorage', options, ['log', 'clock', 'disk'] satisfies (keyof FileStorageOptions)[]);
  const { log = () => undefined, clock = Date.now, disk = nodeDisk } = options;
  const journalOptions = { disk, locking: lockingOn(process.platform), log, clock };
  const whole = resolve(path);
  return new FileStorage(whole, journalOptions, await FileRecords.open(whole, journalOptions, petKind, petLines));
}

const petKind: KeptKind<PetDraft> = {
  json: petJson,
  statusOf: (draft) => draft.status,
  // A text of two bytes a char, and what goes with it.
  bytesOf: (draft) => 2 * draft.name.length + 128,
};

class FileStorage implements PetStorage {
  readonly durable = true;
  readonly texts: Required<PetTexts>;
  readonly insert: PetStorage['insert'];
  readonly insertOnce: Required<PetStorage>['insertOnce'];
  readonly get: PetStorage['get'];
  readonly list: PetStorage['list'];
  readonly #path: string;
  readonly #journalOptions: OpenJournalOptions;
  readonly #pets: FileRecords<PetDraft>;
  /** Each kind of records beside the animals, from the moment that somebody asks for it. */
  readonly #beside: Promise<{ ready(): Promise<void>; close(): Promise<void> }>[] = [];
  readonly #names = new RecordNames();
  #closing: Promise<void> | undefined;

  constructor(path: string, journalOptions: OpenJournalOptions, pets: FileRecords<PetDraft>) {
    this.#path = path;
    this.#journalOptions = journalOptions;
    this.#pets = pets;
    this.texts = {
      insert: (draft) => {
        checkDraft(draft);
        return pets.insert(draft);
      },
      insertOnce: (draft, once) => {
        checkDraft(draft);
        return pets.insertOnce(draft, once);
      },
      get: (id) => pets.get(id),
      list: (query) => pets.list(query),
    };
    ({ insert: this.insert, insertOnce: this.insertOnce, get: this.get, list: this.list } = petsOf(this.texts));
  }

  get size(): number {
    return this.#pets.size;
  }

  get waiting(): number {
    return this.#pets.waiting;
  }

  onCommit(watcher: (commit: Commit) => void): void {
    this.#pets.onCommit(watcher);
  }

  records<Draft>(name: string, kind: RecordKind<Draft>): Records<Draft> {
    const opening = this.#openBeside(name, kind);
    this.#beside.push(opening);
    return recordsWhenOpen(opening);
  }

  async #openBeside<Draft>(name: string, kind: RecordKind<Draft>): Promise<FileRecords<Draft>> {
    this.#names.take(name);
    if (this.#closing !== undefined) throw closedError();
    const options = { ...this.#journalOptions, mend: 'put a copy from before in its place' };
    return FileRecords.open(`${this.#path}.${name}`, options, keptKindOf(kind), recordLines(kind));
  }

  async ready(): Promise<void> {
    await this.#pets.ready();
    for (const opening of this.#beside) await (await opening.catch(notOpen)).ready();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    // What failed to open has nothing to close.
    const besides = this.#beside.map((opening) =>
      opening.then(
        (records) => records.close(),
        () => undefined,
      ),
    );
    await Promise.all([this.#pets.close(), ...besides]);
  }
}

function notOpen(cause: unknown): never {
  throw new PetstoreError('unavailable', 'What is kept beside the animals is not open.', { cause });
}
