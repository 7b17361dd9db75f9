/** The storage that forgets with its process. */
import {
  Catalogue,
  checkDraft,
  closedError,
  IdempotencyKeys,
  petsOf,
  petTexts,
  RecordNames,
  recordsInMemory,
  recordsWhenOpen,
  type RecordTexts,
  withId,
} from '../engine/index.js';
import { guarded } from '../log.js';
import { checkNames } from '../options.js';
import type { PetDraft } from '../pet.js';
import type { PetStorage } from '../storage.js';

/** How a storage in memory begins. */
export interface MemoryStorageOptions {
  /** Its first animals, as 1, 2, 3 … in their order. */
  readonly pets?: Iterable<PetDraft>;
}

/** A storage that forgets, and can begin anew. */
export interface MemoryStorage extends PetStorage {
  /** Begins anew: with the animals of its options, ids from 1, no idempotency keys, no records. */
  reset(): Promise<void>;
}

/**
 * A storage that forgets with the process.
 * @throws TypeError for an unknown option or a wrong draft.
 */
export function memoryStorage(options: MemoryStorageOptions = {}): MemoryStorage {
  checkNames('option of memoryStorage', options, ['pets']);

  const names = new RecordNames();
  /** What each kind of records does to forget its own. */
  const forgetting: (() => void)[] = [];
  const watchers: (() => void)[] = [];
  // Copies, for their owner may change the drafts before a reset.
  const drafts = Array.from(options.pets ?? [], (draft) => checkDraft(draft));
  let isClosed = false;

  function openRecords() {
    let catalogue = new Catalogue();
    let keys = new IdempotencyKeys();
    forgetting.push(() => {
      catalogue = new Catalogue();
      keys = new IdempotencyKeys();
    });

    function opened() {
      if (isClosed) throw closedError();
      return catalogue;
    }

    const records = recordsInMemory(
      opened,
      () => keys,
      ({ indexed, rest, keyUse }) => {
        const id = opened().lastId + 1n;
        const added = { id, json: withId(id, rest) };
        catalogue.add(id, added.json, indexed);
        if (keyUse) keys.keep(keyUse, added);
        return added;
      },
    );

    return { sizeNow: () => catalogue.size, opened, records };
  }

  const { sizeNow, opened, records } = openRecords();

  async function open(name: string): Promise<RecordTexts> {
    names.take(name);
    opened();
    return openRecords().records;
  }

  const texts = petTexts(records);
  function begin(): void {
    for (const draft of drafts) texts.insert(draft);
  }
  begin();

  return {
    ...petsOf(texts),
    texts,
    durable: false,
    get size() {
      return sizeNow();
    },
    records: (name, kind) => recordsWhenOpen(kind, open(name)),
    ready: async () => void opened(),
    reset: async () => {
      opened();
      for (const forget of forgetting) forget();
      begin();
      for (const watcher of watchers) void guarded(watcher);
    },
    onReset: (watcher) => void watchers.push(watcher),
    close: async () => void (isClosed = true),
  };
}
