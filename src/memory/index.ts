/** The storage that forgets with its process. */
import {
  Catalogue,
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
import { checkNames } from '../options.js';
import type { PetDraft } from '../pet.js';
import type { PetStorage } from '../storage.js';

/** How a storage in memory begins. */
export interface MemoryStorageOptions {
  /** Its first animals, as 1, 2, 3 … in their order. */
  readonly pets?: Iterable<PetDraft>;
}

/**
 * A storage that forgets with the process.
 * @throws TypeError for an unknown option or a wrong draft.
 */
export function memoryStorage(options: MemoryStorageOptions = {}): PetStorage {
  checkNames('option of memoryStorage', options, ['pets']);

  const names = new RecordNames();
  let isClosed = false;

  function openRecords() {
    const catalogue = new Catalogue();
    const keys = new IdempotencyKeys();

    function opened() {
      if (isClosed) throw closedError();
      return catalogue;
    }

    const records = recordsInMemory(opened, keys, ({ status, rest, use }) => {
      const id = opened().lastId + 1n;
      const added = { id, json: withId(id, rest) };
      catalogue.add(id, status, added.json);
      if (use) keys.keep(use, added);
      return added;
    });

    return { catalogue, opened, records };
  }

  const { catalogue, opened, records } = openRecords();

  async function open(name: string): Promise<RecordTexts> {
    names.take(name);
    opened();
    return openRecords().records;
  }

  const texts = petTexts(records);
  for (const draft of options.pets ?? []) texts.insert(draft);

  return {
    ...petsOf(texts),
    texts,
    durable: false,
    get size() {
      return catalogue.size;
    },
    records: (name, kind) => recordsWhenOpen(kind, open(name)),
    ready: async () => void opened(),
    close: async () => void (isClosed = true),
  };
}
