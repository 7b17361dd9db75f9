/** What storages share: from animals to JSON texts and back, and how a kind of records is kept. */
import { PetstoreError } from '../errors.js';
import { asByteString, isInt64, isUtf8String, type ByteString } from '../json.js';
import {
  checkDraft,
  checkQuery,
  parsePet,
  petJson,
  type Pet,
  type PetDraft,
  type PetStatus,
} from '../pet.js';
import type {
  PetStorage,
  PetTexts,
  RecordKind,
  Records,
  StoredText,
  TextPage,
  Texts,
} from '../storage.js';

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
function textOf({ id, name, categoryId, status }: Pet): StoredText {
  if (typeof id !== 'bigint' || id < 1n || !isInt64(id))
    throw new TypeError('the storage answered an animal whose id is no bigint from 1 to 2^63 - 1');
  // JavaScript may answer null.
  const draft =
    status === undefined || status === null ? { name, categoryId } : { name, categoryId, status };
  checkDraft(draft);
  return { id, json: petJson(id, draft) };
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

/** The longest JSON text of a record; no animal's is longer. */
export const maxTextBytes = 128 * 2 ** 20;

/** How a storage keeps one kind of draft: animals, or a plugin's records. */
export interface KeptKind<Draft, Own = unknown> {
  /**
   * What is kept of a draft while it waits, which its owner may change meanwhile. @throws TypeError
   * for a bad one
   */
  readonly own: (draft: Draft) => Own;
  readonly json: (id: bigint, own: Own) => ByteString;
  /** What follows the id in its JSON text, where only a database knows the id. */
  readonly rest: (own: Own) => string;
  readonly statusOf: (own: Own) => PetStatus | undefined;
  /** About how many bytes it holds while it waits. */
  readonly bytesOf: (own: Own) => number;
}

/** Where the rest begins after an id of one digit. */
const restAt = '{"id":0'.length;

export const petKind: KeptKind<PetDraft, PetDraft> = {
  own: (draft) => {
    const { name, categoryId, status }: PetDraft = Object(draft);
    const own = status === undefined ? { name, categoryId } : { name, categoryId, status };
    checkDraft(own);
    return own;
  },
  json: petJson,
  rest: (draft) => petJson(0n, draft).slice(restAt),
  statusOf: (draft) => draft.status,
  // A name takes up to two bytes of memory a UTF-16 unit, all else about 128.
  bytesOf: ({ name }) => 2 * name.length + 128,
};

/** A plugin's records while they wait: what follows the id in their text. */
export const restKind: KeptKind<string, string> = {
  own: (rest) => rest,
  // Joined in one piece: V8 keeps a concatenation as a tree.
  json: (id, rest) => asByteString(Buffer.from(`{"id":${id}${rest}`, 'latin1').toString('latin1')),
  rest: (rest) => rest,
  statusOf: () => undefined,
  bytesOf: (rest) => rest.length,
};

/**
 * What follows the id in a draft's text. @throws TypeError for what would be damage to the next
 * start
 */
function restOf<Draft>({ json }: RecordKind<Draft>, given: Draft): string {
  const restWith = (id: bigint): string => {
    const text = json(id, given);
    if (
      text.length > maxTextBytes ||
      !text.startsWith(`{"id":${id},`) ||
      !/^[\x20-\xff]+$/.test(text)
    )
      throw new TypeError(
        `a record must be one line of at most ${maxTextBytes} bytes, a JSON object with id first`,
      );
    if (!isUtf8String(text))
      throw new TypeError('a record must be bytes of UTF-8: make them of a text by toByteString');
    return text.slice(restAt);
  };
  const rest = restWith(0n);
  if (restWith(1n) !== rest)
    throw new TypeError('the JSON text of a record must hold its id only as its first member');
  return rest;
}

/** Whether a name can follow a file's own; other programs call their lock of a file `FILE.lock`. */
export function isRecordName(name: string): boolean {
  return /^[a-z]{1,40}$/.test(name) && name !== 'lock';
}

export class RecordNames {
  readonly #taken = new Set<string>();

  /** @throws TypeError for what is no name, PetstoreError `storage_in_use` for a taken one. */
  take(name: string): void {
    if (!isRecordName(name))
      throw new TypeError('records need a name of 1 to 40 small letters, other than lock');
    if (this.#taken.has(name))
      throw new PetstoreError('storage_in_use', `Records ${name} are in use already.`);
    this.#taken.add(name);
  }
}

/** A new one each time: its stack shows who uses a closed storage. */
export function closedError(): PetstoreError {
  return new PetstoreError('unavailable', 'The storage is closed.');
}

/**
 * Records of {@link restKind}, used while they open; where that fails, each use rejects with
 * `unavailable` (C48).
 */
export function recordsWhenOpen<Draft>(
  kind: RecordKind<Draft>,
  opening: Promise<Texts<string>>,
): Records<Draft> {
  const texts = opening.catch((cause: unknown) => {
    throw new PetstoreError('unavailable', 'The storage is not open.', { cause });
  });
  const opened = opening.then(() => undefined);
  for (const promise of [texts, opened]) promise.catch(() => undefined);
  return {
    opened,
    insert: async (draft) => {
      // Before anything is waited for: its owner may change the draft.
      const rest = restOf(kind, draft);
      return (await texts).insert(rest);
    },
    get: async (id) => (await texts).get(id),
    list: async (query) => (await texts).list(query),
  };
}
