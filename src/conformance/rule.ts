/** The types of the rules that `verify` checks. */
import { levels, type Level } from './levels.js';
import type { TestedServer } from './tested-server.js';

/** A check that sends requests to a server. It throws a `Mismatch` for a wrong response. */
export type Check = (server: TestedServer) => Promise<void>;

/**
 * The parts of a rule in the order of their checks: a level, or `should` for what HTTP's standards
 * recommend. At the level `http` a server that breaks `should` gets a warning. At the level `full`
 * the rule is then broken, because the contract decides.
 */
const parts = ['specification', 'http', 'should', 'full'] as const;

/** A part of a rule. */
export type RulePart = (typeof parts)[number];

/** A numbered rule of the contract, with a check for each level that adds to the one below. */
export interface Rule extends Readonly<Partial<Record<RulePart, Check>>> {
  /** The number in docs/contract.md, such as `C10`. */
  readonly number: string;
  /** The behaviour of a correct server, as a sentence without its full stop. */
  readonly sentence: string;
  /** The behaviour that is checked below the level `full`, if it is less than the sentence says. */
  readonly sentenceBelowFull?: string;
  /** The harm to a client if the rule is broken, as a sentence without its full stop. */
  readonly cost: string;
  /**
   * The place in the specification or in a standard that demands the behaviour, for each part but
   * `full`, which docs/contract.md demands.
   */
  readonly sources?: Readonly<Partial<Record<Exclude<RulePart, 'full'>, string>>>;
  /** True if a story of several requests may break the rule. Stories run after the checks. */
  readonly hasStories?: true;
  /** True if the checks take more than a second, so that they run only on request. */
  readonly isSlow?: true;
}

/** Rules of one subject. */
export interface Chapter {
  readonly name: string;
  /** In the order of their numbers. */
  readonly rules: readonly Rule[];
}

/** A check of a rule with its part. */
export interface PartCheck {
  readonly part: RulePart;
  readonly check: Check;
}

/** Returns the checks of a rule at a level and the levels before it. */
export function checksOf(rule: Rule, level: Level): readonly PartCheck[] {
  const last = level === 'http' ? 'should' : level;
  return parts.slice(0, parts.indexOf(last) + 1).flatMap((part) => {
    const check = rule[part];
    return check === undefined ? [] : [{ part, check }];
  });
}

/** Returns the lowest level at which a rule is checked. */
export function levelOf(rule: Rule): Level {
  return levels.find((level) => checksOf(rule, level).length > 0) ?? 'full';
}

/** Returns where the behaviour is written that a part of a rule checks. */
export function sourceOf(rule: Rule, part: RulePart): string {
  const ours = `docs/contract.md, ${rule.number}`;
  return part === 'full' ? ours : (rule.sources?.[part] ?? ours);
}
