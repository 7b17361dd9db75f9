/** Reads the lines of a file: animals, records of a plugin, and records of any kind for a copy. */
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
 * Takes a pet or a plugin's record, and the idempotency record before it. `indexed` has the values
 * that filters find a pet by; it is undefined for the record of a plugin.
 */
type TakeRecord = (
  id: bigint,
  json: ByteString,
  indexed: PetFilter | undefined,
  keyUse: IdempotencyKeyUse | undefined,
) => void;

/** Where the digits of the id begin in a line as we write it. */
const idAt = '{"id":'.length;

/** An expression for a line as `petJson` writes it, of bytes up to `lastByte`. */
function writtenPet(lastByte: string): RegExp {
  const members = petFields.map(({ type, isRequired, key }) => {
    const member = key + type.pattern(lastByte);
    return isRequired ? member : `(?:${member})?`;
  });

  return new RegExp(`^\\{"id":[1-9][0-9]{0,14}${members.join('')}\\}$`);
}

const inAscii = writtenPet('\\x7f');
const inUtf8 = writtenPet('\\xff');

/** Read the values that filters find a pet by from a line as we write it. */
const valueReaders = filterableFields.map((field) => ({
  name: field.name,
  valueIn: field.type.values ? readerOfFew(field, field.type.values) : readerOfAny(field),
}));

/**
 * Reads lines of animals, and hands on each in our own text. A million lines as we write them take
 * 0.6 s, and 3 s where they are parsed; groups that capture would cost a tenth of that.
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

/** The id in a line as we write it, of at most 15 digits. */
function idIn(line: string): bigint {
  let id = 0;
  for (let at = idAt; ; at++) {
    const digit = line.charCodeAt(at) - 0x30;
    // A comma follows the id.
    if (digit < 0) return BigInt(id);
    id = 10 * id + digit;
  }
}

/** Returns the values that filters find a pet by, from a line as we write it. */
function indexedIn(line: string): PetFilter {
  const values: Record<string, unknown> = {};
  for (const { name, valueIn } of valueReaders) {
    const value = valueIn(line);
    if (value !== undefined) values[name] = value;
  }
  return values;
}

// No text in a line as we write it has a quote inside its own two (see `FieldType.pattern`). So a
// key such as `,"status":` is found only where the field is.

/** Returns a reader of a field with few values. It compares, which is faster than to parse. */
function readerOfFew({ name, type, key }: PetField, values: readonly unknown[]) {
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
function readerOfAny({ type, key }: PetField) {
  const pattern = new RegExp(type.pattern('\\xff'), 'y');

  return (line: string): unknown => {
    const keyAt = line.indexOf(key);
    if (keyAt < 0) return undefined;

    pattern.lastIndex = keyAt + key.length;
    const json = pattern.exec(line)?.[0] ?? '';
    return type.read(parseJson(json));
  };
}

/** Reads lines of records, and hands on each in the text of its kind. */
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

/** Hands on what has ascending ids. @throws PetstoreError `invalid_body` for another id */
function inOrder(take: TakeRecord): TakeRecord {
  let lastId = 0n;
  return (id, json, indexed, keyUse) => {
    if (id <= lastId)
      throw new PetstoreError(
        'invalid_body',
        `id ${id} stands behind id ${lastId}; ids must grow.`,
      );

    lastId = id;
    take(id, json, indexed, keyUse);
  };
}

/** What we and plugins write: on one line, the id first. */
const written = /^\{"id":[1-9][0-9]{0,18},[\x20-\xff]*\}$/;

/**
 * Records of any kind: as they stand, or in our own text where a person wrote them. The draft is
 * what follows the id.
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
        `a record must be an object with an id from 1 to ${int64Max}, and more`,
      );

    if (written.test(json)) return { id, draft: asByteString(json.slice(`{"id":${id}`.length)) };

    const others = new Map([...members].filter(([name]) => name !== 'id'));
    return { id, draft: toByteString(`,${jsonText(others).slice(1)}`) };
  },
};

/** The id of a text as we write it; 0 of any other, which no storage takes. */
export function idOfText(json: string): bigint {
  return parseInt64(/^\{"id":([1-9][0-9]{0,18}),/.exec(json)?.[1] ?? '') ?? 0n;
}

/** The JSON text of a value, with numbers as they were written: a double would round them. */
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
