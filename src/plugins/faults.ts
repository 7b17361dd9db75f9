/**
 * Faults on demand, to try whether a client copes with them: by the header `Petstore-Fault` for one
 * request, by rules at `/v1/faults` for those to come; and `/v1/reset`, for a store that begins
 * anew.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  emptyReply,
  errorResponses,
  int64OfJsonNumber,
  jsonContent,
  JsonNumber,
  jsonReply,
  maxBodyValues,
  parseJson,
  PetstoreError,
  response,
  schemaRef,
  toByteString,
  type AcceptedRequest,
  type JsonValue,
  type OpenApiDocument,
  type OpenApiOperation,
  type OpenApiValue,
  type Plugin,
  type Reply,
  type ReplyErrorCode,
} from '../index.js';

/** A fault for each request that fits, as if it carried the header `Petstore-Fault`. */
export interface FaultRule {
  /** The method of the requests, such as `POST`; left out for any. */
  readonly method?: string;
  /** The path of their route, such as `/v1/pets/{petId}`; left out for any. */
  readonly path?: string;
  /** What goes wrong, in the words of the header, such as `status=503,after`. */
  readonly fault: string;
  /** How many requests it meets, from 1; left out for all. */
  readonly times?: number;
  /**
   * How many requests that fit are let pass first.
   * @defaultValue 0
   */
  readonly skip?: number;
}

/** What the plugin may be given. */
export interface FaultsOptions {
  /**
   * The rules that hold from the start.
   * @defaultValue none
   */
  readonly rules?: readonly FaultRule[];
}

/** The statuses that may be asked for, with the code of their Error body. */
const codes = {
  408: 'request_timeout',
  409: 'idempotency_in_flight',
  429: 'too_many_requests',
  500: 'internal_error',
  502: 'bad_gateway',
  503: 'unavailable',
  504: 'gateway_timeout',
} as const satisfies Readonly<Record<number, ReplyErrorCode>>;

/** The longest delay: a client must not keep connections open for ever. */
const maxDelayMs = 30_000;

const faultWords =
  `one of status=${Object.keys(codes).join(', status=')}, drop and truncate, or ` +
  `delay=MILLISECONDS (up to ${maxDelayMs}), or one of them and a delay; ` +
  'with before or after, or, for a delay alone, within; joined by commas';

/** What is to go wrong with a request. */
interface Fault {
  /** The error that is answered, if any. */
  readonly code: ReplyErrorCode | undefined;
  /** How the connection breaks, if it does. */
  readonly cut: 'drop' | 'truncate' | undefined;
  /** In milliseconds, from 0. */
  readonly delayMs: number;
  /** Whether it comes before the operation, after it, or the operation itself takes that long. */
  readonly moment: 'before' | 'after' | 'within';
}

/** The fault that a text asks for; undefined where it asks for none. */
function parseFault(text: string): Fault | undefined {
  const parts = text.split(',').map((part) => part.trim());
  const has = (part: string) => parts.includes(part);

  const statuses = Object.entries(codes).filter(([status]) => has(`status=${status}`));
  const cuts = (['drop', 'truncate'] as const).filter(has);
  const moments = (['before', 'after', 'within'] as const).filter(has);
  const delays = parts.flatMap((part) => /^delay=(\d{1,5})$/.exec(part)?.[1] ?? []);

  const effects = statuses.length + cuts.length;
  const isAllRead = effects + delays.length + moments.length === parts.length;
  const isOnce = effects <= 1 && delays.length <= 1 && moments.length <= 1;
  const [moment = 'before'] = moments;
  const delayMs = Number(delays[0] ?? 0);
  // A moment alone is no fault.
  if (!isAllRead || !isOnce || effects + delays.length === 0 || delayMs > maxDelayMs)
    return undefined;
  if (moment === 'within' && effects > 0) return undefined;
  return { code: statuses[0]?.[1], cut: cuts[0], delayMs, moment };
}

/** A member of a rule: whether a value is one, and what it must be. */
type Member = readonly [isRight: (value: unknown) => boolean, rule: string];

const members: Readonly<Record<keyof FaultRule, Member>> = {
  method: [
    (value) => typeof value === 'string' && /^[A-Z]+$/.test(value),
    'a method such as POST, or be left out',
  ],
  path: [
    (value) => typeof value === 'string' && /^\/v1\/\D*$/.test(value),
    'the path of a route, such as /v1/pets/{petId}, or be left out',
  ],
  fault: [(value) => typeof value === 'string' && parseFault(value) !== undefined, faultWords],
  times: [(value) => isCount(value, 1), 'an integer from 1 to 1000000, or be left out'],
  skip: [(value) => isCount(value, 0), 'an integer from 0 to 1000000, or be left out'],
};

function isCount(value: unknown, least: number): boolean {
  return Number.isInteger(value) && Number(value) >= least && Number(value) <= 1_000_000;
}

