/**
 * Whether the time of a comparison tells how much of a digest is right. Knows no place where a key
 * may be found.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { digestOfKey, KeyRing, type KeyEntry } from '../../dist/index.js';
import { medianRangeOf, quantileOf } from './measures.js';
import { whole } from '../bench/report.js';
import { Skip, type Share } from './row.js';

const fullRounds = 20_000;
/** From the first on; of the other digest none is right. */
const equalBytes = 31;
/**
 * So many entries alike in a ring make a trend so many times as long, while the token is hashed
 * once.
 */
const entries = 32;
const verifiesEach = 15;
/** What interrupts us only ever adds time, so that the least of some is the truest. */
const passes = 3;
/** The median lies within its range by so many standard deviations. */
const sureness = 6;
/**
 * A trend is what is more than such a part of the control's: a third of what one byte in its loop
 * takes.
 */
const part = 1 / 100;
/**
 * The control, and a ring that is sound, show what they are in a second or two; on a busy machine
 * in some more.
 */
const patienceMs = 60_000;

type Verify = (token: string) => string | undefined;
type VerifyWith = (entries: readonly KeyEntry[]) => Verify;

const ringOf: VerifyWith = (keys) => {
  const ring = new KeyRing(keys, Date.now);
  return (token) => ring.verify(token);
};

/** As the ring's own, but for the comparison. */
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
 * Compares tokens with digests that begin as theirs do, in rings of the server's and, in the same
 * rounds, by a loop that ends at the first byte that differs. What is measured counts only where
 * that loop is caught; then the ring's trend must surely be less than a small part of the loop's.
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
 * By how many nanoseconds a comparison takes longer with {@link equalBytes} than with none. Keys,
 * token and order are of this round alone, so that no place in memory can look like a trend.
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

/**
 * Open as long as the noise hides the control, or whether the ring is below the bound that the
 * control gives.
 */
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

/** Keys whose digests are the token's in so many bytes, and differ in every bit behind them. */
function entriesWith(token: string, equal: number): readonly KeyEntry[] {
  const digest = digestOfKey(token).map((byte, index) => (index < equal ? byte : byte ^ 0xff));
  return Array.from({ length: entries }, () => ({ name: 'a', digest: Buffer.from(digest) }));
}

/** Nanoseconds of a comparison with all entries. */
function nsOf(verify: Verify, token: string): number {
  let found = 0;
  const since = process.hrtime.bigint();
  for (let index = 0; index < verifiesEach; index++) if (verify(token) !== undefined) found++;
  const ns = Number(process.hrtime.bigint() - since) / verifiesEach;
  assert.equal(found, 0, 'a digest that differs is accepted');
  return ns;
}
