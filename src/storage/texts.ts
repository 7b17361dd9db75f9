/** Owns the step between a storage's two faces, animals and JSON texts, in both directions. Knows no backend. */
import { PetstoreError } from '../errors.js';
import { parsePet, petJson, type Pet, type PetDraft } from '../pet.js';
import type { PetQuery, PetStorage, PetTexts, StoredText, TextPage } from '../storage.js';

/**
 * The face of texts of any storage: its own where it keeps texts, else made from its animals. Where the storage keeps no
 * idempotency keys, `insertOnce` rejects with `invalid_parameter`: a key that is ignored would promise what nobody keeps.
 */
export function textsOf(storage: PetStorage): Required<PetTexts> {
  const texts = storage.texts ?? madeTexts(storage);
  if (hasInsertOnce(texts)) return texts;
  return {
    insert: (draft) => texts.insert(draft),
    insertOnce: () => Promise.reject(new PetstoreError('invalid_parameter', 'This server keeps no idempotency keys; leave the header Idempotency-Key out.')),
    get: (id) => texts.get(id),
    list: (query) => texts.list(query),
  };
}

function hasInsertOnce(texts: PetTexts): texts is Required<PetTexts> {
  return texts.insertOnce !== undefined;
}

function madeTexts(storage: PetStorage): PetTexts {
  const { insertOnce } = storage;
  return {
    insert: async (draft) => textOf(await storage.insert(draft)),
    ...(insertOnce && { insertOnce: async (draft, once) => textOf(await insertOnce.call(storage, draft, once)) }),
    get: async (id) => {
      const pet = await storage.get(id);
      return pet && petJson(pet.id, pet);
    },
    list: (query) => textPage(storage, query),
  };
}

function textOf(pet: Pet): StoredText {
  return { id: pet.id, json: petJson(pet.id, pet) };
}

/** The face of animals of whatever keeps texts: the half of a `PetStorage` that needs no more than those. */
export function petsOf(texts: Required<PetTexts>): Required<Pick<PetStorage, 'insert' | 'insertOnce' | 'get' | 'list'>> {
  return {
    insert: async (draft: PetDraft): Promise<Pet> => parsePet((await texts.insert(draft)).json),
    insertOnce: async (draft, once) => parsePet((await texts.insertOnce(draft, once)).json),
    get: async (id) => {
      const json = await texts.get(id);
      return json === undefined ? undefined : parsePet(json);
    },
    list: (query) => petsIn(texts, query),
  };
}

/** All that a query asks for: a page of long texts ends before its limit. */
async function petsIn(texts: PetTexts, query: PetQuery): Promise<readonly Pet[]> {
  const pets: Pet[] = [];
  for (let after = query.after; ; ) {
    const page = await texts.list({ ...query, limit: query.limit - pets.length, after });
    for (const text of page.texts) pets.push(parsePet(text));
    if (page.next === undefined || pets.length >= query.limit) return pets;
    after = page.next;
  }
}

async function textPage(storage: PetStorage, query: PetQuery): Promise<TextPage> {
  const pets = await storage.list({ ...query, limit: query.limit + 1 });
  const shown = pets.slice(0, query.limit);
  const texts = shown.map((pet) => petJson(pet.id, pet));
  const last = shown.at(-1);
  return pets.length > shown.length && last ? { texts, next: last.id } : { texts };
}
