/** Runs `verify` with the key of the tests, and sorts its verdicts. */
import { verifyPetstore, type Level, type Verdict } from '../../dist/conformance/index.js';
import { key } from './servers/plain-petstore.js';

/** Returns the verdicts of a run. */
export async function verdictsOf(
  url: string,
  level: Level,
  apiKey = key,
): Promise<readonly Verdict[]> {
  const verdicts: Verdict[] = [];
  for await (const verdict of verifyPetstore({ url, key: apiKey, level })) verdicts.push(verdict);
  return verdicts;
}

/** Returns the numbers of the rules with an outcome. */
export const numbersOf = (verdicts: readonly Verdict[], outcome: Verdict['outcome']) =>
  verdicts.filter((each) => each.outcome === outcome).map(({ number }) => number);
