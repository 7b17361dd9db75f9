/** Owns the storage that forgets: the catalogue behind the contract. Knows no disk. */
import { PetstoreError } from '../errors.js';
import { checkDraft, petJson } from '../pet.js';
import type { PetStorage, PetTexts } from '../storage.js';
import { Catalogue } from './catalogue.js';
import { petsOf } from './texts.js';

/** A storage whose animals are gone with the process. */
export function memoryStorage(): PetStorage {
  const catalogue = new Catalogue();
  let closed = false;

  const opened = (): Catalogue => {
    if (closed) throw new PetstoreError('unavailable', 'The storage is closed.');
    return catalogue;
  };

  const texts: PetTexts = {
    insert: (draft) => {
      checkDraft(draft);
      const id = opened().lastId + 1n;
      const json = petJson(id, draft);
      catalogue.add(id, draft.status, json);
      return { id, json };
    },
    get: (id) => opened().get(id),
    list: (query) => opened().page(query),
  };

  return {
    ...petsOf(texts),
    texts,
    durable: false,
    get size() {
      return catalogue.size;
    },
    ready: async () => void opened(),
    close: async () => {
      closed = true;
    },
  };
}
