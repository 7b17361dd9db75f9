/** Reads the head of a request, and checks what Node's parser accepts too freely (C42, C43). */
import { isIPv6 } from 'node:net';
import { PetstoreError } from '../errors.js';

/** The headers that the petstore reads, each with its member of `Head`. */
const headers = {
  Host: 'host',
  Authorization: 'authorization',
  Connection: 'connection',
  'Content-Type': 'contentType',
  'Content-Length': 'contentLength',
  'Content-Encoding': 'contentEncoding',
  'Transfer-Encoding': 'transferEncoding',
  Expect: 'expect',
  'Idempotency-Key': 'idempotencyKey',
  Upgrade: 'upgrade',
} as const;

type HeadMember = (typeof headers)[keyof typeof headers];

/** The headers of a request that the petstore reads. A repeated header is joined by `, `. */
export type Head = Partial<Record<HeadMember, string>>;

const titleCaseNames = Object.entries(headers);
/** The headers that the petstore reads, each by its lowercase name, with its member of `Head`. */
export const headMembers: readonly (readonly [name: string, member: HeadMember])[] =
  titleCaseNames.map(([name, member]) => [name.toLowerCase(), member]);
/** The member for each header name, in lowercase and in the case that most clients use. */
const membersByName = new Map<string, HeadMember>([...titleCaseNames, ...headMembers]);

/** Returns the head for alternating header names and values. It checks nothing. */
export function toHead(rawHeaders: readonly string[]): Head {
  const head: Head = {};
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const [name = '', value = ''] = [rawHeaders[i], rawHeaders[i + 1]];
    const member = membersByName.get(name) ?? membersByName.get(name.toLowerCase());
    if (member === undefined) continue;

    const before = head[member];
    head[member] = before === undefined ? value : `${before}, ${value}`;
  }
  return head;
}

/** Returns a header by its lowercase name. A repeated header is joined by `, `. */
export function headerValue(rawHeaders: readonly string[], name: string): string | undefined {
  const values = rawHeaders.filter(
    (_, i) => i % 2 === 1 && rawHeaders[i - 1]?.toLowerCase() === name,
  );
  return values.length === 0 ? undefined : values.join(', ');
}

/**
 * True if the client wants the connection to close after its request (RFC 9112 section 9.3).
 * @param connection The value of the header Connection.
 */
export function wantsClose(httpVersion: string, connection: string | undefined): boolean {
  if (connection === undefined) return httpVersion === '1.0';
  if (/(?:^|,)[ \t]*close[ \t]*(?:,|$)/i.test(connection)) return true;
  return httpVersion === '1.0' && !/(?:^|,)[ \t]*keep-alive[ \t]*(?:,|$)/i.test(connection);
}

const limits =
  'The request target and the headers must have at most 16384 bytes each, and 100 header lines.';
/** The error for a request over these limits (C43). */
export const headersTooLarge = new PetstoreError('headers_too_large', limits);

/** The error for a request whose head or body takes too long to arrive (C44). */
export const requestTimeout = new PetstoreError(
  'request_timeout',
  'The request did not arrive in time.',
);

/** The head of a request as Node's parser returns it. */
interface ParsedHead {
  readonly httpVersion: string;
  /** Alternating names and values, as the client sent them. */
  readonly rawHeaders: readonly string[];
  readonly url?: string | undefined;
}

/**
 * Checks the size, the target and the framing of a request, and returns its head.
 * @throws PetstoreError `bad_request` (C42) or `headers_too_large` (C43)
 */
export function parseHead({ httpVersion, rawHeaders, url = '' }: ParsedHead): Head {
  checkSize(url, rawHeaders);
  const head = toHead(rawHeaders);
  checkTarget(url);
  checkFraming(httpVersion, head);
  // RFC 9110 section 10.1.1: an Expect of HTTP/1.0 is ignored.
  if (httpVersion === '1.0') delete head.expect;
  return head;
}

/** @throws PetstoreError `headers_too_large` if the target or the headers are too large (C43) */
export function checkSize(target: string, rawHeaders: readonly string[]): void {
  let bytes = 0;
  // Two bytes more for each text: `: ` after a name, CRLF after a value.
  for (const text of rawHeaders) bytes += text.length + 2;
  if (target.length > 16_384 || bytes > 16_384 || rawHeaders.length > 200) throw headersTooLarge;
}

/** @throws PetstoreError `bad_request` if the request target is not valid (C42) */
export function checkTarget(target: string): void {
  if (!/^[\x21-\x7e]*$/.test(target))
    throw badRequest('The request target must be visible ASCII; percent-encode the rest.');
  // RFC 9110 section 4.2.1: an http URI without a host is invalid.
  if (/^https?:\/\/(?:[/?:]|$)/i.test(target))
    throw badRequest('The request target must name a host after http://.');
}

/**
 * @throws PetstoreError `bad_request` if the version, Host or length of a request is wrong (C42)
 */
export function checkFraming(version: string, head: Head): void {
  const { host, transferEncoding, contentLength } = head;
  if (version !== '1.1' && version !== '1.0')
    throw badRequest('The HTTP version must be 1.1 or 1.0.');
  if (host === undefined ? version === '1.1' : !isHost(host))
    throw badRequest('There must be exactly one Host header, of the form host or host:port.');
  if (contentLength?.includes(',')) throw badRequest('There must be only one Content-Length.');

  if (transferEncoding === undefined) return;
  // RFC 9112 section 6.1: with two lengths, a request can be smuggled past a proxy. HTTP/1.0 has no
  // chunked body.
  if (contentLength !== undefined)
    throw badRequest('Transfer-Encoding and Content-Length must not be sent together.');
  if (version === '1.0') throw badRequest('HTTP/1.0 has no Transfer-Encoding.');
  if (transferEncoding.toLowerCase() !== 'chunked')
    throw badRequest('The only supported Transfer-Encoding is chunked.');
}

const badRequest = (message: string): PetstoreError => new PetstoreError('bad_request', message);

/**
 * True if a Host header is valid (RFC 9110 section 7.2, RFC 3986 section 3.2.2): a name or an IP
 * address, IPv6 in brackets, optionally with a port.
 */
function isHost(value: string): boolean {
  if (/^[\w.~!$&'()*+,;=-]*(?:%[0-9A-Fa-f]{2}[\w.~!$&'()*+,;=-]*)*(?::[0-9]*)?$/.test(value))
    return true;
  return isIPv6(/^\[([^\]]*)\](?::[0-9]*)?$/.exec(value)?.[1] ?? '');
}
