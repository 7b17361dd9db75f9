/** Owns reading records whose kind is known to their plugin alone: an id, and a text behind it. Knows no field. */
import { PetstoreError } from '../errors.js';
import { int64OfJsonNumber, parseInt64 } from '../int64.js';
import { JsonNumber, parseJson, toByteString, type JsonValue } from '../json.js';
import type { RecordKind } from '../storage.js';

/** What we and plugins write: on one line, the id first. */
const written = /^\{"id":[1-9][0-9]{0,18},[\x20-\xff]*\}$/;

/**
 * Records as they stand; the draft is what stands behind the id. A line that a person wrote with other members or white
 * space before the id's end is taken in the text that we would write.
 */
export const anyRecords: RecordKind<string> = {
  json: (id, rest) => `{"id":${id}${rest}`,
  parse: (json) => {
    const value = parseJson(json);
    const id = idOf(value);
    const others = value instanceof Map ? [...value].filter(([name]) => name !== 'id') : [];
    if (id === undefined || id < 1n || others.length === 0) throw noRecord();
    return { id, draft: written.test(json) ? json.slice(`{"id":${id}`.length) : toByteString(`,${membersText(others)}}`) };
  },
};

/** The id that a text as we write it begins with. @throws PetstoreError `invalid_body` for a text that does not. */
export function idOfText(json: string): bigint {
  const id = parseInt64(/^\{"id":([1-9][0-9]{0,18}),/.exec(json)?.[1] ?? '');
  if (id === undefined) throw noRecord();
  return id;
}

function noRecord(): PetstoreError {
  return new PetstoreError('invalid_body', 'a record must be an object with an id from 1 to 9223372036854775807, and more');
}

function idOf(value: JsonValue): bigint | undefined {
  const number = value instanceof Map ? value.get('id') : undefined;
  return number instanceof JsonNumber ? int64OfJsonNumber(number.text) : undefined;
}

function membersText(members: Iterable<readonly [string, JsonValue]>): string {
  return Array.from(members, ([name, value]) => `${JSON.stringify(name)}:${jsonText(value)}`).join(',');
}

/** Numbers as they were written: a double would round them. */
function jsonText(value: JsonValue): string {
  if (value instanceof JsonNumber) return value.text;
  if (value instanceof Map) return `{${membersText(value)}}`;
  return Array.isArray(value) ? `[${value.map(jsonText).join(',')}]` : JSON.stringify(value);
}
