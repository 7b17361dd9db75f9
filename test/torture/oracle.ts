/**
 * A second, slow and plain implementation of the contract. It computes the responses to any bytes
 * that a client sends before it closes its sending side.
 */
import { METHODS } from 'node:http';
import { isIPv6 } from 'node:net';
import { key } from '../support/fixture.js';
import { petStatuses } from '../../dist/index.js';

/** An expected response. */
export interface Expected {
  /**
   * The allowed statuses, each with its error code, such as `201` or `400 invalid_json`. There are
   * several if the server may respond before or after it has read a bad body.
   */
  readonly words: readonly string[];
  readonly isHead?: boolean;
  /** The body of a 201 after its id. */
  readonly petAfterId?: string;
  /**
   * True if the server must close the connection afterwards. `maybe` if it may respond before it
   * has read the body.
   */
  readonly closes: boolean | 'maybe';
}

/** The values of each name, in order. */
type Values = ReadonlyMap<string, readonly string[]>;

/** True if a pet has this id. */
export type HasPet = (id: bigint) => boolean;

/** Returns the expected responses, in order. */
export function expectedResponses(bytes: string, hasPet: HasPet): readonly Expected[] {
  const all: Expected[] = [];
  for (let rest = afterLineEnds(bytes); rest !== ''; ) {
    const { responses, size } = responsesTo(rest, hasPet);
    all.push(...responses);
    if (size === undefined) break;
    rest = afterLineEnds(rest.slice(size));
  }
  return all;
}

/** Removes empty lines before a request, which RFC 9112 section 2.2 allows. */
function afterLineEnds(bytes: string): string {
  return bytes.replace(/^[\r\n]+/, '');
}

/** The responses to one request, and its length in bytes; no length if no request can follow. */
interface Responses {
  readonly responses: readonly Expected[];
  readonly size?: number;
}

const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const noHttp: Responses = last('400 bad_request');

function last(...words: readonly string[]): Responses {
  return { responses: [{ words, closes: true }] };
}

