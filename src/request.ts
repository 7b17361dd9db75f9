/** Reads a request: its target, its header lines, its query, and what its head says of its body. */
import { isIPv6 } from 'node:net';
import { PetstoreError } from './errors.js';

/** A request as the request path sees it, whether it came through a socket, a framework or `fetch`. */
export interface Message {
  readonly method: string;
  /** The request target, not normalised (C11). */
  readonly target: string;
  /** The path under which a framework mounted the petstore, as Express says it in `req.baseUrl` (C56); else absent. */
  readonly mountPath?: string | undefined;
  /** The IP address of the other end of the connection; absent where there is none, or none any more. */
  readonly clientAddress?: string | undefined;
  /** When its head had come, in the milliseconds of `performance.now()`. */
  readonly startedAt: number;
  /** @throws PetstoreError `bad_request` or `headers_too_large`, see {@link parseHead}. */
  readHead(): Head;
  /** A header by its name in lower case, several joined by `, `; undefined where it did not come. */
  header(name: string): string | undefined;
  /**
   * The body as a byte string. Call it once, and only once the body is wanted: it answers `Expect: 100-continue` (C45).
   * Rejects with a PetstoreError: `content_too_large` past `maxBytes`, `bad_request` where it ends early or is no HTTP.
   */
  readBody(maxBytes: number): Promise<string>;
}

/**
 * The headers that the petstore reads. One that came twice is joined by `, ` (RFC 9110 section 5.2): none of the
 * grammars of these names allows what that makes, so that a repetition is wrong like every other bad value.
 */
export class Head {
  host: string | undefined;
  authorization: string | undefined;
  contentType: string | undefined;
  contentLength: string | undefined;
  contentEncoding: string | undefined;
  transferEncoding: string | undefined;
  expect: string | undefined;
  idempotencyKey: string | undefined;
  upgrade: string | undefined;

  /** Takes one header line in; names in any case. */
  add(name: string, value: string): void {
    const field = fields.get(name) ?? fields.get(name.toLowerCase());
    if (field !== undefined) this[field] = joined(this[field], value);
  }
}

type HeadField = Exclude<keyof Head, 'add'>;

/** The fields by header name, in lower case and as most clients write them. */
const fields = new Map<string, HeadField>([
  ...named('host', 'Host'),
  ...named('authorization', 'Authorization'),
  ...named('contentType', 'Content-Type'),
  ...named('contentLength', 'Content-Length'),
  ...named('contentEncoding', 'Content-Encoding'),
  ...named('transferEncoding', 'Transfer-Encoding'),
  ...named('expect', 'Expect'),
  ...named('idempotencyKey', 'Idempotency-Key'),
  ...named('upgrade', 'Upgrade'),
]);

function named(field: HeadField, name: string): readonly (readonly [string, HeadField])[] {
  return [
    [name, field],
    [name.toLowerCase(), field],
  ];
}

/** A header's values so far and one more. */
function joined(before: string | undefined, value: string): string {
  return before === undefined ? value : `${before}, ${value}`;
}

/** A header by its name in lower case, several joined, in names and values that alternate as they came. */
export function headerOf(rawHeaders: readonly string[], name: string): string | undefined {
  let value: string | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() === name) value = joined(value, rawHeaders[i + 1] ?? '');
  }
  return value;
}

/** Most bytes of a target, and of all header lines together (C43). */
const maxHeaderBytes = 16_384;
/** Most header lines (C43). */
const maxHeaderLines = 100;

/** What Node's parser hands over, as far as it is looked at here. */
export interface RawRequest {
  readonly httpVersion: string;
  readonly url?: string | undefined;
  /** Names and values, alternating, as they came. */
  readonly rawHeaders: readonly string[];
}

/**
 * The head of a request that Node's lenient parser let through.
 * @throws PetstoreError `bad_request` (C42) or `headers_too_large` (C43).
 */
