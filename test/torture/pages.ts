/**
 * Reads the list of animals to its end as the exact texts that are served. Knows no book to hold it
 * against.
 */
import type { Client } from './client.js';
import { hold } from './row.js';

const limit = 100;

/**
 * The exact text of every animal by its id, ascending; read page by page behind the last id seen.
 */
export async function readAllPages(client: Client): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  let last = 0n;
  for (let isFull = true; isFull; ) {
    const { status, body } = await client.get(`/v1/pets?limit=${limit}&after=${last}`);
    hold(status === 200, `a list is answered ${status}`);
    const animals = splitArray(body);
    for (const animal of animals) {
      const id = BigInt(idOf(animal));
      hold(id > last, `id ${id} is listed behind id ${last}`);
      found.set(String(id), animal);
      last = id;
    }
    isFull = animals.length === limit;
  }
  return found;
}

/** The id in an animal's text, as its digits; empty where it does not begin with one. */
export function idOf(animal: string): string {
  return /^\{"id":([0-9]+),/.exec(animal)?.[1] ?? '';
}

/** The texts of the objects in a JSON array without white space, which a parser would not keep. */
function splitArray(array: string): readonly string[] {
  const texts: string[] = [];
  let depth = 0;
  let inString = false;
  let from = 0;
  for (let at = 1; at < array.length; at++) {
    const char = array[at];
    if (inString && char === '\\') at++;
    else if (char === '"') inString = !inString;
    else if (!inString && char === '{' && depth++ === 0) from = at;
    else if (!inString && char === '}' && --depth === 0) texts.push(array.slice(from, at + 1));
  }
  return texts;
}
