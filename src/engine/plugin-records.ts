/** The records that plugins keep beside the pets: their names and their JSON texts. */
import { PetstoreError } from '../errors.js';
import { type ByteString, asByteString, isUtf8String } from '../json.js';
import type { RecordKind, Records } from '../storage.js';
import { checkQuery } from './arguments.js';
import { maxTextBytes } from './pet-json.js';
import type { RecordStore } from './pet-storage.js';

/** The position after an id of one digit. */
const afterIdAt = '{"id":0'.length;

/**
 * Returns the part of a draft's JSON text that follows the id.
 * @throws TypeError if the text would damage a storage file
 */
function jsonAfterIdOf<Draft>({ json }: RecordKind<Draft>, given: Draft): ByteString {
  const jsonAfter = (id: bigint): ByteString => {
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

    return asByteString(text.slice(afterIdAt));
  };

  const jsonAfterId = jsonAfter(0n);
  if (jsonAfter(1n) !== jsonAfterId)
    throw new TypeError('the JSON text of a record must hold its id only as its first member');
  return jsonAfterId;
}

/**
 * True if a name is safe as a file extension. `lock` is excluded, because other programs use
 * `FILE.lock`.
 */
export function isRecordName(name: string): boolean {
  return /^[a-z]{1,40}$/.test(name) && name !== 'lock';
}

/** The names of the records that a storage has open. */
export class RecordNames {
  readonly #taken = new Set<string>();

  /**
   * Takes a name.
   * @throws TypeError if the name is not valid, PetstoreError `storage_in_use` if it is taken
   */
  take(name: string): void {
    if (!isRecordName(name))
      throw new TypeError(
        'the name of records must have 1 to 40 lowercase letters and not be lock',
      );
    if (this.#taken.has(name))
      throw new PetstoreError('storage_in_use', `Records ${name} are in use already.`);

    this.#taken.add(name);
  }
}

/**
 * Opens the records of a plugin, which can be used at once. If opening fails, each use rejects with
 * `unavailable` (C48).
 */
export function recordsWhenOpen<Draft>(
  kind: RecordKind<Draft>,
  open: () => Promise<RecordStore>,
): Records<Draft> {
  const opening = open();
  const store = opening.catch((cause: unknown) => {
    throw new PetstoreError('unavailable', 'The storage is not open.', { cause });
  });
  const opened = opening.then(() => undefined);
  // A failure must not end the process: each use of the records rejects with it.
  for (const promise of [store, opened]) promise.catch(() => undefined);

  return {
    opened,
    insert: async (draft) => {
      // The text is made before any await, because the caller may change the draft afterwards.
      const jsonAfterId = jsonAfterIdOf(kind, draft);
      return (await store).insert({ jsonAfterId });
    },
    get: async (id) => (await store).get(id),
    list: async (query) => {
      const opened = await store;
      checkQuery(query);
      return opened.list(query);
    },
  };
}
