/** The changes that the words of a fault make to a reply. */
import { STATUS_CODES } from 'node:http';
import {
  json,
  parseJson,
  PetstoreError,
  replyTo,
  toByteString,
  type JsonValue,
  type Reply,
  type ReplyErrorCode,
} from '../../index.js';

/** The error codes of faults, by their status. */
export const codes = {
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  408: 'request_timeout',
  409: 'idempotency_in_flight',
  429: 'too_many_requests',
  500: 'internal_error',
  502: 'bad_gateway',
  503: 'unavailable',
  504: 'gateway_timeout',
} as const satisfies Readonly<Record<number, ReplyErrorCode>>;

/** The headers of the errors, as the petstore itself sends them. */
const headers: Readonly<Partial<Record<ReplyErrorCode, readonly string[]>>> = {
  unauthorized: ['WWW-Authenticate', 'Bearer realm="petstore", error="invalid_token"'],
  too_many_requests: ['Retry-After', '1'],
};

/** The replies of the errors, by their status, made once. */
const errors: ReadonlyMap<string, Reply> = new Map(
  Object.entries(codes).map(([status, code]) => {
    const details = { headers: headers[code] ?? [] };
    return [status, replyTo(new PetstoreError(code, 'This fault was requested.', details))];
  }),
);

/** The reply in place of the operation, which the words of the fault then change. */
export const unavailable = replyTo(new PetstoreError('unavailable', 'This fault was requested.'));

/** Returns the reply of an error by its status. */
export function errorReply(status: string): Reply {
  return errors.get(status) ?? unavailable;
}

/** Returns a reply with an error page in place of its body, as a proxy would send it. */
export function asPage(reply: Reply): Reply {
  const title = `${reply.status} ${STATUS_CODES[reply.status] ?? ''}`;
  const body = toByteString(
    `<html><head><title>${title}</title></head><body><h1>${title}</h1></body></html>\n`,
  );
  return { ...reply, body, contentType: 'text/html' };
}

/** The time from now to the date of `Retry-After`. A date has whole seconds. */
const retryDateMs = 2_000;

/** Returns a reply with another `Retry-After`: a number of seconds, `date` or `none`. */
export function withRetryAfter(reply: Reply, value: string, now: number): Reply {
  const others = reply.headers.filter((_, at, all) => all[at - (at % 2)] !== 'Retry-After');
  const date = new Date(now + retryDateMs).toUTCString();
  const added = value === 'none' ? [] : ['Retry-After', value === 'date' ? date : value];
  return { ...reply, headers: [...others, ...added] };
}

const jsonType = /^application\/json *(?:;|$)/i;

/** Returns a reply whose JSON objects have another member: the body, or the items of its array. */
export function withMember(reply: Reply, name: string, value: string): Reply {
  const { status, body, contentType = 'application/json' } = reply;
  if (body === undefined || !jsonType.test(contentType) || status < 200 || status > 299)
    return reply;

  const changed = (object: JsonValue) =>
    object instanceof Map ? new Map([...object, [name, value]]) : object;
  const parsed = parseJson(String(body));
  const all = Array.isArray(parsed) ? parsed.map(changed) : changed(parsed);
  const { body: text = body } = json(plainValue(all));
  return { ...reply, body: text };
}

/** Returns a value with plain objects in place of maps, for `json`. */
function plainValue(value: JsonValue): unknown {
  if (value instanceof Map)
    return Object.fromEntries(Array.from(value, ([name, item]) => [name, plainValue(item)]));
  return Array.isArray(value) ? value.map(plainValue) : value;
}
