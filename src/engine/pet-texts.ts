/** Animals as JSON texts: a program's drafts are checked and written, lines are read. */
import { PetstoreError } from '../errors.js';
import { asByteString, parseJson, type ByteString } from '../json.js';
import {
  petId,
  filterOf,
  parseDraft,
  petFields,
  ruleOf,
  type Pet,
  type PetDraft,
  type PetFilter,
} from '../pet.js';
import type { PageQuery } from '../storage.js';

/**
 * Checks a program's draft. Answers a copy with the fields of the table alone, which nobody else
 * can change.
 * @param absent Counts as a field that is left out, as undefined does.
 * @throws TypeError that names each bad field and its rule.
 */
export function checkDraft(draft: PetDraft, absent?: null): PetDraft {
  if (typeof draft !== 'object' || draft === null) throw new TypeError('a draft must be an object');

  const given: Readonly<Record<string, unknown>> = draft;
  const copy: Record<string, unknown> = {};
  const broken: string[] = [];
  for (const { name, type, isRequired } of petFields) {
    const value = given[name];
    if (type.is(value)) copy[name] = value;
    else if (isRequired || (value !== undefined && value !== absent))
      broken.push(ruleOf(name, type.programRule, isRequired));
  }

  if (broken.length > 0) throw new TypeError(broken.join('; '));

  // Every row of the table was checked, which the compiler cannot see.
  return copy as PetDraft;
}

/** Checks a program's query. @throws TypeError that names the member */
export function checkQuery({ limit, after }: PageQuery): void {
  if (!Number.isInteger(limit) || limit < 1)
    throw new TypeError('limit must be an integer of at least 1');
  if (after !== undefined && typeof after !== 'bigint')
    throw new TypeError('after must be a bigint, or be left out');
}

/** What follows the id in an animal's JSON text. */
export function petRest(draft: PetDraft): ByteString {
  const values: Readonly<Record<string, unknown>> = draft;
  let members = '';
  for (const { name, type, key } of petFields) {
    const value = values[name];
    if (value !== undefined) members += key + type.write(value);
  }

  return asByteString(`${members}}`);
}

/** A record as it waits for its id: a text that nobody else can change. */
export interface Unnumbered {
  /** The values that filters find a pet by. Absent for the record of a plugin. */
  readonly indexed?: PetFilter;
  /** What follows the id in its JSON text. */
  readonly rest: ByteString;
}

/** The longest JSON text of a record, an animal's included: a line that a start reads. */
export const maxTextBytes = 128 * 2 ** 20;

/** Checks a program's draft and writes it. @throws TypeError that names the field */
export function unnumberedPet(draft: PetDraft): Unnumbered {
  const own = checkDraft(draft);
  const rest = petRest(own);
  if (rest.length > maxTextBytes - '{"id":9223372036854775807'.length)
    throw new TypeError(`a draft must have at most ${maxTextBytes} bytes as JSON`);
  return { indexed: filterOf(own), rest };
}

/** The JSON text of a record: its id, and what follows that, in one piece of memory. */
export function withId(id: bigint, rest: ByteString): ByteString {
  // V8 would keep a concatenation as a tree of its parts.
  return asByteString(['{"id":', id, rest].join(''));
}

/** An animal's one JSON text, without white space: `Buffer.from(json, 'latin1')` has its bytes. */
export function petJson(id: bigint, draft: PetDraft): ByteString {
  return withId(id, petRest(draft));
}

/** The animal of a line. @throws PetstoreError `invalid_json` or `invalid_body` */
export function parsePet(json: string): Pet {
  const value = parseJson(json);
  const draft = parseDraft(value, 'The line');
  const id = value instanceof Map ? petId.read(value.get('id') ?? null) : undefined;
  if (id === undefined || id < 1n)
    throw new PetstoreError('invalid_body', 'id must be an integer from 1 to 9223372036854775807.');

  return { id, ...draft };
}
