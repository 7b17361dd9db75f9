/** Owns what memory and file have in common in keeping records: their kinds, and the rules of a plugin's own. Knows no disk. */
import { PetstoreError } from '../errors.js';
import { int64Max } from '../int64.js';
import type { PetStatus } from '../pet.js';
import type { RecordKind } from '../storage.js';
import { maxLineBytes } from './lines.js';

/**
 * A page ends behind so many bytes of texts, though more of them be asked for: its reply is one string, and the engine makes
 * none of 512 MiB. The text that goes past it may be as long as a line of a journal.
 */
export const maxPageBytes = 64 * 2 ** 20;

/** How one kind of records is kept. */
export interface KeptKind<Draft> {
  readonly json: (id: bigint, draft: Draft) => string;
  /** What a list can be narrowed to. */
  readonly statusOf: (draft: Draft) => PetStatus | undefined;
  /** About how many bytes a draft holds while it waits. @throws what `json` throws, so that it never comes to a batch with others */
  readonly bytesOf: (draft: Draft) => number;
}

/** A plugin's kind, of whose texts nothing is believed: another line in a journal would be damage to the next start. */
export function keptKindOf<Draft>({ json }: RecordKind<Draft>): KeptKind<Draft> {
  const checked = (id: bigint, draft: Draft): string => {
    const text = json(id, draft);
    if (text.length > maxLineBytes) throw new TypeError(`the JSON text of a record must not be longer than ${maxLineBytes} bytes`);
    if (!text.startsWith(`{"id":${id},`) || !/^[\x20-\xff]+$/.test(text)) {
      throw new TypeError('the JSON text of a record must be a byte string on one line, an object whose first member is id');
    }
    return text;
  };
  return { json: checked, statusOf: () => undefined, bytesOf: (draft) => checked(int64Max, draft).length };
}

/** Whether a name can stand behind a storage file's own, as that of its lock does. */
export function isRecordName(name: string): boolean {
  return /^[a-z]{1,40}$/.test(name) && name !== 'lock';
}

/** The names of a storage's records. */
export class RecordNames {
  readonly #taken = new Set<string>();

  /**
   * Takes a name (see {@link isRecordName}).
   * @throws TypeError for another, PetstoreError `storage_in_use` for one that is taken.
   */
  take(name: string): void {
    if (!isRecordName(name)) throw new TypeError('records need a name of 1 to 40 small letters, other than lock');
    if (this.#taken.has(name)) throw new PetstoreError('storage_in_use', `The records ${name} are in use by another plugin.`);
    this.#taken.add(name);
  }
}

/** What every use of a closed storage rejects with. */
export function closedError(): PetstoreError {
  return new PetstoreError('unavailable', 'The storage is closed.');
}
