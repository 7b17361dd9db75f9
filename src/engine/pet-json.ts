/** Converts pets to JSON texts and back. */
import { PetstoreError } from '../errors.js';
import { asByteString, parseJson, type ByteString } from '../json.js';
import {
  petIdType,
  filterOf,
  parseDraft,
  petFields,
  type Pet,
  type PetDraft,
  type PetFilter,
} from '../pet.js';
import { checkDraft } from './arguments.js';

/** Returns the part of a pet's JSON text that follows its id. */
export function jsonAfterId(draft: PetDraft): ByteString {
  const values: Readonly<Record<string, unknown>> = draft;
  let members = '';
  for (const { name, type, key } of petFields) {
    const value = values[name];
    if (value !== undefined) members += key + type.write(value);
  }

  return asByteString(`${members}}`);
}

/** A record without an id, which the storage assigns. */
export interface PendingRecord {
  /** The values of a pet's filterable fields; omitted for a record of a plugin. */
  readonly indexed?: PetFilter;
  /** The part of its JSON text that follows the id. */
  readonly jsonAfterId: ByteString;
  /** True if its id may be greater than those of records that are inserted later, else omitted. */
  readonly inAnyOrder?: true;
}

/** The longest JSON text of a record in bytes, which is the longest line of a file. */
export const maxTextBytes = 128 * 2 ** 20;

/** Checks a draft and writes its JSON text. @throws TypeError that names each bad field */
export function pendingPet(draft: PetDraft): PendingRecord {
  const own = checkDraft(draft);
  const json = jsonAfterId(own);
  if (json.length > maxTextBytes - '{"id":9223372036854775807'.length)
    throw new TypeError(`a draft must have at most ${maxTextBytes} bytes as JSON`);
  return { indexed: filterOf(own), jsonAfterId: json };
}

/** Returns the JSON text of a record with its id. */
export function withId(id: bigint, jsonAfterId: ByteString): ByteString {
  // Joined, because V8 would keep a concatenation as a tree of its parts.
  return asByteString(['{"id":', id, jsonAfterId].join(''));
}

/** Returns the JSON text of a pet as a byte string, without white space. */
export function petJson(id: bigint, draft: PetDraft): ByteString {
  return withId(id, jsonAfterId(draft));
}

/** Parses the JSON text of a pet. @throws PetstoreError `invalid_json` or `invalid_body` */
export function parsePet(json: string): Pet {
  const value = parseJson(json);
  const draft = parseDraft(value, 'The line');
  const id = value instanceof Map ? petIdType.read(value.get('id') ?? null) : undefined;
  if (id === undefined || id < 1n)
    throw new PetstoreError('invalid_body', 'id must be an integer from 1 to 9223372036854775807.');

  return { id, ...draft };
}
