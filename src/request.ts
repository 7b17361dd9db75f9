/** A request as the petstore sees it: its target, its query and its body. */
import { PetstoreError } from './errors.js';

/** A request that arrived through a socket, a framework or `fetch`. */
export interface Message {
  /** Case-sensitive, such as `GET` (RFC 9110 section 9.1). */
  readonly method: string;
  /** The request target, not normalised (C11). */
  readonly target: string;
  /** The path at which a framework mounted the petstore (C56). */
  readonly mountPath?: string | undefined;
  /** True if the client requested the mount path without its slash at the end (C58). */
  readonly lacksSlash?: boolean;
  /** The client's IP address, while it is known. */
  readonly clientAddress?: string | undefined;
  /** The time at which its head was read, by `performance.now()`. */
  readonly startedAt: number;
  /**
   * The number of resets of the storage before the request arrived (C71). An operation that resets
   * the storage raises it, because pipelined requests after it count as later.
   */
  resetsBefore: number;
  /** The fault that a plugin has made for the request, for logs and metrics (C90). */
  fault?: string | undefined;

  /** Calls back, once, when the client is gone; at once if it is gone already. */
  onGone(callback: () => void): void;

  /**
   * Reads and checks the head.
   * @throws PetstoreError `bad_request` (C42) or `headers_too_large` (C43)
   */
  readHead(): HeadFields;
  /** Returns a header by its lowercase name; repeated ones are joined by `, `. */
  header(name: string): string | undefined;

  /**
   * Reads the body as a byte string. Must be called at most once, because it sends `100 Continue`
   * if the client waits for that (C45).
   * @throws PetstoreError `content_too_large` beyond `maxBytes`, `bad_request` if the body ends
   * early or is malformed
   */
  readBody(maxBytes: number): Promise<string>;
}

/** The headers that the petstore reads; repeated ones are joined by `, `. */
type HeadFields = Readonly<Partial<Record<HeadField, string | undefined>>>;
type HeadField =
  | 'authorization'
  | 'contentType'
  | 'contentLength'
  | 'contentEncoding'
  | 'expect'
  | 'idempotencyKey';

/**
 * Splits a request target at the `?`; both parts stay encoded. The target may have absolute-form
 * (C13) or be `*`.
 */
export function splitTarget(target: string): { readonly path: string; readonly query: string } {
  const local = target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?]*\/?/i, '/');

  const queryAt = local.indexOf('?');
  if (queryAt < 0) return { path: local, query: '' };
  return { path: local.slice(0, queryAt), query: local.slice(queryAt + 1) };
}

const badEscape = new PetstoreError(
  'invalid_parameter',
  'The query has a percent sign that does not begin a valid UTF-8 escape.',
);

/** The query of a request (C4). */
export class Query {
  /** The encoded query, without the `?`. */
  readonly text: string;
  readonly #pairs: string[][] = [];

  /** @throws PetstoreError `invalid_parameter` if an escape is malformed (C12) */
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
   * Returns the value of a parameter.
   * @throws PetstoreError `invalid_parameter` if it is repeated (C3)
   */
  get(name: string): string | undefined {
    const [first, second] = this.#pairs.filter(([own]) => own === name);
    if (second !== undefined)
      throw new PetstoreError('invalid_parameter', `${name} must be given only once.`);

    return first?.[1];
  }
}

/** Percent-decodes a text (RFC 3986 section 2.4); returns undefined if an escape is malformed. */
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
      'The only Expect that this server supports is 100-continue.',
    );
}

/** The parameter `charset` of UTF-8. Some clients write `utf8`, single quotes or spaces. */
const utf8Charset = /charset[ \t]*=[ \t]*(["']?)utf-?8\1/;
/** Any other parameter of a media type (RFC 9110 section 8.3.1). It matches in linear time. */
const otherParameter = /(?!charset[ \t]*=)[^\s;="]+[ \t]*=[ \t]*(?:"(?:[^"\\]|\\.)*"|[^\s;"]+)/;
const jsonType = new RegExp(
  '^application/json[ \\t]*' +
    `(?:;[ \\t]*(?:(?:${utf8Charset.source}|${otherParameter.source})[ \\t]*)?)*$`,
  'i',
);
const noCoding = /^identity(?:[ \t]*,[ \t]*identity)*$/i;

/**
 * Checks the media type and the length of a JSON body, then reads it as a byte string.
 * @throws PetstoreError `unsupported_media_type` (C28), `content_too_large` (C29), and as
 * `readBody`
 */
export function readJsonBody(
  message: Message,
  head: HeadFields,
  maxBodyBytes: number,
): Promise<string> {
  checkMediaType(head);
  return readBoundedBody(message, head, maxBodyBytes);
}

/** As `readJsonBody`, but an empty body may have any media type. */
export async function readOptionalBody(
  message: Message,
  head: HeadFields,
  maxBodyBytes: number,
): Promise<string> {
  const body = await readBoundedBody(message, head, maxBodyBytes);
  if (body !== '') checkMediaType(head);
  return body;
}

/** @throws PetstoreError `unsupported_media_type` (C28) */
function checkMediaType(head: HeadFields): void {
  const { contentType = 'application/json', contentEncoding } = head;
  if (contentType !== 'application/json' && !jsonType.test(contentType))
    throw unsupported(
      'The Content-Type must be application/json, and its charset, if given, utf-8.',
    );
  if (contentEncoding !== undefined && !noCoding.test(contentEncoding))
    throw unsupported('The body must have no Content-Encoding.');
}

/** @throws PetstoreError `content_too_large` (C29), and as `readBody` */
function readBoundedBody(
  message: Message,
  { contentLength }: HeadFields,
  maxBodyBytes: number,
): Promise<string> {
  if (contentLength !== undefined && Number(contentLength) > maxBodyBytes)
    throw bodyTooLarge(maxBodyBytes);

  return message.readBody(maxBodyBytes);
}

/** Returns the error for a body beyond the limit (C29). */
export function bodyTooLarge(maxBodyBytes: number): PetstoreError {
  return new PetstoreError('content_too_large', `The body is over ${maxBodyBytes} bytes.`);
}

function unsupported(message: string): PetstoreError {
  return new PetstoreError('unsupported_media_type', message, {
    headers: ['Accept', 'application/json'],
  });
}
