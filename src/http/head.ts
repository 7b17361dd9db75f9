/**
 * Reads the head of a request: what Node's lenient parser lets through is checked here (C42, C43).
 */
import { isIPv6 } from 'node:net';
import { PetstoreError } from '../errors.js';

/** The headers that the petstore reads, and the members of a head that they become. */
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

type Field = (typeof headers)[keyof typeof headers];

/** The headers of a request that the petstore reads; a repeated one is joined by `, `. */
export type Head = Partial<Record<Field, string>>;

const written = Object.entries(headers);
/** The headers that the petstore reads: names in lowercase, and the members of a head. */
export const headFields: readonly (readonly [name: string, field: Field])[] = written.map(
  ([name, field]) => [name.toLowerCase(), field],
);
/** The member of a head for each header name, in lower case and as most clients write it. */
const fields = new Map<string, Field>([...written, ...headFields]);

/** The head of header names and values that alternate, as they came. */
export function headOf(rawHeaders: readonly string[]): Head {
  const head: Head = {};
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const [name = '', value = ''] = [rawHeaders[i], rawHeaders[i + 1]];
    const field = fields.get(name) ?? fields.get(name.toLowerCase());
    if (field === undefined) continue;

    const before = head[field];
    head[field] = before === undefined ? value : `${before}, ${value}`;
  }
  return head;
}

/** The value of a header by its name in lower case; repeated ones are joined by `, `. */
export function headerOf(rawHeaders: readonly string[], name: string): string | undefined {
  const values = rawHeaders.filter(
    (_, i) => i % 2 === 1 && rawHeaders[i - 1]?.toLowerCase() === name,
  );
  return values.length === 0 ? undefined : values.join(', ');
}

const limits =
  'The request target and the header lines may have 16384 bytes each, in at most 100 lines.';
/** The error for a request that is over these limits (C43). */
export const headersTooLarge = new PetstoreError('headers_too_large', limits);

/** The error for a request whose head or body takes too long (C44). */
export const requestTooLate = new PetstoreError(
  'request_timeout',
  'The request did not arrive in time.',
);

/** The head of a request as a parser hands it over. */
interface ParsedHead {
  readonly httpVersion: string;
  /** Names and values, alternating, as the client sent them. */
  readonly rawHeaders: readonly string[];
  readonly url?: string | undefined;
}

/**
 * The head of a request that is within the limits and is HTTP.
 *
 * @throws PetstoreError `bad_request` (C42) or `headers_too_large` (C43).
 */
export function parseHead({ httpVersion, rawHeaders, url = '' }: ParsedHead): Head {
  checkSize(url, rawHeaders);
  const head = headOf(rawHeaders);
  checkTarget(url);
  checkFraming(httpVersion, head);
  // RFC 9110 section 10.1.1: HTTP/1.0 knows no expectations.
  if (httpVersion === '1.0') delete head.expect;
  return head;
}

/** @throws PetstoreError `headers_too_large` (C43) */
export function checkSize(target: string, rawHeaders: readonly string[]): void {
  let bytes = 0;
  // A name is followed by a colon and a space, a value by the end of its line.
  for (const text of rawHeaders) bytes += text.length + 2;
  if (target.length > 16_384 || bytes > 16_384 || rawHeaders.length > 200) throw headersTooLarge;
}

/** @throws PetstoreError `bad_request` for a request target that is not valid (C42) */
export function checkTarget(target: string): void {
  if (!/^[\x21-\x7e]*$/.test(target))
    throw badRequest('The request target must be visible ASCII; percent-encode the rest.');
  // RFC 9110 section 4.2.1: an http URI without a host is invalid.
  if (/^https?:\/\/(?:[/?:]|$)/i.test(target))
    throw badRequest('The request target must name a host after http://.');
}

/** @throws PetstoreError `bad_request` for what says where a request begins and ends (C42) */
export function checkFraming(version: string, head: Head): void {
  const { host, transferEncoding, contentLength } = head;
  if (version !== '1.1' && version !== '1.0')
    throw badRequest('The HTTP version must be 1.1 or 1.0.');
  if (host === undefined ? version === '1.1' : !isHost(host))
    throw badRequest('There must be exactly one Host header, of the form host or host:port.');
  if (contentLength?.includes(',')) throw badRequest('There must be only one Content-Length.');

  if (transferEncoding === undefined) return;
  // RFC 9112 section 6.1: two lengths at once can smuggle a request past a proxy, and HTTP/1.0
  // knows no chunks.
  if (contentLength !== undefined)
    throw badRequest('Transfer-Encoding and Content-Length must not come together.');
  if (version === '1.0') throw badRequest('HTTP/1.0 has no Transfer-Encoding.');
  if (transferEncoding.toLowerCase() !== 'chunked')
    throw badRequest('The only Transfer-Encoding here is chunked.');
}

const badRequest = (message: string): PetstoreError => new PetstoreError('bad_request', message);

/**
 * Whether a Host header is one (RFC 9110 section 7.2 with RFC 3986 section 3.2.2): a name or an
 * address, in brackets if it is IPv6, and perhaps a port.
 */
function isHost(value: string): boolean {
  if (/^(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*(?::[0-9]*)?$/.test(value)) return true;
  return isIPv6(/^\[([^\]]*)\](?::[0-9]*)?$/.exec(value)?.[1] ?? '');
}
