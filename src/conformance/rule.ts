/** What a rule of the contract is for the suite that anyone can point at any server. */
import type { Level, Server } from './server-under-test.js';

/** Sends requests and expects answers; throws a `Mismatch` for another answer. */
export type Check = (server: Server) => Promise<void>;

/** One number of the contract, as far as it can be seen from outside. */
export interface Rule extends Readonly<Partial<Record<Level, Check>>> {
  /** Its number in docs/contract.md, such as `C10`. */
  readonly number: string;
  /** What holds, in a sentence without its full stop. */
  readonly sentence: string;
  /** What a user loses where it does not hold, in half a sentence. */
  readonly cost: string;
  /** Whether it waits for more than a second, so that it runs only where that is asked for. */
  readonly isSlow?: true;
}

/** Some rules of one subject. */
export interface Chapter {
  /** Its heading. */
  readonly name: string;
  /** In the order of their numbers. */
  readonly rules: readonly Rule[];
}
