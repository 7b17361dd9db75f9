/** In-memory storage. */
import {
  Catalogue,
  closedError,
  IdempotencyKeys,
  pendingPet,
  RecordNames,
  recordsWhenOpen,
  replayOf,
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
  /** The seed, whose pets get the ids 1, 2, 3 … in this order. */
  readonly pets?: Iterable<PetDraft>;
}

/** A storage that keeps pets only in memory. */
export interface MemoryStorage extends PetStorage {
  /** Begins anew with the seed, without idempotency keys and records of plugins. */
  reset(): Promise<void>;
}

/**
 * Returns a storage in memory.
 * @throws TypeError if an option is unknown or a pet of the seed is not valid
 */
export function memoryStorage(options: MemoryStorageOptions = {}): MemoryStorage {
  checkNames('option of memoryStorage', options, { pets: true });

  return storageOf(Array.from(options.pets ?? [], (draft) => pendingPet(draft)));
}

/** Returns a storage with a seed. */
function storageOf(seed: readonly PendingRecord[]): MemoryStorage {
  const names = new RecordNames();
  const clearings: (() => void)[] = [];
  const resetWatchers: (() => void)[] = [];
  let isClosed = false;

  /** Returns an empty store for the pets or for the records of a plugin. */
  function makeStore() {
    const empty = () => ({ catalogue: new Catalogue(), keys: new IdempotencyKeys() });
    let kept = empty();
    clearings.push(() => (kept = empty()));

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
        return use.added === undefined ? keys.keep(use, insert(record)) : replayOf(use.added);
      },
      get: (id) => opened().catalogue.get(id),
      list: (query) => opened().catalogue.page(query),
    };
    return { opened, store, size: () => kept.catalogue.size };
  }

  const pets = makeStore();
  const insertSeed = (): void => seed.forEach((pet) => void pets.store.insert(pet));
  insertSeed();

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
        return makeStore().store;
      }),
    ready: async () => void pets.opened(),
    reset: async () => {
      pets.opened();
      for (const clear of clearings) clear();
      insertSeed();
      for (const watcher of resetWatchers) void callSafely(watcher);
    },
    fresh: () => storageOf(seed),
    onReset: (watcher) => void resetWatchers.push(watcher),
    close: async () => void (isClosed = true),
  };
}
