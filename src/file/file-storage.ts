/** File storage: pets in one file, and the records of plugins in files beside it. */
import { resolve } from 'node:path';
import {
  Catalogue,
  closedError,
  commitWatchers,
  groupCommit,
  IdempotencyKeys,
  importedStart,
  petJson,
  toPetStorage,
  toPetTexts,
  RecordNames,
  recordsWhenOpen,
  untilClosed,
  withId,
  type KeyedRecord,
  type KnownUse,
  type RecordStore,
} from '../engine/index.js';
import { PetstoreError } from '../errors.js';
import {
  idempotencyLine,
  importLine,
  openJournal,
  type JournalOptions,
  type OnCommit,
} from '../journal/index.js';
import { int64Max } from '../json.js';
import { checkedClock, checkNames, machineClock, steadyClock } from '../options.js';
import type { PetDraft } from '../pet.js';
import type { ImportSource, ImportTarget, PetStorage, StoredText, TextTarget } from '../storage.js';
import { anyRecords, petLines, recordLines } from './record-lines.js';

/** What a file storage may be given. */
export type FileStorageOptions = Pick<JournalOptions, 'log' | 'clock' | 'disk' | 'mend'>;

/**
 * Opens a file of JSON Lines, which is made where it is missing (F8), for this process alone. The
 * records of plugins are in files beside it, `PATH.NAME`.
 * @throws PetstoreError `storage_unusable` (F7), `storage_in_use` (F4) or `storage_damaged` (F3),
 * whose message is one line.
 */
export async function fileStorage(
  path: string,
  options: FileStorageOptions = {},
): Promise<PetStorage> {
  checkNames('option of fileStorage', options, { log: true, clock: true, disk: true, mend: true });

  const petsPath = resolve(path);
  const pets = await openFileRecords(petsPath, options, petLines);
  const beside: ReturnType<typeof openFileRecords>[] = [];
  const names = new RecordNames();
  let closing: Promise<unknown> | undefined;

  return {
    ...toPetStorage(toPetTexts(pets.store)),
    durable: true,
    get size() {
      return pets.catalogue.size;
    },
    get waiting() {
      return pets.commits.waiting;
    },
    onCommit: pets.onCommit,
    // Time in which no server ran does not count: nobody knows how long it was (C73).
    keyClock: steadyClock(pets.keys.lastAt ?? checkedClock(options.clock ?? machineClock)()),
    records: (name, kind) =>
      recordsWhenOpen(kind, async () => {
        names.take(name);
        if (closing) throw closedError();

        const own = { ...options, mend: 'put a copy from before in its place' };
        const opening = openFileRecords(`${petsPath}.${name}`, own, recordLines(kind));
        // A name that was refused is not among these, or the storage would never be ready.
        beside.push(opening);
        return (await opening).store;
      }),
    ready: async () => {
      await pets.ready();
      const others = await Promise.all(beside).catch((cause: unknown) => {
        throw new PetstoreError('unavailable', 'What is kept beside the animals is not open.', {
          cause,
        });
      });
      for (const records of others) await records.ready();
    },
    close: async () => {
      closing ??= Promise.all([
        pets.close(),
        ...beside.map(async (opening) => (await opening.catch(() => undefined))?.close()),
      ]);
      await closing;
    },
  };
}

/**
 * Opens a storage's file, or that of the records of a name, to add what has ids already.
 * @throws as `fileStorage`
 */
export async function fileTarget(path: string, records?: string): Promise<TextTarget> {
  const isPets = records === undefined;
  const ownPath = isPets ? resolve(path) : `${resolve(path)}.${records}`;
  let lastId = 0n;
  const accept = (isPets ? petLines : recordLines(anyRecords))((id) => (lastId = id));
  const { append, close } = await openJournal(ownPath, {}, accept);

  return {
    adopt: async (texts) => {
      for (const { id } of texts) {
        if (id <= lastId)
          throw new PetstoreError(
            'storage_unusable',
            `${ownPath} has an id of ${lastId}, which ${id} cannot follow`,
          );

        lastId = id;
      }

      await append(texts.map(({ json }) => json));
    },
    close,
  };
}

/** An import into a file. */
export interface FileImport extends ImportTarget {
  /** Whether the file held no animal as it was opened. */
  readonly isEmpty: boolean;
}

/**
 * Opens a storage's file to import one source, told by its SHA-256 in lowercase hexadecimal digits
 * or by more: each batch and the place behind it are one commit (F11).
 * @throws as `fileStorage`
 */
