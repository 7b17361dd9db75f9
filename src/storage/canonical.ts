/**
 * Owns recognising an animal's line in exactly our own text without building what it holds: a start reads millions.
 * Whatever it does not recognise may still be an animal; `parsePet` decides.
 */
import { isUtf8 } from 'node:buffer';
import { petStatuses, type PetStatus } from '../pet.js';

/** What must be known of an animal to serve its line as it stands. */
export interface CanonicalPet {
  readonly id: bigint;
  readonly status: PetStatus | undefined;
}

const beforeId = Buffer.from('{"id":');
const beforeName = Buffer.from(',"name":"');
const beforeCategory = Buffer.from('","categoryId":');
/** How each animal's line ends, and what it says. */
const endings: readonly { readonly bytes: Buffer; readonly status: PetStatus | undefined }[] = [
  ...petStatuses.map((status) => ({ bytes: Buffer.from(`,"status":"${status}"}`), status })),
  { bytes: Buffer.from('}'), status: undefined },
];

/** No int64 of so many digits is too big, and every number of so many is exact. */
const maxDigits = 15;

/** The animal of the line from `from` to `to`, where `petJson` would write that line byte for byte; else undefined. */
export function canonicalPet(bytes: Buffer, from: number, to: number): CanonicalPet | undefined {
  if (!standsAt(beforeId, bytes, from)) return undefined;
  const idFrom = from + beforeId.length;
  const idTo = digitsEnd(bytes, idFrom);
  if (bytes[idFrom] === 0x30 || !standsAt(beforeName, bytes, idTo)) return undefined;

  const nameFrom = idTo + beforeName.length;
  const nameTo = plainEnd(bytes, nameFrom, to);
  if (nameTo === undefined || !standsAt(beforeCategory, bytes, nameTo)) return undefined;

  const signAt = nameTo + beforeCategory.length;
  const categoryFrom = bytes[signAt] === 0x2d ? signAt + 1 : signAt;
  const categoryTo = digitsEnd(bytes, categoryFrom);
  // A zero in front stands alone, and without a sign.
  if (bytes[categoryFrom] === 0x30 && categoryTo !== signAt + 1) return undefined;

  const ending = endings.find((each) => each.bytes.length === to - categoryTo && standsAt(each.bytes, bytes, categoryTo));
  if (ending === undefined) return undefined;
  let id = 0;
  for (let at = idFrom; at < idTo; at++) id = id * 10 + (bytes[at] ?? 0) - 0x30;
  return { id: BigInt(id), status: ending.status };
}

function standsAt(text: Buffer, bytes: Buffer, at: number): boolean {
  for (let index = 0; index < text.length; index++) if (bytes[at + index] !== text[index]) return false;
  return true;
}

/** Where 1 to 15 digits end; -1, where nothing ever stands, for none or more. */
function digitsEnd(bytes: Buffer, from: number): number {
  let at = from;
  for (let byte = bytes[at]; byte !== undefined && byte >= 0x30 && byte <= 0x39; byte = bytes[++at]);
  return at === from || at - from > maxDigits ? -1 : at;
}

/** Where a string's text ends, at its quote; undefined where it holds an escape or is not UTF-8. */
function plainEnd(bytes: Buffer, from: number, to: number): number | undefined {
  let ascii = true;
  for (let at = from; at < to; at++) {
    const byte = bytes[at] ?? 0;
    if (byte === 0x22) return ascii || isUtf8(bytes.subarray(from, at)) ? at : undefined;
    if (byte === 0x5c || byte < 0x20) return undefined;
    if (byte >= 0x80) ascii = false;
  }
  return undefined;
}
