/** The rules of the faults plugin, their counts of requests, and their shares (C86). */
import type { AcceptedRequest } from '../../index.js';
import { parseFault, type Fault, type Refuse } from './fault.js';

/** A fault for each matching request, as if the request had the header `Petstore-Fault`. */
export interface FaultRule {
  /** The method of the requests, such as `POST`. By default any. */
  readonly method?: string;
  /** The path of the route, such as `/v1/pets/{petId}`. By default any. */
  readonly path?: string;
  /** The value of the header, such as `status=503,after`. */
  readonly fault: string;
  /** The number of requests that get the fault, from 1 to 1,000,000. By default all. */
  readonly times?: number;
  /**
   * The number of matching requests to skip first, up to 1,000,000.
   *
   * @defaultValue 0
   */
  readonly skip?: number;
  /**
   * The number of requests that were skipped so far, up to `skip`.
   *
   * @defaultValue 0
   */
  readonly skipped?: number;
  /**
   * The number of requests that will still get the fault; null without `times`.
   *
   * @defaultValue `times`
   */
  readonly left?: number | null;
  /**
   * The number of requests so far of which the `share` of the fault was drawn (C86).
   *
   * @defaultValue 0
   */
  readonly drawn?: number;
}

/** The rules of a petstore. */
export interface RuleSet {
  readonly rules: readonly FaultRule[];
  /**
   * The seed of all shares, an integer from 0 to 4,294,967,295.
   *
   * @defaultValue 0
   */
  readonly seed?: number;
}

/** The maximum number of rules, because each request is compared with all of them. */
export const maxRules = 1_000;

/** The largest `drawn`; the count then begins anew. */
export const maxDrawn = 2 ** 32 - 1;

/** The largest seed. */
export const maxSeed = 2 ** 32 - 1;

/** Returns the error for a problem of a fault that was checked before. */
export const impossible: Refuse = (problem) => new TypeError(problem);

/** A rule in effect, with its counts. */
class ActiveRule {
  readonly #rule: FaultRule;
  readonly #fault: Fault;
  /** True if the share of the fault includes a request, by the number of draws before it. */
  readonly #isInShare: (request: number) => boolean;
  #skipped: number;
  #left: number;
  #drawn: number;

  /** @param place The place of the rule, from 0. */
  constructor({ left, skipped, drawn = 0, ...rule }: FaultRule, seed: number, place: number) {
    const { fault, times = Number.POSITIVE_INFINITY, skip = 0 } = rule;
    this.#rule = rule;
    this.#fault = parseFault(fault, impossible);
    this.#isInShare = (request) => isInShare(this.#fault.share, seed, place, request);
    this.#left = left ?? times;
    // A rule that has already produced a fault has skipped all requests that it had to skip.
    this.#skipped = this.#left < times ? skip : (skipped ?? 0);
    this.#drawn = drawn;
  }

  /** Returns the fault for a request, if any, and counts the request if it matches. */
  faultFor({ method, route }: AcceptedRequest): Fault | undefined {
    const { method: ownMethod = method, path = route, skip = 0 } = this.#rule;
    if (ownMethod !== method || path !== route || this.#left === 0) return undefined;
    if (this.#skipped < skip) {
      this.#skipped++;
      return undefined;
    }
    if (this.#fault.share < 1 && !this.#isInShare(this.#nextDraw())) return undefined;
    this.#left--;
    return this.#fault;
  }

  /** Returns the number of requests before this one, and counts it. */
  #nextDraw(): number {
    const drawn = this.#drawn;
    this.#drawn = (drawn + 1) % (maxDrawn + 1);
    return drawn;
  }

  /** Returns the rule with its counts, so that a new rule can continue from them. */
  toJSON(): FaultRule {
    const { times, skip = 0 } = this.#rule;
    const isSkipping = this.#skipped > 0 && this.#left === (times ?? Number.POSITIVE_INFINITY);
    return {
      ...this.#rule,
      ...(isSkipping && skip > 0 ? { skipped: this.#skipped } : {}),
      left: times === undefined ? null : this.#left,
      ...(this.#fault.share < 1 ? { drawn: this.#drawn } : {}),
    };
  }
}

/** The place of headers among the rules of a seed. */
const headerPlace = maxRules;

/** The rules in effect in a petstore. */
export class ActiveRules {
  #rules: readonly ActiveRule[] = [];
  #seed = 0;
  /** The number of headers with a share since the rules were set. */
  #headers = 0;

  /** Replaces all rules. `rules` are checked already. */
  set({ rules, seed = 0 }: RuleSet): void {
    this.#rules = rules.map((rule, place) => new ActiveRule(rule, seed, place));
    this.#seed = seed;
    this.#headers = 0;
  }

  /** Returns the fault of the first rule that has one for a request. */
  faultFor(request: AcceptedRequest): Fault | undefined {
    for (const rule of this.#rules) {
      const fault = rule.faultFor(request);
      if (fault !== undefined) return fault;
    }
    return undefined;
  }

  /** Returns the fault of a header, unless its share spares the request. */
  faultOfHeader(fault: Fault): Fault | undefined {
    const { share } = fault;
    const isMet = share === 1 || isInShare(share, this.#seed, headerPlace, this.#headers++);
    return isMet ? fault : undefined;
  }

  /** Returns the rules with their counts, and the seed if one was set. */
  toJSON(): RuleSet {
    const rules = this.#rules.map((rule) => rule.toJSON());
    return this.#seed === 0 ? { rules } : { rules, seed: this.#seed };
  }
}

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
