/**
 * What every storage here is made of. This module is the way from animals to JSON texts and back,
 * and the door of its folder.
 */
import { PetstoreError } from '../errors.js';
import { isInt64 } from '../json.js';
import type { Pet } from '../pet.js';
import type {
  IdempotencyKeyUse,
  PetQuery,
  PetStorage,
  PetTexts,
  StoredText,
  TextPage,
  Texts,
} from '../storage.js';
import {
  checkDraft,
  checkQuery,
  parsePet,
  petJson,
  unnumberedPet,
  type Unnumbered,
} from './pet-texts.js';

export { Catalogue } from './catalogue.js';
export { closedError, commitWatchers, groupCommit, untilClosed } from './group-commit.js';
export type { GroupCommitOptions } from './group-commit.js';
export { checkOnce, IdempotencyKeys, inFlight, isTooFar, keptMs, mismatch } from './idempotency.js';
export type { KnownUse } from './idempotency.js';
export {
  checkDraft,
  checkQuery,
  parsePet,
  petJson,
  petRest,
  withId,
  type Unnumbered,
} from './pet-texts.js';
export { isRecordName, maxTextBytes, RecordNames, recordsWhenOpen } from './records.js';

/**
 * The texts of any storage. Where that keeps no idempotency keys, `insertOnce` rejects:
 * `invalid_parameter` (C57).
 */
export function textsOf(storage: PetStorage): Required<PetTexts> {
  const { texts } = storage;
  if (texts)
    return {
      insert: (draft) => texts.insert(draft),
      insertOnce: (draft, once) => texts.insertOnce?.(draft, once) ?? refuseKey(),
      get: (id) => texts.get(id),
      list: (query) => texts.list(query),
    };
  return {
    insert: async (draft) => textOf(await storage.insert(draft)),
    insertOnce: async (draft, once) =>
      textOf(await (storage.insertOnce?.(draft, once) ?? refuseKey())),
    get: async (id) => {
      const pet = await storage.get(id);
      return pet === undefined || pet === null ? undefined : textOf(pet).json;
    },
    list: async (query) => {
      checkQuery(query);
      const found = (await storage.list({ ...query, limit: query.limit + 1 })).map(textOf);
      const texts = found.slice(0, query.limit).map(({ json }) => json);
      const last = found.length > query.limit ? found[query.limit - 1] : undefined;
      return last ? { texts, next: last.id } : { texts };
    },
  };
}

async function refuseKey(): Promise<never> {
  const words = 'This server keeps no idempotency keys; leave the header Idempotency-Key out.';
  throw new PetstoreError('invalid_parameter', words);
}

/** The text of what a storage answered as an animal. @throws TypeError where it is none (C49) */
function textOf(pet: Pet): StoredText {
  const { id } = pet;
  if (typeof id !== 'bigint' || id < 1n || !isInt64(id))
    throw new TypeError('the storage answered an animal whose id is no bigint from 1 to 2^63 - 1');

  // A storage written in JavaScript may answer null for a field that is not there.
  return { id, json: petJson(id, checkDraft(pet, null)) };
}

/** Records of one kind in a storage: it takes them as they wait for an id. */
export interface RecordTexts extends Texts<Unnumbered, PetQuery> {
  insertOnce(record: Unnumbered, once: IdempotencyKeyUse): StoredText | Promise<StoredText>;
}

/** The animals of a storage that keeps records. Its functions must work unbound. */
export function petTexts(records: RecordTexts): Required<PetTexts> {
  return {
    ...records,
    insert: (draft) => records.insert(unnumberedPet(draft)),
    insertOnce: (draft, once) => records.insertOnce(unnumberedPet(draft), once),
  };
}

/** The animals of whatever keeps texts. */
export function petsOf(texts: Required<PetTexts>): Required<Pick<PetStorage, keyof PetTexts>> {
  return {
    insert: async (draft) => parsePet((await texts.insert(draft)).json),
    insertOnce: async (draft, once) => parsePet((await texts.insertOnce(draft, once)).json),
    get: async (id) => {
      const json = await texts.get(id);
      return json === undefined ? undefined : parsePet(json);
    },
    list: async (query) => {
      checkQuery(query);
      const pets: Pet[] = [];
      // A page of long texts ends before its limit.
      for (let after = query.after; ; ) {
        const page: TextPage = await texts.list({
          ...query,
          limit: query.limit - pets.length,
          after,
        });
        for (const text of page.texts) pets.push(parsePet(text));
        if (page.next === undefined || pets.length >= query.limit) return pets;
        after = page.next;
      }
    },
  };
}