/** Whether a value is a rule. @throws what `refuse` makes of what is wrong with it. */
function checkRule(value: unknown, refuse: (problem: string) => Error): asserts value is FaultRule {
  const rule: Readonly<Record<string, unknown>> = Object(value);
  const known = Object.keys(members);
  const unknown = Object.keys(rule).find((name) => !known.includes(name));
  if (unknown !== undefined) throw refuse(`has an unknown member; it may have ${known.join(', ')}`);

  for (const [name, [isRight, words]] of Object.entries(members))
    if (name === 'fault' || rule[name] !== undefined)
      if (!isRight(rule[name])) throw refuse(`is wrong: ${name} must be ${words}`);
}

/** A rule that holds, and what is left of it. */
class ActiveRule {
  readonly fault: Fault;
  readonly #rule: FaultRule;
  #toSkip: number;
  #left: number;

  /** @throws what `refuse` makes of what is wrong with a rule */
  constructor(rule: unknown, refuse: (problem: string) => Error) {
    checkRule(rule, refuse);
    const fault = parseFault(rule.fault);
    if (fault === undefined) throw refuse(`is wrong: fault must be ${faultWords}`);

    this.fault = fault;
    this.#rule = { ...rule };
    this.#toSkip = rule.skip ?? 0;
    this.#left = rule.times ?? Number.POSITIVE_INFINITY;
  }

