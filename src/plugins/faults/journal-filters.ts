/** The filters of the journal, for the query of `GET /v1/requests` and for the library (C82). */
import {
  afterParameter,
  limitParameter,
  PetstoreError,
  readParameter,
  type ListParameter,
  type Query,
} from '../../index.js';
import { parseWord } from './fault.js';
import { nearestTo } from './nearest.js';
import type { JournalItem } from './request-journal.js';

/** Chooses items of the journal. Omitted members accept every item. */
export interface RequestFilter {
  /** The method, such as `POST`. */
  readonly method?: string;
  /** The path as it was sent, or the path of the route. */
  readonly path?: string;
  /** The status code that was sent. */
  readonly status?: number;
  readonly idempotencyKey?: string;
  /** Words that the fault has. A word without its value, such as `delay`, stands for any value. */
  readonly fault?: string;
}

type Matcher = (item: JournalItem) => boolean;

/** A filter: a parameter of the list whose value decides about items. */
type Filter = ListParameter<Matcher>;

const refusal = (message: string) => new PetstoreError('invalid_parameter', message);
const text = { type: 'string' };

const rows: Readonly<Record<keyof RequestFilter, Omit<Filter, 'name'>>> = {
  method: {
    read: (value) => (/^[A-Z]+$/.test(value) ? ({ method }) => method === value : undefined),
    refusal: refusal('method must be a method in capitals, such as POST.'),
    describe: (things) => `Returns only ${things} with this method.`,
    schema: { ...text, pattern: '^[A-Z]+$' },
    example: 'POST',
  },
  path: {
    read: (value) =>
      /^[/*]/.test(value) ? ({ path, route }) => [path, route].includes(value) : undefined,
    refusal: refusal('path must be a path, such as /v1/pets or /v1/pets/{petId}.'),
    describe: (things) => `Returns only ${things} with this path, or this path of a route.`,
    schema: { ...text, pattern: '^[/*]' },
    example: '/v1/pets',
  },
  status: {
    read: (value) =>
      /^[2-5]\d\d$/.test(value) ? ({ status }) => status === Number(value) : undefined,
    refusal: refusal('status must be a status code from 200 to 599.'),
    describe: (things) => `Returns only ${things} whose response had this status code.`,
    schema: { type: 'integer', minimum: 200, maximum: 599 },
    example: 201,
  },
  idempotencyKey: {
    read: (value) =>
      /^[!-~]{1,255}$/.test(value) ? ({ idempotencyKey }) => idempotencyKey === value : undefined,
    refusal: refusal('idempotencyKey must be 1 to 255 visible ASCII characters.'),
    describe: (things) => `Returns only ${things} with this Idempotency-Key.`,
    schema: { ...text, minLength: 1, maxLength: 255, pattern: '^[!-~]+$' },
    example: '1f0c9a52-6d2e-4c1b-9f43-5a7d0e8b3c61',
  },
  fault: {
    read: faultMatcher,
    refusal: refusal('fault must be words of a fault, such as drop or status=503.'),
    describe: (things) => `Returns only ${things} whose fault has these words, such as \`drop\`.`,
    schema: text,
    example: 'drop',
  },
};

/** The filters, each as a parameter of the list. */
const filters = Object.entries(rows).map(([name, row]): Filter => ({ ...row, name }));

/** The parameters of the list, for the OpenAPI document. */
export const journalParameters = {
  limit: limitParameter,
  ...Object.fromEntries(filters.map((row) => [row.name, row])),
  after: afterParameter,
};

/** @throws PetstoreError `invalid_parameter` that names the word and the nearest right one */
function faultMatcher(value: string): Matcher {
  const refuse = (problem: string) => refusal(`In fault, ${problem}.`);
  // A set, so that a long list of equal words takes no long time for each item.
  const parts = new Set(value.split(',').map((part) => part.trim()));
  const wanted = Array.from(parts, (part) => parseWord(part, refuse, true));
  return ({ fault }) => {
    const own = fault?.split(',').map((part) => part.split('=')) ?? [];
    return wanted.every(([name, given]) =>
      own.some(([other, its]) => other === name && (given === undefined || given === its)),
    );
  };
}

/** The filters of a query: their texts, for the link to the next page, and one matcher for all. */
interface ReadFilters {
  readonly texts: Readonly<Record<string, string>>;
  readonly matches: Matcher;
}

/** Reads the filters of a query. @throws PetstoreError `invalid_parameter` */
export function readFilters(query: Query): ReadFilters {
  const given = filters.flatMap((row) => {
    const matcher = readParameter(query, row);
    return matcher === undefined ? [] : [{ name: row.name, matcher }];
  });
  return {
    texts: Object.fromEntries(given.map(({ name }) => [name, query.get(name) ?? ''])),
    matches: (item) => given.every(({ matcher }) => matcher(item)),
  };
}

/**
 * Returns the matcher of a filter of the library.
 *
 * @throws TypeError
 */
export function matcherOf(filter: RequestFilter): Matcher {
  const given: Readonly<Record<string, unknown>> = Object(filter);
  const names = filters.map(({ name }) => name);
  const unknown = Object.keys(given).find((name) => !names.includes(name));
  if (unknown !== undefined)
    throw new TypeError(
      `requests: the filter ${unknown} is unknown; the nearest is ${nearestTo(unknown, names)}`,
    );

  const matchers = filters.flatMap(({ name, read, refusal: { message } }) => {
    if (given[name] === undefined) return [];
    const matcher = typedRead(() => read(String(given[name])));
    if (matcher === undefined) throw new TypeError(`requests: ${message}`);
    return [matcher];
  });
  return (item) => matchers.every((matcher) => matcher(item));
}

/** Runs `work` and returns its result. @throws TypeError in place of a PetstoreError */
function typedRead<Value>(work: () => Value): Value {
  try {
    return work();
  } catch (error) {
    throw error instanceof PetstoreError ? new TypeError(`requests: ${error.message}`) : error;
  }
}
