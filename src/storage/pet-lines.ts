/** Owns reading the animals of a journal line by line, in order, and other records likewise. Knows no file. */
import { PetstoreError } from '../errors.js';
import { parsePet, petJson, type PetStatus } from '../pet.js';
import type { InsertOnce, RecordKind } from '../storage.js';
import { canonicalPet } from './canonical.js';
import type { AcceptLine } from './replay.js';

/**
 * Takes an animal of the journal: its id, its status, its one JSON text, a byte string of its own, and the idempotency
 * record before it.
 */
export type TakePet = (id: bigint, status: PetStatus | undefined, json: string, once: InsertOnce | undefined) => void;

/**
 * An `AcceptLine` that hands on each animal. A line that a person wrote in another order, with white space, escapes or
 * more members is handed on in our own text.
 */
export function petLines(take: TakePet): AcceptLine {
  const takeInOrder = inOrder(take);
  return (bytes, from, to, once) => {
    const line = bytes.toString('latin1', from, to);
    const ours = canonicalPet(bytes, from, to);
    if (ours !== undefined) return takeInOrder(ours.id, ours.status, line, once);
    const pet = parsePet(line);
    takeInOrder(pet.id, pet.status, petJson(pet.id, pet), once);
  };
}

/** The same for records of another kind, which have no status. */
export function recordLines<Draft>({ json, parse }: RecordKind<Draft>): (take: TakePet) => AcceptLine {
  return (take) => {
    const takeInOrder = inOrder(take);
    return (bytes, from, to, once) => {
      const { id, draft } = parse(bytes.toString('latin1', from, to));
      takeInOrder(id, undefined, json(id, draft), once);
    };
  };
}

function inOrder(take: TakePet): TakePet {
  let lastId = 0n;
  return (id, status, json, once) => {
    if (id <= lastId) throw new PetstoreError('invalid_body', `id ${id} stands behind id ${lastId}; ids must grow.`);
    lastId = id;
    take(id, status, json, once);
  };
}
