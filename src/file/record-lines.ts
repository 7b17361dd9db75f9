/** Reads the lines of a file: pets, a plugin's records, or records of any kind for a copy. */
import { isUtf8 } from 'node:buffer';
import { parsePet, petJson, withId } from '../engine/index.js';
import { PetstoreError } from '../errors.js';
import type { AcceptLine } from '../journal/index.js';
import {
  asByteString,
  int64Max,
  JsonNumber,
  parseInt64,
  parseJson,
  toByteString,
  type ByteString,
  type JsonValue,
} from '../json.js';
import {
  filterableFields,
  filterOf,
  petFields,
  petIdType,
  type PetField,
  type PetFilter,
} from '../pet.js';
import type { IdempotencyKeyUse, RecordKind } from '../storage.js';

/**
 * Takes a pet or a plugin's record, and the idempotency record before it. `indexed` contains the
 * values by which filters select a pet; it is undefined for the record of a plugin.
 */
type TakeRecord = (
  id: bigint,
  json: ByteString,
  indexed: PetFilter | undefined,
  keyUse: IdempotencyKeyUse | undefined,
) => void;

// A written line is a pet as `petJson` writes it, with an id of at most 15 digits.

/** The offset of the id's digits in a written line. */
const idAt = '{"id":'.length;

/** Returns a pattern for written lines of bytes up to `lastByte`. */
function writtenLine(lastByte: string): RegExp {
  const members = petFields.map(({ type, isRequired, key }) => {
    const member = key + type.pattern(lastByte);
    return isRequired ? member : `(?:${member})?`;
  });

  return new RegExp(`^\\{"id":[1-9][0-9]{0,14}${members.join('')}\\}$`);
}

const inAscii = writtenLine('\\x7f');
const inUtf8 = writtenLine('\\xff');

/** For each filterable field, a function that reads its value from a written line. */
const valueReaders = filterableFields.map((field) => ({
  name: field.name,
  valueIn: field.type.values ? enumReader(field, field.type.values) : patternReader(field),
}));

/**
 * Reads lines of pets and passes each on as `petJson` writes it. A million written lines take
 * 0.6 s. Parsing them would take 3 s. Capturing groups in the pattern would take 10 % more time.
 */
export function petLines(take: TakeRecord): AcceptLine {
  const takeInOrder = inOrder(take);
  return (line, keyUse) => {
    if (inAscii.test(line) || (inUtf8.test(line) && isUtf8(Buffer.from(line, 'latin1')))) {
      takeInOrder(idIn(line), line, indexedIn(line), keyUse);
    } else {
      const pet = parsePet(line);
      takeInOrder(pet.id, petJson(pet.id, pet), filterOf(pet), keyUse);
    }
  };
}

/** Returns the id of a written line. */
function idIn(line: string): bigint {
  let id = 0;
  for (let at = idAt; ; at++) {
    const digit = line.charCodeAt(at) - 0x30;
    // A comma follows the id.
    if (digit < 0) return BigInt(id);
    id = 10 * id + digit;
  }
}

/** Returns the values by which filters select the pet of a written line. */
function indexedIn(line: string): PetFilter {
  const values: Record<string, unknown> = {};
  for (const { name, valueIn } of valueReaders) {
    const value = valueIn(line);
    if (value !== undefined) values[name] = value;
  }
  return values;
}

// Strings of a written line contain no quote (see `FieldType.pattern`). So a key such as
// `,"status":` is found only at its field.

/** Returns a reader of a field with few values. It compares texts, because to parse is slower. */
function enumReader({ name, type, key }: PetField, values: readonly unknown[]) {
  const members = values.map((value) => ({ value, member: key + type.write(value) }));
  const isLast = petFields.at(-1)?.name === name;

  return (line: string): unknown => {
    for (const { value, member } of members)
      if (isLast ? line.endsWith(member, line.length - '}'.length) : line.includes(member))
        return value;
    return undefined;
  };
}

/** Returns a reader of a field with any number of values. */
function patternReader({ type, key }: PetField) {
  const pattern = new RegExp(type.pattern('\\xff'), 'y');

  return (line: string): unknown => {
    const keyAt = line.indexOf(key);
    if (keyAt < 0) return undefined;

    pattern.lastIndex = keyAt + key.length;
    const json = pattern.exec(line)?.[0] ?? '';
    return type.read(parseJson(json));
  };
}

/** Reads lines of a plugin's records and passes each on as the plugin writes it. */
export function recordLines<Draft>({
  json,
  parse,
}: RecordKind<Draft>): (take: TakeRecord) => AcceptLine {
  return (take) => {
    const takeInOrder = inOrder(take);
    return (line, keyUse) => {
      const { id, draft } = parse(line);
      takeInOrder(id, json(id, draft), undefined, keyUse);
    };
  };
}

/**
 * Returns `take` with a check that ids ascend.
 * @throws PetstoreError `invalid_body` if an id does not
 */
function inOrder(take: TakeRecord): TakeRecord {
  let lastId = 0n;
  return (id, json, indexed, keyUse) => {
    if (id <= lastId)
      throw new PetstoreError('invalid_body', `id ${id} follows id ${lastId}; ids must ascend.`);

    lastId = id;
    take(id, json, indexed, keyUse);
  };
}

/** Matches a record as pets and plugins write it: on one line, with the id first. */
const writtenRecord = /^\{"id":[1-9][0-9]{0,18},[\x20-\xff]*\}$/;

/**
 * Records of any kind. A draft is the JSON after the id. Records that were written by hand get the
 * form of written records.
 */
export const anyRecords: RecordKind<ByteString> = {
  json: withId,
  parse: (json) => {
    const value = parseJson(json);
    const members = value instanceof Map ? value : new Map<string, JsonValue>();
    const id = petIdType.read(members.get('id') ?? null);
    if (id === undefined || id < 1n || members.size < 2)
      throw new PetstoreError(
        'invalid_body',
        `a record must be an object with an id from 1 to ${int64Max} and another member`,
      );

    if (writtenRecord.test(json))
      return { id, draft: asByteString(json.slice(`{"id":${id}`.length)) };

    const others = new Map([...members].filter(([name]) => name !== 'id'));
    return { id, draft: toByteString(`,${jsonText(others).slice(1)}`) };
  },
};

/** Returns the id of a written record, or 0, which no storage accepts, for any other text. */
export function idOfText(json: string): bigint {
  return parseInt64(/^\{"id":([1-9][0-9]{0,18}),/.exec(json)?.[1] ?? '') ?? 0n;
}

/** Returns the JSON of a value. Numbers keep their text, because a double would round them. */
function jsonText(value: JsonValue): string {
  if (value instanceof JsonNumber) return value.text;
  if (value instanceof Map) {
    const members = Array.from(
      value,
      ([name, member]) => `${JSON.stringify(name)}:${jsonText(member)}`,
    );
    return `{${members.join(',')}}`;
  }
  return Array.isArray(value) ? `[${value.map(jsonText).join(',')}]` : JSON.stringify(value);
}
