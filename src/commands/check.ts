/** Owns the place of the `check` command. */
import { Refusal } from '../server/refusal.js';

/** Says that it is not there. */
export async function check(): Promise<number> {
  throw new Refusal('the command check is not there yet; use a later version');
}
