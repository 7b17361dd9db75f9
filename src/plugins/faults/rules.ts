/** The rules of the faults plugin: their checks, and how many requests each will still meet. */
import type { AcceptedRequest, RouteSummary } from '../../index.js';
import { faultWords, parseFault, type Fault } from './words.js';

/** A fault for each request that fits, as if it carried the header `Petstore-Fault`. */
export interface FaultRule {
  /** The method of the requests, such as `POST`; left out for any. */
  readonly method?: string;
  /** The path of their route, such as `/v1/pets/{petId}`; left out for any. */
  readonly path?: string;
  /** The fault, in the words of the header, such as `status=503,after`. */
  readonly fault: string;
  /** How many requests it meets, from 1; left out for all. */
  readonly times?: number;
  /**
   * How many requests that fit are let pass first.
   * @defaultValue 0
   */
  readonly skip?: number;
  /**
   * How many of `skip` were let pass so far.
   * @defaultValue 0
   */
  readonly skipped?: number;
  /**
   * How many requests it will still meet, from 0; null if `times` is left out.
   * @defaultValue `times`
   */
  readonly left?: number | null;
}

/** The most rules that may hold at the same time, because each request is compared with all. */
export const maxRules = 1_000;

const maxCount = 1_000_000;

/** Makes the error for rules of which something is wrong. */
type Refuse = (problem: string) => Error;

/** The check of one member of a rule, and the words for what it must be. */
type Member = readonly [isRight: (value: unknown, rule: CountedRule) => boolean, words: string];

/** What the checks of counts compare with. */
type CountedRule = Readonly<Partial<Record<'times' | 'skip', unknown>>>;

const members: Readonly<Record<keyof FaultRule, Member>> = {
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

/** @throws the error of `refuse` */
function checkRule(value: unknown, refuse: Refuse): asserts value is FaultRule {
  const rule: Readonly<Record<string, unknown>> = Object(value);
  if (Object.keys(rule).some((name) => !Object.hasOwn(members, name)))
    throw refuse('has an unknown member; it may have method, path, fault, times, skip');

  for (const [name, [isRight, words]] of Object.entries(members))
    if (name === 'fault' || rule[name] !== undefined)
      if (!isRight(rule[name], rule)) throw refuse(`is wrong: ${name} must be ${words}`);
}

/**
 * Returns a copy of rules, checked for all but their routes.
 * @throws the error of `refuse` for the first rule that is wrong.
 */
export function checkRules(rules: readonly unknown[], refuse: Refuse): readonly FaultRule[] {
  if (rules.length > maxRules) throw refuse(`${maxRules + 1} is too many; give up to ${maxRules}`);

  return rules.map((rule, index) => {
    checkRule(rule, (problem) => refuse(`${index + 1} ${problem}`));
    return { ...rule };
  });
}

/**
 * Checks that each rule can meet a request.
 * @param routes - The routes on which requests meet faults.
 * @throws the error of `refuse` for the first rule that cannot; it names the nearest route.
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

/** Returns the path of the route that a path probably means. */
function nearestPath(path: string, routes: readonly RouteSummary[]): string {
  const segments = path.toLowerCase().split('/');
  const isMeant = (route: string) => {
    const own = route.toLowerCase().split('/');
    const fits = (segment: string, at: number) =>
      segment === segments[at] || (segment.startsWith('{') && segments[at] !== '');
    return own.length === segments.length && own.every(fits);
  };
  const paths = routes.map((route) => route.path);
  return paths.find(isMeant) ?? nearestTo(path, paths);
}

/** Returns the text that is nearest to another. */
function nearestTo(text: string, texts: readonly string[]): string {
  const distances = texts.map((each) => distanceOf(text, each));
  return texts[distances.indexOf(Math.min(...distances))] ?? 'none';
}

/** Counts the characters to add, remove or replace in the first 200, regardless of case. */
function distanceOf(one: string, other: string): number {
  const [from, to] = [one.slice(0, 200).toLowerCase(), other.slice(0, 200).toLowerCase()];
  let row = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (const [at, character] of [...from].entries()) {
    const next = [at + 1];
    for (let column = 1; column <= to.length; column++)
      next.push(
        Math.min(
          (row[column] ?? 0) + 1,
          (next[column - 1] ?? 0) + 1,
          (row[column - 1] ?? 0) + (to[column - 1] === character ? 0 : 1),
        ),
      );
    row = next;
  }
  return row[to.length] ?? 0;
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
    // A rule that has met a request has let all others pass before.
    this.#skipped = this.#left < times ? skip : (skipped ?? 0);
  }

  /** Counts a request that fits; returns the fault if the rule meets it. */
  meet({ method, route }: AcceptedRequest): Fault | undefined {
    const { method: ownMethod = method, path = route, skip = 0 } = this.#rule;
    if (ownMethod !== method || path !== route || this.#left === 0) return undefined;
    if (this.#skipped < skip) {
      this.#skipped++;
      return undefined;
    }
    this.#left--;
    return this.#fault;
  }

  /** Returns the rule with its counts; a rule made of it goes on where this one is. */
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

/** The rules in effect of one petstore. */
export class ActiveRules {
  #rules: readonly ActiveRule[] = [];

  /** Replaces all rules by checked ones. */
  set(rules: readonly FaultRule[]): void {
    this.#rules = rules.map((rule) => new ActiveRule(rule));
  }

  /** Returns the fault of the first rule that meets a request. */
  meet(request: AcceptedRequest): Fault | undefined {
    for (const rule of this.#rules) {
      const fault = rule.meet(request);
      if (fault !== undefined) return fault;
    }
    return undefined;
  }

  /** Returns the rules with their counts. */
  toJSON(): readonly ActiveRule[] {
    return this.#rules;
  }
}
