/** Owns the place of the `keys` command. */
import { Refusal } from '../server/refusal.js';

/** Says that it is not there. */
export async function keys(): Promise<number> {
  throw new Refusal('the command keys is not there yet; use a later version');
}
