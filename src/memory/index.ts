/** The storage that forgets with its process. */
import {
  Catalogue,
  checkOnce,
  closedError,
  IdempotencyKeys,
  petsOf,
  petTexts,
  RecordNames,
  recordsWhenOpen,
  type RecordTexts,
  type Unnumbered,
  withId,
} from '../engine/index.js';
import { checkNames } from '../options.js';
import type { PetDraft } from '../pet.js';
import type { IdempotencyKeyUse, PetQuery, PetStorage, StoredText } from '../storage.js';

/** How a storage in memory begins. */
export interface MemoryStorageOptions {
  /** Its first animals, as 1, 2, 3 … in their order. */
  readonly pets?: Iterable<PetDraft>;
}

/**
 * A storage that forgets with the process. @throws TypeError for an unknown option or a wrong draft
 */
export function memoryStorage(options: MemoryStorageOptions = {}): PetStorage {
  checkNames('option of memoryStorage', options, ['pets']);
  const names = new RecordNames();
  let closed = false;

  function openRecords() {
    const catalogue = new Catalogue();
    const idempotencyKeys = new IdempotencyKeys();

    function opened(): Catalogue {
      if (closed) throw closedError();
      return catalogue;
    }

    function insert({ status, rest }: Unnumbered): StoredText {
      const id = opened().lastId + 1n;
      const json = withId(id, rest);
      catalogue.add(id, status, json);
      return { id, json };
    }

    function insertOnce(record: Unnumbered, once: IdempotencyKeyUse): StoredText {
      checkOnce(once);
      opened();
      const use = idempotencyKeys.begin(once);
      if (use.added) return use.added;

      const added = insert(record);
      idempotencyKeys.keep(use, added);
      return added;
    }

    const get = (id: bigint) => opened().get(id);
    const list = (query: PetQuery) => opened().page(query);
    return { catalogue, opened, texts: { insert, insertOnce, get, list } };
  }

  const { catalogue, opened, texts } = openRecords();
  const pets = petTexts(texts);
  for (const draft of options.pets ?? []) pets.insert(draft);

  async function open(name: string): Promise<RecordTexts> {
    names.take(name);
    opened();
    return openRecords().texts;
  }

  return {
    ...petsOf(pets),
    texts: pets,
    durable: false,
    get size() {
      return catalogue.size;
    },
    records: (name, kind) => recordsWhenOpen(kind, open(name)),
    ready: async () => void opened(),
    close: async () => void (closed = true),
  };
}
