/** The pet: the table of its fields, from which all code that knows a pet's fields follows. */
import { PetstoreError } from './errors.js';
import {
  int64Max,
  int64Min,
  int64OfJsonNumber,
  isInt64,
  JsonNumber,
  parseInt64,
  toByteString,
  type JsonValue,
} from './json.js';

/** The type of a field: how its values are read, checked and written. */
export interface FieldType<Value> {
  /** The rule for a client's value, as it follows the words "must be" (C20). */
  readonly rule: string;
  /** Returns the value of a JSON value; undefined if it breaks the rule. */
  readonly read: (json: JsonValue) => Value | undefined;
  /** The rule for a program's value. */
  readonly programRule: string;
  /** True if a program's value obeys the rule. */
  readonly is: (value: unknown) => boolean;
  /** Returns the JSON text of a value, as a byte string. */
  readonly write: (value: unknown) => string;
  /**
   * Returns a regular expression for the texts that `write` makes of most values, as byte strings
   * with bytes up to `lastByte`. A line of a storage file that matches is served as it is; all
   * other lines are parsed (file/record-lines.ts).
   *
   * So `read` must accept each text that matches, and `write` must return the same text. No text
   * that matches may contain a quote between its own two, even an escaped one, because the reader
   * looks for `,"status":"sold"` anywhere in a line. `test/pet.test.ts` tests each row.
   */
  readonly pattern: (lastByte: string) => string;
  /** The rule for a query parameter, as it follows the words "must be". */
  readonly parameterRule: string;
  /** Returns the value of a query parameter; undefined if the text breaks the rule. */
  readonly parse: (text: string) => Value | undefined;
  /** All values, if they are few. */
  readonly values?: readonly Value[];
  /** Its schema in the OpenAPI document. */
  readonly schema: Readonly<Record<string, string | number | readonly string[]>>;
}

/** The type of a field that lists filter by. */
export interface FilterableType<Value> extends FieldType<Value> {
  readonly isFilterable: true;
}

/**
 * Lets lists filter by a field: `GET /v1/pets?status=sold` returns the pets with this value. The
 * storages in memory and in a file then index the field. For PostgreSQL, the compiler asks for its
 * condition and its migrations in postgres/filters.ts.
 */
function filterable<Value>(type: FieldType<Value>): FilterableType<Value> {
  return { ...type, isFilterable: true };
}

/** The longest text, in UTF-16 units, whose JSON fits a line of a storage file. */
const maxTextLength = 2 ** 24;

/** Returns the type of any Unicode text. */
function text(description: string): FieldType<string> {
  return {
    rule: 'a string',
    read: (json) => (typeof json === 'string' ? json : undefined),
    programRule: `a well-formed string of at most ${maxTextLength} UTF-16 units`,
    // A lone surrogate cannot be written in UTF-8.
    is: (value) =>
      typeof value === 'string' && value.length <= maxTextLength && value.isWellFormed(),
    write: (value) => toByteString(JSON.stringify(value)),
    // Without quotes and backslashes, so that nothing is escaped.
    pattern: (lastByte) => `"[\\x20!#-[\\]-${lastByte}]*"`,
    parameterRule: 'a text',
    parse: (parameter) => parameter,
    schema: { type: 'string', description },
  };
}

/**
 * The schema of an int64 in the OpenAPI document. A number rounds `maximum`; the document has all
 * of its digits.
 */
export const int64Schema = Object.freeze({
  type: 'integer',
  format: 'int64',
  minimum: Number(int64Min),
  maximum: Number(int64Max),
});

/** Returns the type of an exact int64 (C22, C23). */
function int64(description: string): FieldType<bigint> {
  return {
    rule: 'an integer from -9223372036854775808 to 9223372036854775807',
    read: (json) => (json instanceof JsonNumber ? int64OfJsonNumber(json.text) : undefined),
    programRule: 'a 64-bit bigint',
    is: (value) => typeof value === 'bigint' && isInt64(value),
    write: String,
    // At most 15 digits, so that none is beyond an int64.
    pattern: () => '(?:0|-?[1-9][0-9]{0,14})',
    parameterRule: 'an integer from -9223372036854775808 to 9223372036854775807, in decimal digits',
    parse: parseInt64,
    schema: { ...int64Schema, description },
  };
}

/** Returns the type of one of some lowercase words, which need no escape in JSON. */
function oneOf<Word extends string>(
  words: readonly Word[],
  schema: FieldType<Word>['schema'],
): FieldType<Word> {
  const rule = `one of ${words.map((word) => `"${word}"`).join(', ')}`;
  const known: ReadonlyMap<unknown, Word> = new Map(words.map((word) => [word, word]));
  return {
    rule,
    read: (json) => known.get(json),
    programRule: rule,
    is: (value) => known.has(value),
    write: (word) => `"${word}"`,
    pattern: () => `"(?:${words.join('|')})"`,
    parameterRule: `one of ${words.join(', ')}`,
    parse: (parameter) => known.get(parameter),
    values: words,
    schema,
  };
}

/** All statuses of a pet. */
export const petStatuses = Object.freeze(['available', 'pending', 'sold'] as const);

/** The status of a pet: its availability. */
export type PetStatus = (typeof petStatuses)[number];

