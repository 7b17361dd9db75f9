/**
 * Writes a reply to the response of a host (C69). It uses only public functions, so that the
 * wrappers of the host see the response like any other.
 */
import { isUtf8 } from 'node:buffer';
import { channel } from 'node:diagnostics_channel';
import { ServerResponse, type IncomingMessage, type OutgoingHttpHeader } from 'node:http';
import { setTimeout } from 'node:timers';
import { internalErrorReply, type Reply } from '../reply.js';
import { dribble } from './dribble.js';
import { lingerMs } from './node.js';
import { allHeaders, truncatedBody } from './wire.js';

/** Headers with a list of tokens. The reply's tokens are added to the host's, each once. */
const tokenLists = new Set([
  'vary',
  'access-control-allow-headers',
  'access-control-allow-methods',
  'access-control-expose-headers',
]);
/** Other headers with several values. The reply's values are added to the host's. */
const valueLists = new Set(['link', 'server-timing', 'set-cookie', 'www-authenticate']);

const isList = (lower: string): boolean => tokenLists.has(lower) || valueLists.has(lower);

/** The arguments of `handler`, and the log. */
export interface Host {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The `next` of the host, which receives errors. Ignored if it is not a function. */
  readonly next: unknown;
  /** Logs an error that `next` does not receive. */
  readonly log: (error: unknown) => void;
}

/** The values of the headers that are not part of a reply. */
export interface SendOptions {
  /** The value of the header Date. */
  readonly date: string;
  /** True if the connection must close after the response. */
  readonly closes: boolean;
  /** Calls back when a wait for the request becomes pointless. */
  readonly onAbandoned: (callback: () => void) => void;
}

/** The functions of a response that nobody has wrapped. */
const plain = ServerResponse.prototype;
const { writeHead, setHeader, getHeader, write, end } = plain;
const finishChannel = channel('http.server.response.finish');

/** The list headers that the host had set, by lowercase names. */
type HeadersBefore = Map<string, OutgoingHttpHeader | undefined>;

/** A host's response. Its functions may be wrapped by middleware, and may throw. */
export class GuestResponse {
  readonly #host: Host;
  /** True if the client sent HEAD, even if middleware has changed the method. */
  readonly #isHead: boolean;
  #before: HeadersBefore | undefined;

  constructor(host: Host) {
    this.#host = host;
    const { request } = host;
    // The package method-override stores the method that the client sent here.
    const original = 'originalMethod' in request ? request.originalMethod : undefined;
    this.#isHead = (original ?? request.method) === 'HEAD';
  }

  /** Sends a reply, unless the host has already responded. Never throws. */
  send(reply: Reply, options: SendOptions): void {
    if (this.#isOver) return;
    try {
      if (this.#isUntouched) this.#writePlain(reply, options);
      else this.#write(reply, options);
    } catch (error) {
      this.#fail(error, reply, options);
    }
  }

  /**
   * True if the host has neither changed the response nor can see how it is written. Then
   * `writeHead` takes all headers at once, which is up to 15 % faster (`make bench PARTS=speed`).
   * Node does not return these headers from `getHeader` afterwards.
   */
  get #isUntouched(): boolean {
    const { request, response } = this.#host;
    return (
      request.complete &&
      response.writeHead === writeHead &&
      response.setHeader === setHeader &&
      response.getHeader === getHeader &&
      response.write === write &&
      response.end === end &&
      response.getHeaderNames().length === 0 &&
      // One listener is Node's own.
      response.listenerCount('finish') <= 1 &&
      response.listenerCount('close') === 0 &&
      !finishChannel.hasSubscribers
    );
  }

  #writePlain(reply: Reply, options: SendOptions): void {
    const { response } = this.#host;
    const { cut, dribbleMs } = reply;
    if (cut !== undefined || dribbleMs !== undefined || hasRepeated(reply))
      return void this.#write(reply, options);

    const headers = allHeaders(reply);
    headers.push('Date', options.date);
    if (options.closes) headers.push('Connection', 'close');
    response.writeHead(reply.status, headers);
    const body = this.#isHead ? undefined : bodyOf(reply);
    if (body === undefined) response.end();
    else response.end(...body);
  }

  /** Passes an error to `next`; returns false if there is no `next`, or it throws. Never throws. */
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
  #fail(error: unknown, reply: Reply, options: SendOptions): void {
    try {
      if (!this.#isOver) {
        this.#restoreHeaders(reply);
        if (this.passOn(error)) return;
      }
      this.#host.log(error);
      if (!this.#isOver) return void this.#write(internalErrorReply, options);
    } catch {
      this.#failPastWrappers();
    }
    this.#destroyUnlessEnded();
  }

  /** Sends a 500 by Node's own functions, because the host's wrappers throw. */
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

  #write(reply: Reply, { date, closes, onAbandoned }: SendOptions): void {
    const { request, response } = this.#host;
    if (reply.cut === 'drop') return void response.destroy();

