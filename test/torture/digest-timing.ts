/**
 * Whether the time of a comparison tells how much of a digest is right. Knows no place where a key
 * may be found.
 */
import { randomBytes } from 'node:crypto';
import { digestOfKey, KeyRing, type KeyEntry } from '../../dist/index.js';
import { medianOf, medianRangeOf } from './figures.js';
import { hold, number, Skip, type Share } from './row.js';

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

/**
 * By how many nanoseconds a comparison takes longer with {@link equalBytes} than with none, round
 * by round.
 */
class Trend {
  readonly #verifyWith: (entries: readonly KeyEntry[]) => Verify;
  readonly #ns: number[] = [];

  constructor(verifyWith: (entries: readonly KeyEntry[]) => Verify) {
    this.#verifyWith = verifyWith;
  }

  /**
   * One round has keys, a token and an order of its own, so that no place in memory can look like a
   * trend.
   */
  add(share: Share): void {
    const token = `psk_${randomBytes(32).toString('base64url')}`;
    const [first, second] = share.random.pick([
      [0, equalBytes],
      [equalBytes, 0],
    ] as const);
    const cases = [first, second].map((equal) => ({
      equal,
      verify: this.#verifyWith(entriesWith(token, equal)),
      ns: Infinity,
    }));
    for (let pass = 0; pass < passes; pass++) {
      for (const each of share.random.pick([cases, cases.toReversed()]))
        each.ns = Math.min(each.ns, nsOf(each.verify, token));
    }
    this.#ns.push(cases.reduce((sum, { equal, ns }) => (equal === 0 ? sum - ns : sum + ns), 0));
  }

  get medianNs(): number {
    return medianOf(this.#ns);
  }

  /** Where the median is for sure, whatever the shape of the noise. */
  get rangeNs(): readonly [low: number, high: number] {
    return medianRangeOf(this.#ns, sureness);
  }

  get words(): string {
    const [low, high] = this.rangeNs;
    return `${this.medianNs.toFixed(2)} ns (${low.toFixed(2)} to ${high.toFixed(2)})`;
  }
}

/**
 * Compares tokens with digests that begin as theirs do, in rings of the server's and, in the same
 * rounds, by a loop that ends at the first byte that differs. What is measured counts only where
 * that loop is caught; then the ring's trend must surely be less than a small part of the loop's.
 */
export async function timeDigests(share: Share): Promise<string> {
  const ring = new Trend((keys) => {
    const made = new KeyRing(keys, Date.now);
    return (token) => made.verify(token);
  });
  const control = new Trend(earlyExit);
  const startedAt = performance.now();
  let verdict: 'open' | 'no trend' | 'a trend' = 'open';
  let round = 0;
  while (
    share.goOn(round, fullRounds) ||
    (verdict === 'open' && performance.now() - startedAt < patienceMs)
  ) {
    ring.add(share);
    control.add(share);
    if (++round % 200 > 0) continue;
    verdict = verdictOf(ring.rangeNs, control.rangeNs);
    if (verdict === 'a trend') break;
    await new Promise((resolve) => setImmediate(resolve));
  }
  const words = `${equalBytes} equal bytes of each of ${entries} digests against none, ${number(round)} rounds: ${ring.words}, where a loop that ends at the first difference shows ${control.words}`;
  hold(verdict !== 'a trend', `a trend: ${words}`);
  if (verdict === 'open') throw new Skip(`not measured, this machine is too noisy: ${words}`);
  return `${words}: no trend`;
}

/**
 * Open as long as the noise hides the control, or whether the ring is below the bound that the
 * control gives.
 */
function verdictOf(
  [low, high]: readonly [number, number],
  [controlLow]: readonly [number, number],
): 'open' | 'no trend' | 'a trend' {
  const bound = controlLow * part;
  if (bound <= 0) return 'open';
  if (low > bound || high < -bound) return 'a trend';
  return low > -bound && high < bound ? 'no trend' : 'open';
}

/** As the ring's own, but for the comparison. */
function earlyExit(keys: readonly KeyEntry[]): Verify {
  return (token) => {
    const digest = digestOfKey(token);
    let found: string | undefined;
    for (const { name, digest: kept } of keys) {
      let at = 0;
      while (at < digest.length && digest[at] === kept[at]) at++;
      if (at === digest.length) found = name;
    }
    return found;
  };
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
  hold(found === 0, 'a digest that differs is accepted');
  return ns;
}
