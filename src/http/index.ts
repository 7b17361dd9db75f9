/**
 * All of a petstore that speaks HTTP: its ports, its `handler` for servers of others, its `fetch`
 * without a port.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { performance } from 'node:perf_hooks';
import { Readable } from 'node:stream';
import { setImmediate, setTimeout } from 'node:timers';
import { isPetstoreError, PetstoreError } from '../errors.js';
import { checkNames } from '../options.js';
import type { Reply } from '../reply.js';
import { bodyTooLarge, type Message } from '../request.js';
import type { Service, Shared } from './connection.js';
import { headerOf, headOf, lacksSlash, mountPathOf, parseHead } from './head.js';
import { lingerMs } from './node.js';
import {
  largestKeepAliveSeconds,
  openPort,
  stopping,
  type Listening,
  type ListenOptions,
  type Port,
} from './server.js';
import { beginningOf, headersOf, HttpDate, UnsentBytes } from './wire.js';

export type { Answer } from './connection.js';
export {
  largestKeepAliveSeconds,
  loadTls,
  stopping,
  type Listening,
  type ListenOptions,
} from './server.js';
export type { TlsPair } from './tls.js';

/** What speaks HTTP for one petstore. */
export class Endpoint {
  readonly #shared: Shared;
  readonly #stops: Port['stop'][] = [];

  constructor(service: Service) {
    const date = new HttpDate(service);
    this.#shared = { service, unsent: new UnsentBytes(), date, waiting: 0 };
  }

