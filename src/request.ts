/** A request as the petstore sees it: target, query, and what its head says of its body. */
import { PetstoreError } from './errors.js';

/** A request, whether it came through a socket, a framework or `fetch`. */
export interface Message {
  /** Such as `GET`, as the client wrote it: case counts in methods (RFC 9110 section 9.1). */
  readonly method: string;
  /** The request target, not normalised (C11). */
  readonly target: string;
  /** Where a framework mounted the petstore (C56). */
  readonly mountPath?: string | undefined;
  /** Whether the client asked a framework for that path itself, without a slash behind it (C58). */
  readonly lacksSlash?: boolean;
  /** The client's IP address, while it is known. */
  readonly clientAddress?: string | undefined;
  /** When its head had come, by `performance.now()`. */
  readonly startedAt: number;
  /**
   * How many times the storage had been reset when the request came (C71). After an operation that
   * resets the storage it is the count after that, because requests behind it on the connection
   * come later.
   */
  resetsBefore: number;

  /** Calls back once the client is gone, at once if it is gone already; at most one callback. */
  onGone(callback: () => void): void;

  /**
   * Reads and checks the head.
   * @throws PetstoreError `bad_request` (C42) or `headers_too_large` (C43).
   */
  readHead(): HeadFields;
  /** A header by its name in lower case, several joined by `, `. */
  header(name: string): string | undefined;

  /**
   * Reads the body, as a byte string; called at most once, for it answers `Expect: 100-continue`
   * (C45).
   * @throws PetstoreError `content_too_large` past `maxBytes`, `bad_request` where it ends early or
   * is no HTTP.
   */
  readBody(maxBytes: number): Promise<string>;
}

/** The headers that the petstore reads, repeated ones joined by `, `. */
type HeadFields = Readonly<Partial<Record<HeadField, string | undefined>>>;
type HeadField =
  | 'authorization'
  | 'contentType'
  | 'contentLength'
  | 'contentEncoding'
  | 'expect'
  | 'idempotencyKey';

/**
 * Splits a target at the `?`; both parts stay encoded. It has origin-form, absolute-form (C13),
 * whose path may be left out, or is `*`.
 */
export function splitTarget(target: string): { readonly path: string; readonly query: string } {
  const local = target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?]*\/?/i, '/');

  const queryAt = local.indexOf('?');
  if (queryAt < 0) return { path: local, query: '' };
  return { path: local.slice(0, queryAt), query: local.slice(queryAt + 1) };
}

const badEscape = new PetstoreError(
  'invalid_parameter',
  'The query has a percent sign that begins no valid escape of UTF-8.',
);

/** The query of a request (C4). */
export class Query {
  /** What follows the `?`, still encoded. */
  readonly text: string;
  /** Names and their values. */
  readonly #pairs: string[][] = [];

  /** @throws PetstoreError `invalid_parameter` for a malformed escape (C12). */
  constructor(text: string) {
    this.text = text;
    if (text === '') return;

    for (const pair of text.split('&')) {
      const equals = pair.indexOf('=');
      const name = decoded(equals < 0 ? pair : pair.slice(0, equals));
      const value = equals < 0 ? '' : decoded(pair.slice(equals + 1));

      if (name === undefined || value === undefined) throw badEscape;
      this.#pairs.push([name, value]);
    }
  }

  /**
   * The value of a parameter.
   * @throws PetstoreError `invalid_parameter` for two (C3).
   */
  get(name: string): string | undefined {
    const [first, second] = this.#pairs.filter(([own]) => own === name);
    if (second !== undefined)
      throw new PetstoreError('invalid_parameter', `${name} must be given only once.`);

    return first?.[1];
  }
}

/** A text without its percent-encoding (RFC 3986 section 2.4); undefined for a malformed escape. */
export function decoded(text: string): string | undefined {
  if (!text.includes('%')) return text;

  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/**
 * Checks the header Expect.
 * @throws PetstoreError `expectation_failed` (C45)
 */
export function checkExpectation({ expect }: HeadFields): void {
  if (expect !== undefined && expect.toLowerCase() !== '100-continue')
    throw new PetstoreError(
      'expectation_failed',
      'The only Expect that is known here is 100-continue.',
    );
}

/** The charset UTF-8 of a media type (RFC 9110 section 8.3.1). Clients write `utf8` too. */
const utf8Charset = /charset[ \t]*=[ \t]*(["']?)utf-?8\1/;
/** A parameter of a media type other than a charset. */
const otherParameter = /(?!charset[ \t]*=)[^\s;="]+[ \t]*=[ \t]*(?:"(?:[^"\\]|\\.)*"|[^\s;"]+)/;
/** Matches in linear time. */
const jsonType = new RegExp(
  '^application/json[ \\t]*(?:;[ \\t]*' +
    `(?:(?:${utf8Charset.source}|${otherParameter.source})[ \\t]*)?)*$`,
  'i',
);
const noCoding = /^identity(?:[ \t]*,[ \t]*identity)*$/i;

/**
 * Reads a JSON body, as a byte string, once its head was checked.
 * @throws PetstoreError `unsupported_media_type` (C28), `content_too_large` (C29), and what
 * `readBody` throws.
 */
export function readJsonBody(
  message: Message,
  head: HeadFields,
  maxBodyBytes: number,
): Promise<string> {
  const { contentType = 'application/json', contentEncoding, contentLength } = head;
  if (contentType !== 'application/json' && !jsonType.test(contentType))
    throw unsupported(
      'The Content-Type must be application/json, and its charset, if it names one, utf-8.',
    );
  if (contentEncoding !== undefined && !noCoding.test(contentEncoding))
    throw unsupported('The body must come without Content-Encoding.');

  if (contentLength !== undefined && Number(contentLength) > maxBodyBytes)
    throw bodyTooLarge(maxBodyBytes);

  return message.readBody(maxBodyBytes);
}

/** The error for a body over the limit (C29). */
export function bodyTooLarge(maxBodyBytes: number): PetstoreError {
  return new PetstoreError('content_too_large', `The body is over ${maxBodyBytes} bytes.`);
}

function unsupported(message: string): PetstoreError {
  return new PetstoreError('unsupported_media_type', message, {
    headers: ['Accept', 'application/json'],
  });
}
