/** The types of the rules that `verify` checks. */
import type { Level } from './levels.js';
import type { TestedServer } from './tested-server.js';

/** A check that sends requests to a server. It throws a `Mismatch` for a wrong response. */
export type Check = (server: TestedServer) => Promise<void>;

/** A numbered rule of the contract, with a check for each level that adds to the one below. */
export interface Rule extends Readonly<Partial<Record<Level, Check>>> {
  /** The number in docs/contract.md, such as `C10`. */
  readonly number: string;
  /** The behaviour of a correct server, as a sentence without its full stop. */
  readonly sentence: string;
  /** The harm to a client if the rule is broken, as a sentence without its full stop. */
  readonly cost: string;
  /** True if the checks take more than a second, so that they run only on request. */
  readonly isSlow?: true;
}

/** Rules of one subject. */
export interface Chapter {
  readonly name: string;
  /** In the order of their numbers. */
  readonly rules: readonly Rule[];
}
