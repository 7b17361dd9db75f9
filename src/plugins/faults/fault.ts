/** Parses faults, as the header `Petstore-Fault` and the rules write them (C84, C85). */
import { nearestTo } from './nearest.js';
import { words, type Change, type Effect } from './words.js';

/** A fault of one request. */
export interface Fault extends Required<Omit<Effect, 'change' | 'replaces'>> {
  /** The words in the order of the table, joined by commas. */
  readonly text: string;
  /** True if the fault takes the place of the response of the operation. */
  readonly replaces: boolean;
  /** The changes of the reply, in their order. */
  readonly changes: readonly Change[];
}

/** Returns the error to throw for a problem of a fault. */
export type Refuse = (problem: string) => Error;

/** The values of the words of a fault by name, as they were given; undefined if a word has none. */
type GivenValues = ReadonlyMap<string, string | undefined>;

/**
 * Parses a fault.
 *
 * @throws the error of `refuse`, which names the word and the nearest right one
 */
export function parseFault(text: string, refuse: Refuse): Fault {
  const values = new Map<string, string | undefined>();
  for (const part of text.split(',')) {
    const [name, value] = parseWord(part.trim(), refuse);
    if (values.has(name)) throw refuse(`${name} is given twice; give it once`);
    values.set(name, value);
  }
  checkCombination(values, refuse);

  const given = [...words].filter(([name]) => values.has(name));
  const effects = given.map(([name, word]) => word.effect(values.get(name) ?? ''));
  const { share = 1, delayMs = 0, moment = 'before' }: Effect = Object.assign({}, ...effects);
  return {
    text: given.map(([name]) => partOf(name, values)).join(','),
    replaces: effects.some(({ replaces }) => replaces),
    changes: effects.flatMap(({ change }) => change ?? []),
    share,
    delayMs,
    moment,
  };
}

/**
 * Parses a word to its name and its value, which is undefined if the word has none.
 *
 * @param isValueOptional True if a word may lack its value.
 * @throws the error of `refuse`
 */
export function parseWord(
  part: string,
  refuse: Refuse,
  isValueOptional = false,
): readonly [name: string, value: string | undefined] {
  if (part === '') throw refuse('a word is missing; the nearest is status=503');
  const [name = '', ...rest] = part.split('=');
  const given = rest.length === 0 ? undefined : rest.join('=');
  const word = words.get(name);
  if (word === undefined) {
    const nearest = nearestWord(name, given);
    throw refuse(`${quoted(part)} is not a word of a fault; the nearest is ${nearest}`);
  }

  const { value, example } = word;
  if (value === undefined) {
    if (given === undefined) return [name, undefined];
    throw refuse(`${quoted(part)} takes no value; the nearest is ${name}`);
  }
  if (given === undefined && isValueOptional) return [name, undefined];
  if (given === undefined || given === '')
    throw refuse(`${name} needs a value, as in ${example}; ${value.form} is ${value.rule}`);
  if (value.accepts(given)) return [name, given];
  throw refuse(
    `${quoted(part)} is not valid; the nearest is ${name}=${value.nearest(given)}, because ` +
      `${value.form} is ${value.rule}`,
  );
}

/** Returns the word whose name is nearest, with the nearest value if it has one. */
function nearestWord(name: string, given: string | undefined): string {
  const nearest = nearestTo(name, [...words.keys()]);
  const { value, example } = words.get(nearest) ?? {};
  if (value === undefined) return nearest;
  if (given === undefined) return example ?? nearest;
  return `${nearest}=${value.accepts(given) ? given : value.nearest(given)}`;
}

/** @throws the error of `refuse` if words exclude each other, or need another one */
function checkCombination(values: GivenValues, refuse: Refuse): void {
  const given = [...words].filter(([name]) => values.has(name));
  for (const [name, { needs = [], excludes = [], example }] of given) {
    const other = excludes.find((each) => values.has(each));
    if (other !== undefined)
      throw refuse(
        `${partOf(other, values)} and ${partOf(name, values)} exclude each other; ` +
          'leave one of them out',
      );
    if (needs.length > 0 && !needs.some((each) => values.has(each)))
      throw refuse(
        `${partOf(name, values)} needs ${needs.join(' or ')}; the nearest is ${example}`,
      );
  }
  const [first] = given;
  if (first !== undefined && given.every(([, { isModifier }]) => isModifier)) {
    const parts = [...values.keys()].map((name) => partOf(name, values));
    throw refuse(`${parts.join(',')} alone does nothing; the nearest is ${first[1].example}`);
  }
}

/** Returns a word with its value, if any. */
function partOf(name: string, values: GivenValues): string {
  const value = values.get(name);
  return value === undefined ? name : `${name}=${value}`;
}

/** Returns the text of a client in quotes, shortened. */
function quoted(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text);
}
