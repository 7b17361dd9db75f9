/** Reads the lines of a file: animals, records of a plugin, and records of any kind for a copy. */
import { isUtf8 } from 'node:buffer';
import { parsePet, petJson } from '../engine/index.js';
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
import { int64Field, petFields, petStatuses, type PetStatus } from '../pet.js';
import type { IdempotencyKeyUse, RecordKind } from '../storage.js';

/** Takes an animal, or a plugin's record, and the idempotency record before it. */
type TakePet = (
  id: bigint,
  status: PetStatus | undefined,
  json: ByteString,
  keyUse: IdempotencyKeyUse | undefined,
) => void;

/**
 * An expression for the line of an animal as `petJson` writes it, of bytes up to `lastByte`. Its
 * groups are the id and the JSON text of the status. A million lines are read in 0.7 s by it, and
 * in 3.3 s where they are parsed.
 */
function writtenPet(lastByte: string): RegExp {
  const members = petFields.map(({ name, type, isRequired, key }) => {
    const value = type.pattern(lastByte);
    const member = name === 'status' ? `${key}(${value})` : key + value;
    return isRequired ? member : `(?:${member})?`;
  });

  return new RegExp(`^\\{"id":([1-9][0-9]{0,14})${members.join('')}\\}$`);
}

/** Most lines are of ASCII, which is UTF-8. */
const asciiPet = writtenPet('\\x7f');

/** Of these bytes it has to be found out whether they are UTF-8. */
const anyPet = writtenPet('\\xff');

const statusOfJson = new Map(petStatuses.map((status) => [JSON.stringify(status), status]));

/**
 * Reads lines of animals, and hands on each in our own text: a line as we write it as it stands,
 * and what a person wrote parsed and written anew.
 */
export function petLines(take: TakePet): AcceptLine {
  const takeInOrder = inOrder(take);
  return (line, keyUse) => {
    const ascii = asciiPet.exec(line);
    const written = ascii ?? anyPet.exec(line);
    if (written && (ascii || isUtf8(Buffer.from(line, 'latin1')))) {
      const [, id, status = ''] = written;
      // A number becomes a bigint in half the time that its text takes, and holds these 15 digits.
      takeInOrder(BigInt(Number(id)), statusOfJson.get(status), line, keyUse);
    } else {
      const pet = parsePet(line);
      takeInOrder(pet.id, pet.status, petJson(pet.id, pet), keyUse);
    }
  };
}

/** Reads lines of records, and hands on each in the text of its kind. */
export function recordLines<Draft>({
  json,
  parse,
}: RecordKind<Draft>): (take: TakePet) => AcceptLine {
  return (take) => {
    const takeInOrder = inOrder(take);
    return (line, keyUse) => {
      const { id, draft } = parse(line);
      takeInOrder(id, undefined, json(id, draft), keyUse);
    };
  };
}

/** Hands on what has ascending ids. @throws PetstoreError `invalid_body` for another id */
function inOrder(take: TakePet): TakePet {
  let lastId = 0n;
  return (id, status, json, keyUse) => {
    if (id <= lastId)
      throw new PetstoreError(
        'invalid_body',
        `id ${id} stands behind id ${lastId}; ids must grow.`,
      );

    lastId = id;
    take(id, status, json, keyUse);
  };
}

/** What we and plugins write: on one line, the id first. */
const written = /^\{"id":[1-9][0-9]{0,18},[\x20-\xff]*\}$/;

/**
 * Records of any kind: as they stand, or in our own text where a person wrote them. The draft is
 * what follows the id.
 */
export const anyRecords: RecordKind<string> = {
  json: (id, rest) => asByteString(`{"id":${id}${rest}`),
  parse: (json) => {
    const value = parseJson(json);
    const members = value instanceof Map ? value : new Map<string, JsonValue>();
    const id = int64Field.read(members.get('id') ?? null);
    if (id === undefined || id < 1n || members.size < 2)
      throw new PetstoreError(
        'invalid_body',
        `a record must be an object with an id from 1 to ${int64Max}, and more`,
      );

    if (written.test(json)) return { id, draft: json.slice(`{"id":${id}`.length) };

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
