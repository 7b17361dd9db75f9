/** Plugin records, for tests. */
import assert from 'node:assert/strict';
import {
  int64OfJsonNumber,
  JsonNumber,
  parseJson,
  PetstoreError,
  toByteString,
  type PetStorage,
  type RecordKind,
  type Records,
} from '../../dist/index.js';

/** A kind of record with a text. */
export const notes: RecordKind<string> = {
  json: (id, text) => toByteString(`{"id":${id},"text":${JSON.stringify(text)}}`),
  parse: (json) => {
    const value = parseJson(json);
    const [id, text] = value instanceof Map ? [value.get('id'), value.get('text')] : [];
    const number = id instanceof JsonNumber ? int64OfJsonNumber(id.text) : undefined;
    if (number === undefined || typeof text !== 'string')
      throw new PetstoreError('invalid_body', 'This is not a note.');
    return { id: number, draft: text };
  },
};

/** Opens the notes of a storage, which must support records. */
export const notesIn = (storage: PetStorage): Records<string> =>
  storage.records?.('notes', notes) ?? assert.fail('the storage keeps no records');
