/** Registers the rules of the contract as tests of any test runner. */
import { test as nodeTest } from 'node:test';
import { RuleRunner } from './rule-runner.js';
import { prepare, selectedRules, testedServerOf } from './run.js';
import type { PetstoreUnderTest, RuleDescription, RuleFailure } from './verdict.js';

/** The function `test` of node:test, Vitest or Jest. */
export type RegisterTest = (
  name: string,
  run: (...context: readonly unknown[]) => Promise<void>,
) => unknown;

/** A server to check as tests. */
export interface TestedPetstore extends PetstoreUnderTest {
  /**
   * The function `test` of the test runner.
   *
   * @defaultValue `test` of node:test
   */
  readonly test?: RegisterTest;
  /**
   * True to skip a rule that cannot be checked, instead of failing its test.
   *
   * @defaultValue false
   */
  readonly allowUntried?: boolean;
}

/**
 * Registers a test for each rule, named by its number and sentence. The test of a rule that does
 * not concern the server is skipped, if the runner lets a test skip itself.
 */
export function testPetstore(options: TestedPetstore): void {
  const { test = nodeTest, allowUntried = false } = options;
  const server = testedServerOf(options);
  const runner = new RuleRunner(server);
  let prepared: Promise<void> | undefined;

  // Jest calls a function that declares a parameter with a callback.
  for (const { rule, description } of selectedRules(options))
    test(`${rule.number} ${description.sentence}`, async (...[context]) => {
      prepared ??= prepare(server, runner, options);
      await prepared;

      const { outcome, reason = '', failure } = await runner.check(rule);
      if (outcome === 'failed' && failure !== undefined)
        throw new Error(reportOf(description, failure));
      if (outcome === 'untried' && !allowUntried) throw new Error(`not tried: ${reason}`);
      if (outcome === 'inapplicable' || outcome === 'untried') skipTest(context, reason);
    });
}

/** Skips a test, if the context of its runner can. */
function skipTest(context: unknown, reason: string): void {
  // The context of Vitest is a function with members.
  const isObject = typeof context === 'object' || typeof context === 'function';
  if (!isObject || context === null || !('skip' in context)) return;
  const { skip } = context;
  if (typeof skip === 'function') skip.call(context, reason);
}

/** Returns the message of a failed test: rule, cost, and both HTTP messages, cut if long. */
function reportOf({ number, sentence, cost }: RuleDescription, failure: RuleFailure): string {
  const shown = (bytes: string): string => {
    const text = Buffer.from(bytes.slice(0, 2_000), 'latin1').toString('utf8');
    return text.replace(/^/gm, '    ') + (bytes.length > 2_000 ? '…' : '');
  };

  return [
    `${number} ${sentence}: sent ${failure.sent}, got ${failure.came}`,
    `  expected: ${failure.expected}`,
    `  cost: ${cost}`,
    `  try: ${failure.command}`,
    `  request:\n${shown(failure.sentBytes)}`,
    `  response:\n${shown(failure.cameBytes)}`,
  ].join('\n');
}
