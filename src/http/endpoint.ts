/** The HTTP side of a petstore: ports, `handler` for other servers, `fetch` without a port. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { performance } from 'node:perf_hooks';
import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers';
import { checkNames } from '../options.js';
import type { Message } from '../request.js';
import { readAndDestroy } from './body.js';
import type { PetstoreService, SharedState } from './connection.js';
import { cutResponse, headersOf, isServerArgument } from './fetch-response.js';
import { slowStream } from './dribble.js';
import { GuestRequest } from './guest-request.js';
import { GuestResponse } from './guest-response.js';
import { toHead } from './head.js';
import { defaultInterface, nodeInterfaces, nodeUseFor } from './mode.js';
import { mountOf } from './mount.js';
import {
  largestKeepAliveSeconds,
  openPort,
  stoppingError,
  type HttpMode,
  type Listening,
  type ListenOptions,
  type Port,
} from './port.js';
import { dateOf, HttpDate, UnsentBytes } from './wire.js';

/** Receives the requests of one petstore from ports, from other servers and from `fetch`. */
export class Endpoint {
  readonly #shared: SharedState;
  readonly #ports: Port[] = [];

  constructor(service: PetstoreService) {
    const date = new HttpDate(service);
    this.#shared = { service, unsent: new UnsentBytes(), date, queued: 0 };
  }

