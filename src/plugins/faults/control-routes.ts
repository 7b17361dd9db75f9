/** The paths by which clients control the plugin: rules, reset and journal. */
import {
  emptyReply,
  int64OfJsonNumber,
  JsonNumber,
  jsonReply,
  maxBodyValues,
  pageReply,
  parseJson,
  parsePage,
  parseTime,
  PetstoreError,
  timeRule,
  toByteString,
  type JsonValue,
  type Query,
  type Reply,
  type Route,
} from '../../index.js';
import { ownPaths, type FaultControl } from './control.js';
import { documents } from './documents.js';
import { readFilters } from './journal-filters.js';
import { nearestTo } from './nearest.js';
import { checkRules, checkSeed } from './rule-checks.js';
import type { RuleSet } from './rules.js';

/** Returns the routes that control the plugin. A storage that cannot be reset has no reset. */
export function controlRoutes(control: FaultControl): readonly Route[] {
  const showRules = () => jsonReply(200, toByteString(JSON.stringify(control.rules)));
  const setRules = (body: string) => {
    control.setRules(parseRules(body), refuseRule);
    return showRules();
  };
  const endRules = () => {
    control.setRules({ rules: [] }, refuseRule);
    return emptyReply(204, []);
  };
  const reset = async (body: string) => {
    await control.reset(parseReset(body));
    return emptyReply(204, []);
  };
  const faults: Route = {
    path: ownPaths.faults,
    methods: {
      GET: { handler: showRules, document: documents.list },
      PUT: { handler: ({ body }) => setRules(body), readsBody: true, document: documents.set },
      DELETE: { handler: endRules, document: documents.end },
    },
  };
  const requests: Route = {
    path: ownPaths.requests,
    methods: {
      GET: {
        handler: ({ query }) => listRequests(control, query),
        document: documents.requests,
      },
    },
  };
  if (!control.canReset) return [faults, requests];

  const POST = {
    handler: ({ body }: { readonly body: string }) => reset(body),
    readsBody: 'optional',
    survivesReset: true,
    document: documents.reset,
  } as const;
  return [faults, requests, { path: ownPaths.reset, methods: { POST } }];
}

/** Returns a page of the journal (C6, C82). @throws PetstoreError `invalid_parameter` */
function listRequests({ journal }: FaultControl, query: Query): Reply {
  const { limit, after } = parsePage(query);
  const { texts, matches } = readFilters(query);
  const from = Number(after ?? 0);
  const found = journal.list((item) => item.id > from && matches(item));
  const shown = found.slice(0, limit);
  const last = found.length > limit ? shown.at(-1) : undefined;
  const page = {
    texts: shown.map((item) => toByteString(JSON.stringify(item))),
    ...(last === undefined ? {} : { next: BigInt(last.id) }),
  };
  return pageReply(ownPaths.requests, { limit, ...texts, after }, page);
}

const refuseRule = (problem: string) =>
  new PetstoreError('invalid_body', `In rules, rule ${problem}.`);
const refuseBody = (problem: string) => new PetstoreError('invalid_body', `${problem}.`);

/** Parses the rules of a body. @throws PetstoreError `invalid_json` or `invalid_body` */
function parseRules(body: string): RuleSet {
  const members = parseMembers(body, ['rules', 'seed'], 'The body must be {"rules":[…]}');
  const rules = members.get('rules');
  if (!Array.isArray(rules)) throw refuseBody('The body must be {"rules":[…]}');

  const plain = rules.map((rule: JsonValue) =>
    rule instanceof Map
      ? Object.fromEntries(Array.from(rule, ([name, value]) => [name, plainMember(value)]))
      : undefined,
  );
  const checked = checkRules(plain, refuseRule);
  return { rules: checked, ...checkSeed(plainMember(members.get('seed')), refuseBody) };
}

/** Parses the clock of a body, if any. @throws PetstoreError `invalid_json` or `invalid_body` */
function parseReset(body: string): number | undefined {
  if (body === '') return undefined;
  const form = 'The body must be {"clock":"2030-12-06T00:00:00Z"}, or be left out';
  const clock = parseMembers(body, ['clock'], form).get('clock');
  if (clock === undefined) return undefined;
  const time = typeof clock === 'string' ? parseTime(clock) : undefined;
  if (time === undefined) throw refuseBody(`clock must be ${timeRule}`);
  return time;
}

/**
 * Parses a body that is an object with some of these members.
 *
 * @param form The message if the body is not an object.
 * @throws PetstoreError `invalid_json` or `invalid_body`
 */
function parseMembers(
  body: string,
  names: readonly string[],
  form: string,
): ReadonlyMap<string, JsonValue> {
  const value = parseJson(body, maxBodyValues);
  if (!(value instanceof Map)) throw refuseBody(form);
  const unknown = [...value.keys()].find((name) => !names.includes(name));
  if (unknown === undefined) return value;
  const shown = JSON.stringify(unknown.slice(0, 40));
  throw refuseBody(`The member ${shown} is unknown; the nearest is ${nearestTo(unknown, names)}`);
}

/** Returns a number as a JavaScript number, or as NaN if it is not an int64; else the value. */
function plainMember(value: JsonValue | undefined): unknown {
  return value instanceof JsonNumber ? Number(int64OfJsonNumber(value.text)) : value;
}
