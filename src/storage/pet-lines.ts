/** Owns reading the animals of a journal line by line, in order. Knows no file. */
import { PetstoreError } from '../errors.js';
import { parsePet, petJson, type PetStatus } from '../pet.js';
import { canonicalPet } from './canonical.js';
import type { AcceptLine } from './replay.js';

/** Takes an animal of the journal: its id, its status and its one JSON text, a byte string of its own. */
export type TakePet = (id: bigint, status: PetStatus | undefined, json: string) => void;

/**
 * An `AcceptLine` that hands on each animal. A line that a person wrote in another order, with white space, escapes or
 * more members is handed on in our own text.
 */
export function petLines(take: TakePet): AcceptLine {
  let lastId = 0n;
  const takeInOrder: TakePet = (id, status, json) => {
    if (id <= lastId) throw new PetstoreError('invalid_body', `id ${id} stands behind id ${lastId}; ids must grow.`);
    lastId = id;
    take(id, status, json);
  };
  return (bytes, from, to) => {
    const line = bytes.toString('latin1', from, to);
    const ours = canonicalPet(bytes, from, to);
    if (ours !== undefined) return takeInOrder(ours.id, ours.status, line);
    const pet = parsePet(line);
    takeInOrder(pet.id, pet.status, petJson(pet.id, pet));
  };
}
