/** Reads the head of a request: what Node's lenient parser lets through is checked here (C42, C43). */
import type { IncomingMessage } from 'node:http';
import { isIPv6 } from 'node:net';
import { PetstoreError } from '../errors.js';

/** The header lines that the petstore reads. */
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

const names: readonly (readonly [name: string, field: Exclude<keyof Head, 'add'>])[] = [
  ['Host', 'host'],
  ['Authorization', 'authorization'],
  ['Content-Type', 'contentType'],
  ['Content-Length', 'contentLength'],
  ['Content-Encoding', 'contentEncoding'],
  ['Transfer-Encoding', 'transferEncoding'],
  ['Expect', 'expect'],
  ['Idempotency-Key', 'idempotencyKey'],
  ['Upgrade', 'upgrade'],
];
/** By header name, in lower case and as most clients write it. */
const fields = new Map([...names, ...names.map(([name, field]) => [name.toLowerCase(), field] as const)]);

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

/** @throws PetstoreError `bad_request` (C42) or `headers_too_large` (C43). */
export function parseHead({ httpVersion, rawHeaders, url: target = '' }: IncomingMessage): Head {
  const head = new Head();
  let bytes = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const [name = '', value = ''] = [rawHeaders[i], rawHeaders[i + 1]];
    bytes += name.length + value.length + 4;
    head.add(name, value);
  }
  if (target.length > 16_384) throw tooLarge('The request target is over 16384 bytes.');
  if (bytes > 16_384) throw tooLarge('The header lines are over 16384 bytes.');
  if (rawHeaders.length > 200) throw tooLarge('There are over 100 header lines.');
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

/** The `baseUrl` that a framework says (C56); it may be of a client's making, and `//host` would lead elsewhere. */
export function mountPathOf(request: object): string | undefined {
  const baseUrl = 'baseUrl' in request ? request.baseUrl : undefined;
  return typeof baseUrl === 'string' && /^(?:\/[\w.~!$&'()*+,;=:@%-]+)+$/.test(baseUrl) ? baseUrl : undefined;
}

function bad(message: string): PetstoreError {
  return new PetstoreError('bad_request', message);
}

function tooLarge(message: string): PetstoreError {
  return new PetstoreError('headers_too_large', message);
}
