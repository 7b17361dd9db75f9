/** Owns what it means for the client that Node's HTTP parser or its clock gave a request up. Knows no socket. */
import { PetstoreError } from '../errors.js';

/** As much of the `clientError` that Node emits as is looked at here. */
export interface ParserError {
  readonly code?: string | undefined;
  /** The parser's own words. */
  readonly reason?: unknown;
  /** The bytes that came in last, and how far into them the parser got. */
  readonly rawPacket?: unknown;
  readonly bytesParsed?: unknown;
}

/** The error that a failure of the parser is; see {@link MethodFailure} for the one that needs more bytes. */
export function parseFailure({ code, reason }: ParserError): PetstoreError {
  if (code === 'HPE_HEADER_OVERFLOW') return new PetstoreError('headers_too_large', 'The request target or the header lines are too large.');
  // The parser knows the methods of RTSP, and refuses them once it has read their request line so far.
  if (reason === 'Invalid method for HTTP/x.x request') return notImplemented();
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return new PetstoreError('request_timeout', 'The request did not arrive in time.');
  return new PetstoreError('bad_request', `This is no valid HTTP/1.1${typeof reason === 'string' ? `: ${reason}` : ''}.`);
}

/** The longest request line that is waited for. */
const maxLineBytes = 16_384;

/**
 * Tells an unknown method (501, C18) from garbage (400, C42): to Node's parser both are an invalid method. It is the
 * former once a whole request line stands there that is right in all but the method.
 */
export class MethodFailure {
  #line = '';

  /** Takes the next bytes in; undefined while they may still become a request line. */
  add({ rawPacket, bytesParsed, reason }: ParserError): PetstoreError | undefined {
    if (!Buffer.isBuffer(rawPacket)) return parseFailure({ reason });
    this.#line += rawPacket.toString('latin1', this.#line === '' ? methodStart(rawPacket, Number(bytesParsed)) : 0);
    // The method's beginning may be in an earlier packet, so that all of it that stands here is the space behind it.
    if (/^[!#$%&'*+.^_`|~0-9A-Za-z-]* [\x21-\x7e]+ HTTP\/1\.[01]\r\n/.test(this.#line)) {
      return notImplemented();
    }
    const mayBecome = /^[!#$%&'*+.^_`|~0-9A-Za-z-]*(?: (?:[\x21-\x7e]+(?: [HTP/1.0]{0,8}\r?)?)?)?$/.test(this.#line);
    return mayBecome && this.#line.length <= maxLineBytes ? undefined : parseFailure({ reason });
  }
}

/** Where the method begins that the parser stumbled over; earlier bytes of it may have come with an earlier packet. */
function methodStart(packet: Buffer, stumbledAt: number): number {
  let start = stumbledAt;
  while (start > 0 && /[!#$%&'*+.^_`|~0-9A-Za-z-]/.test(String.fromCharCode(packet[start - 1] ?? 0))) start--;
  return start;
}

function notImplemented(): PetstoreError {
  return new PetstoreError('not_implemented', 'This method is not known here.');
}