export function parseHead({ httpVersion, rawHeaders, url: target = '' }: RawRequest): Head {
  const head = new Head();
  let bytes = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const [name = '', value = ''] = [rawHeaders[i], rawHeaders[i + 1]];
    bytes += name.length + value.length + 4;
    head.add(name, value);
  }
  if (target.length > maxHeaderBytes) throw tooLarge(`The request target is over ${maxHeaderBytes} bytes.`);
  if (bytes > maxHeaderBytes) throw tooLarge(`The header lines are over ${maxHeaderBytes} bytes.`);
  if (rawHeaders.length > 2 * maxHeaderLines) throw tooLarge(`There are over ${maxHeaderLines} header lines.`);
  checkFraming(httpVersion, target, head);
  // RFC 9110 section 10.1.1: HTTP/1.0 knows no expectations.
  if (httpVersion === '1.0') head.expect = undefined;
  return head;
}

function checkFraming(version: string, target: string, head: Head): void {
  if (version !== '1.1' && version !== '1.0') throw bad('The HTTP version must be 1.1 or 1.0.');
  if (!/^[\x21-\x7e]*$/.test(target)) throw bad('The request target must be visible ASCII; percent-encode the rest.');
  // RFC 9110 section 4.2.1: an http URI without a host is invalid.
  if (/^https?:\/\/(?:[/?:]|$)/i.test(target)) throw bad('The request target must name a host after http://.');
  if (head.host === undefined ? version === '1.1' : !isHost(head.host)) {
    throw bad('There must be exactly one Host header, of the form host or host:port.');
  }
  if (head.transferEncoding !== undefined) {
    // RFC 9112 section 6.1: both lengths at once smuggle requests past a proxy, and HTTP/1.0 knows no chunks.
    if (head.contentLength !== undefined) throw bad('Transfer-Encoding and Content-Length must not come together.');
    if (version === '1.0') throw bad('HTTP/1.0 has no Transfer-Encoding.');
    if (head.transferEncoding.toLowerCase() !== 'chunked') throw bad('The only Transfer-Encoding here is chunked.');
  }
}

/** RFC 9110 section 7.2 with RFC 3986 section 3.2.2: a name or an address, in brackets if it is IPv6, and a port. */
function isHost(value: string): boolean {
  if (/^(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*(?::[0-9]*)?$/.test(value)) return true;
  return isIPv6(/^\[([^\]]*)\](?::[0-9]*)?$/.exec(value)?.[1] ?? '');
}

/** A target's path and what follows its `?`, both as they came. */
export interface Target {
  readonly path: string;
  /** Empty where there is none. */
  readonly query: string;
}

/** Splits origin-form, absolute-form (RFC 9112 section 3.2.2; the authority is ignored, C13) and `*`. */
export function splitTarget(target: string): Target {
  const from = target.startsWith('/') ? 0 : (/^https?:\/\/[^/?]*/i.exec(target)?.[0].length ?? 0);
  const queryAt = target.indexOf('?', from);
  if (queryAt < 0) return { path: target.slice(from), query: '' };
  return { path: target.slice(from, queryAt), query: target.slice(queryAt + 1) };
}

/**
 * The path of a mounted petstore that a framework says in `baseUrl` (C56), which may be of a client's making; undefined
 * for any other value, `//host` among them, which would lead elsewhere.
 */
