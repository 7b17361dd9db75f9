/** Checks a running server, written in any language, against the rules of the contract. */
import { checksOf, sourceOf } from './rule.js';
import { RuleRunner } from './rule-runner.js';
import { prepare, selectedRules, testedServerOf } from './run.js';
import type { ListedRule, PetstoreUnderTest, Verdict } from './verdict.js';

export { levels, type Level } from './levels.js';
export { isPetstoreUrl, ruleNumbers } from './run.js';
export {
  UnusableServer,
  type ListedRule,
  type PetstoreUnderTest,
  type RuleDescription,
  type RuleFailure,
  type RuleOutcome,
  type Verdict,
} from './verdict.js';

/**
 * Checks the rules one after the other, and yields a verdict for each. Some checks add pets. None
 * needs an empty store. No text of a verdict contains the key.
 *
 * @throws UnusableServer if there is no server at the URL, or it refuses the key or the base path
 * @throws TypeError if an option is not valid
 */
export async function* verifyPetstore(options: PetstoreUnderTest): AsyncGenerator<Verdict> {
  const server = testedServerOf(options);
  const runner = new RuleRunner(server);
  await prepare(server, runner, options);
  for (const { rule, description } of selectedRules(options))
    yield { ...description, ...(await runner.check(rule)) };
}

/** Returns the number of rules that {@link verifyPetstore} checks. */
export function countRules(options: Omit<PetstoreUnderTest, 'url' | 'key'>): number {
  return selectedRules(options).length;
}

/** Returns the rules that {@link verifyPetstore} checks, with where each is written. */
export function listRules(options: Omit<PetstoreUnderTest, 'url' | 'key'>): readonly ListedRule[] {
  return selectedRules(options).map(({ rule, description }) => {
    const parts = checksOf(rule, options.level ?? 'full').map(({ part }) => part);
    const sources = parts.map((part) => sourceOf(rule, part));
    return { ...description, sources: [...new Set(sources)] };
  });
}
