/** Owns the storage that forgets: catalogues behind the contract. Knows no disk. */
import { checkDraft, petJson, type PetDraft } from '../pet.js';
import type { PetQuery, PetStorage, PetTexts, StoredText, Texts } from '../storage.js';
import { Catalogue } from './catalogue.js';
import { checkOnce, IdempotencyKeys } from './idempotency.js';
import { recordsWhenOpen } from './opening.js';
import { closedError, keptKindOf, RecordNames, type KeptKind } from './record-set.js';
import { petsOf } from './texts.js';

/** A storage whose animals are gone with the process. */
export function memoryStorage(): PetStorage {
  const catalogue = new Catalogue();
  const names = new RecordNames();
  let closed = false;
  const checkOpen = (): void => {
    if (closed) throw closedError();
  };
  const pets = memoryRecords<PetDraft>(catalogue, { json: petJson, statusOf: (draft) => draft.status }, checkOpen);
  const keys = new IdempotencyKeys();
  const texts: Required<PetTexts> = {
    ...pets,
    insert: (draft) => {
      checkDraft(draft);
      return pets.insert(draft);
    },
    insertOnce: (draft, once) => {
      checkDraft(draft);
      checkOnce(once);
      checkOpen();
      const use = keys.begin(once);
      if (use.added !== undefined) return use.added;
      const added = pets.insert(draft);
      keys.keep(use, added);
      return added;
    },
  };
  return {
    ...petsOf(texts),
    texts,
    durable: false,
    get size() {
      return catalogue.size;
    },
    records: (name, kind) => {
      const open = async () => {
        names.take(name);
        checkOpen();
        return memoryRecords(new Catalogue(), keptKindOf(kind), checkOpen);
      };
      return recordsWhenOpen(open());
    },
    ready: async () => checkOpen(),
    close: async () => {
      closed = true;
    },
  };
}

/** Records of one kind in a catalogue. */
function memoryRecords<Draft>(catalogue: Catalogue, { json, statusOf }: Pick<KeptKind<Draft>, 'json' | 'statusOf'>, checkOpen: () => void) {
  return {
    insert: (draft: Draft): StoredText => {
      checkOpen();
      const id = catalogue.lastId + 1n;
      const text = json(id, draft);
      catalogue.add(id, statusOf(draft), text);
      return { id, json: text };
    },
    get: (id) => {
      checkOpen();
      return catalogue.get(id);
    },
    list: (query) => {
      checkOpen();
      return catalogue.page(query);
    },
  } satisfies Texts<Draft, PetQuery>;
}
