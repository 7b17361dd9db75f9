/**
 * Owns recognising an animal's line in exactly our own text without building what it holds: a start reads millions.
 * Whatever it does not recognise may still be an animal; `parsePet` decides.
 */
import { petStatuses, type PetStatus } from '../pet.js';

const beforeId = '{"id":';

/**
 * What `petJson` writes, if the name is UTF-8. No number has more than 15 digits: of so many no int64 is too big, and a
 * double has them all. The engine makes native code of this, which is done in half the time of a loop over the bytes.
 */
const canonical = new RegExp(
  `${beforeId}[1-9][0-9]{0,14},"name":"[^"\\\\\\x00-\\x1f]*","categoryId":(?:0|-?[1-9][0-9]{0,14})(?:,"status":"(?:${petStatuses.join('|')})")?\\}`,
  'y',
);

/** The statuses by their last letters, all different. */
const byLastLetter: ReadonlyMap<number, PetStatus> = new Map(petStatuses.map((status) => [status.charCodeAt(status.length - 1), status]));

/**
 * The id of the animal whose line stands in a byte string from `from` to `to`, where `petJson` would write that line byte
 * for byte, provided that it is UTF-8; else undefined.
 */
export function canonicalId(source: string, from: number, to: number): number | undefined {
  canonical.lastIndex = from;
  if (!canonical.test(source) || canonical.lastIndex !== to) return undefined;
  let id = 0;
  let at = from + beforeId.length;
  for (let byte = source.charCodeAt(at); byte !== 0x2c; byte = source.charCodeAt(++at)) id = id * 10 + byte - 0x30;
  return id;
}

/** The status of an animal whose canonical line ends at `to`: no letter stands there, before two bytes, unless it has one. */
export function canonicalStatus(source: string, to: number): PetStatus | undefined {
  return byLastLetter.get(source.charCodeAt(to - 3));
}