  /**
   * Opens a port.
   * @throws PetstoreError `unavailable` once the shutdown has begun
   * @throws TypeError if an option is not valid, and on Bun and Deno
   */
  async listen(options: ListenOptions): Promise<Listening> {
    // A port would open there, but bodies would be lost, or it would not close.
    if ('Bun' in globalThis || 'Deno' in globalThis)
      throw new TypeError(
        'listen works only on Node.js; pass petstore.fetch to Bun.serve or Deno.serve instead',
      );

    if (typeof options !== 'object' || options === null)
      throw new TypeError('listen takes an object, such as listen({ port: 3000 })');
    checkNames('option of listen', options, {
      port: true,
      host: true,
      tls: true,
      keepAliveSeconds: true,
      nodeInterface: true,
    });
    // Node would use a string as the path of a Unix socket.
    if (options.port !== undefined && !Number.isInteger(options.port))
      throw new TypeError('port must be an integer');
    const { keepAliveSeconds = 1, nodeInterface = defaultInterface() } = options;
    if (!nodeInterfaces.includes(nodeInterface))
      throw new TypeError(`nodeInterface must be one of ${nodeInterfaces.join(', ')}`);
    const isInRange = keepAliveSeconds >= 1 && keepAliveSeconds <= largestKeepAliveSeconds;
    if (!Number.isInteger(keepAliveSeconds) || !isInRange)
      throw new TypeError(
        `keepAliveSeconds must be an integer from 1 to ${largestKeepAliveSeconds}`,
      );

    const { service } = this.#shared;
    if (service.isStopping) throw stoppingError();
    const { mode, nodeOptions } = await nodeUseFor(nodeInterface, service);
    const port = await openPort(this.#shared, mode, options, nodeOptions);
    const { stop, listening } = port;
    this.#ports.push(port);
    if (!service.isStopping) return listening;
    // The petstore was closed meanwhile, and did not know this port.
    await stop(0);
    throw stoppingError();
  }

  /** Closes all ports. Requests in flight have `graceMs` to finish. */
  async stop(graceMs: number): Promise<void> {
    await Promise.all(this.#ports.map(({ stop }) => stop(graceMs)));
  }

  /** Returns the address and mode of each port. */
  ports(): readonly { readonly url: string; readonly mode: HttpMode }[] {
    return this.#ports.map(({ listening: { url, mode } }) => ({ url, mode }));
  }

  /**
   * Serves a request of another server or framework. Never rejects: `next` receives errors of the
   * host's code, such as a body that was read before.
   */
  async handle(request: IncomingMessage, response: ServerResponse, next: unknown): Promise<void> {
    const { service, date } = this.#shared;
    const log = (error: unknown) => service.logError(error);
    try {
      if (typeof response?.setHeader !== 'function')
        throw new TypeError('handler needs the request and the response of a server');
      const guest = new GuestResponse({ request, response, next, log });
      const message = new GuestRequest(request, response, service.resets);
      const routed = await service.handle(message);

      // Sends at the end of the event loop tick. Each response has a callback of its own, so that
      // the host's code runs in the async context of its request.
      setImmediate(() => {
        const { reply } = routed;
        const isGone = response.destroyed === true && reply.cut === undefined;
        service.reportResponse(isGone ? { ...reply, cut: 'client' } : reply, message, routed);
        const reportEnd = (isWhole: boolean) => service.reportEnd(reply, isWhole, message, routed);
        if (message.mistake !== undefined && guest.passOn(message.mistake)) return reportEnd(true);
        if (reply.cut !== undefined || isGone) reportEnd(false);
        else if (service.watchesEnds)
          response.once?.('close', () => reportEnd(response.writableFinished));
        const closes = reply.endsConnection === true || service.isStopping;
        const onAbandoned = (callback: () => void) => service.onAbandoned(message, callback);
        guest.send(reply, { date: dateOf(routed, date), closes, onAbandoned });
      });
    } catch (error) {
      // A rejection would crash the host's process.
      log(error);
    }
  }

  /**
   * Serves a request without a port. As with the platform's `fetch`, an abort rejects at once; the
   * operation may still be carried out.
   */
  async fetch(input: Request | string | URL, init?: object): Promise<Response> {
    // Bun.serve and Deno.serve pass a second argument that is not an `init`. It is ignored, because
    // on Bun the `url` of the server would replace that of the request.
    const has = (name: string) => name in Object(init);
    const isInit = ['method', 'headers', 'body', 'signal'].some(has);
    const isRequest = input instanceof Request;
    const request = isRequest && !isInit ? input : new Request(input, init);
    // `new Request` checks this itself.
    if (request === input && (request.bodyUsed || request.body?.locked === true))
      throw new TypeError('fetch failed: the body of the request was read, or is locked');

    const { signal } = request;
    // Every Request has a signal, but only a given one can abort. Listening takes 2 µs.
    const isServed = isServerArgument(init);
    if (!isRequest && !has('signal')) return this.#respond(request, isServed);

    signal.throwIfAborted();
    return new Promise((resolve, reject) => {
      let reportGone = (): void => undefined;
      const abort = () => {
        reject(signal.reason);
        reportGone();
      };
      signal.addEventListener('abort', abort);
      void this.#respond(request, isServed, (callback) => (reportGone = callback))
        .then(resolve, reject)
        .finally(() => signal.removeEventListener('abort', abort));
    });
  }

  /** @param isServed True if a server called `fetch`. */
  async #respond(
    request: Request,
    isServed: boolean,
    onGone: Message['onGone'] = () => undefined,
  ): Promise<Response> {
    const { service } = this.#shared;
    const { body: stream, signal } = request;
    const message: Message = {
      method: request.method,
      // The URL is absolute; a client would send its path and query.
      target: request.url.replace(/^[^/]*\/\/[^/]*|#.*/g, ''),
      mountPath: mountOf(request).mountPath,
      startedAt: performance.now(),
      resetsBefore: service.resets,
      onGone: (callback) => {
        if (signal.aborted) callback();
        else onGone(callback);
      },
      readHead: () => toHead([...request.headers].flat()),
      header: (name) => request.headers.get(name) ?? undefined,
      readBody: (maxBytes) =>
        stream === null
          ? Promise.resolve('')
          : readAndDestroy(() => Readable.fromWeb(stream, { signal }), maxBytes),
    };

    const routed = await service.handle(message);
    const { reply } = routed;
    const { status, body, cut, dribbleMs } = reply;
    const reportEnd = (isWhole: boolean) => service.reportEnd(reply, isWhole, message, routed);
    const isGone = signal.aborted && cut === undefined;
    service.reportResponse(isGone ? { ...reply, cut: 'client' } : reply, message, routed);
    const isSlow = dribbleMs !== undefined && body !== undefined && request.method !== 'HEAD';
    if (!isSlow) reportEnd(cut === undefined && !isGone);
    if (cut !== undefined) return cutResponse(reply, request.method === 'HEAD', isServed);

    const bytes =
      body === undefined || request.method === 'HEAD' ? null : Buffer.from(String(body), 'latin1');
    const headers = headersOf(reply);
    if (!isSlow) return new Response(bytes, { status, headers });

    const onAbandoned = (callback: () => void) => service.onAbandoned(message, callback);
    const slow = slowStream(String(body), dribbleMs, { signal, onAbandoned, reportEnd });
    return new Response(slow, { status, headers });
  }
}