export async function fileImport(
  path: string,
  source: string | ImportSource,
  options: FileStorageOptions = {},
): Promise<FileImport> {
  let lastId = 0n;
  const places = new Map<string, number>();
  const takePlace: OnCommit = (imported) => {
    if (imported) places.set(imported.source, imported.place);
  };

  const takeId = petLines((id) => (lastId = id));
  const { append, close } = await openJournal(resolve(path), options, takeId, takePlace);

  const whole = typeof source === 'string' ? { digest: source } : source;
  const start = importedStart(whole, places);
  let place = start;

  async function add(drafts: readonly PetDraft[], startDigest?: string): Promise<number> {
    checkIdsLeft(lastId, drafts.length);

    let id = lastId;
    const lines = drafts.map((draft) => petJson(++id, draft));
    const next = { source: startDigest ?? whole.digest, place: place + drafts.length };
    await append([importLine(next), ...lines]);

    lastId = id;
    return (place = next.place);
  }

  return { start, add, close, isEmpty: lastId === 0n };
}

/** A file written by hand may hold the last id. @throws PetstoreError `unavailable` */
function checkIdsLeft(lastId: bigint, count: number): void {
  if (int64Max - lastId < BigInt(count))
    throw new PetstoreError('unavailable', 'There are no ids left.');
}

const noAnswer = 'The disk does not answer.';

/** Opens a file of animals, or of a plugin's records. @throws as `openJournal` */
async function openFileRecords(
  path: string,
  options: JournalOptions,
  acceptorFor: typeof petLines,
) {
  const catalogue = new Catalogue();
  const keys = new IdempotencyKeys();
  const restore = acceptorFor((id, json, indexed, keyUse) => {
    catalogue.add(id, json, indexed);
    if (keyUse) keys.restore(keyUse, { id, json });
  });

  const journal = await openJournal(path, options, restore);
  const watchers = commitWatchers(options.log);
  let isClosed = false;

  function opened() {
    if (isClosed) throw closedError();
    return catalogue;
  }

  const store: RecordStore = {
    insert: (record) => commits.add(record),
    insertOnce: (record, keyUse) => {
      opened();
      const use = keys.begin(keyUse);
      return use.added ?? commits.add({ ...record, keyUse: use });
    },
    get: (id) => opened().get(id),
    list: (query) => opened().page(query),
  };

  function abandon({ keyUse }: KeyedRecord<KnownUse>) {
    if (keyUse) keys.drop(keyUse);
  }

  const commits = groupCommit<KeyedRecord<KnownUse>, StoredText>({
    commit: (batch) =>
      commit(batch).catch((error: unknown) => {
        // This may be long after the clients were answered, where the commit has hung.
        for (const record of batch) abandon(record);
        throw error;
      }),
    abandoned: abandon,
    bytesOf: ({ jsonAfterId, keyUse }) => jsonAfterId.length + (keyUse ? 640 : 128),
    hung: noAnswer,
  });

  /**
   * Keeps a batch in the file, and then in memory, where readers see it (F1). It gets its ids only
   * here: a batch that fails leaves no gap.
   */
  async function commit(batch: readonly KeyedRecord<KnownUse>[]) {
    checkIdsLeft(catalogue.lastId, batch.length);

    let id = catalogue.lastId;
    const lines: string[] = [];
    const records = batch.map(({ indexed, jsonAfterId, keyUse }) => {
      const json = withId(++id, jsonAfterId);
      // In this order a torn write leaves no animal without its idempotency record. A record
      // without its animal is cut off.
      if (keyUse) lines.push(idempotencyLine(keyUse));
      lines.push(json);
      return { stored: { id, json }, indexed, keyUse };
    });

    const syncMilliseconds = await journal.append(lines);
    for (const { stored, indexed, keyUse } of records) {
      catalogue.add(stored.id, stored.json, indexed);
      if (keyUse) keys.keep(keyUse, stored);
    }

    watchers.tell({ count: records.length, syncMilliseconds });
    return records.map(({ stored }) => stored);
  }

  return {
    catalogue,
    keys,
    commits,
    onCommit: watchers.add,
    store,
    ready: async () => {
      opened();
      if (commits.hung) throw new PetstoreError('unavailable', noAnswer);
      checkIdsLeft(catalogue.lastId, 1);
      await journal.checkReady();
    },
    close: async () => {
      isClosed = true;
      await commits.close();
      await untilClosed(journal.close());
    },
  };
}
