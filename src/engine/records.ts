/** How a storage keeps a kind of records: animals, or what a plugin keeps beside them. */
import { PetstoreError } from '../errors.js';
import { type ByteString, asByteString, isUtf8String } from '../json.js';
import { type PetStatus, type PetDraft, checkDraft, petJson } from '../pet.js';
import type { Texts, Records, RecordKind } from '../storage.js';

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
