/** Owns the head of a request: which header lines count, and which heads are no HTTP at all. Knows no route and no key. */
import { isIPv6 } from 'node:net';
import { PetstoreError } from '../errors.js';

/** Most bytes of a target, and of all header lines together (C43). */
const maxHeaderBytes = 16_384;
/** Most header lines (C43). */
const maxHeaderLines = 100;

/**
 * The headers that the petstore reads. A header that came twice is joined by `, ` (RFC 9110 section 5.2): none of the
 * grammars behind these names allows what that makes, so that a repetition is wrong like every other bad value.
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
    // The length tells almost every header apart, so that few names are ever put in lower case.
    switch (name.length) {
      case 4:
        if (isNamed(name, 'Host', 'host')) this.host = joined(this.host, value);
        break;
      case 6:
        if (isNamed(name, 'Expect', 'expect')) this.expect = joined(this.expect, value);
        break;
      case 7:
        if (isNamed(name, 'Upgrade', 'upgrade')) this.upgrade = joined(this.upgrade, value);
        break;
      case 12:
        if (isNamed(name, 'Content-Type', 'content-type')) this.contentType = joined(this.contentType, value);
        break;
      case 13:
        if (isNamed(name, 'Authorization', 'authorization')) this.authorization = joined(this.authorization, value);
        break;
      case 14:
        if (isNamed(name, 'Content-Length', 'content-length')) this.contentLength = joined(this.contentLength, value);
        break;
      case 15:
        if (isNamed(name, 'Idempotency-Key', 'idempotency-key')) this.idempotencyKey = joined(this.idempotencyKey, value);
        break;
      case 16:
        if (isNamed(name, 'Content-Encoding', 'content-encoding')) this.contentEncoding = joined(this.contentEncoding, value);
        break;
      case 17:
        if (isNamed(name, 'Transfer-Encoding', 'transfer-encoding')) this.transferEncoding = joined(this.transferEncoding, value);
        break;
    }
  }
}

/** Header names are equal in any case, but almost all come in the usual one. */
function isNamed(name: string, usual: string, lower: string): boolean {
  return name === usual || name.toLowerCase() === lower;
}

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
export function parseHead(request: RawRequest): Head {
  const { rawHeaders, url: target = '' } = request;
  const head = new Head();
  let bytes = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    const value = rawHeaders[i + 1] ?? '';
    bytes += name.length + value.length + 4;
    head.add(name, value);
  }
  if (target.length > maxHeaderBytes) throw tooLarge(`The request target is over ${maxHeaderBytes} bytes.`);
  if (bytes > maxHeaderBytes) throw tooLarge(`The header lines are over ${maxHeaderBytes} bytes.`);
  if (rawHeaders.length > 2 * maxHeaderLines) throw tooLarge(`There are over ${maxHeaderLines} header lines.`);
  checkFraming(request.httpVersion, target, head);
  // RFC 9110 section 10.1.1: HTTP/1.0 knows no expectations.
  if (request.httpVersion === '1.0') head.expect = undefined;
  return head;
}

function checkFraming(version: string, target: string, head: Head): void {
  if (version !== '1.1' && version !== '1.0') throw bad('The HTTP version must be 1.1 or 1.0.');
  if (!isVisibleAscii(target)) throw bad('The request target must be visible ASCII; percent-encode the rest.');
  if (head.host === undefined ? version === '1.1' : !isHost(head.host)) {
    throw bad('There must be exactly one Host header, of the form host or host:port.');
  }
  if (head.transferEncoding !== undefined) {
    // RFC 9112 section 6.1: both lengths at once smuggle requests past a proxy, and HTTP/1.0 knows no chunks.
    if (head.contentLength !== undefined) throw bad('Transfer-Encoding and Content-Length must not come together.');
    if (version === '1.0') throw bad('HTTP/1.0 has no Transfer-Encoding.');
    if (head.transferEncoding.toLowerCase() !== 'chunked') throw bad('The only Transfer-Encoding known here is chunked.');
  }
}

/** The last good Host: most clients say the same one, and to compare is faster than to match. */
let lastHost = '';

/** RFC 9110 section 7.2 with RFC 3986 section 3.2.2: a name or an address, in brackets if it is of IPv6, and perhaps a port. */
function isHost(value: string): boolean {
  if (value === lastHost) return true;
  const fits = matchesHost(value);
  if (fits) lastHost = value;
  return fits;
}

function matchesHost(value: string): boolean {
  if (/^[A-Za-z0-9.-]+(?::[0-9]+)?$/.test(value)) return true;
  const bracketed = /^\[([^\]]*)\](?::[0-9]*)?$/.exec(value)?.[1];
  if (bracketed !== undefined) return isIPv6(bracketed);
  return /^(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*(?::[0-9]*)?$/.test(value);
}

function isVisibleAscii(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 0x21 || code > 0x7e) return false;
  }
  return true;
}

/** A header's values so far and one more. */
export function joined(before: string | undefined, value: string): string {
  return before === undefined ? value : `${before}, ${value}`;
}

function bad(message: string): PetstoreError {
  return new PetstoreError('bad_request', message);
}

function tooLarge(message: string): PetstoreError {
  return new PetstoreError('headers_too_large', message);
}
