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
import { petId, petFields, petStatuses, type PetStatus } from '../pet.js';
import type { IdempotencyKeyUse, RecordKind } from '../storage.js';

/** Takes an animal, or a plugin's record, and the idempotency record before it. */
type TakePet = (
  id: bigint,
  status: PetStatus | undefined,
  json: ByteString,
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

/** The member that a status is in a line as we write it. */
const statusMembers = petStatuses.map((status) => ({ status, member: `,"status":"${status}"` }));
const isStatusLast = petFields.at(-1)?.name === 'status';

/**
 * Reads lines of animals, and hands on each in our own text. A million lines as we write them take
 * 0.6 s, and 3 s where they are parsed; groups that capture would cost a tenth of that.
 */
export function petLines(take: TakePet): AcceptLine {
  const takeInOrder = inOrder(take);
  return (line, keyUse) => {
    if (inAscii.test(line) || (inUtf8.test(line) && isUtf8(Buffer.from(line, 'latin1')))) {
      takeInOrder(idIn(line), statusIn(line), line, keyUse);
    } else {
      const pet = parsePet(line);
      takeInOrder(pet.id, pet.status, petJson(pet.id, pet), keyUse);
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

/** The status in a line as we write it. A name there holds no quote, so no name looks like one. */
function statusIn(line: string): PetStatus | undefined {
  const closingAt = line.length - '}'.length;
  for (const { status, member } of statusMembers)
    if (line.endsWith(member, closingAt)) return status;

  // Only a field that the table has after the status can stand after it.
  if (isStatusLast) return undefined;
  return statusMembers.find(({ member }) => line.includes(member))?.status;
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
export const anyRecords: RecordKind<ByteString> = {
  json: withId,
  parse: (json) => {
    const value = parseJson(json);
    const members = value instanceof Map ? value : new Map<string, JsonValue>();
    const id = petId.read(members.get('id') ?? null);
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
