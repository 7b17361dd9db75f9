/** The rules of the faults plugin: their checks, and their counts of requests. */
import type { AcceptedRequest, RouteSummary } from '../../index.js';
import { faultWords, parseFault, type Fault } from './words.js';

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
}

/** The maximum number of rules, because each request is compared with all of them. */
export const maxRules = 1_000;

const maxCount = 1_000_000;

/** Returns the error to throw for a problem of a rule. */
type Refuse = (problem: string) => Error;

/** The check of one member of a rule, and the end of the message `NAME must be …`. */
type MemberCheck = readonly [
  isValid: (value: unknown, rule: CountedRule) => boolean,
  requirement: string,
];

/** The members of a rule with which the checks compare counts. */
type CountedRule = Readonly<Partial<Record<'times' | 'skip', unknown>>>;

const memberChecks: Readonly<Record<keyof FaultRule, MemberCheck>> = {
  method: [
    (value) => typeof value === 'string' && /^[A-Z]+$/.test(value),
    'a method such as POST, or be left out',
  ],
  path: [
    (value) => typeof value === 'string',
    'the path of a route, such as /v1/pets/{petId}, or be left out',
  ],
  fault: [(value) => typeof value === 'string' && parseFault(value) !== undefined, faultWords],
  times: [(value) => isCount(value, 1), `an integer from 1 to ${maxCount}, or be left out`],
  skip: [(value) => isCount(value, 0), `an integer from 0 to ${maxCount}, or be left out`],
  skipped: [
    (value, { skip = 0 }) => isCount(value, 0) && Number(value) <= Number(skip),
    'an integer from 0 to skip, or be left out',
  ],
  left: [
    (value, { times }) =>
      times === undefined ? value === null : isCount(value, 0) && Number(value) <= Number(times),
    'an integer from 0 to times, null if times is left out, or be left out',
  ],
};

function isCount(value: unknown, least: number): boolean {
  return Number.isInteger(value) && Number(value) >= least && Number(value) <= maxCount;
}

/** @throws the error of `refuse` if a member is not valid */
function checkRule(value: unknown, refuse: Refuse): asserts value is FaultRule {
  const rule: Readonly<Record<string, unknown>> = Object(value);
  if (Object.keys(rule).some((name) => !Object.hasOwn(memberChecks, name)))
    throw refuse('has an unknown member; it may have method, path, fault, times, skip');

  for (const [name, [isValid, requirement]] of Object.entries(memberChecks))
    if (name === 'fault' || rule[name] !== undefined)
      if (!isValid(rule[name], rule)) throw refuse(`is wrong: ${name} must be ${requirement}`);
}

/**
 * Checks everything of rules except their routes, and returns a copy of them.
 *
 * @throws the error of `refuse` for the first rule that is not valid
 */
export function checkRules(rules: readonly unknown[], refuse: Refuse): readonly FaultRule[] {
  if (rules.length > maxRules) throw refuse(`${maxRules + 1} is too many; give up to ${maxRules}`);

  return rules.map((rule, index) => {
    checkRule(rule, (problem) => refuse(`${index + 1} ${problem}`));
    return { ...rule };
  });
}

/**
 * Checks that each rule matches a route.
 *
 * @param routes The routes to which faults apply.
 * @throws the error of `refuse` for the first rule that matches none, with the nearest route
 */
export function checkMatches(
  rules: readonly FaultRule[],
  routes: readonly RouteSummary[],
  refuse: Refuse,
): void {
  for (const [index, { method, path }] of rules.entries()) {
    const fitting = routes.filter((route) => path === undefined || route.path === path);
    if (fitting.length === 0) {
      const nearest = nearestPath(path ?? '', routes);
      throw refuse(
        `${index + 1} is wrong: path must be the path of a route, such as ${nearest}, ` +
          'or be left out',
      );
    }

    const pairs = fitting.flatMap((route) =>
      route.methods.map((name) => ({ name, path: route.path })),
    );
    if (method === undefined || pairs.some(({ name }) => name === method)) continue;
    const name = nearestTo(
      method,
      pairs.map((pair) => pair.name),
    );
    const nearest = pairs.find((pair) => pair.name === name);
    throw refuse(
      `${index + 1} is wrong: method must be one that the route has, such as ${name} of ` +
        `${nearest?.path}, or be left out`,
    );
  }
}

/** Returns the path of the route that is closest to `path`. */
function nearestPath(path: string, routes: readonly RouteSummary[]): string {
  const segments = path.toLowerCase().replace(/\/$/, '').split('/');
  const isMeant = (route: string) => {
    const own = route.toLowerCase().split('/');
    const fits = (segment: string, at: number) =>
      segment === segments[at] || (segment.startsWith('{') && segments[at] !== '');
    return own.length === segments.length && own.every(fits);
  };
  const paths = routes.map((route) => route.path);
  return paths.find(isMeant) ?? nearestTo(path, paths);
}

/** Returns the text that shares the longest beginning with `text`, regardless of case. */
function nearestTo(text: string, texts: readonly string[]): string {
  const lengths = texts.map((each) => sharedLength(text.toLowerCase(), each.toLowerCase()));
  return texts[lengths.indexOf(Math.max(...lengths))] ?? 'none';
}

/** Returns the number of characters that two texts share at their beginning. */
function sharedLength(one: string, other: string): number {
  let length = 0;
  while (length < one.length && one[length] === other[length]) length++;
  return length;
}

/** A rule in effect, with its counts. */
class ActiveRule {
  readonly #rule: FaultRule;
  readonly #fault: Fault | undefined;
  #skipped: number;
  #left: number;

  constructor({ left, skipped, ...rule }: FaultRule) {
    const { fault, times = Number.POSITIVE_INFINITY, skip = 0 } = rule;
    this.#rule = rule;
    this.#fault = parseFault(fault);
    this.#left = left ?? times;
    // A rule that has already produced a fault has skipped all requests that it had to skip.
    this.#skipped = this.#left < times ? skip : (skipped ?? 0);
  }

  /** Returns the fault for a request, if any, and counts the request if it matches. */
  faultFor({ method, route }: AcceptedRequest): Fault | undefined {
    const { method: ownMethod = method, path = route, skip = 0 } = this.#rule;
    if (ownMethod !== method || path !== route || this.#left === 0) return undefined;
    if (this.#skipped < skip) {
      this.#skipped++;
      return undefined;
    }
    this.#left--;
    return this.#fault;
  }

  /** Returns the rule with its counts, so that a new rule can continue from them. */
  toJSON(): FaultRule {
    const { times, skip = 0 } = this.#rule;
    const isSkipping = this.#skipped > 0 && this.#left === (times ?? Number.POSITIVE_INFINITY);
    return {
      ...this.#rule,
      ...(isSkipping && skip > 0 ? { skipped: this.#skipped } : {}),
      left: times === undefined ? null : this.#left,
    };
  }
}

/** The rules in effect in a petstore. */
export class ActiveRules {
  #rules: readonly ActiveRule[] = [];

  /** Replaces all rules. `rules` are checked already. */
  set(rules: readonly FaultRule[]): void {
    this.#rules = rules.map((rule) => new ActiveRule(rule));
  }

  /** Returns the fault of the first rule that has one for a request. */
  faultFor(request: AcceptedRequest): Fault | undefined {
    for (const rule of this.#rules) {
      const fault = rule.faultFor(request);
      if (fault !== undefined) return fault;
    }
    return undefined;
  }

  /** Returns the rules with their counts. */
  toJSON(): readonly ActiveRule[] {
    return this.#rules;
  }
}
