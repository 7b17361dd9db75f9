/** The storage that forgets with its process. */
import {
  checkOnce,
  IdempotencyKeys,
  closedError,
  restKind,
  petKind,
  petsOf,
  RecordNames,
  recordsWhenOpen,
  type KeptKind,
  Catalogue,
} from '../engine/index.js';
import { checkNames } from '../options.js';
import type { PetDraft } from '../pet.js';
import type { InsertOnce, PetQuery, PetStorage, StoredText } from '../storage.js';

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

  function recordsOf<Draft, Own>(kind: KeptKind<Draft, Own>) {
    const catalogue = new Catalogue();
    const idempotencyKeys = new IdempotencyKeys();
    const opened = () => {
      if (closed) throw closedError();
      return catalogue;
    };
    const keep = (own: Own): StoredText => {
      const id = opened().lastId + 1n;
      const json = kind.json(id, own);
      catalogue.add(id, kind.statusOf(own), json);
      return { id, json };
    };
    const insert = (draft: Draft): StoredText => keep(kind.own(draft));
    const insertOnce = (draft: Draft, once: InsertOnce): StoredText => {
      const own = kind.own(draft);
      checkOnce(once);
      opened();
      const use = idempotencyKeys.begin(once);
      if (use.added) return use.added;
      const added = keep(own);
      idempotencyKeys.keep(use, added);
      return added;
    };
    const get = (id: bigint) => opened().get(id);
    const list = (query: PetQuery) => opened().page(query);
    return { catalogue, opened, texts: { insert, insertOnce, get, list } };
  }

  const { catalogue, opened, texts } = recordsOf(petKind);
  for (const draft of options.pets ?? []) texts.insert(draft);
  async function open(name: string) {
    names.take(name);
    opened();
    return recordsOf(restKind).texts;
  }
  return {
    ...petsOf(texts),
    texts,
    durable: false,
    get size() {
      return catalogue.size;
    },
    records: (name, kind) => recordsWhenOpen(kind, open(name)),
    ready: async () => void opened(),
    close: async () => void (closed = true),
  };
}
