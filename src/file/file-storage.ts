/** The storage that lasts: animals in their file, what plugins keep in files beside it. */
import { resolve } from 'node:path';
import { checkNames, PetstoreError, type Log } from '../errors.js';
import { int64Max } from '../json.js';
import { CommitWatchers, GroupCommit, idempotencyLine, lockingOn, nodeDisk } from '../journal/index.js';
import { openJournal, untilClosed, type Disk, type OpenJournalOptions } from '../journal/index.js';
import type { KeptKind, KeyUse } from '../memory/index.js';
import { Catalogue, checkOnce, closedError, IdempotencyKeys } from '../memory/index.js';
import { keptKindOf, petKind, petsOf, RecordNames, recordsWhenOpen } from '../memory/index.js';
import type { InsertOnce, PetQuery, PetStorage, RecordKind, StoredText, TextTarget } from '../storage.js';
import { anyRecords, petLines, recordLines } from './record-lines.js';

/** What a file storage may be given. */
export interface FileStorageOptions {
  /** Is told of a torn tail and of changes of state. @defaultValue nobody */
  readonly log?: Log;
  /** Milliseconds since the epoch, for the name of a torn tail's copy. @defaultValue `Date.now` */
  readonly clock?: () => number;
  /** The file functions, for tests of faults. @defaultValue this machine's */
  readonly disk?: Disk;
}

/**
 * Opens the storage in a file of JSON Lines, made where missing (F8), for this process alone, and resolves once all its
 * animals are read and on the disk. Records of a plugin's own are in `PATH.NAME`.
 * @throws PetstoreError `storage_unusable` (F7), `storage_in_use` (F4), `storage_damaged` (F3), in one line.
 */
export async function fileStorage(path: string, options: FileStorageOptions = {}): Promise<PetStorage> {
  checkNames('option of fileStorage', options, ['log', 'clock', 'disk']);
  const whole = resolve(path);
  const journal = journalOptions(options);
  const pets = await openFileRecords(whole, journal, petKind, petLines);
  const beside: Promise<{ ready(): Promise<void>; close(): Promise<void> }>[] = [];
  const names = new RecordNames();
  let closing: Promise<unknown> | undefined;

  const { ready, close } = pets;
  // A copy's getters would stand still.
  return Object.assign(pets, petsOf(pets.texts), {
    durable: true,
    records: <Draft>(name: string, kind: RecordKind<Draft>) => {
      const open = async () => {
        names.take(name);
        if (closing) throw closedError();
        const mend = 'put a copy from before in its place';
        return openFileRecords(`${whole}.${name}`, { ...journal, mend }, keptKindOf(kind), recordLines(kind));
      };
      const opening = open();
      beside.push(opening);
      return recordsWhenOpen(opening.then(({ texts }) => texts));
    },
    ready: async () => {
      await ready();
      const others = await Promise.all(beside).catch((cause: unknown) => {
        throw new PetstoreError('unavailable', 'What is kept beside the animals is not open.', { cause });
      });
      for (const records of others) await records.ready();
    },
    close: async () => {
      const closeOpened = async (opening: (typeof beside)[number]) => (await opening.catch(() => undefined))?.close();
      closing ??= Promise.all([close(), ...beside.map(closeOpened)]);
      await closing;
    },
  });
}

/** Opens a storage's file, or that of the records of a name, to add at its end. @throws as `fileStorage` */
export async function fileTarget(path: string, records?: string): Promise<TextTarget> {
  let lastId = 0n;
  const whole = records === undefined ? resolve(path) : `${resolve(path)}.${records}`;
  const lines = records === undefined ? petLines : recordLines(anyRecords);
  const accept = lines((id) => (lastId = id));
  const journal = await openJournal(whole, journalOptions({}), accept);
  return {
    adopt: async (texts) => {
      for (const { id } of texts) {
        if (id <= lastId)
          throw new PetstoreError('storage_unusable', `${whole} has an id of ${lastId}, which ${id} cannot follow`);
        lastId = id;
      }
      await journal.append(texts.map(({ json }) => json));
    },
    close: () => journal.close(),
  };
}

function journalOptions({ disk = nodeDisk, log = () => undefined, clock = Date.now }: FileStorageOptions) {
  return { disk, locking: lockingOn(process.platform), log, clock };
}

const hung = 'The disk does not answer.';
const keyedBytes = 512;

type Add<Draft> = { readonly draft: Draft; readonly use: KeyUse | undefined };

/** One kind of records in one file, by the members of a {@link PetStorage}. @throws as `openJournal` */
async function openFileRecords<Draft>(
  path: string,
  options: OpenJournalOptions,
  kind: KeptKind<Draft>,
  lines: typeof petLines,
) {
  const catalogue = new Catalogue();
  const keys = new IdempotencyKeys();
  const keep = lines((id, status, json, once) => {
    catalogue.add(id, status, json);
    if (once) keys.restore(once, { id, json });
  });
  const journal = await openJournal(path, options, keep);
  const watchers = new CommitWatchers(options.log);
  let closed = false;
  const endUse = ({ use }: Add<Draft>) => {
    if (use) keys.drop(use);
  };
  const commits = new GroupCommit<Add<Draft>, StoredText>({
    commit: (adds) =>
      append(adds).catch((error: unknown) => {
        // Maybe long after the client was answered.
        for (const add of adds) endUse(add);
        throw error;
      }),
    abandoned: endUse,
    bytesOf: ({ draft, use }) => kind.bytesOf(draft) + (use ? keyedBytes : 0),
    hung,
  });

  /** Gives ids only now: a batch that fails leaves no gap. */
  async function append(adds: readonly Add<Draft>[]) {
    const firstId = nextId(adds.length);
    const batch: string[] = [];
    const records = adds.map(({ draft, use }, index) => {
      const id = firstId + BigInt(index);
      const json = kind.json(id, draft);
      // A torn write may leave a record alone, and that is cut, but no animal without its record.
      if (use) batch.push(idempotencyLine(use));
      batch.push(json);
      return { stored: { id, json }, status: kind.statusOf(draft), use };
    });
    const syncMilliseconds = await journal.append(batch);
    for (const { stored, status, use } of records) {
      catalogue.add(stored.id, status, stored.json);
      if (use) keys.keep(use, stored);
    }
    watchers.tell({ count: records.length, syncMilliseconds });
    return records.map(({ stored }) => stored);
  }

  /** A file by hand may hold the last id. @throws PetstoreError `unavailable` */
  function nextId(count: number): bigint {
    const { lastId } = catalogue;
    if (int64Max - lastId < BigInt(count)) throw new PetstoreError('unavailable', 'There are no ids left.');
    return lastId + 1n;
  }

  const opened = () => {
    if (closed) throw closedError();
    return catalogue;
  };

  return {
    get size() {
      return catalogue.size;
    },
    get waiting() {
      return commits.waiting;
    },
    onCommit: watchers.add,
    texts: {
      insert: (draft: Draft) => commits.add({ draft, use: undefined }),
      insertOnce: (draft: Draft, once: InsertOnce) => {
        checkOnce(once);
        opened();
        const use = keys.begin(once);
        return use.added ?? commits.add({ draft, use });
      },
      get: (id: bigint) => opened().get(id),
      list: (query: PetQuery) => opened().page(query),
    },
    ready: async () => {
      opened();
      if (commits.hung) throw new PetstoreError('unavailable', hung);
      nextId(1);
      await journal.checkReady();
    },
    close: async () => {
      closed = true;
      await commits.close();
      await untilClosed(journal.close());
    },
  };
}
