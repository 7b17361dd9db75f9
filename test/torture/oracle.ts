/**
 * What the contract says to any bytes on a connection that is then half-closed: written a second
 * time, the slow and plain way.
 */
import { METHODS } from 'node:http';
import { isIPv6 } from 'node:net';
import { key } from '../support/fixture.js';
import { petStatuses } from '../../dist/index.js';

/** One answer as it must be. */
export interface Expected {
  /**
   * `201`, or `400 invalid_json`; more than one only where the answer may leave before or behind a
   * bad body.
   */
  readonly words: readonly string[];
  readonly isHead?: boolean;
  /** Of a 201, all behind its id. */
  readonly animal?: string;
  /**
   * Whether the connection must end behind it, must not, or may, as the answer may leave before the
   * body was read.
   */
  readonly closes: boolean | 'maybe';
}

/** What is stored under an id that is asked for. */
export type HasPet = (id: bigint) => boolean;

/** The answers, in their order. */
export function expectedAnswers(bytes: string, hasPet: HasPet): readonly Expected[] {
  const all: Expected[] = [];
  for (let rest = afterLineEnds(bytes); rest !== ''; ) {
    const { answers, size } = answersTo(rest, hasPet);
    all.push(...answers);
    if (size === undefined) break;
    rest = afterLineEnds(rest.slice(size));
  }
  return all;
}

/** RFC 9112 section 2.2 lets empty lines go before a request. */
function afterLineEnds(bytes: string): string {
  return bytes.replace(/^[\r\n]+/, '');
}

/**
 * Of one request: its answers, and how many bytes it has; undefined where nothing behind it is a
 * request.
 */
interface Answered {
  readonly answers: readonly Expected[];
  readonly size?: number;
}

const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const noHttp: Answered = last('400 bad_request');

function last(...words: readonly string[]): Answered {
  return { answers: [{ words, closes: true }] };
}

