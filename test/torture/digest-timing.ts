/** Measures if the time of a comparison reveals the number of equal bytes in a digest. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { digestOfKey, KeyRing, type KeyEntry } from '../../dist/index.js';
import { medianRangeOf, quantileOf } from './measures.js';
import { whole } from '../bench/report.js';
import { printDetails, Skip, type Share } from './row.js';

const fullRounds = 20_000;
/** The number of equal bytes at the start of one digest; the other digest has none. */
const equalBytes = 31;
/** The number of equal entries in a ring, which multiply the trend. The token is hashed once. */
const entries = 32;
const verifiesEach = 15;
/** The number of passes. The fastest counts, because interruptions only add time. */
const passes = 3;
/** The half width of the median's confidence interval, in standard deviations. */
const sureness = 6;
/** A trend counts as none below this part of the control's trend: a third of one of its bytes. */
const part = 1 / 100;
/** The time limit. A quiet machine needs a second or two, a busy one more. */
const patienceMs = 60_000;

type Verify = (token: string) => string | undefined;
type VerifyWith = (entries: readonly KeyEntry[]) => Verify;

const ringOf: VerifyWith = (keys) => {
  const ring = new KeyRing(keys, Date.now);
  return (token) => ring.verify(token);
};

/** The control: a comparison that stops at the first byte that differs. */
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
 * Compares tokens with digests that begin with the same bytes, by the server's `KeyRing` and by the
 * control. A measurement counts only if it detects the trend of the control. The ring's trend must
 * then be less than a small part of that trend.
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
  printDetails(
    'R13',
    `${equalBytes} equal bytes of each of ${entries} digests take longer than none, median and range of ${whole(ring.length)} rounds: ${rangeText(ring)}; in a loop that stops at the first difference ${rangeText(control)}`,
  );
  const figure = `${equalBytes} equal bytes of a digest take ${nsText(ring)} longer than none (a loop that stops at the first difference: ${nsText(control)})`;
  if (verdict === 'open') throw new Skip(`not measured, this machine is too noisy: ${figure}`);
  assert.equal(verdict, 'no trend', figure);
  return figure;
}

/**
 * Returns the nanoseconds by which comparing {@link equalBytes} equal bytes takes longer than
 * comparing none. Each round has new keys, so that their place in memory does not look like a
 * trend.
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
 * Returns the verdict on the ring; `open` while noise hides the trend of the control or the ring.
 */
function verdictOf(ring: readonly number[], control: readonly number[]) {
  const [low, high] = medianRangeOf(ring, sureness);
  const bound = medianRangeOf(control, sureness)[0] * part;
  if (bound <= 0) return 'open';
  if (low > bound || high < -bound) return 'a trend';
  return low > -bound && high < bound ? 'no trend' : 'open';
}

function nsText(ns: readonly number[]): string {
  return `${quantileOf(ns, 0.5).toFixed(1)} ns`;
}

function rangeText(ns: readonly number[]): string {
  const [low, high] = medianRangeOf(ns, sureness);
  return `${nsText(ns)} (${low.toFixed(1)} to ${high.toFixed(1)})`;
}

/**
 * Returns keys whose digests have the first `equal` bytes of the token's digest, and differ in
 * every later bit.
 */
function entriesWith(token: string, equal: number): readonly KeyEntry[] {
  const digest = digestOfKey(token).map((byte, index) => (index < equal ? byte : byte ^ 0xff));
  return Array.from({ length: entries }, () => ({ name: 'a', digest: Buffer.from(digest) }));
}

/** Returns the nanoseconds of a call, which compares the token with all entries. */
function nsOf(verify: Verify, token: string): number {
  let found = 0;
  const since = process.hrtime.bigint();
  for (let index = 0; index < verifiesEach; index++) if (verify(token) !== undefined) found++;
  const ns = Number(process.hrtime.bigint() - since) / verifiesEach;
  assert.equal(found, 0, 'a key with another digest is accepted');
  return ns;
}