function responsesTo(bytes: string, hasPet: HasPet): Responses {
  const lineEnd = bytes.indexOf('\r\n');
  const line = lineEnd < 0 ? '' : bytes.slice(0, lineEnd);
  const [, method = '', target = '', minor = ''] =
    /^([^ ]+) +([\x21-\x7e]+) +HTTP\/1\.([01])$/.exec(line) ?? [];
  if (!token.test(method)) return noHttp;
  // RFC 9112 section 3 allows several spaces in a request line. After an unknown method they are
  // not accepted. An unknown method that arrives in several packets gets a 400.
  if (!METHODS.includes(method))
    return / {2}/.test(line) ? noHttp : last('501 not_implemented', '400 bad_request');
  if (!/^(?:[/*]|[a-z]+:\/\/)/i.test(target) || /^https?:\/\/(?:[/?:]|$)/i.test(target))
    return noHttp;
  const headEnd = bytes.indexOf('\r\n\r\n', lineEnd);
  if (headEnd < 0) return noHttp;
  const lines = headEnd === lineEnd ? [] : bytes.slice(lineEnd + 2, headEnd).split('\r\n');
  const headers = readHeaders(lines);
  const framing = headers && framingOf(headers, minor);
  if (headers === undefined || framing === undefined) return noHttp;
  if (target.length > 16_384 || lines.length > 100 || headEnd - lineEnd > 16_384)
    return last('431 headers_too_large');
  const [host, otherHost] = headers.get('host') ?? [];
  const isHosted = host === undefined ? minor === '0' : isHost(host);
  if (!isHosted || otherHost !== undefined) return noHttp;

  const early = responseToHead({ method, target, headers, minor }, hasPet);
  const rest = bytes.slice(headEnd + 4);
  const body = framing === 'chunked' ? readChunks(rest) : readSized(rest, framing);
  if (body === undefined) return early === undefined ? noHttp : last(early, '400 bad_request');
  const verdict =
    early === undefined ? responseToBody(target, headers, body.text) : { words: early };
  const connection = headers.get('connection')?.join(', ') ?? '';
  const closes =
    /\bclose\b/i.test(connection) ||
    headers.has('upgrade') ||
    (minor === '0' && !/\bkeep-alive\b/i.test(connection)) ||
    /^413|^400 bad_request$/.test(verdict.words);
  const response: Expected = {
    ...verdict,
    words: [verdict.words],
    isHead: method === 'HEAD',
    closes: closes || (early !== undefined && body.text !== '' ? 'maybe' : false),
  };
  const awaits = early === undefined && minor === '1' && headers.has('expect');
  return {
    responses: awaits ? [{ words: ['100'], closes: false }, response] : [response],
    ...(!closes && { size: headEnd + 4 + body.size }),
  };
}

function readHeaders(lines: readonly string[]): Values | undefined {
  const headers = new Map<string, string[]>();
  for (const line of lines) {
    const [, name = '', value = ''] = /^([^:]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)$/.exec(line) ?? [];
    if (!token.test(name)) return undefined;
    const key = name.toLowerCase();
    headers.set(key, [...(headers.get(key) ?? []), value.replace(/[ \t]+$/, '')]);
  }
  return headers;
}

/** Returns the length of the body; undefined if it is unknown (C42). */
function framingOf(headers: Values, minor: string): number | 'chunked' | undefined {
  const [length = '0', ...others] = headers.get('content-length') ?? [];
  const codings = headers.get('transfer-encoding')?.join(',').toLowerCase();
  if (codings !== undefined)
    return codings === 'chunked' && minor === '1' && !headers.has('content-length')
      ? 'chunked'
      : undefined;
  const isLength = others.length === 0 && /^[0-9]+$/.test(length) && BigInt(length) < 2n ** 64n;
  return isLength ? Number(length) : undefined;
}

/** A body and its length in bytes on the wire. */
interface Body {
  readonly text: string;
  readonly size: number;
}

/** Returns a body of `size` bytes; undefined if it is incomplete. */
function readSized(bytes: string, size: number): Body | undefined {
  return bytes.length < size ? undefined : { text: bytes.slice(0, size), size };
}

const chunkHead =
  /^([0-9A-Fa-f]+)(?:;[!#$%&'*+.^_`|~0-9A-Za-z-]*(?:=(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+|"(?:[\t\x20-\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"))?)*\r\n/;

/** Returns the body of a chunked request; undefined if it is invalid or incomplete. */
function readChunks(bytes: string): Body | undefined {
  let text = '';
  for (let at = 0; ; ) {
    const [head, digits = ''] = chunkHead.exec(bytes.slice(at)) ?? [];
    if (head === undefined) return undefined;
    const length = Number.parseInt(digits, 16);
    at += head.length;
    if (length === 0) {
      const [trailer] =
        /^(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n/.exec(bytes.slice(at)) ??
        [];
      return trailer === undefined || /^(?:content-length|transfer-encoding):/im.test(trailer)
        ? undefined
        : { text, size: at + trailer.length };
    }
    if (bytes.slice(at + length, at + length + 2) !== '\r\n') return undefined;
    text += bytes.slice(at, at + length);
    at += length + 2;
  }
}

function isHost(value: string): boolean {
  const parts = /^(?:\[([^\]]*)\]|([^:[\]]*))(?::(.*))?$/.exec(value);
  if (parts === null) return false;
  const [, brackets, name = '', port = ''] = parts;
  if (!/^[0-9]*$/.test(port)) return false;
  return brackets === undefined
    ? /^(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*$/.test(name)
    : isIPv6(brackets);
}

interface Request {
  readonly method: string;
  readonly target: string;
  readonly headers: Values;
  readonly minor: string;
}

/** Returns the response to a head; undefined if the response depends on the body. */
function responseToHead(
  { method, target, headers, minor }: Request,
  hasPet: HasPet,
): string | undefined {
  const [, path = '', query = ''] =
    /^(?:https?:\/\/[^/?]*)?([^?]*)(?:\?(.*))?$/i.exec(target) ?? [];
  if (path === '*') return method === 'OPTIONS' ? '204' : '404 not_found';
  const segments = path.startsWith('/') ? path.slice(1).split('/').map(decoded) : [];
  const [first = '', second, id = '', ...others] = segments;
  const isProbe = segments.length === 1 && ['healthz', 'readyz', 'openapi.json'].includes(first);
  const isPets =
    first === 'v1' &&
    second === 'pets' &&
    others.length === 0 &&
    (segments.length === 2 || !['', '.', '..'].includes(id));
  if (!isProbe && !isPets) return '404 not_found';
  if (method === 'OPTIONS') return '204';
  const isAdding = method === 'POST' && isPets && segments.length === 2;
  if (!isAdding && method !== 'GET' && method !== 'HEAD') return '405 method_not_allowed';
  const [authorization = '', another] = headers.get('authorization') ?? [];
  const [, given] = /^bearer +([\x21-\x7e]+)$/i.exec(authorization) ?? [];
  if (isPets && (given !== key || another !== undefined)) return '401 unauthorized';
  const expects = headers.get('expect')?.join(', ') ?? '100-continue';
  if (minor === '1' && expects.toLowerCase() !== '100-continue') return '417 expectation_failed';
  if (isAdding) return refusalOfAdd(headers);
  const values = queryOf(query);
  const isSound = values !== undefined && (segments.length !== 2 || isPetQuery(values));
  if (!isSound) return '400 invalid_parameter';
  const isThere = segments.length < 3 || (isInt64(id) && hasPet(BigInt(id)));
  return isThere ? '200' : '404 not_found';
}

function refusalOfAdd(headers: Values): string | undefined {
  const type = headers.get('content-type')?.join(', ') ?? 'application/json';
  const isJson =
    /^application\/json[ \t]*(?:;[ \t]*(?:(?!charset[ \t]*=)[^\s;="]+[ \t]*=[ \t]*(?:"[^"]*"|[^\s;"]+)|charset[ \t]*=[ \t]*(["']?)utf-?8\1)?[ \t]*)*$/i.test(
      type,
    );
  const codings = headers.get('content-encoding')?.join(', ') ?? 'identity';
  if (!isJson || !/^identity(, identity)*$/i.test(codings)) return '415 unsupported_media_type';
  const [length = '0'] = headers.get('content-length') ?? [];
  return Number(length) > 65_536 ? '413 content_too_large' : undefined;
}

/** The status and error code of a response, and the body of a 201 after its id. */
interface Verdict {
  readonly words: string;
  readonly petAfterId?: string;
}

function responseToBody(target: string, headers: Values, body: string): Verdict {
  if (body.length > 65_536) return { words: '413 content_too_large' };
  const [idempotencyKey = 'none', second] = headers.get('idempotency-key') ?? [];
  const isKey = second === undefined && /^[\x21-\x7e]{1,255}$/.test(idempotencyKey);
  if (!isKey || queryOf(/\?(.*)$/.exec(target)?.[1] ?? '') === undefined)
    return { words: '400 invalid_parameter' };
  return responseToPet(body);
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** Returns the values of each name; undefined if an escape is invalid. */
export function queryOf(query: string): Values | undefined {
  const values = new Map<string, string[]>();
  for (const pair of query === '' ? [] : query.split('&')) {
    const [, name = '', value = ''] = /^([^=]*)=?(.*)$/.exec(pair) ?? [];
    const [key, text] = [decoded(name), decoded(value)];
    if (key === undefined || text === undefined) return undefined;
    values.set(key, [...(values.get(key) ?? []), text]);
  }
  return values;
}

function isPetQuery(values: Values): boolean {
  const holds = (name: string, rule: (value: string) => boolean): boolean => {
    const [value, second] = values.get(name) ?? [];
    return value === undefined || (second === undefined && rule(value));
  };
  return (
    holds('limit', (value) => isInt64(value) && BigInt(value) >= 1n && BigInt(value) <= 100n) &&
    holds('status', (value) => petStatuses.some((status) => status === value)) &&
    holds('after', (value) => isInt64(value) && BigInt(value) >= 0n)
  );
}

/** True if a text is the canonical form of an int64. */
export function isInt64(text: string): boolean {
  return /^-?[0-9]+$/.test(text) && String(BigInt.asIntN(64, BigInt(text))) === text;
}

function responseToPet(bytes: string): Verdict {
  let text: string;
  let value: unknown;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(bytes, 'latin1'));
    value = JSON.parse(text);
  } catch {
    return { words: '400 invalid_json' };
  }
  const members = strictMembers(text);
  if (members === undefined) return { words: '400 invalid_json' };
  const isObject = typeof value === 'object' && !Array.isArray(value);
  const { name, status } = Object.assign(Object.create(null), isObject && value);
  const categoryId = int64Of(members.get('categoryId') ?? '');
  const isStatus = !members.has('status') || petStatuses.includes(status);
  if (typeof name !== 'string' || categoryId === undefined || !isStatus)
    return { words: '400 invalid_body' };
  const end = members.has('status') ? `,"status":"${status}"}` : '}';
  return {
    words: '201',
    petAfterId: `"name":${JSON.stringify(name)},"categoryId":${categoryId}${end}`,
  };
}

/**
 * Returns the first token of each member of a JSON object; undefined if the text is not strict
 * (C26).
 */
export function strictMembers(text: string): ReadonlyMap<string, string> | undefined {
  const outermost = new Map<string, string>();
  const open: (Set<string> | undefined)[] = [];
  let name: string | undefined;
  for (const [piece] of text.matchAll(
    /"(?:[^"\\]|\\.)*"(?:[ \t\r\n]*:)?|[{}[\]]|[^{}[\]",: \t\r\n\ufeff]+/gs,
  )) {
    if (piece.startsWith('"')) {
      const string: string = JSON.parse(piece.replace(/[ \t\r\n]*:$/, ''));
      if (!string.isWellFormed()) return undefined;
      if (piece.endsWith(':')) {
        if (open.at(-1)?.has(string)) return undefined;
        open.at(-1)?.add(string);
        if (open.length === 1) name = string;
        continue;
      }
    }
    if (name !== undefined && open.length === 1) outermost.set(name, piece);
    name = undefined;
    if (piece === '{' || piece === '[') open.push(piece === '{' ? new Set() : undefined);
    else if (piece === '}' || piece === ']') open.pop();
    if (open.length > 64) return undefined;
  }
  return outermost;
}

/** Returns the digits of a JSON number if its value is an int64 (C22 to C24). */
export function int64Of(number: string): string | undefined {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/.exec(number) ?? [];
  if (whole === '') return undefined;
  const digits = (whole + fraction).replace(/^0+/, '');
  if (digits === '') return '0';
  const bare = digits.replace(/0+$/, '');
  const zeros = BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - bare.length);
  if (zeros < 0n || zeros > 30n || bare.length > 30) return undefined;
  const value = BigInt(sign + bare + '0'.repeat(Number(zeros)));
  return BigInt.asIntN(64, value) === value ? String(value) : undefined;
}
