/** Runs `verify` with the key of the tests, and checks its verdicts. */
import assert from 'node:assert/strict';
import {
  verifyPetstore,
  type PetstoreUnderTest,
  type Verdict,
} from '../../dist/conformance/index.js';
import { key } from '../support/fixture.js';

/** Returns the verdicts of a run. */
export async function verdictsOf(
  url: string,
  options: Omit<PetstoreUnderTest, 'url' | 'key'>,
): Promise<readonly Verdict[]> {
  const verdicts: Verdict[] = [];
  for await (const verdict of verifyPetstore({ url, key, ...options })) verdicts.push(verdict);
  return verdicts;
}

/** Returns the numbers of the rules with an outcome. */
export const numbersOf = (verdicts: readonly Verdict[], outcome: Verdict['outcome']) =>
  verdicts.filter((each) => each.outcome === outcome).map(({ number }) => number);

/** Expects one rule to be broken or with a warning, and each untried rule to depend on that rule. */
export function assertBreaksOnly(verdicts: readonly Verdict[], number: string): void {
  const broken = verdicts.filter(({ outcome }) => outcome === 'failed' || outcome === 'warned');
  assert.deepEqual(
    broken.map((each) => each.number),
    [number],
    JSON.stringify(broken.map(({ failure }) => [failure?.sent, failure?.came, failure?.expected])),
  );
  for (const { number: other, reason } of verdicts.filter(({ outcome }) => outcome === 'untried'))
    assert.equal(reason, `depends on ${number}, which is broken`, other);
  assert.ok(!JSON.stringify(verdicts).includes(key), 'the verdicts contain the key');
}
