/** Owns reading records whose kind is known to their plugin alone: an id, and a text behind it. Knows no field. */
import { PetstoreError } from '../errors.js';
import { parseInt64 } from '../int64.js';
import { parseJson } from '../json.js';
import type { RecordKind } from '../storage.js';

/** Records as they stand; the draft is what stands behind the id. */
export const anyRecords: RecordKind<string> = {
  json: (id, rest) => `{"id":${id}${rest}`,
  parse: (json) => {
    parseJson(json);
    const id = idOfText(json);
    return { id, draft: json.slice(`{"id":${id}`.length) };
  },
};

/** The id that a text begins with. @throws PetstoreError `invalid_body` for a text that does not. */
export function idOfText(json: string): bigint {
  const id = parseInt64(/^\{"id":([1-9][0-9]{0,18}),/.exec(json)?.[1] ?? '');
  if (id === undefined) throw new PetstoreError('invalid_body', 'a record must be an object whose first member is id');
  return id;
}
