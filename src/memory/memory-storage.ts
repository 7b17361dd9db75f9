/** In-memory storage. */
import {
  Catalogue,
  closedError,
  IdempotencyKeys,
  pendingPet,
  RecordNames,
  recordsWhenOpen,
  toPetStorage,
  toPetTexts,
  withId,
  type PendingRecord,
  type RecordStore,
} from '../engine/index.js';
import { callSafely } from '../log.js';
import { checkNames } from '../options.js';
import type { PetDraft } from '../pet.js';
import type { PetStorage, StoredText } from '../storage.js';

/** The options of {@link memoryStorage}. */
export interface MemoryStorageOptions {
  /** The first pets, which get the ids 1, 2, 3 … in this order. */
  readonly pets?: Iterable<PetDraft>;
}

/** A storage that ends with its process and can be reset. */
export interface MemoryStorage extends PetStorage {
  /** Resets to the pets of the options: ids from 1, no idempotency keys, no records of plugins. */
  reset(): Promise<void>;
}

/** Returns a storage in memory. @throws TypeError for an unknown option or an invalid draft */
export function memoryStorage(options: MemoryStorageOptions = {}): MemoryStorage {
  checkNames('option of memoryStorage', options, { pets: true });

  const firstPets = Array.from(options.pets ?? [], (draft) => pendingPet(draft));
  const names = new RecordNames();
  const clearings: (() => void)[] = [];
  const resetWatchers: (() => void)[] = [];
  let isClosed = false;

  /** Opens the pets, or the records of a plugin. */
  function openRecords() {
    const none = () => ({ catalogue: new Catalogue(), keys: new IdempotencyKeys() });
    let kept = none();
    clearings.push(() => (kept = none()));

    const opened = () => {
      if (isClosed) throw closedError();
      return kept;
    };

    const insert = ({ indexed, jsonAfterId }: PendingRecord): StoredText => {
      const { catalogue } = opened();
      const id = catalogue.lastId + 1n;
      const json = withId(id, jsonAfterId);
      catalogue.add(id, json, indexed);
      return { id, json };
    };

    const store: RecordStore = {
      insert,
      insertOnce: (record, keyUse) => {
        const { keys } = opened();
        const use = keys.begin(keyUse);
        return use.added ?? keys.keep(use, insert(record));
      },
      get: (id) => opened().catalogue.get(id),
      list: (query) => opened().catalogue.page(query),
    };
    return { opened, store, size: () => kept.catalogue.size };
  }

  const pets = openRecords();
  const insertFirstPets = (): void => firstPets.forEach((pet) => void pets.store.insert(pet));
  insertFirstPets();

  return {
    ...toPetStorage(toPetTexts(pets.store)),
    durable: false,
    get size() {
      return pets.size();
    },
    records: (name, kind) =>
      recordsWhenOpen(kind, async () => {
        names.take(name);
        pets.opened();
        return openRecords().store;
      }),
    ready: async () => void pets.opened(),
    reset: async () => {
      pets.opened();
      for (const clear of clearings) clear();
      insertFirstPets();
      for (const watcher of resetWatchers) void callSafely(watcher);
    },
    onReset: (watcher) => void resetWatchers.push(watcher),
    close: async () => void (isClosed = true),
  };
}
