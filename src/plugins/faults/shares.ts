/** Chooses a share of the requests by a seed (C86). */

/** The largest seed. */
export const maxSeed = 2 ** 32 - 1;

/**
 * True if a request is in a share. The result depends on the arguments alone.
 *
 * @param share Above 0, and at most 1.
 * @param rule The place of the rule, from 0.
 * @param request The number of requests before this one.
 */
export function isInShare(share: number, seed: number, rule: number, request: number): boolean {
  return (mix(mix(mix(seed) + rule) + request) >>> 0) / 2 ** 32 < share;
}

/** Spreads an integer evenly over 32 bits (the finalizer of MurmurHash3). */
function mix(value: number): number {
  let hash = (value + 0x9e37_79b9) | 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85eb_ca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2_ae35);
  return hash ^ (hash >>> 16);
}
