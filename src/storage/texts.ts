/** Owns the step between a storage's two faces, animals and JSON texts, in both directions. Knows no backend. */
import { parsePet, petJson, type Pet, type PetDraft } from '../pet.js';
import type { PetQuery, PetStorage, PetTexts, TextPage } from '../storage.js';

/** The face of texts of any storage: its own where it keeps texts, else made from its animals. */
export function textsOf(storage: PetStorage): PetTexts {
  return (
    storage.texts ?? {
      insert: async (draft) => {
        const pet = await storage.insert(draft);
        return { id: pet.id, json: petJson(pet.id, pet) };
      },
      get: async (id) => {
        const pet = await storage.get(id);
        return pet && petJson(pet.id, pet);
      },
      list: (query) => textPage(storage, query),
    }
  );
}

/** The face of animals of whatever keeps texts: the half of a `PetStorage` that needs no more than those. */
export function petsOf(texts: PetTexts): Pick<PetStorage, 'insert' | 'get' | 'list'> {
  return {
    insert: async (draft: PetDraft): Promise<Pet> => parsePet((await texts.insert(draft)).json),
    get: async (id) => {
      const json = await texts.get(id);
      return json === undefined ? undefined : parsePet(json);
    },
    list: async (query) => (await texts.list(query)).texts.map(parsePet),
  };
}

async function textPage(storage: PetStorage, query: PetQuery): Promise<TextPage> {
  const pets = await storage.list({ ...query, limit: query.limit + 1 });
  const shown = pets.slice(0, query.limit);
  const texts = shown.map((pet) => petJson(pet.id, pet));
  const last = shown.at(-1);
  return pets.length > shown.length && last ? { texts, next: last.id } : { texts };
}