export function mountPathOf(request: object): string | undefined {
  const baseUrl = 'baseUrl' in request ? request.baseUrl : undefined;
  return typeof baseUrl === 'string' && /^(?:\/[\w.~!$&'()*+,;=:@%-]+)+$/.test(baseUrl) ? baseUrl : undefined;
}

const none: readonly string[] = [];

/** The query of a request; names that nobody asks for are ignored (C4). */
export class Query {
  /** What follows the `?`, still encoded; empty where nothing does. */
  readonly text: string;
  // Lists, as a handful of names is found sooner than hashed.
  #names = none;
  #values = none;

  /** @throws PetstoreError `invalid_parameter` for a malformed escape (C12). */
  constructor(text: string) {
    this.text = text;
    if (text === '') return;
    const names: string[] = [];
    const values: string[] = [];
    for (const pair of text.split('&')) {
      const equals = pair.indexOf('=');
      names.push(decoded(equals < 0 ? pair : pair.slice(0, equals)));
      values.push(equals < 0 ? '' : decoded(pair.slice(equals + 1)));
    }
    this.#names = names;
    this.#values = values;
  }

  /**
   * The value of a parameter, undefined where it is absent.
   * @throws PetstoreError `invalid_parameter` where it is given twice (C3).
   */
  get(name: string): string | undefined {
    const at = this.#names.indexOf(name);
    if (at < 0) return undefined;
    if (this.#names.includes(name, at + 1)) {
      throw new PetstoreError('invalid_parameter', `${name} must be given only once.`);
    }
    return this.#values[at];
  }
}

// Made once: a stack trace costs more than the rest of a 400.
const badEscape = new PetstoreError(
  'invalid_parameter',
  'The query has a percent sign that begins no valid escape of UTF-8.',
);

function decoded(text: string): string {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    throw badEscape;
  }
}

/**
 * Refuses an expectation that the petstore cannot meet (C45).
 * @throws PetstoreError `expectation_failed`.
 */
export function checkExpectation({ expect }: Head): void {
  if (expect !== undefined && expect.toLowerCase() !== '100-continue') {
    throw new PetstoreError('expectation_failed', 'The only Expect that is known here is 100-continue.');
  }
}

/**
 * Refuses a body before any of it is read, so that `100 Continue` never asks for one in vain (C45).
 * @throws PetstoreError `unsupported_media_type` (C28) or `content_too_large` (C29).
 */
export function checkContent({ contentType, contentEncoding, contentLength }: Head, maxBodyBytes: number): void {
  if (contentType !== undefined && contentType !== 'application/json' && !isJson(contentType)) {
    throw unsupported('The Content-Type must be application/json, and its charset, if it names one, utf-8.');
  }
  if (contentEncoding !== undefined && !/^identity(?:[ \t]*,[ \t]*identity)*$/i.test(contentEncoding)) {
    throw unsupported('The body must come without Content-Encoding.');
  }
  if (contentLength !== undefined && Number(contentLength) > maxBodyBytes) throw bodyTooLarge(maxBodyBytes);
}

/** The error for a body that is longer than what is read (C29). */
export function bodyTooLarge(maxBodyBytes: number): PetstoreError {
  return new PetstoreError('content_too_large', `The body is over ${maxBodyBytes} bytes.`);
}

/** `application/json` with any parameters but another charset (RFC 9110 section 8.3.1), in linear time. */
function isJson(mediaType: string): boolean {
  const grammar = /^([^\s;]+)[ \t]*((?:;[ \t]*(?:[^\s;="]+=(?:"(?:[^"\\]|\\.)*"|[^\s;"]+)[ \t]*)?)*)$/;
  const [, type, parameters = ''] = grammar.exec(mediaType) ?? [];
  if (type?.toLowerCase() !== 'application/json') return false;
  const charsets = parameters.matchAll(/;[ \t]*charset=("(?:[^"\\]|\\.)*"|[^\s;"]+)|"(?:[^"\\]|\\.)*"/gi);
  return [...charsets].every(([, charset]) => charset === undefined || /^"?utf-8"?$/i.test(charset));
}

function unsupported(message: string): PetstoreError {
  return new PetstoreError('unsupported_media_type', message, { headers: ['Accept', 'application/json'] });
}

function bad(message: string): PetstoreError {
  return new PetstoreError('bad_request', message);
}

function tooLarge(message: string): PetstoreError {
  return new PetstoreError('headers_too_large', message);
}
