/**
 * Converts between a storage of JSON texts and a storage of pets. All arguments are checked here,
 * in front of the storage.
 */
import { PetstoreError } from '../errors.js';
import { petIdType, type Pet } from '../pet.js';
import type {
  IdempotencyKeyUse,
  PetQuery,
  PetStorage,
  PetTexts,
  StorageTexts,
  StoredText,
  Texts,
} from '../storage.js';
import { checkDraft, checkKeyUse, checkQuery } from './arguments.js';
import { parsePet, pendingPet, petJson, type PendingRecord } from './pet-json.js';

/** The records of one kind in a storage. All arguments are checked before they reach it. */
export interface RecordStore extends Texts<PendingRecord, PetQuery> {
  /** Inserts a record once for an idempotency key, as `insertOnce` of a `PetStorage`. */
  insertOnce(record: PendingRecord, keyUse: IdempotencyKeyUse): StoredText | Promise<StoredText>;
}

/** A record that waits for its commit. */
export interface KeyedRecord<KeyUse extends IdempotencyKeyUse = IdempotencyKeyUse>
  extends PendingRecord {
  /** The use of its idempotency key; omitted if the record has no key. */
  readonly keyUse?: KeyUse;
}

/** Returns the approximate bytes of a waiting record: its text, its objects and its key. */
export function recordBytes({ jsonAfterId, keyUse }: KeyedRecord): number {
  return jsonAfterId.length + (keyUse === undefined ? 128 : 640);
}

/** Returns the texts of the pets in a store, with all arguments checked. */
export function toPetTexts(store: RecordStore): Required<PetTexts> {
  return {
    insert: (draft) => store.insert(pendingPet(draft)),
    insertOnce: (draft, keyUse) => {
      checkKeyUse(keyUse);
      return store.insertOnce(pendingPet(draft), keyUse);
    },
    get: (id) => store.get(id),
    list: (query) => {
      checkQuery(query);
      return store.list(query);
    },
  };
}

/** Returns the members of a `PetStorage` that read and write the pets in these texts. */
export function toPetStorage(
  texts: Required<PetTexts>,
): Required<Pick<PetStorage, keyof PetTexts | 'texts'>> {
  return {
    insert: async (draft) => parsePet((await texts.insert(draft)).json),
    insertOnce: async (draft, keyUse) => parsePet((await texts.insertOnce(draft, keyUse)).json),
    get: async (id) => {
      const json = await texts.get(id);
      return json === undefined ? undefined : parsePet(json);
    },
    list: async (query) => {
      const pets: Pet[] = [];
      let page = await texts.list(query);
      for (;;) {
        for (const text of page.texts) pets.push(parsePet(text));
        if (page.next === undefined || pets.length >= query.limit) return pets;

        // A page of long texts may end before its limit.
        const limit = query.limit - pets.length;
        page = await texts.list({ ...query, limit, after: page.next });
      }
    },
    texts,
  };
}

/** Returns the JSON texts of any storage. */
export function jsonStoreOf(storage: PetStorage): StorageTexts {
  const { texts } = storage;
  if (texts)
    return {
      keepsKeys: texts.insertOnce !== undefined,
      insert: (draft) => texts.insert(draft),
      insertOnce: (draft, keyUse) => texts.insertOnce?.(draft, keyUse) ?? refuseKey(),
      get: (id) => texts.get(id),
      list: (query) => texts.list(query),
    };

  return {
    keepsKeys: storage.insertOnce !== undefined,
    insert: async (draft) => storedJson(await storage.insert(draft)),
    insertOnce: async (draft, keyUse) =>
      storedJson(await (storage.insertOnce?.(draft, keyUse) ?? refuseKey())),
    get: async (id) => {
      const pet = await storage.get(id);
      return pet === undefined || pet === null ? undefined : storedJson(pet).json;
    },
    list: async (query) => {
      checkQuery(query);
      // One more pet shows if there is a next page.
      const found = (await storage.list({ ...query, limit: query.limit + 1 })).map(storedJson);
      const texts = found.slice(0, query.limit).map(({ json }) => json);
      const last = found.length > query.limit ? found[query.limit - 1] : undefined;
      return last ? { texts, next: last.id } : { texts };
    },
  };
}

async function refuseKey(): Promise<never> {
  throw new PetstoreError(
    'invalid_parameter',
    'This server keeps no idempotency keys; leave the header Idempotency-Key out.',
  );
}

/** Returns the JSON text of a pet from a storage. @throws TypeError if it is not a pet (C49) */
function storedJson(pet: Pet): StoredText {
  const { id } = pet;
  if (!petIdType.is(id) || id < 1n)
    throw new TypeError('the storage returned a pet whose id is not a bigint from 1 to 2^63 - 1');

  // A storage in JavaScript may return null for an absent field.
  return { id, json: petJson(id, checkDraft(pet, null)) };
}
