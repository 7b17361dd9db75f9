/** The animal: its fields, their rules and its one JSON text. */
import { PetstoreError } from './errors.js';
import {
  int64OfJsonNumber,
  isInt64,
  JsonNumber,
  parseJson,
  toByteString,
  type ByteString,
  type JsonValue,
} from './json.js';

/** Every availability of an animal. */
export const petStatuses = ['available', 'pending', 'sold'] as const;

/** The availability of an animal. */
export type PetStatus = (typeof petStatuses)[number];

/** An animal before it has an id: the specification's `NewPet`. */
export interface PetDraft {
  /** Any Unicode text, even an empty one (C25). */
  readonly name: string;
  /** An int64. */
  readonly categoryId: bigint;
  /** Absent stays absent (C19). */
  readonly status?: PetStatus;
}

/** An animal of the catalogue. */
export interface Pet extends PetDraft {
  /** A positive int64 (C31). */
  readonly id: bigint;
}

const statusRule = 'status must be one of "available", "pending", "sold", or be left out';

export function isPetStatus(text: unknown): text is PetStatus {
  return text === 'available' || text === 'pending' || text === 'sold';
}

/**
 * The draft in a JSON value (C21), which messages call `what`. @throws PetstoreError `invalid_body`
 * (C20).
 */
export function parseDraft(value: JsonValue, what = 'The body'): PetDraft {
  if (!(value instanceof Map))
    throw new PetstoreError('invalid_body', `${what} must be a JSON object.`);
  const name = value.get('name');
  const categoryId = int64Of(value.get('categoryId'));
  const status = value.get('status');
  const isStatus = status === undefined || isPetStatus(status);
  if (typeof name === 'string' && categoryId !== undefined && isStatus)
    return status === undefined ? { name, categoryId } : { name, categoryId, status };
  const broken: string[] = [];
  const mustBe = (field: string, rule: string) =>
    broken.push(`${field} ${value.has(field) ? 'must' : 'is missing; it must'} be ${rule}`);
  if (typeof name !== 'string') mustBe('name', 'a string');
  if (categoryId === undefined)
    mustBe('categoryId', 'an integer from -9223372036854775808 to 9223372036854775807');
  if (!isStatus) broken.push(statusRule);
  throw new PetstoreError('invalid_body', `${broken.join('; ')}.`);
}

function int64Of(value: JsonValue | undefined): bigint | undefined {
  return value instanceof JsonNumber ? int64OfJsonNumber(value.text) : undefined;
}

/** As JSON, such a name fits a line of a storage file. */
const maxNameLength = 2 ** 24;

/** Checks a program's draft. @throws TypeError that names the field. */
export function checkDraft(draft: PetDraft): void {
  if (typeof draft !== 'object' || draft === null) throw new TypeError('a draft must be an object');
  const { name, categoryId, status } = draft;
  // A lone surrogate has no UTF-8.
  if (typeof name !== 'string' || !name.isWellFormed())
    throw new TypeError('name must be a well-formed string');
  if (name.length > maxNameLength)
    throw new TypeError(`name must not be longer than ${maxNameLength} UTF-16 units`);
  if (typeof categoryId !== 'bigint' || !isInt64(categoryId))
    throw new TypeError('categoryId must be a 64-bit bigint');
  if (status !== undefined && !isPetStatus(status)) throw new TypeError(statusRule);
}

/** Checks a program's query. @throws TypeError that names the member. */
export function checkQuery({
  limit,
  after,
}: {
  readonly limit: number;
  readonly after?: bigint | undefined;
}): void {
  if (!Number.isInteger(limit) || limit < 1)
    throw new TypeError('limit must be an integer of at least 1');
  if (after !== undefined && typeof after !== 'bigint')
    throw new TypeError('after must be a bigint, or be left out');
}

/** An animal's one JSON text, without white space: `Buffer.from(json, 'latin1')` has its bytes. */
export function petJson(id: bigint, draft: PetDraft): ByteString {
  const status = draft.status === undefined ? '' : `,"status":"${draft.status}"`;
  // Encoded, it is one piece of memory: V8 keeps a concatenation as a tree.
  return toByteString(
    `{"id":${id},"name":${JSON.stringify(draft.name)},"categoryId":${draft.categoryId}${status}}`,
  );
}

/** The animal of a line. @throws PetstoreError `invalid_json` or `invalid_body`. */
export function parsePet(json: string): Pet {
  const value = parseJson(json);
  const draft = parseDraft(value, 'The line');
  const id = value instanceof Map ? int64Of(value.get('id')) : undefined;
  if (id === undefined || id < 1n)
    throw new PetstoreError('invalid_body', 'id must be an integer from 1 to 9223372036854775807.');
  return { id, ...draft };
}
