/**
 * The plugin `faults`: produces errors, delays and broken connections to test a client. The header
 * `Petstore-Fault` requests a fault for one request, and rules at `/v1/faults` for many requests.
 * `/v1/reset` resets the store.
 */
import {
  emptyReply,
  int64OfJsonNumber,
  JsonNumber,
  jsonReply,
  maxBodyValues,
  parseJson,
  PetstoreError,
  toByteString,
  type AcceptedRequest,
  type JsonValue,
  type NextOperation,
  type Plugin,
  type Reply,
  type ReplyErrorCode,
  type RouteSummary,
} from '../index.js';
import {
  ActiveRules,
  checkMatches,
  checkRules,
  codes,
  Delays,
  describeFaults,
  documents,
  faultWords,
  parseFault,
  type Fault,
  type FaultRule,
} from './faults/index.js';

export type { FaultRule } from './faults/index.js';

/** The options of the plugin. */
export interface FaultsOptions {
  /**
   * The rules in effect from the start, and again after each reset.
   *
   * @defaultValue none
   */
  readonly rules?: readonly FaultRule[];
}

const faultsPath = '/v1/faults';
const resetPath = '/v1/reset';

/**
 * Lets requests with a valid API key request faults, which look like real ones to the client.
 *
 * @throws TypeError if a rule is not valid. If a rule matches no route, `createPetstore` throws it.
 */
export function faultsPlugin(options: FaultsOptions = {}): Plugin {
  const { rules: given = [], ...unknown } = options;
  for (const name of Object.keys(unknown))
    throw new TypeError(`faultsPlugin: option ${name} is unknown; the only option is rules`);
  if (!Array.isArray(given)) throw new TypeError('faultsPlugin: rules must be an array');
  const refuse = (problem: string) => new TypeError(`faultsPlugin: rule ${problem}`);
  const firstRules = checkRules(given, refuse);

  return ({ around, describe, onStart, route, routes, storage }) => {
    const delays = new Delays();
    const rules = new ActiveRules();
    rules.set(firstRules);
    onStart(() => checkMatches(firstRules, faultyRoutes(routes()), refuse));

    around((request, next) => {
      if (request.keyName === undefined || isOwnPath(request.route)) return next();
      // Tools send an optional header empty if they have no value for it.
      const text = request.header('petstore-fault') ?? '';
      const fault = text === '' ? rules.faultFor(request) : parseHeader(text);
      return fault === undefined ? next() : carryOut(fault, request, next, delays);
    });

    const showRules = () => jsonReply(200, toByteString(JSON.stringify({ rules })));
    const setRules = (body: string) => {
      const refuseBody = (problem: string) =>
        new PetstoreError('invalid_body', `In rules, rule ${problem}.`);
      const checked = checkRules(parseRules(body), refuseBody);
      checkMatches(checked, faultyRoutes(routes()), refuseBody);
      rules.set(checked);
      return showRules();
    };
    const endRules = () => {
      rules.set([]);
      return emptyReply(204, []);
    };
    route({
      path: faultsPath,
      methods: {
        GET: { handler: showRules, document: documents.list },
        PUT: { handler: ({ body }) => setRules(body), readsBody: true, document: documents.set },
        DELETE: { handler: endRules, document: documents.end },
      },
    });

    // Without `onReset`, delayed requests could not learn that the store was reset.
    if (storage.reset !== undefined && storage.onReset !== undefined) {
      storage.onReset(() => rules.set(firstRules));
      const handler = async () => {
        await storage.reset?.();
        return emptyReply(204, []);
      };
      const POST = { handler, survivesReset: true, document: documents.reset };
      route({ path: resetPath, methods: { POST } });
    }

    describe(describeFaults);
  };
}

function isOwnPath(path: string): boolean {
  return path === faultsPath || path === resetPath;
}

/** Returns the routes and methods to which faults apply. */
function faultyRoutes(routes: readonly RouteSummary[]): readonly RouteSummary[] {
  return routes
    .filter(({ path }) => path.startsWith('/v1/') && !isOwnPath(path))
    .map(({ path, methods }) => ({
      path,
      // OPTIONS needs no key.
      methods: methods.filter((method) => method !== 'OPTIONS'),
    }))
    .filter(({ methods }) => methods.length > 0);
}

/**
 * Parses the header `Petstore-Fault`.
 *
 * @throws PetstoreError `invalid_parameter` if it is not valid
 */
function parseHeader(text: string): Fault {
  const fault = parseFault(text);
  if (fault !== undefined) return fault;
  throw new PetstoreError('invalid_parameter', `Petstore-Fault must be ${faultWords}.`);
}

/**
 * Parses a body to rules that are not checked yet.
 *
 * @throws PetstoreError `invalid_json` or `invalid_body`
 */
function parseRules(body: string): readonly unknown[] {
  const value = parseJson(body, maxBodyValues);
  const rules = value instanceof Map ? value.get('rules') : undefined;
  if (!Array.isArray(rules))
    throw new PetstoreError('invalid_body', 'The body must be {"rules":[…]}.');
  return rules.map((rule: JsonValue) =>
    rule instanceof Map ? Object.fromEntries(Array.from(rule, plainMember)) : undefined,
  );
}

/** Converts a number to a JavaScript number, or to NaN if it is not an int64. */
function plainMember([name, value]: readonly [string, JsonValue]): readonly [string, unknown] {
  return [name, value instanceof JsonNumber ? Number(int64OfJsonNumber(value.text)) : value];
}

/** Carries out a request with a fault. A fault before the operation replaces the operation. */
async function carryOut(
  fault: Fault,
  request: AcceptedRequest,
  next: NextOperation,
  delays: Delays,
): Promise<Reply> {
  const { delayMs, moment } = fault;
  if (delayMs === 0) return replyWith(fault, moment === 'after' ? await next() : undefined, next);

  const pause = () => delays.wait(delayMs, request);
  return delays.run(async () => {
    if (moment === 'within') return next(pause);
    // The pet is stored, although the client gets an error or no response.
    const reply = moment === 'after' ? await next() : undefined;
    await pause();
    return replyWith(fault, reply, next);
  });
}

/** The errors of faults, by their codes. */
const errors: ReadonlyMap<ReplyErrorCode | undefined, PetstoreError> = new Map(
  Object.values(codes).map((code) => {
    const headers = code === 'too_many_requests' ? ['Retry-After', '1'] : [];
    return [code, new PetstoreError(code, 'This fault was requested.', { headers })];
  }),
);
const unavailable = new PetstoreError('unavailable', 'This fault was requested.');

/** Returns the reply of a fault, or throws its error. */
async function replyWith(
  { code, cut }: Fault,
  reply: Reply | undefined,
  next: NextOperation,
): Promise<Reply> {
  const error = errors.get(code);
  if (error !== undefined) throw error;
  if (cut === undefined) return reply ?? next();
  return { ...(reply ?? jsonReply(503, toByteString(unavailable.body))), cut };
}
