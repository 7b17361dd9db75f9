/** The animal: one table of its fields, from which all follows that knows what an animal is. */
import { PetstoreError } from './errors.js';
import {
  int64OfJsonNumber,
  isInt64,
  JsonNumber,
  parseInt64,
  toByteString,
  type JsonValue,
} from './json.js';

/** How values of one type are told, read, checked and written. */
export interface FieldType<Value> {
  /** What a client's value must be, as it follows the words "must be" (C20). */
  readonly rule: string;
  /** The value that a JSON value is; undefined where it is none. */
  readonly read: (json: JsonValue) => Value | undefined;
  /** What a program's value must be, where that is more, or said in another way. */
  readonly programRule: string;
  /** Whether a program's value is one. */
  readonly is: (value: unknown) => boolean;
  /** The JSON text of a value, as a byte string. */
  readonly write: (value: unknown) => string;
  /**
   * Returns an expression for the texts that `write` makes of most values, as byte strings with
   * bytes up to `lastByte`. Storage files are read by it first (file/record-lines.ts): a line that
   * matches is served as it is, all other lines are parsed.
   *
   * So each text that matches must be one that `read` accepts and that `write` makes of the value.
   * No text that matches may have a quote between its own two, even an escaped one, because the
   * reader looks for `,"status":"sold"` anywhere in a line. `test/pet.test.ts` tests each row.
   */
  readonly pattern: (lastByte: string) => string;
  /** What the text of a query parameter must be, as it follows the words "must be". */
  readonly parameterRule: string;
  /** Returns the value of a query parameter's text; undefined if the text breaks its rule. */
  readonly parse: (text: string) => Value | undefined;
  /** All values, if they are few. */
  readonly values?: readonly Value[];
  /** What the OpenAPI document says of it. */
  readonly schema: Readonly<Record<string, string | readonly string[]>>;
}

/** A type of fields that lists filter by. */
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

/** A name of this many UTF-16 units still fits a line of a storage file, as JSON. */
const maxTextLength = 2 ** 24;

/** Any Unicode text. */
function text(description: string): FieldType<string> {
  return {
    rule: 'a string',
    read: (json) => (typeof json === 'string' ? json : undefined),
    programRule: `a well-formed string of at most ${maxTextLength} UTF-16 units`,
    // A lone surrogate has no UTF-8.
    is: (value) =>
      typeof value === 'string' && value.length <= maxTextLength && value.isWellFormed(),
    write: (value) => toByteString(JSON.stringify(value)),
    // Neither quotes nor backslashes: nothing in it is escaped.
    pattern: (lastByte) => `"[\\x20!#-[\\]-${lastByte}]*"`,
    parameterRule: 'a text',
    parse: (parameter) => parameter,
    schema: { type: 'string', description },
  };
}

/** What the OpenAPI document says of any integer of 64 bits. */
export const int64Schema = { type: 'integer', format: 'int64' };

/** An integer of 64 bits, exact (C22, C23). */
function int64(description: string): FieldType<bigint> {
  return {
    rule: 'an integer from -9223372036854775808 to 9223372036854775807',
    read: (json) => (json instanceof JsonNumber ? int64OfJsonNumber(json.text) : undefined),
    programRule: 'a 64-bit bigint',
    is: (value) => typeof value === 'bigint' && isInt64(value),
    write: String,
    // Of so few digits that none is beyond an int64.
    pattern: () => '(?:0|-?[1-9][0-9]{0,14})',
    parameterRule: 'an integer from -9223372036854775808 to 9223372036854775807, in decimal digits',
    parse: parseInt64,
    schema: { ...int64Schema, description },
  };
}

/** One of some words of small letters, which need no escape in JSON. */
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

/** Every availability of an animal. */
export const petStatuses = Object.freeze(['available', 'pending', 'sold'] as const);

/** The availability of an animal. */
export type PetStatus = (typeof petStatuses)[number];

const petStatus = oneOf<PetStatus>(petStatuses, { $ref: '#/components/schemas/PetStatus' });

/**
 * The id of an animal, which the service assigns: all other fields are rows of the tables below.
 */
export const petIdType = int64('Assigned by the service on creation.');

/** The fields that every animal has, in the order in which they are written. */
const requiredFields = {
  /** Any Unicode text, even an empty one (C25). */
  name: text("The animal's name."),
  /** An int64 (C23). */
  categoryId: int64('Identifier of the category the animal belongs to.'),
};

/** The fields that an animal may lack, written after the others. Absent stays absent (C19). */
const optionalFields = {
  /** The availability of the animal. */
  status: filterable(petStatus),
};

type Fields = typeof requiredFields & typeof optionalFields;

/** The name of a field that lists filter by. */
export type FilterName = {
  [Name in keyof Fields]: Fields[Name] extends FilterableType<unknown> ? Name : never;
}[keyof Fields];

/** The values of fields, by their names. */
type Values<Fields> = {
  readonly [Name in keyof Fields]: Fields[Name] extends FieldType<infer Value> ? Value : never;
};

/**
 * An animal before it has an id, the specification's `NewPet`: a value for each row of the table.
 */
export type PetDraft = Values<typeof requiredFields> & Partial<Values<typeof optionalFields>>;

/** An animal of the catalogue. */
export interface Pet extends PetDraft {
  /** A positive int64 (C31). */
  readonly id: bigint;
}

/** One field of an animal. */
export interface PetField {
  /** The member of JSON that it is. */
  readonly name: string;
  /** Its row in the table. */
  readonly type: FieldType<unknown>;
  /** Whether every animal has it. */
  readonly isRequired: boolean;
  /** True if lists filter by it. */
  readonly isFilterable: boolean;
  /** What stands before its value in the JSON text of an animal. */
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
 * The values of the fields that lists filter by. It stands for what a storage indexes of a pet, and
 * for the values that a query asks for.
 */
export type PetFilter = { readonly [Name in FilterName]?: PetDraft[Name] | undefined };

/** The fields that lists filter by, in the order of the table. */
export const filterableFields: readonly PetField[] = petFields.filter(
  ({ isFilterable }) => isFilterable,
);

/** Returns the values of the fields that lists filter by: those of a pet, or of a query. */
export function filterOf(values: PetFilter): PetFilter {
  const all: Readonly<Record<string, unknown>> = values;
  const found: Record<string, unknown> = {};
  for (const { name } of filterableFields) if (all[name] !== undefined) found[name] = all[name];
  return found;
}

/** Returns true if a pet has each value of a filter. A value that is undefined counts as absent. */
export function matchesFilter(pet: PetFilter, filter: PetFilter): boolean {
  const values: Readonly<Record<string, unknown>> = pet;
  const wanted: Readonly<Record<string, unknown>> = filter;
  return filterableFields.every(
    ({ name }) => wanted[name] === undefined || wanted[name] === values[name],
  );
}

/**
 * The draft in a JSON value (C21), which messages call `what`.
 * @throws PetstoreError `invalid_body` that names each bad field and its rule (C20).
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
  if (broken.length > 0) throw new PetstoreError('invalid_body', `${broken.join('; ')}.`);

  // Every row of the table was read, which the compiler cannot see.
  return draft as PetDraft;
}

/** What a message says of a field that breaks its rule. */
export function ruleOf(name: string, rule: string, isRequired: boolean): string {
  return `${name} must be ${rule}${isRequired ? '' : ', or be left out'}`;
}
