/** Owns the place of the `import` command. */
import { Refusal } from '../server/refusal.js';

/** Says that it is not there. */
export async function importAnimals(): Promise<number> {
  throw new Refusal('the command import is not there yet; use a later version');
}
