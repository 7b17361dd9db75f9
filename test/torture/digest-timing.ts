/** Measures whether the time of a comparison shows how much of a digest is right. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { digestOfKey, KeyRing, type KeyEntry } from '../../dist/index.js';
import { medianRangeOf, quantileOf } from './measures.js';
import { whole } from '../bench/report.js';
import { Skip, type Share } from './row.js';

const fullRounds = 20_000;
/** The number of equal bytes from the first on; the other digest has none. */
const equalBytes = 31;
/**
 * The number of equal entries in a ring. They multiply the trend, while the token is hashed once.
 */
const entries = 32;
const verifiesEach = 15;
/** Interruptions only add time, so that the least of several passes is the truest. */
const passes = 3;
/** The half width of the median's range, in standard deviations. */
const sureness = 6;
/** The ring has no trend below this part of the control's: a third of one byte in its loop. */
const part = 1 / 100;
/** The control and a sound ring show in a second or two, and later on a busy machine. */
const patienceMs = 60_000;

type Verify = (token: string) => string | undefined;
type VerifyWith = (entries: readonly KeyEntry[]) => Verify;

const ringOf: VerifyWith = (keys) => {
  const ring = new KeyRing(keys, Date.now);
  return (token) => ring.verify(token);
};

/** A comparison like the ring's that stops at the first byte that differs. */
const earlyExit: VerifyWith = (keys) => (token) => {
  const digest = digestOfKey(token);
  let found: string | undefined;
  for (const { name, digest: kept } of keys) {
    let at = 0;
    while (at < digest.length && digest[at] === kept[at]) at++;
    if (at === digest.length) found = name;
  }
  return found;
};

/**
 * Compares tokens with digests that begin like theirs: in rings of the server, and in the same
 * rounds by a loop that stops at the first byte that differs. A measurement counts only if it
 * detects that loop. Then the ring's trend must be less than a small part of the loop's.
 */
export async function timeDigests(share: Share): Promise<string> {
  const [ring, control]: [number[], number[]] = [[], []];
  const endsAt = performance.now() + patienceMs;
  let verdict: ReturnType<typeof verdictOf> = 'open';
  while (
    verdict !== 'a trend' &&
    (share.goOn(ring.length, fullRounds) || (verdict === 'open' && performance.now() < endsAt))
  ) {
    for (let round = 0; round < 200; round++) {
      ring.push(trendNs(share, ringOf));
      control.push(trendNs(share, earlyExit));
    }
    verdict = verdictOf(ring, control);
    await new Promise(setImmediate);
  }
  const words = `${equalBytes} equal bytes of each of ${entries} digests against none, ${whole(ring.length)} rounds: ${wordsOf(ring)}, where a loop that ends at the first difference shows ${wordsOf(control)}`;
  if (verdict === 'open') throw new Skip(`not measured, this machine is too noisy: ${words}`);
  assert.equal(verdict, 'no trend', words);
  return `${words}: no trend`;
}

/**
 * Returns the nanoseconds by which a comparison with {@link equalBytes} takes longer than with
 * none. Each round has other keys, so that no place in memory looks like a trend.
 */
function trendNs({ random }: Share, verifyWith: VerifyWith): number {
  const token = `psk_${randomBytes(32).toString('base64url')}`;
  const cases = random
    .pick([
      [equalBytes, 0],
      [0, equalBytes],
    ])
    .map((equal) => ({ equal, verify: verifyWith(entriesWith(token, equal)), ns: Infinity }));
  for (let pass = 0; pass < passes; pass++) {
    for (const each of random.pick([cases, cases.toReversed()]))
      each.ns = Math.min(each.ns, nsOf(each.verify, token));
  }
  return cases.reduce((sum, { equal, ns }) => (equal === 0 ? sum - ns : sum + ns), 0);
}

/** Returns `open` while noise hides the control, else whether the ring shows a trend. */
function verdictOf(ring: readonly number[], control: readonly number[]) {
  const [low, high] = medianRangeOf(ring, sureness);
  const bound = medianRangeOf(control, sureness)[0] * part;
  if (bound <= 0) return 'open';
  if (low > bound || high < -bound) return 'a trend';
  return low > -bound && high < bound ? 'no trend' : 'open';
}

function wordsOf(ns: readonly number[]): string {
  const [low, high] = medianRangeOf(ns, sureness);
  return `${quantileOf(ns, 0.5).toFixed(2)} ns (${low.toFixed(2)} to ${high.toFixed(2)})`;
}

/**
 * Returns keys whose digests have the first `equal` bytes of the token's digest, and differ in
 * every later bit.
 */
function entriesWith(token: string, equal: number): readonly KeyEntry[] {
  const digest = digestOfKey(token).map((byte, index) => (index < equal ? byte : byte ^ 0xff));
  return Array.from({ length: entries }, () => ({ name: 'a', digest: Buffer.from(digest) }));
}

/** Returns the nanoseconds of a comparison with all entries. */
function nsOf(verify: Verify, token: string): number {
  let found = 0;
  const since = process.hrtime.bigint();
  for (let index = 0; index < verifiesEach; index++) if (verify(token) !== undefined) found++;
  const ns = Number(process.hrtime.bigint() - since) / verifiesEach;
  assert.equal(found, 0, 'a digest that differs is accepted');
  return ns;
}
