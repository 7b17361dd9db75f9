/** Owns reading the animals of a journal line by line, in order, and other records likewise. Knows no file. */
import { PetstoreError } from '../errors.js';
import { parsePet, petJson, type PetStatus } from '../pet.js';
import type { InsertOnce, RecordKind } from '../storage.js';
import { canonicalId, canonicalStatus } from './canonical.js';
import type { Id } from './id-runs.js';
import type { AcceptLine } from './replay.js';

/**
 * Takes an animal of the journal: its id, its status, the idempotency record before it, and its one JSON text, which is
 * `source` from `from` to `to`: a byte string that it may share with others.
 */
export type TakePet = (id: Id, status: PetStatus | undefined, once: InsertOnce | undefined, source: string, from: number, to: number) => void;

/**
 * An `AcceptLine` that hands on each animal. A line that a person wrote in another order, with white space, escapes or
 * more members is handed on in our own text.
 */
export function petLines(take: TakePet): AcceptLine {
  const takeInOrder = inOrder(take);
  let hasRecords = false;
  return (piece, from, to, once) => {
    // Once there are records, a text of its own: cut out of the piece, it would keep them too, three times as long as it is.
    hasRecords ||= once !== undefined;
    const shared = hasRecords ? undefined : piece.text;
    const [source, start, end] = shared === undefined ? [piece.bytes.toString('latin1', from, to), 0, to - from] : [shared, from, to];
    const id = canonicalId(source, start, end);
    if (id !== undefined && piece.isUtf8(from, to)) return takeInOrder(id, canonicalStatus(source, end), once, source, start, end);
    const pet = parsePet(source.slice(start, end));
    takeInOrder(pet.id, pet.status, once, petJson(pet.id, pet));
  };
}

/** The same for records of another kind, which have no status. */
export function recordLines<Draft>({ json, parse }: RecordKind<Draft>): (take: TakePet) => AcceptLine {
  return (take) => {
    const takeInOrder = inOrder(take);
    return (piece, from, to, once) => {
      const { id, draft } = parse(piece.bytes.toString('latin1', from, to));
      takeInOrder(id, undefined, once, json(id, draft));
    };
  };
}

/** Refuses an id that does not grow; a source alone is all text. */
function inOrder(take: TakePet): (id: Id, status: PetStatus | undefined, once: InsertOnce | undefined, source: string, from?: number, to?: number) => void {
  let lastId: Id = 0;
  return (id, status, once, source, from = 0, to = source.length) => {
    if (id <= lastId) throw new PetstoreError('invalid_body', `id ${id} stands behind id ${lastId}; ids must grow.`);
    lastId = id;
    take(id, status, once, source, from, to);
  };
}
