/** Faults on demand, for whoever tries whether a client copes with them: the header `Petstore-Fault`. */
import { setTimeout as sleep } from 'node:timers/promises';
import { PetstoreError, type OpenApiValue, type Plugin } from '../index.js';

/** The statuses that can be asked for, each with the error that a client of a real server would see. */
const failures = {
  429: ['too_many_requests', ['Retry-After', '1']],
  500: ['internal_error', []],
  503: ['unavailable', []],
} as const;

/** What one request asks for. */
interface Fault {
  readonly status?: keyof typeof failures;
  /** In milliseconds. */
  readonly delay: number;
  /** Whether the operation is carried out first, so that a client hears of a fault though its animal was kept. */
  readonly isAfter: boolean;
}

/** The longest delay, in milliseconds: patience ends sooner, and a key must not hold connections for ever. */
const maxDelay = 30_000;

const rule =
  'Petstore-Fault must be one or more of status=429, status=500 or status=503, ' +
  `delay=MILLISECONDS (up to ${maxDelay}), and before or after, each once and joined by commas.`;

const parameter: OpenApiValue = {
  name: 'Petstore-Fault',
  in: 'header',
  required: false,
  description:
    'A fault for this request alone: `status=503`, `status=429` or `status=500` in place of the answer, `delay=1500` ' +
    'milliseconds before it, and whether both come `before` the operation, which a status then replaces, ' +
    'or `after` it.',
  schema: { type: 'string', examples: ['status=503', 'status=503,after', 'delay=1500'] },
};

/**
 * Lets a request with a valid key ask for a fault. Each answers as the petstore would in earnest: with the Error body,
 * and `Retry-After` where trying again helps.
 */
export function faultsPlugin(): Plugin {
  return ({ around, describe, onClose }) => {
    const closing = new AbortController();
    onClose(() => closing.abort());
    around(async ({ header, keyName }, next) => {
      const text = header('petstore-fault');
      if (text === undefined || keyName === undefined) return next();
      const { status, delay, isAfter } = parseFault(text);
      const reply = isAfter ? await next() : undefined;
      if (delay > 0) await sleep(delay, undefined, { signal: closing.signal }).catch(() => undefined);
      if (status === undefined) return reply ?? next();
      const [code, headers] = failures[status];
      throw new PetstoreError(code, 'This fault was asked for by Petstore-Fault.', { headers });
    });
    describe((document) => {
      for (const item of Object.values(Object(document['paths'])))
        Object.assign(Object(item), { parameters: [parameter] });
    });
  };
}

/** @throws PetstoreError `invalid_parameter` for a text against the rule. */
function parseFault(text: string): Fault {
  const pattern = /^(?:status=(?<status>429|500|503)|delay=(?<delay>\d{1,5})|(?<moment>before|after))$/;
  const given = new Map<string, string>();
  for (const part of text.split(',')) {
    const found = Object.entries(pattern.exec(part.trim())?.groups ?? {}).find(([, value]) => value !== undefined);
    if (found === undefined || given.has(found[0])) throw new PetstoreError('invalid_parameter', rule);
    given.set(...found);
  }
  const status = Number(given.get('status'));
  const delay = Number(given.get('delay') ?? 0);
  if (delay > maxDelay) throw new PetstoreError('invalid_parameter', rule);
  const isAfter = given.get('moment') === 'after';
  return { ...(isFailure(status) && { status }), delay, isAfter };
}

function isFailure(status: number): status is keyof typeof failures {
  return Object.hasOwn(failures, status);
}