function answersTo(bytes: string, hasPet: HasPet): Answered {
  const lineEnd = bytes.indexOf('\r\n');
  const line = lineEnd < 0 ? '' : bytes.slice(0, lineEnd);
  const [, method = '', target = '', minor = ''] =
    /^([^ ]+) +([\x21-\x7e]+) +HTTP\/1\.([01])$/.exec(line) ?? [];
  if (!token.test(method)) return noHttp;
  // RFC 9112 section 3 lets more spaces pass; where the method is unknown there is no need to. In
  // pieces it is garbage.
  if (!METHODS.includes(method))
    return / {2}/.test(line) ? noHttp : last('501 not_implemented', '400 bad_request');
  if (!/^(?:[/*]|[a-z]+:\/\/)/i.test(target) || /^https?:\/\/(?:[/?:]|$)/i.test(target))
    return noHttp;
  const headEnd = bytes.indexOf('\r\n\r\n', lineEnd);
  if (headEnd < 0) return noHttp;
  const lines = headEnd === lineEnd ? [] : bytes.slice(lineEnd + 2, headEnd).split('\r\n');
  const headers = readHeaders(lines);
  if (headers === undefined) return noHttp;
  const framing = framingOf(headers, minor);
  if (framing === undefined) return noHttp;
  const tooLarge =
    target.length > 16_384 ||
    lines.length > 100 ||
    lines.reduce((sum, each) => sum + each.length + 2, 0) > 16_384;
  if (tooLarge) return last('431 headers_too_large');
  const hosts = headers.get('host') ?? [];
  if (
    hosts.length > 1 ||
    hosts.some((host) => !isHost(host)) ||
    (hosts.length === 0 && minor === '1')
  )
    return noHttp;

  const request = { method, target, headers, minor };
  const early = answerToHead(request, hasPet);
  const body =
    framing === 'chunked'
      ? readChunks(bytes.slice(headEnd + 4))
      : bytes.slice(headEnd + 4, headEnd + 4 + framing);
  const isWhole = body !== undefined && (typeof body !== 'string' || body.length === framing);
  if (!isWhole) return early === undefined ? noHttp : last(early.words, '400 bad_request');
  const text = typeof body === 'string' ? body : body.text;
  const size = headEnd + 4 + (typeof body === 'string' ? body.length : body.size);
  const reply = early ?? answerToBody(target, headers, text);
  const asksToClose = headers.get('connection')?.some((value) => /\bclose\b/i.test(value)) ?? false;
  const staysOpen =
    minor === '1' ||
    (headers.get('connection')?.some((value) => /\bkeep-alive\b/i.test(value)) ?? false);
  const closes =
    asksToClose ||
    headers.has('upgrade') ||
    !staysOpen ||
    reply.words.startsWith('413') ||
    reply.words === '400 bad_request';
  const { words, ...more } = reply;
  const answer: Expected = {
    ...more,
    words: [words],
    closes: closes || (early !== undefined && text !== '' ? 'maybe' : false),
  };
  const awaits = early === undefined && minor === '1' && headers.has('expect');
  return {
    answers: awaits ? [{ words: ['100'], closes: false }, answer] : [answer],
    ...(!closes && { size }),
  };
}

function readHeaders(lines: readonly string[]): ReadonlyMap<string, readonly string[]> | undefined {
  const headers = new Map<string, string[]>();
  for (const line of lines) {
    const [, name = '', value = ''] = /^([^:]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)$/.exec(line) ?? [];
    if (!token.test(name)) return undefined;
    const key = name.toLowerCase();
    headers.set(key, [...(headers.get(key) ?? []), value.replace(/[ \t]+$/, '')]);
  }
  return headers;
}

/** How long the body is; undefined where that is not to be told (C42). */
function framingOf(
  headers: ReadonlyMap<string, readonly string[]>,
  minor: string,
): number | 'chunked' | undefined {
  const lengths = headers.get('content-length') ?? [];
  const codings = headers.get('transfer-encoding');
  if (codings !== undefined)
    return minor === '1' && lengths.length === 0 && codings.join(',').toLowerCase() === 'chunked'
      ? 'chunked'
      : undefined;
  const [length = '0'] = lengths;
  return lengths.length > 1 || !/^[0-9]+$/.test(length) || BigInt(length) >= 2n ** 64n
    ? undefined
    : Number(length);
}

const chunkHead =
  /^([0-9A-Fa-f]+)(?:;[!#$%&'*+.^_`|~0-9A-Za-z-]*(?:=(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+|"(?:[\t\x20-\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"))?)*\r\n/;

/** The whole body of chunks; undefined where they are none, or not all there. */
function readChunks(bytes: string): { readonly text: string; readonly size: number } | undefined {
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
  const [, brackets, name = '', port = ''] = /^(?:\[([^\]]*)\]|([^:[\]]*))(?::(.*))?$/.exec(
    value,
  ) ?? [undefined, undefined, '/'];
  if (!/^[0-9]*$/.test(port)) return false;
  return brackets === undefined
    ? /^(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*$/.test(name)
    : isIPv6(brackets);
}

interface Request {
  readonly method: string;
  readonly target: string;
  readonly headers: ReadonlyMap<string, readonly string[]>;
  readonly minor: string;
}

interface Verdict {
  readonly words: string;
  readonly animal?: string;
  readonly isHead?: boolean;
}

/** The answer that the head alone decides; undefined where a body must be read for it. */
function answerToHead(
  { method, target, headers, minor }: Request,
  hasPet: HasPet,
): Verdict | undefined {
  const isHead = method === 'HEAD';
  const of = (words: string): Verdict => ({ words, isHead });
  const [, path = '', query = ''] =
    /^(?:https?:\/\/[^/?]*)?([^?]*)(?:\?(.*))?$/i.exec(target) ?? [];
  if (path === '*') return of(method === 'OPTIONS' ? '204' : '404 not_found');
  const segments = path.startsWith('/') ? path.slice(1).split('/').map(decoded) : [];
  const [version, pets, id, ...others] = segments;
  const isProbe =
    segments.length === 1 && ['healthz', 'readyz', 'openapi.json'].includes(version ?? '');
  const isPets =
    version === 'v1' &&
    pets === 'pets' &&
    others.length === 0 &&
    (segments.length < 3 || (id !== undefined && !['', '.', '..'].includes(id)));
  if (!isProbe && !isPets) return of('404 not_found');
  if (method === 'OPTIONS') return of('204');
  const isAdding = method === 'POST' && isPets && segments.length === 2;
  if (!isAdding && method !== 'GET' && !isHead) return of('405 method_not_allowed');
  const [authorization, second] = headers.get('authorization') ?? [];
  if (
    isPets &&
    (second !== undefined || /^bearer +([\x21-\x7e]+)$/i.exec(authorization ?? '')?.[1] !== key)
  )
    return of('401 unauthorized');
  const expects = headers.get('expect');
  if (minor === '1' && expects !== undefined && expects.join(', ').toLowerCase() !== '100-continue')
    return of('417 expectation_failed');
  if (isAdding) return isAddable(headers);
  if (isProbe) return of(queryOf(query) === undefined ? '400 invalid_parameter' : '200');
  if (segments.length === 3)
    return of(
      queryOf(query) === undefined
        ? '400 invalid_parameter'
        : isInt64(id ?? '') && hasPet(BigInt(id ?? ''))
          ? '200'
          : '404 not_found',
    );
  return of(isPetQuery(query) ? '200' : '400 invalid_parameter');
}

function isAddable(headers: ReadonlyMap<string, readonly string[]>): Verdict | undefined {
  const type = headers.get('content-type')?.join(', ');
  const isJson =
    type === undefined ||
    /^application\/json[ \t]*(?:;[ \t]*(?:(?!charset=)[^\s;="]+=(?:"[^"]*"|[^\s;"]+)|charset="?utf-8"?)?[ \t]*)*$/i.test(
      type,
    );
  const codings = headers.get('content-encoding')?.join(', ').toLowerCase() ?? 'identity';
  if (!isJson || !/^identity(, identity)*$/.test(codings))
    return { words: '415 unsupported_media_type' };
  return Number(headers.get('content-length')?.[0] ?? 0) > 65_536
    ? { words: '413 content_too_large' }
    : undefined;
}

function answerToBody(
  target: string,
  headers: ReadonlyMap<string, readonly string[]>,
  body: string,
): Verdict {
  if (body.length > 65_536) return { words: '413 content_too_large' };
  if (queryOf(/\?(.*)$/.exec(target)?.[1] ?? '') === undefined)
    return { words: '400 invalid_parameter' };
  const [idempotencyKey = 'none', second] = headers.get('idempotency-key') ?? [];
  if (second !== undefined || !/^[\x21-\x7e]{1,255}$/.test(idempotencyKey))
    return { words: '400 invalid_parameter' };
  const pet = readPet(body);
  return pet === 'invalid_json' || pet === 'invalid_body'
    ? { words: `400 ${pet}` }
    : { words: '201', animal: pet };
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** The values of each name; undefined for a bad escape. */
export function queryOf(query: string): ReadonlyMap<string, readonly string[]> | undefined {
  const values = new Map<string, string[]>();
  for (const pair of query === '' ? [] : query.split('&')) {
    const [, name = '', value = ''] = /^([^=]*)=?(.*)$/.exec(pair) ?? [];
    const [key, text] = [decoded(name), decoded(value)];
    if (key === undefined || text === undefined) return undefined;
    values.set(key, [...(values.get(key) ?? []), text]);
  }
  return values;
}

function isPetQuery(query: string): boolean {
  const values = queryOf(query);
  if (values === undefined) return false;
  const holds = (name: string, rule: (value: string) => boolean): boolean => {
    const [value, second] = values.get(name) ?? [];
    return value === undefined || (second === undefined && rule(value));
  };
  const isLimit = (value: string): boolean =>
    isInt64(value) && BigInt(value) >= 1n && BigInt(value) <= 100n;
  return (
    holds('limit', isLimit) &&
    holds('status', (value) => petStatuses.some((status) => status === value)) &&
    holds('after', (value) => isInt64(value) && BigInt(value) >= 0n)
  );
}

/** Whether a text is the one spelling of an int64. */
export function isInt64(text: string): boolean {
  return (
    /^-?[0-9]+$/.test(text) &&
    String(BigInt(text)) === text &&
    BigInt.asIntN(64, BigInt(text)) === BigInt(text)
  );
}

/** Of the body of an add, what a 201 says behind the id; or why it is refused. */
function readPet(bytes: string): string {
  let text: string;
  let value: unknown;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(bytes, 'latin1'));
    value = JSON.parse(text);
  } catch {
    return 'invalid_json';
  }
  const members = strictMembers(text);
  if (members === undefined) return 'invalid_json';
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'invalid_body';
  const { name, status } = Object.assign(Object.create(null), value);
  const categoryId = int64Of(members.get('categoryId') ?? '');
  const isStatus = !members.has('status') || petStatuses.includes(status);
  if (typeof name !== 'string' || categoryId === undefined || !isStatus) return 'invalid_body';
  return `"name":${JSON.stringify(name)},"categoryId":${categoryId}${members.has('status') ? `,"status":"${status}"` : ''}}`;
}

/**
 * Of valid JSON, the first token of each member of the outermost object; undefined where it is not
 * strict (C26).
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

/** A JSON number with no fraction left, in digits (C22 to C24). */
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