  /** Whether it meets this request, which then counts. */
  meets({ method, route }: AcceptedRequest): boolean {
    const { method: ownMethod = method, path = route } = this.#rule;
    if (ownMethod !== method || path !== route || this.#left === 0) return false;
    if (this.#toSkip > 0) {
      this.#toSkip--;
      return false;
    }
    this.#left--;
    return true;
  }

  /** The rule, with how many requests it will still meet; null for all. */
  toJSON(): object {
    return { ...this.#rule, left: Number.isFinite(this.#left) ? this.#left : null };
  }
}

function activeRules(
  rules: readonly unknown[],
  refuse: (problem: string) => Error,
): readonly ActiveRule[] {
  const refuseNumber = (index: number) => (problem: string) =>
    refuse(`rule ${index + 1} ${problem}`);
  return rules.map((rule, index) => new ActiveRule(rule, refuseNumber(index)));
}

const faultsPath = '/v1/faults';
const resetPath = '/v1/reset';
const inFlight = new PetstoreError(
  'idempotency_in_flight',
  'The first request with this idempotency key is still under way.',
);

/**
 * Lets requests with a valid API key ask for faults, which are answered as real ones would be.
 * @throws TypeError for a rule that is none, with its number and the mend.
 */
export function faultsPlugin({ rules: given = [] }: FaultsOptions = {}): Plugin {
  const firstRules = activeRules(given, (problem) => new TypeError(`faultsPlugin: ${problem}`));

  return ({ around, describe, onClose, route, storage }) => {
    let rules = firstRules;
    /** The idempotency keys of operations that take their time, with the names of the API keys. */
    const underWay = new Set<string>();

    const closing = new AbortController();
    onClose(() => closing.abort());
    const pause = (delayMs: number) =>
      sleep(delayMs, undefined, { signal: closing.signal }).catch(() => undefined);

    around(async (request, next) => {
      const { keyName, route: path, header } = request;
      if (keyName === undefined || path === faultsPath || path === resetPath) return next();

      const idempotencyKey = header('idempotency-key');
      const use = idempotencyKey && JSON.stringify([keyName, idempotencyKey]);
      if (use !== undefined && underWay.has(use)) throw inFlight;

      const asked = header('petstore-fault');
      const fault =
        asked === undefined ? rules.find((rule) => rule.meets(request))?.fault : faultIn(asked);
      if (fault === undefined) return next();
      if (fault.moment !== 'within') return carryOut(fault, pause, next);

      if (use !== undefined) underWay.add(use);
      await pause(fault.delayMs);
      return next().finally(() => underWay.delete(use ?? ''));
    });

    const answerRules = () => jsonReply(200, toByteString(JSON.stringify({ rules })));
    const setRules = (body: string) => {
      rules = activeRules(rulesIn(body), (problem) => {
        return new PetstoreError('invalid_body', `In rules, ${problem}.`);
      });
      return answerRules();
    };
    const endRules = () => {
      rules = [];
      return emptyReply(204, []);
    };
    route({
      path: faultsPath,
      methods: {
        GET: { handler: answerRules, document: documents.list },
        PUT: { handler: ({ body }) => setRules(body), readsBody: true, document: documents.set },
        DELETE: { handler: endRules, document: documents.end },
      },
    });

    if (storage.reset !== undefined) {
      const handler = async () => {
        await storage.reset?.();
        underWay.clear();
        return endRules();
      };
      route({ path: resetPath, methods: { POST: { handler, document: documents.reset } } });
    }

    describe(describeFaults);
  };
}

/** @throws PetstoreError `invalid_parameter` for a text that asks for no fault. */
function faultIn(text: string): Fault {
  const fault = parseFault(text);
  if (fault !== undefined) return fault;
  throw new PetstoreError('invalid_parameter', `Petstore-Fault must be ${faultWords}.`);
}

/** The rules of a body, not checked yet. @throws PetstoreError `invalid_json` or `invalid_body`. */
function rulesIn(body: string): readonly unknown[] {
  const value = parseJson(body, maxBodyValues);
  const rules = value instanceof Map ? value.get('rules') : undefined;
  if (!Array.isArray(rules))
    throw new PetstoreError('invalid_body', 'The body must be {"rules":[…]}.');
  return rules.map((rule: JsonValue) =>
    rule instanceof Map ? Object.fromEntries(Array.from(rule, plainMember)) : undefined,
  );
}

/** A member with a number in the place of its digits; of no int64, nothing is a number. */
function plainMember([name, value]: readonly [string, JsonValue]): readonly [string, unknown] {
  return [name, value instanceof JsonNumber ? Number(int64OfJsonNumber(value.text)) : value];
}

/** Has the operation carried out, or not, and answers as the fault says. */
async function carryOut(
  { code, cut, delayMs, moment }: Fault,
  pause: (delayMs: number) => Promise<unknown>,
  next: () => Promise<Reply>,
): Promise<Reply> {
  // An animal may be kept, although its client is answered by a fault, or hears nothing.
  const reply = moment === 'after' ? await next() : undefined;
  if (delayMs > 0) await pause(delayMs);

  const headers = code === 'too_many_requests' ? ['Retry-After', '1'] : [];
  const error = new PetstoreError(code ?? 'unavailable', 'This fault was asked for.', { headers });
  if (code !== undefined) throw error;
  if (cut === undefined) return reply ?? next();
  return { ...(reply ?? jsonReply(503, toByteString(error.body))), cut };
}

/** The header in the OpenAPI document. */
const parameter: OpenApiValue = {
  name: 'Petstore-Fault',
  in: 'header',
  description: `A fault for this request alone: ${faultWords}.`,
  schema: { type: 'string', examples: ['status=503', 'drop,after', 'delay=1500'] },
};

const rulesContent = jsonContent(schemaRef('FaultRules'), {
  rules: [{ method: 'POST', path: '/v1/pets', fault: 'status=503,after', times: 2 }],
});
const rulesResponse = {
  200: response('The rules, each with how many requests are left.', rulesContent),
};
const operation = (operationId: string, summary: string, responses: object): OpenApiOperation => ({
  operationId,
  tags: ['faults'],
  summary,
  responses: { ...responses, ...errorResponses(['unauthorized']) },
});
const documents = {
  list: operation('listFaults', 'List the fault rules', rulesResponse),
  set: {
    ...operation('setFaults', 'Set the fault rules, in the place of those before', {
      ...rulesResponse,
      ...errorResponses(['invalid_body']),
    }),
    requestBody: { required: true, content: rulesContent },
  },
  end: operation('endFaults', 'End all fault rules', { 204: { description: 'Ended.' } }),
  reset: operation('resetStore', 'Begin anew, with the animals of the start', {
    204: { description: 'Begun anew.' },
  }),
};

const count = { type: 'integer', format: 'int32' };
const schemas = {
  FaultRule: {
    type: 'object',
    required: ['fault'],
    properties: {
      method: { type: 'string', description: 'Of the requests; left out for any.' },
      path: { type: 'string', description: 'Of their route; left out for any.' },
      fault: { type: 'string', description: `What goes wrong: ${faultWords}.` },
      times: { ...count, minimum: 1, description: 'How many requests it meets; left out for all.' },
      skip: { ...count, minimum: 0, description: 'How many are let pass first.' },
      left: { type: ['integer', 'null'], description: 'How many it will still meet.' },
    },
  },
  FaultRules: {
    type: 'object',
    required: ['rules'],
    properties: { rules: { type: 'array', items: schemaRef('FaultRule') } },
  },
};

/** Adds the header and the answers of all faults to each operation that may meet one. */
function describeFaults(document: OpenApiDocument): void {
  Object.assign(document.components.schemas, schemas);
  document.tags.push({ name: 'faults', description: 'What goes wrong on purpose.' });

  const operations = Object.values<object>(Object(document['paths'])).flatMap((item) =>
    Object.values(item),
  );
  // Added to each operation: many generators ignore the parameters of a path.
  for (const each of operations.filter(({ tags }) => tags !== undefined && tags[0] !== 'faults')) {
    each.parameters = [...(each.parameters ?? []), parameter];
    each.responses = { ...errorResponses(Object.values(codes)), ...each.responses };
  }
}
