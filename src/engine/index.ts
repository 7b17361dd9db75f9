/**
 * What every storage here is made of. This module is the way from animals to JSON texts and back:
 * between a storage, which keeps animals, its `texts`, and records, which wait without their id. It
 * is the door of its folder, too.
 */
import { PetstoreError } from '../errors.js';
import { petId, type Pet } from '../pet.js';
import type {
  IdempotencyKeyUse,
  PetQuery,
  PetStorage,
  PetTexts,
  StorageTexts,
  StoredText,
  TextPage,
  Texts,
} from '../storage.js';
import type { Catalogue } from './catalogue.js';
import { checkKeyUse, type IdempotencyKeys, type KnownUse } from './idempotency.js';
import {
  checkDraft,
  checkQuery,
  parsePet,
  petJson,
  unnumberedPet,
  type Unnumbered,
} from './pet-texts.js';

export { Catalogue } from './catalogue.js';
export {
  closedError,
  commitWatchers,
  groupCommit,
  untilClosed,
  type GroupCommitOptions,
} from './group-commit.js';
export {
  checkKeyUse,
  hasExpired,
  IdempotencyKeys,
  keptMs,
  mismatch,
  type KnownUse,
} from './idempotency.js';
export { importedStart } from './imports.js';
export {
  checkDraft,
  checkQuery,
  maxTextBytes,
  parsePet,
  petJson,
  petRest,
  withId,
  type Unnumbered,
} from './pet-texts.js';
export { isRecordName, RecordNames, recordsWhenOpen } from './records.js';

/** Returns the texts of any storage. */
export function textsOf(storage: PetStorage): StorageTexts {
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
    insert: async (draft) => textOf(await storage.insert(draft)),
    insertOnce: async (draft, keyUse) =>
      textOf(await (storage.insertOnce?.(draft, keyUse) ?? refuseKey())),
    get: async (id) => {
      const pet = await storage.get(id);
      return pet === undefined || pet === null ? undefined : textOf(pet).json;
    },
    list: async (query) => {
      checkQuery(query);
      // One more says whether there is a next page.
      const found = (await storage.list({ ...query, limit: query.limit + 1 })).map(textOf);
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

/** The text of what a storage answered as an animal. @throws TypeError where that is none (C49) */
function textOf(pet: Pet): StoredText {
  const { id } = pet;
  if (!petId.is(id) || id < 1n)
    throw new TypeError('the storage answered an animal whose id is no bigint from 1 to 2^63 - 1');

  // A storage written in JavaScript may answer null for a field that is not there.
  return { id, json: petJson(id, checkDraft(pet, null)) };
}

/** The records of one kind in a storage, which takes them as they wait for an id. */
export interface RecordTexts extends Texts<Unnumbered, PetQuery> {
  /** As that of a `PetStorage`. */
  insertOnce(record: Unnumbered, keyUse: IdempotencyKeyUse): StoredText | Promise<StoredText>;
}

/** A record as it waits for its commit, with the use of an idempotency key that it is. */
export interface KeyedRecord<KeyUse extends IdempotencyKeyUse = IdempotencyKeyUse>
  extends Unnumbered {
  /** Absent where the record has no key. */
  readonly keyUse?: KeyUse;
}

/**
 * The records of one kind in a storage that has them all in memory.
 * @param opened Answers the records, and throws once the storage is closed.
 * @param keys Answers the idempotency keys of the records.
 * @param add Keeps a record under the next id, and the use of its key with it.
 */
export function recordsInMemory(
  opened: () => Catalogue,
  keys: () => IdempotencyKeys,
  add: (record: KeyedRecord<KnownUse>) => StoredText | Promise<StoredText>,
): RecordTexts {
  return {
    insert: add,
    insertOnce: (record, keyUse) => {
      checkKeyUse(keyUse);
      opened();
      const known = keys().begin(keyUse);
      return known.added ?? add({ ...record, keyUse: known });
    },
    get: (id) => opened().get(id),
    list: (query) => opened().page(query),
  };
}

/** The animals of a storage that keeps records, whose functions must work unbound. */
export function petTexts(records: RecordTexts): Required<PetTexts> {
  return {
    ...records,
    insert: (draft) => records.insert(unnumberedPet(draft)),
    insertOnce: (draft, keyUse) => records.insertOnce(unnumberedPet(draft), keyUse),
  };
}

/** The animals of whatever keeps texts. */
export function petsOf(texts: Required<PetTexts>): Required<Pick<PetStorage, keyof PetTexts>> {
  return {
    insert: async (draft) => parsePet((await texts.insert(draft)).json),
    insertOnce: async (draft, keyUse) => parsePet((await texts.insertOnce(draft, keyUse)).json),
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
