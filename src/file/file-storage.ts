/** File storage: pets in a file of JSON Lines, and plugins' records in files beside it. */
import {
  Catalogue,
  closedError,
  commitWatchers,
  groupCommit,
  IdempotencyKeys,
  recordBytes,
  toPetStorage,
  toPetTexts,
  RecordNames,
  recordsWhenOpen,
  replayOf,
  untilClosed,
  withId,
  type KeyedRecord,
  type KnownUse,
  type RecordStore,
} from '../engine/index.js';
import { checkedClock, machineClock, steadyClock } from '../clock.js';
import { PetstoreError } from '../errors.js';
import { idempotencyLine, openJournal, type JournalOptions } from '../journal/index.js';
import { int64Max } from '../json.js';
import { checkNames } from '../options.js';
import type { PetStorage, StoredText } from '../storage.js';
import { fileOptionNames, toJournalOptions, type FileStorageOptions } from './file-options.js';
import { petLines, recordLines } from './record-lines.js';
import { storagePath } from './storage-path.js';

/**
 * Opens a file of JSON Lines, or creates it (F8), and locks it for this storage. Records of plugins
 * are in files beside it, `PATH.NAME`. The message of each error is one line.
 * @throws TypeError if an option is unknown
 * @throws PetstoreError `storage_in_use` if the file is open already (F4)
 * @throws PetstoreError `storage_damaged` if no crash explains a bad line (F3)
 * @throws PetstoreError `storage_unusable` if the file cannot be opened, read or written (F7)
 */
export async function fileStorage(
  path: string,
  options: FileStorageOptions = {},
): Promise<PetStorage> {
  checkNames('option of fileStorage', options, fileOptionNames);
  const journalOptions = toJournalOptions(options);

  const petsPath = storagePath(path);
  const pets = await openFileRecords(petsPath, journalOptions, petLines);
  const plugins: ReturnType<typeof openFileRecords>[] = [];
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
    // Goes on from the last use of a key: the time since then is unknown, and does not count (C73).
    keyClock: steadyClock(pets.keys.lastAt ?? checkedClock(options.clock ?? machineClock)()),
    records: (name, kind) =>
      recordsWhenOpen(kind, async () => {
        names.take(name);
        if (closing) throw closedError();

        const own = { ...journalOptions, hint: 'restore this file from a backup' };
        const opening = openFileRecords(`${petsPath}.${name}`, own, recordLines(kind));
        // Only names that passed the checks count for the readiness of the storage.
        plugins.push(opening);
        return (await opening).store;
      }),
    ready: async () => {
      await pets.ready();
      const others = await Promise.all(plugins).catch((cause: unknown) => {
        throw new PetstoreError('unavailable', 'The records of a plugin are not open.', {
          cause,
        });
      });
      for (const records of others) await records.ready();
    },
    close: async () => {
      closing ??= Promise.all([
        pets.close(),
        ...plugins.map(async (opening) => (await opening.catch(() => undefined))?.close()),
      ]);
      await closing;
    },
  };
}

/**
 * Checks that `count` ids are left. A file that was written by hand may contain the largest id.
 * @throws PetstoreError `unavailable` if there are fewer
 */
export function checkIdsLeft(lastId: bigint, count: number): void {
  if (int64Max - lastId < BigInt(count))
    throw new PetstoreError('unavailable', 'There are no ids left.');
}

/** The most bytes of a batch, so that a slow disk writes a batch within 8 s (C48). */
const maxBatchBytes = 8 * 2 ** 20;

const diskHangs = 'The disk does not respond.';

/** Opens a file of pets or of a plugin's records. @throws PetstoreError as `openJournal` */
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
      if (use.added !== undefined) return replayOf(use.added);
      return commits.add({ ...record, keyUse: use });
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
        // Here, because a commit that hangs rejects its callers before its outcome is known.
        for (const record of batch) abandon(record);
        throw error;
      }),
    abandoned: abandon,
    bytesOf: recordBytes,
    batchBytes: () => maxBatchBytes,
    hung: diskHangs,
  });

  /**
   * Appends a batch to the file, and then adds it to the catalogue, where readers see it (F1). The
   * records get their ids here, so that a failed batch leaves no gap.
   */
  async function commit(batch: readonly KeyedRecord<KnownUse>[]) {
    checkIdsLeft(catalogue.lastId, batch.length);

    let id = catalogue.lastId;
    const lines: string[] = [];
    const records = batch.map(({ indexed, jsonAfterId, keyUse }) => {
      const json = withId(++id, jsonAfterId);
      // In this order, a torn write leaves no pet without its idempotency record. An idempotency
      // record without its pet is cut off at the next start.
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
      if (commits.hung) throw new PetstoreError('unavailable', diskHangs);
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
