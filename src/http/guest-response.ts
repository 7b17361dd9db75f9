/**
 * The response of a host, used as frameworks use it: `setHeader`, `statusCode`, `end`. Whatever
 * wraps these sees our response as any other (C69).
 */
import { isUtf8 } from 'node:buffer';
import { ServerResponse, type IncomingMessage, type OutgoingHttpHeader } from 'node:http';
import { setTimeout } from 'node:timers';
import { internalErrorReply, type Reply } from '../reply.js';
import { lingerMs } from './node.js';
import { beginningOf, headerList } from './wire.js';

/** Lists of tokens: each is written once, also if the host has written it before. */
const tokenLists = new Set([
  'vary',
  'access-control-allow-headers',
  'access-control-allow-methods',
  'access-control-expose-headers',
]);
/** Other headers that hold several values: ours stand beside those of the host. */
const valueLists = new Set(['link', 'server-timing', 'set-cookie', 'www-authenticate']);

const isList = (lower: string): boolean => tokenLists.has(lower) || valueLists.has(lower);

/** What the host hands over, and what it shall hear of. */
export interface Host {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Takes the errors of the host, if it has such a function. */
  readonly next: unknown;
  /** Logs an error that nobody else takes. */
  readonly log: (error: unknown) => void;
}

/** What a response says beside its reply. */
export interface Ending {
  /** The value of the header Date. */
  readonly date: string;
  /** True if the connection must end after the response. */
  readonly closes: boolean;
}

/** What the host had set of the headers that are lists, by their names in lowercase. */
type HeadersBefore = Map<string, OutgoingHttpHeader | undefined>;

/** The host's response. Its members may be wrapped by others, and throw. */
export class GuestResponse {
  readonly #host: Host;
  /** True if the client has sent HEAD, whatever middleware has made of the method. */
  readonly #isHead: boolean;
  #before: HeadersBefore | undefined;

  constructor(host: Host) {
    this.#host = host;
    const { request } = host;
    // The package method-override keeps the method that the client has sent here.
    const original = 'originalMethod' in request ? request.originalMethod : undefined;
    this.#isHead = (original ?? request.method) === 'HEAD';
  }

  /** Sends a reply, unless the host has responded meanwhile. Never throws. */
  send(reply: Reply, ending: Ending): void {
    if (this.#isOver) return;
    try {
      this.#write(reply, ending);
    } catch (error) {
      this.#fail(error, reply, ending);
    }
  }

  /** Gives an error to the host; returns false if the host does not take it. Never throws. */
  passOn(error: unknown): boolean {
    const { next, log } = this.#host;
    if (typeof next !== 'function') return false;
    if (this.#isOver) return true;
    try {
      next(error);
      return true;
    } catch (thrown) {
      log(thrown);
      return false;
    }
  }

  /** True if nothing can be written: the host has responded, or the client is gone. */
  get #isOver(): boolean {
    const { headersSent, writableEnded, destroyed } = this.#host.response;
    return headersSent || writableEnded || destroyed;
  }

  /** Ends a request whose reply could not be written, because the host's code threw an error. */
  #fail(error: unknown, reply: Reply, ending: Ending): void {
    try {
      if (!this.#isOver) {
        this.#restoreHeaders(reply);
        if (this.passOn(error)) return;
      }
      this.#host.log(error);
      if (!this.#isOver) return void this.#write(internalErrorReply, ending);
    } catch {
      this.#failPastWrappers();
    }
    this.#destroyUnlessEnded();
  }

  /** Sends a 500 by Node's own functions, because what wraps them throws each time. */
  #failPastWrappers(): void {
    const { response, log } = this.#host;
    if (this.#isOver || !(response instanceof ServerResponse)) return;
    const { writeHead, end } = ServerResponse.prototype;
    try {
      writeHead.call(response, internalErrorReply.status);
      end.call(response, internalErrorReply.body, 'latin1');
    } catch (error) {
      log(error);
    }
  }

  #destroyUnlessEnded(): void {
    const { response, log } = this.#host;
    try {
      if (!response.writableEnded) response.destroy();
    } catch (error) {
      log(error);
    }
  }