  /**
   * Opens a port.
   *
   * @throws PetstoreError `unavailable` once the petstore stops.
   * @throws TypeError for wrong options, and on Bun and Deno.
   */
  async listen(options: ListenOptions): Promise<Listening> {
    // There a port would open all the same, and lose bodies or fail to close.
    if ('Bun' in globalThis || 'Deno' in globalThis)
      throw new TypeError(
        'node:http here lacks what listen needs; give petstore.fetch to Bun.serve or Deno.serve',
      );

    if (typeof options !== 'object' || options === null)
      throw new TypeError('listen takes an object, such as listen({ port: 3000 })');
    checkNames('option of listen', options, [
      'port',
      'host',
      'tls',
      'keepAliveSeconds',
    ] satisfies (keyof ListenOptions)[]);
    // Node takes a text for the path of a Unix socket.
    if (options.port !== undefined && !Number.isInteger(options.port))
      throw new TypeError('port must be an integer');
    const { keepAliveSeconds = 1 } = options;
    const isInRange = keepAliveSeconds >= 1 && keepAliveSeconds <= largestKeepAliveSeconds;
    if (!Number.isInteger(keepAliveSeconds) || !isInRange)
      throw new TypeError(
        `keepAliveSeconds must be an integer from 1 to ${largestKeepAliveSeconds}`,
      );

    const { service } = this.#shared;
    if (service.isStopping) throw stopping();
    const { stop, listening } = await openPort(this.#shared, options);
    this.#stops.push(stop);
    if (!service.isStopping) return listening;
    // The petstore was closed meanwhile, and has not seen this port.
    await stop(0);
    throw stopping();
  }

  /** Closes all ports; requests under way have so many milliseconds. */
  async stop(graceMs: number): Promise<void> {
    await Promise.all(this.#stops.map((stop) => stop(graceMs)));
  }

  /**
   * Answers a request of another server. Where the framework around us has read the body before,
   * its `next` gets the error.
   */
  async handle(request: IncomingMessage, response: ServerResponse, next: unknown): Promise<void> {
    const { service } = this.#shared;
    let mistake: TypeError | undefined;
    const message: Message = {
      method: request.method ?? '',
      target: request.url ?? '',
      mountPath: mountPathOf(request),
      lacksSlash: lacksSlash(request),
      clientAddress: request.socket?.remoteAddress,
      startedAt: performance.now(),
      resetsBefore: service.resets,
      onGone: (callback) => {
        if (response.destroyed) callback();
        else response.once('close', callback);
      },
      readHead: () => parseHead(request),
      header: (name) => headerOf(request.rawHeaders, name),
      readBody: async (maxBytes) => {
        if (request.readableEnded || request.readableEncoding !== null) {
          mistake = new TypeError(
            'the body is taken: mount the petstore before any body parser and any setEncoding',
          );
          throw mistake;
        }
        // The request is not destroyed where its body is too long: an answer is still to come.
        return readAll(() => request.iterator({ destroyOnReturn: false }), maxBytes);
      },
    };

    const answer = await service.answer(message);
    // Answers are sent at the end of an event-loop turn. What the framework throws there, by its
    // `next` or its `writeHead`, is the framework's own.
    setImmediate(() => {
      service.replied(answer.reply.status, message, answer);
      if (mistake !== undefined && typeof next === 'function') next(mistake);
      else this.#write(request, response, answer.reply);
    });
  }

  #write(request: IncomingMessage, response: ServerResponse, reply: Reply): void {
    // A framework around us may have answered meanwhile.
    if (response.headersSent || response.writableEnded) return;

    if (reply.cut === 'drop') return void response.destroy();

    const headers = headersOf(reply).flat();
    headers.push('Date', this.#shared.date.text);
    if (reply.endsConnection === true || !request.complete || this.#shared.service.isStopping)
      headers.push('Connection', 'close');
    response.writeHead(reply.status, headers);
    const body = request.method === 'HEAD' ? '' : String(reply.body ?? '');
    if (reply.cut === 'truncate') {
      response.flushHeaders();
      const beginning = request.method === 'HEAD' ? '' : beginningOf(reply);
      return void response.write(beginning, 'latin1', () => response.destroy());
    }
    if (request.complete) return void response.end(body, 'latin1');

    // Node closes the connection at the end. What has come of the body and nobody has read would
    // reset it, and the reply would be lost (C51): so some of the body is read first.
    response.flushHeaders();
    if (body !== '') response.write(body, 'latin1');
    request.resume();
    setTimeout(() => response.end(), lingerMs);
  }

  /**
   * Answers a request without a port. It settles as the platform's `fetch` does: an abort rejects
   * at once, though the operation may go on.
   */
  async fetch(input: Request | string | URL, init?: object): Promise<Response> {
    // The second argument may be what a server gives: itself, or what it knows of the client. Bun
    // would take the server's `url` for the request's.
    const has = (name: string) => name in Object(init);
    const isInit = ['method', 'headers', 'body', 'signal'].some(has);
    const isRequest = input instanceof Request;
    const request = isRequest && !isInit ? input : new Request(input, init);

    const { signal } = request;
    // Every Request has a signal, and listening to it takes 2 us. Where none was given, nobody can
    // abort.
    if (!isRequest && !has('signal')) return this.#respond(request);

    signal.throwIfAborted();
    return new Promise((resolve, reject) => {
      let leave = (): void => undefined;
      const abort = () => {
        reject(signal.reason);
        leave();
      };
      signal.addEventListener('abort', abort);
      void this.#respond(request, (callback) => (leave = callback))
        .then(resolve, reject)
        .finally(() => signal.removeEventListener('abort', abort));
    });
  }

  async #respond(request: Request, onGone: Message['onGone'] = () => undefined): Promise<Response> {
    const { service } = this.#shared;
    const { body: stream, signal } = request;
    const message: Message = {
      method: request.method,
      // What a client would send of its URL, which is always absolute.
      target: request.url.replace(/^[^/]*\/\/[^/]*|#.*/g, ''),
      mountPath: mountPathOf(request),
      startedAt: performance.now(),
      resetsBefore: service.resets,
      onGone: (callback) => {
        if (signal.aborted) callback();
        else onGone(callback);
      },
      readHead: () => headOf([...request.headers].flat()),
      header: (name) => request.headers.get(name) ?? undefined,
      readBody: (maxBytes) =>
        readAll(() => (stream === null ? [] : Readable.fromWeb(stream, { signal })), maxBytes),
    };

    const answer = await service.answer(message);
    const { status, body, cut } = answer.reply;
    service.replied(status, message, answer);
    if (cut !== undefined)
      throw new TypeError('fetch failed', { cause: new Error(`the connection was cut: ${cut}`) });

    const bytes =
      body === undefined || request.method === 'HEAD' ? null : Buffer.from(String(body), 'latin1');
    return new Response(bytes, { status, headers: headersOf(answer.reply) });
  }
}

/**
 * The bytes of a body, which is opened as it is read.
 *
 * @throws PetstoreError `content_too_large` past `maxBytes`, `bad_request` where the body fails.
 */
async function readAll(
  open: () => AsyncIterable<Buffer> | Iterable<Buffer>,
  maxBytes: number,
): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of open()) {
      bytes += chunk.length;
      if (bytes > maxBytes) throw bodyTooLarge(maxBytes);
      chunks.push(chunk);
    }
  } catch (cause) {
    if (isPetstoreError(cause)) throw cause;
    throw new PetstoreError('bad_request', 'The body cannot be read to its end.', { cause });
  }
  return Buffer.concat(chunks).toString('latin1');
}
