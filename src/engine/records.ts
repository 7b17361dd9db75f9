/** What plugins keep beside the animals: their names, and their texts, checked before they wait. */
import { PetstoreError } from '../errors.js';
import { type ByteString, asByteString, isUtf8String } from '../json.js';
import type { RecordKind, Records, Texts } from '../storage.js';
import { maxTextBytes, type Unnumbered } from './pet-texts.js';

/** Where the rest begins behind an id of one digit. */
const restAt = '{"id":0'.length;

/**
 * What follows the id in a draft's text.
 * @throws TypeError for what would be damage to the next start.
 */
function restOf<Draft>({ json }: RecordKind<Draft>, given: Draft): ByteString {
  const restWith = (id: bigint): ByteString => {
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

    return asByteString(text.slice(restAt));
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

/** The names under which a storage keeps records: each is opened once. */
export class RecordNames {
  readonly #taken = new Set<string>();

  /**
   * Takes a name.
   * @throws TypeError for what is no name, PetstoreError `storage_in_use` for one that is taken.
   */
  take(name: string): void {
    if (!isRecordName(name))
      throw new TypeError('records need a name of 1 to 40 small letters, other than lock');
    if (this.#taken.has(name))
      throw new PetstoreError('storage_in_use', `Records ${name} are in use already.`);

    this.#taken.add(name);
  }
}

/**
 * Records of a plugin, which are usable while they open; where that fails, each use rejects with
 * `unavailable` (C48).
 */
export function recordsWhenOpen<Draft>(
  kind: RecordKind<Draft>,
  opening: Promise<Texts<Unnumbered>>,
): Records<Draft> {
  const texts = opening.catch((cause: unknown) => {
    throw new PetstoreError('unavailable', 'The storage is not open.', { cause });
  });
  const opened = opening.then(() => undefined);
  // Nobody need wait for these: who uses the records hears of a failure.
  for (const promise of [texts, opened]) promise.catch(() => undefined);

  return {
    opened,
    insert: async (draft) => {
      // Before anything is waited for: its owner may change the draft.
      const rest = restOf(kind, draft);
      return (await texts).insert({ rest });
    },
    get: async (id) => (await texts).get(id),
    list: async (query) => (await texts).list(query),
  };
}
