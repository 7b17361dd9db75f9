/**
 * All of a petstore that speaks HTTP: its ports, its `handler` for servers of others, its `fetch`
 * without a port.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { performance } from 'node:perf_hooks';
import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers';
import { checkNames } from '../options.js';
import type { Message } from '../request.js';
import { readAndDestroy } from './body.js';
import type { Service, Shared } from './connection.js';
import { GuestRequest } from './guest-request.js';
import { GuestResponse } from './guest-response.js';
import { headOf } from './head.js';
import { mountOf } from './mount.js';
import {
  largestKeepAliveSeconds,
  openPort,
  stopping,
  type Listening,
  type ListenOptions,
  type Port,
} from './server.js';
import { headerList, HttpDate, UnsentBytes } from './wire.js';

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
    checkNames('option of listen', options, {
      port: true,
      host: true,
      tls: true,
      keepAliveSeconds: true,
    });
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
   * Serves a request of another server or framework. Never throws or rejects: an error of the
   * host's code, or a body that the host has read, goes to `next`.
   */
  async handle(request: IncomingMessage, response: ServerResponse, next: unknown): Promise<void> {
    const { service, date } = this.#shared;
    const log = (error: unknown) => service.fault(error);
    try {
      if (typeof response?.setHeader !== 'function')
        throw new TypeError('handler takes the request and the response of a server');
      const guest = new GuestResponse({ request, response, next, log });
      const message = new GuestRequest(request, response, service.resets);
      const answer = await service.answer(message);

      // Replies are sent at the end of an event loop tick, by a callback for each: so the host's
      // code runs in the async context of its request.
      setImmediate(() => {
        const { reply } = answer;
        service.replied(reply.status, message, answer);
        if (message.mistake !== undefined && guest.passOn(message.mistake)) return;
        const closes = reply.endsConnection === true || service.isStopping;
        guest.send(reply, { date: date.text, closes });
      });
    } catch (error) {
      // It would end the host's process.
      log(error);
    }
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
    // The constructor checks the body of the request that it copies.
    if (request === input && (request.bodyUsed || request.body?.locked === true))
      throw new TypeError('fetch failed: the body of the request was read, or is locked');

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
      mountPath: mountOf(request).mountPath,
      startedAt: performance.now(),
      resetsBefore: service.resets,
      onGone: (callback) => {
        if (signal.aborted) callback();
        else onGone(callback);
      },
      readHead: () => headOf([...request.headers].flat()),
      header: (name) => request.headers.get(name) ?? undefined,
      readBody: (maxBytes) =>
        stream === null
          ? Promise.resolve('')
          : readAndDestroy(() => Readable.fromWeb(stream, { signal }), maxBytes),
    };

    const answer = await service.answer(message);
    const { status, body, cut } = answer.reply;
    service.replied(status, message, answer);
    if (cut !== undefined)
      throw new TypeError('fetch failed', { cause: new Error(`the connection was cut: ${cut}`) });

    const bytes =
      body === undefined || request.method === 'HEAD' ? null : Buffer.from(String(body), 'latin1');
    const headers = new Headers();
    const list = headerList(answer.reply);
    for (let i = 0; i < list.length; i += 2) headers.append(list[i] ?? '', list[i + 1] ?? '');
    return new Response(bytes, { status, headers });
  }
}
