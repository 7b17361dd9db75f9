/** Owns reading the animals of a journal line by line, in order. Knows no file. */
import { PetstoreError } from '../errors.js';
import { parsePet, petJson, type PetStatus } from '../pet.js';
import { ownText } from './catalogue.js';
import type { AcceptLine } from './replay.js';

/** Takes an animal of the journal: its id, its status and its one JSON text, a byte string of its own. */
export type TakePet = (id: bigint, status: PetStatus | undefined, json: string) => void;

/**
 * An `AcceptLine` that hands on each animal. A line that a person wrote in another order, with white space, escapes or
 * more members is handed on in our own text.
 */
export function petLines(take: TakePet): AcceptLine {
  let lastId = 0n;
  return (bytes, from, to) => {
    const pet = parsePet(bytes.toString('latin1', from, to));
    if (pet.id <= lastId) throw new PetstoreError('invalid_body', `id ${pet.id} stands behind id ${lastId}; ids must grow.`);
    lastId = pet.id;
    take(pet.id, pet.status, ownText(petJson(pet.id, pet)));
  };
}
