/** The checks of the rules of the faults plugin. */
import type { RouteSummary } from '../../index.js';
import { parseFault, type Refuse } from './fault.js';
import { nearestTo } from './nearest.js';
import { impossible, maxDrawn, maxRules, maxSeed, type FaultRule, type RuleSet } from './rules.js';

const maxCount = 1_000_000;

/** The check of one member of a rule, and the end of the message `NAME must be …`. */
type MemberCheck = readonly [
  isValid: (value: unknown, rule: CountedRule) => boolean,
  requirement: string,
];

/** The members of a rule with which the checks compare counts. */
type CountedRule = Readonly<Partial<Record<'times' | 'skip' | 'fault', unknown>>>;

/** The members of a rule that a user writes, for messages. */
const ownMembers = ['method', 'path', 'fault', 'times', 'skip'];

const memberChecks: Readonly<Record<keyof FaultRule, MemberCheck>> = {
  method: [
    (value) => typeof value === 'string' && /^[A-Z]+$/.test(value),
    'a method in capitals, such as POST, or be left out',
  ],
  path: [
    (value) => typeof value === 'string',
    'the path of a route, such as /v1/pets/{petId}, or be left out',
  ],
  fault: [(value) => typeof value === 'string', 'a fault such as status=503'],
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
  drawn: [
    (value, { fault }) => isCount(value, 0, maxDrawn) && String(fault).includes('share='),
    `an integer from 0 to ${maxDrawn}, only with a share, or be left out`,
  ],
};

function isCount(value: unknown, least: number, most = maxCount): boolean {
  return Number.isInteger(value) && Number(value) >= least && Number(value) <= most;
}

/** @throws the error of `refuse` if a member is not valid */
function checkRule(value: unknown, refuse: Refuse): asserts value is FaultRule {
  const rule: Readonly<Record<string, unknown>> = Object(value);
  const unknown = Object.keys(rule).find((name) => !Object.hasOwn(memberChecks, name));
  if (unknown !== undefined)
    throw refuse(
      `has an unknown member ${JSON.stringify(unknown.slice(0, 40))}; the nearest is ` +
        `${nearestTo(unknown, ownMembers)}`,
    );

  for (const [name, [isValid, requirement]] of Object.entries(memberChecks))
    if (name === 'fault' || rule[name] !== undefined)
      if (!isValid(rule[name], rule)) throw refuse(`is wrong: ${name} must be ${requirement}`);
  parseFault(String(rule['fault']), (problem) => refuse(`is wrong: in fault, ${problem}`));
}

/**
 * Checks rules except against the routes, and returns a copy of them.
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
 * Checks that each rule matches a route, and a request that no rule before it meets.
 *
 * @param routes The routes to which faults apply.
 * @throws the error of `refuse` for the first rule that matches none, with the nearest route
 */
export function checkMatches(
  rules: readonly FaultRule[],
  routes: readonly RouteSummary[],
  refuse: Refuse,
): void {
  /** The indexes of the rules that meet all requests of a method and a path, by `METHOD PATH`. */
  const endless = new Map<string, number>();
  for (const [index, rule] of rules.entries()) {
    const { method, path } = rule;
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
    if (method !== undefined && pairs.every(({ name }) => name !== method)) {
      const name = nearestByStart(
        method,
        pairs.map((pair) => pair.name),
      );
      const nearest = pairs.find((pair) => pair.name === name);
      throw refuse(
        `${index + 1} is wrong: method must be one that the route has, such as ${name} of ` +
          `${nearest?.path}, or be left out`,
      );
    }

    const covers = [`${method} ${path}`, `${method} *`, `* ${path}`, '* *'];
    const before = covers.map((each) => endless.get(each)).find((each) => each !== undefined);
    // With the same fault, it does not matter which of the two meets a request.
    if (before !== undefined && rules[before]?.fault !== rule.fault)
      throw refuse(
        `${index + 1} can never match, because rule ${before + 1} meets all of its requests; ` +
          `put it before rule ${before + 1}, or give that rule times`,
      );
    if (meetsAll(rule)) endless.set(`${method ?? '*'} ${path ?? '*'}`, index);
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
  return paths.find(isMeant) ?? nearestByStart(path, paths);
}

/** Returns the text that shares the longest beginning with `text`, regardless of case. */
function nearestByStart(text: string, texts: readonly string[]): string {
  const lengths = texts.map((each) => sharedLength(text.toLowerCase(), each.toLowerCase()));
  return texts[lengths.indexOf(Math.max(...lengths))] ?? 'none';
}

/** Returns the number of characters that two texts share at their beginning. */
function sharedLength(one: string, other: string): number {
  let length = 0;
  while (length < one.length && one[length] === other[length]) length++;
  return length;
}

/** True if no request that fits the rule is left to the rules after it. */
function meetsAll({ fault, times, skip = 0 }: FaultRule): boolean {
  return times === undefined && skip === 0 && parseFault(fault, impossible).share === 1;
}

/**
 * Checks a seed, and returns it as a member of a set of rules.
 *
 * @throws the error of `refuse`
 */
export function checkSeed(seed: unknown, refuse: Refuse): Pick<RuleSet, 'seed'> {
  if (seed === undefined) return {};
  if (isCount(seed, 0, maxSeed)) return { seed: Number(seed) };
  throw refuse(`seed must be an integer from 0 to ${maxSeed}, or be left out`);
}