    response.statusCode = reply.status;
    this.#setHeaders(reply);
    response.setHeader('Date', date);

    // HTTP/2 has no Connection header.
    const isHttp1 = request.httpVersion !== '2.0';
    const isIncomplete = request.complete === false && isHttp1;
    const isLast = closes || isIncomplete || reply.cut === 'end';
    if (isHttp1 && isLast) response.setHeader('Connection', 'close');

    if (reply.cut !== undefined) {
      response.flushHeaders();
      const beginning = this.#isHead ? '' : truncatedBody(reply);
      const end = () => (reply.cut === 'end' ? this.#end() : this.#destroyUnlessEnded());
      return void response.write(beginning, 'latin1', end);
    }

    const body = this.#isHead ? undefined : bodyOf(reply);
    const { dribbleMs } = reply;
    if (body !== undefined && dribbleMs !== undefined) {
      response.flushHeaders();
      return void onAbandoned(this.#dribble(String(reply.body), dribbleMs));
    }
    if (!isIncomplete) return void (body === undefined ? response.end() : response.end(...body));

    // Node closes the connection after the response. If it closed with unread bytes, the client
    // would get a reset and lose the response (C51). So the body is read for a while first.
    response.flushHeaders();
    if (body !== undefined) response.write(...body);
    request.resume();
    setTimeout(() => this.#end(), lingerMs);
  }

  /** Sets the headers of a reply. The values that the host set in a list header stay. */
  #setHeaders(reply: Reply): void {
    const { response } = this.#host;
    const headers = allHeaders(reply);
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
      response.setHeader(
        name,
        tokenLists.has(lower) ? withTokens(old, value) : withValue(old, value),
      );
    }
  }

  /** Restores the headers of the host, whose error page must not have those of the reply. */
  #restoreHeaders(reply: Reply): void {
    const { response } = this.#host;
    const headers = allHeaders(reply);
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i] ?? '';
      const lower = name.toLowerCase();
      const old = this.#before?.get(lower);
      if (old !== undefined) response.setHeader(name, old);
      else if (!isList(lower) || this.#before?.has(lower) === true) response.removeHeader(name);
    }
  }

  /** Sends a body over a time (C84). Returns a function that sends the rest at once. */
  #dribble(body: string, ms: number): () => void {
    const { response, log } = this.#host;
    const write = (part: string) => {
      try {
        if (!response.destroyed) response.write(Buffer.from(part, 'latin1'));
      } catch (error) {
        log(error);
      }
    };
    return dribble(body, ms, { write, end: () => this.#end() });
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
 * Returns a body as a text and its encoding, or as bytes if it is not UTF-8. Some wrappers ignore
 * the encoding, so a text must be the same in UTF-8.
 */
function bodyOf({ body }: Reply): [chunk: string | Buffer, encoding: BufferEncoding] | undefined {
  if (body === undefined) return undefined;
  const byteString = String(body);
  // True only for ASCII, which Node writes faster as latin1.
  if (Buffer.byteLength(byteString) === byteString.length) return [byteString, 'latin1'];
  const bytes = Buffer.from(byteString, 'latin1');
  return [isUtf8(bytes) ? bytes.toString() : bytes, 'utf8'];
}

/** True if a reply has a header twice, because a plugin added it again. */
function hasRepeated({ headers }: Reply): boolean {
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? '';
    if (isSameName(name, 'X-Content-Type-Options')) return true;
    for (let j = 0; j < i; j += 2) if (isSameName(name, headers[j] ?? '')) return true;
  }
  return false;
}

function isSameName(name: string, other: string): boolean {
  return name.length === other.length && name.toLowerCase() === other.toLowerCase();
}

/** True if the header at `at` also occurs before, because a plugin added it again. */
function isRepeated(headers: readonly string[], at: number): boolean {
  const name = headers[at] ?? '';
  for (let i = 0; i < at; i += 2) if (isSameName(name, headers[i] ?? '')) return true;
  return false;
}

/** Returns the old values of a header and the new value. */
function withValue(old: OutgoingHttpHeader | undefined, value: string): OutgoingHttpHeader {
  return old === undefined ? value : [...listOf(old), value];
}

function listOf(value: OutgoingHttpHeader | undefined): readonly string[] {
  return value === undefined ? [] : [value].flat().map(String);
}

/** Returns a list of tokens with those of `value`, each once. */
function withTokens(old: OutgoingHttpHeader | undefined, value: string): string {
  const tokens = listOf(old).join(', ');
  if (tokens === '') return value;
  const known = new Set(tokens.toLowerCase().split(/[ \t]*,[ \t]*/));
  // `*` means every token.
  if (known.has('*')) return tokens;
  const more = value.split(/[ \t]*,[ \t]*/).filter((token) => !known.has(token.toLowerCase()));
  return [tokens, ...more].join(', ');
}