const petStatus = oneOf<PetStatus>(petStatuses, { $ref: '#/components/schemas/PetStatus' });

/** The type of a pet's id, which the service assigns. The other fields are rows of the tables. */
export const petIdType = int64('Assigned by the service on creation.');

/** The fields that every pet has, in the order in which they are written. */
const requiredFields = {
  /** Any Unicode text, even the empty one (C25). */
  name: text("The pet's name."),
  /** An int64 (C23). */
  categoryId: int64('Identifier of the category the pet belongs to.'),
};

/** The fields that a pet may lack, written after the others (C19). */
const optionalFields = {
  status: filterable(petStatus),
};

type Fields = typeof requiredFields & typeof optionalFields;

/** The name of a field that lists filter by. */
export type FilterName = {
  [Name in keyof Fields]: Fields[Name] extends FilterableType<unknown> ? Name : never;
}[keyof Fields];

/** The values of fields, by name. */
type Values<Fields> = {
  readonly [Name in keyof Fields]: Fields[Name] extends FieldType<infer Value> ? Value : never;
};

/** A pet before it has an id, the specification's `NewPet`: a value for each row of the table. */
export type PetDraft = Values<typeof requiredFields> & Partial<Values<typeof optionalFields>>;

/** A pet: a record of the store. The specification calls it an animal. */
export interface Pet extends PetDraft {
  /** A positive int64 (C31). */
  readonly id: bigint;
}

/** One field of a pet. */
export interface PetField {
  /** Its member name in JSON. */
  readonly name: string;
  /** Its row in the table of fields. */
  readonly type: FieldType<unknown>;
  /** True if every pet has it. */
  readonly isRequired: boolean;
  /** True if lists filter by it. */
  readonly isFilterable: boolean;
  /** The text before its value in the JSON of a pet. */
  readonly key: string;
}

/** Every field of a pet but its id, in the order in which they are written. */
export const petFields: readonly PetField[] = Object.freeze(
  Object.entries({ ...requiredFields, ...optionalFields }).map(([name, type]) =>
    // Frozen, because plugins share these objects.
    Object.freeze({
      name,
      type: Object.freeze(type),
      isRequired: name in requiredFields,
      isFilterable: 'isFilterable' in type,
      key: `,"${name}":`,
    }),
  ),
);

/**
 * The values of the filterable fields: those of a pet, which a storage indexes, or those of a
 * query.
 */
export type PetFilter = { readonly [Name in FilterName]?: PetDraft[Name] | undefined };

/** The fields that lists filter by, in the order of the table. */
export const filterableFields: readonly PetField[] = petFields.filter(
  ({ isFilterable }) => isFilterable,
);

/** Returns the values of the filterable fields of a pet or of a query. */
export function filterOf(values: PetFilter): PetFilter {
  const all: Readonly<Record<string, unknown>> = values;
  const found: Record<string, unknown> = {};
  for (const { name } of filterableFields) if (all[name] !== undefined) found[name] = all[name];
  return found;
}

/** True if a pet has each value of a filter. An undefined value counts as omitted. */
export function matchesFilter(pet: PetFilter, filter: PetFilter): boolean {
  const values: Readonly<Record<string, unknown>> = pet;
  const wanted: Readonly<Record<string, unknown>> = filter;
  return filterableFields.every(
    ({ name }) => wanted[name] === undefined || wanted[name] === values[name],
  );
}

/**
 * Reads a draft from a JSON value (C21), which messages call `what`.
 * @throws PetstoreError `invalid_body` that names each invalid field and its rule (C20)
 */
export function parseDraft(value: JsonValue, what = 'The body'): PetDraft {
  if (!(value instanceof Map))
    throw new PetstoreError('invalid_body', `${what} must be a JSON object.`);

  const draft: Record<string, unknown> = {};
  const broken: string[] = [];
  for (const { name, type, isRequired } of petFields) {
    const json = value.get(name);
    const read = json === undefined ? undefined : type.read(json);
    if (read !== undefined) draft[name] = read;
    else if (json === undefined && isRequired)
      broken.push(`${name} is missing; it must be ${type.rule}`);
    else if (json !== undefined) broken.push(ruleOf(name, type.rule, isRequired));
  }
  if (broken.length > 0) throw invalidDraft(`${broken.join('; ')}.`);

  // The loop has read every row of the table, which the compiler cannot see.
  return draft as PetDraft;
}

/** The errors for invalid drafts by message. Their number is bounded. */
const draftErrors = new Map<string, PetstoreError>();
const maxDraftErrors = 256;

/**
 * Returns the error for an invalid draft. It is made once for each message, because making it takes
 * 25 % of a 400 (`make bench PARTS=before`).
 */
function invalidDraft(message: string): PetstoreError {
  const known = draftErrors.get(message);
  if (known !== undefined) return known;

  const error = new PetstoreError('invalid_body', message);
  if (draftErrors.size < maxDraftErrors) draftErrors.set(message, error);
  return error;
}

/** Returns the message for a field that breaks its rule. */
export function ruleOf(name: string, rule: string, isRequired: boolean): string {
  return `${name} must be ${rule}${isRequired ? '' : ', or be left out'}`;
}