  #write(reply: Reply, { date, closes }: Ending): void {
    const { request, response } = this.#host;
    if (reply.cut === 'drop') return void response.destroy();

    response.statusCode = reply.status;
    this.#setHeaders(reply);
    response.setHeader('Date', date);

    // Only HTTP/1 says in a header that a connection ends.
    const isHttp1 = request.httpVersion !== '2.0';
    const isIncomplete = request.complete === false && isHttp1;
    if (isHttp1 && (closes || isIncomplete)) response.setHeader('Connection', 'close');

    if (reply.cut === 'truncate') {
      response.flushHeaders();
      const beginning = this.#isHead ? '' : beginningOf(reply);
      return void response.write(beginning, 'latin1', () => this.#destroyUnlessEnded());
    }

    const body = this.#isHead ? undefined : bodyOf(reply);
    if (!isIncomplete) return void (body === undefined ? response.end() : response.end(...body));

    // Node closes the connection at the end. What has come of the body and nobody has read would
    // reset it, and the reply would be lost (C51). So some of the body is read first.
    response.flushHeaders();
    if (body !== undefined) response.write(...body);
    request.resume();
    setTimeout(() => this.#end(), lingerMs);
  }

  /** Sets the headers of a reply. What the host has set of a list stays. */
  #setHeaders(reply: Reply): void {
    const { response } = this.#host;
    const headers = headerList(reply);
    for (let i = 0; i < headers.length; i += 2) {
      const [name = '', value = ''] = [headers[i], headers[i + 1]];
      const lower = name.toLowerCase();
      if (!isList(lower) && !isRepeated(headers, i)) {
        response.setHeader(name, value);
        continue;
      }

      const old = response.getHeader(name);
      this.#before ??= new Map();
      if (!this.#before.has(lower)) this.#before.set(lower, old);
      response.setHeader(name, tokenLists.has(lower) ? withTokens(old, value) : added(old, value));
    }
  }

  /** Takes back the headers of a failed reply, which the host's error page must not have. */
  #restoreHeaders(reply: Reply): void {
    const { response } = this.#host;
    const headers = headerList(reply);
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i] ?? '';
      const lower = name.toLowerCase();
      const old = this.#before?.get(lower);
      if (old !== undefined) response.setHeader(name, old);
      else if (!isList(lower) || this.#before?.has(lower) === true) response.removeHeader(name);
    }
  }

  #end(): void {
    try {
      this.#host.response.end();
    } catch (error) {
      this.#host.log(error);
      this.#destroyUnlessEnded();
    }
  }
}

/**
 * Returns a body as a text and its encoding, or as bytes if it is not text. Some wrappers do not
 * heed the encoding, so a text must be the same in UTF-8.
 */
function bodyOf({ body }: Reply): [chunk: string | Buffer, encoding: BufferEncoding] | undefined {
  if (body === undefined) return undefined;
  const byteString = String(body);
  // True for ASCII alone, which Node writes faster than UTF-8.
  if (Buffer.byteLength(byteString) === byteString.length) return [byteString, 'latin1'];
  const bytes = Buffer.from(byteString, 'latin1');
  return [isUtf8(bytes) ? bytes.toString() : bytes, 'utf8'];
}

/** True if a plugin adds a header that the reply has before. */
function isRepeated(headers: readonly string[], at: number): boolean {
  for (let i = 0; i < at; i += 2) if (headers[i] === headers[at]) return true;
  return false;
}

function added(old: OutgoingHttpHeader | undefined, value: string): OutgoingHttpHeader {
  return old === undefined ? value : [...listOf(old), value];
}

function listOf(value: OutgoingHttpHeader | undefined): readonly string[] {
  return value === undefined ? [] : [value].flat().map(String);
}

/** A list of tokens with further ones, each once. */
function withTokens(old: OutgoingHttpHeader | undefined, value: string): string {
  const tokens = listOf(old).join(', ');
  if (tokens === '') return value;
  const known = new Set(tokens.toLowerCase().split(/[ \t]*,[ \t]*/));
  // An asterisk stands for every token.
  if (known.has('*')) return tokens;
  const more = value.split(/[ \t]*,[ \t]*/).filter((token) => !known.has(token.toLowerCase()));
  return [tokens, ...more].join(', ');
}
