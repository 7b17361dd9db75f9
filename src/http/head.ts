/**
 * Reads the head of a request: what Node's lenient parser lets through is checked here (C42, C43).
 */
import type { IncomingMessage } from 'node:http';
import { isIPv6 } from 'node:net';
import { PetstoreError } from '../errors.js';
import { splitTarget } from '../request.js';

/** The headers that the petstore reads, and the members of a head that they become. */
const headers = {
  Host: 'host',
  Authorization: 'authorization',
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
/** The member of a head for each header name, in lower case and as most clients write it. */
const fields = new Map([
  ...written,
  ...written.map(([name, field]) => [name.toLowerCase(), field] as const),
]);

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

/**
 * The head of a request that is within the limits and is HTTP.
 *
 * @throws PetstoreError `bad_request` (C42) or `headers_too_large` (C43).
 */
export function parseHead({ httpVersion, rawHeaders, url: target = '' }: IncomingMessage): Head {
  let bytes = 0;
  // A name is followed by a colon and a space, a value by the end of its line.
  for (const text of rawHeaders) bytes += text.length + 2;
  if (target.length > 16_384 || bytes > 16_384 || rawHeaders.length > 200) throw headersTooLarge;

  const head = headOf(rawHeaders);
  const fault = faultOf(httpVersion, target, head);
  if (fault !== undefined) throw new PetstoreError('bad_request', fault);
  // RFC 9110 section 10.1.1: HTTP/1.0 knows no expectations.
  if (httpVersion === '1.0') delete head.expect;
  return head;
}

/** What is wrong with a head, as a sentence for the client (C42); undefined where nothing is. */
function faultOf(version: string, target: string, head: Head): string | undefined {
  const { host, transferEncoding } = head;
  if (version !== '1.1' && version !== '1.0') return 'The HTTP version must be 1.1 or 1.0.';
  if (!/^[\x21-\x7e]*$/.test(target))
    return 'The request target must be visible ASCII; percent-encode the rest.';
  // RFC 9110 section 4.2.1: an http URI without a host is invalid.
  if (/^https?:\/\/(?:[/?:]|$)/i.test(target))
    return 'The request target must name a host after http://.';
  if (host === undefined ? version === '1.1' : !isHost(host))
    return 'There must be exactly one Host header, of the form host or host:port.';

  if (transferEncoding === undefined) return undefined;
  // RFC 9112 section 6.1: two lengths at once can smuggle a request past a proxy, and HTTP/1.0
  // knows no chunks.
  if (head.contentLength !== undefined)
    return 'Transfer-Encoding and Content-Length must not come together.';
  if (version === '1.0') return 'HTTP/1.0 has no Transfer-Encoding.';
  return transferEncoding.toLowerCase() === 'chunked'
    ? undefined
    : 'The only Transfer-Encoding here is chunked.';
}

/**
 * Whether a Host header is one (RFC 9110 section 7.2 with RFC 3986 section 3.2.2): a name or an
 * address, in brackets if it is IPv6, and perhaps a port.
 */
function isHost(value: string): boolean {
  if (/^(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*(?::[0-9]*)?$/.test(value)) return true;
  return isIPv6(/^\[([^\]]*)\](?::[0-9]*)?$/.exec(value)?.[1] ?? '');
}

/**
 * The path at which a framework has mounted the petstore, by its `baseUrl` (C56). A client may have
 * made that, and `//host` would lead elsewhere: undefined where it is no plain path.
 */
export function mountPathOf(request: object): string | undefined {
  const baseUrl = 'baseUrl' in request ? request.baseUrl : undefined;
  return typeof baseUrl === 'string' && /^(?:\/[\w.~!$&'()*+,;=:@%-]+)+$/.test(baseUrl)
    ? baseUrl
    : undefined;
}

/**
 * Whether the client asked for the mount path itself, without a slash behind it (C58). Express and
 * the like give the petstore `/` for that as well: only their `originalUrl` tells the two apart.
 */
export function lacksSlash(request: object): boolean {
  const originalUrl = 'originalUrl' in request ? request.originalUrl : undefined;
  return typeof originalUrl === 'string' && splitTarget(originalUrl).path === mountPathOf(request);
}
