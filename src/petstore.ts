/** Assembles a petstore: its routes, the path of a request, the plugin host and shutdown. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { clearTimeout, setTimeout } from 'node:timers';
import { refusalOf, tokenOf } from './auth.js';
import { jsonStoreOf } from './engine/index.js';
import { detailOf, isPetstoreError, type PetstoreError } from './errors.js';
import {
  Endpoint,
  stoppingError,
  type Listening,
  type ListenOptions,
  type RoutedReply,
  type PetstoreService,
} from './http/index.js';
import { memoryStorage } from './memory/index.js';
import { petRoutes, publicRoutes, StoreRun } from './operations.js';
import { resolveOptions, type PetstoreOptions, type ResolvedOptions } from './options.js';
import { checkedRoute, Hooks, storageReset, type PluginHost, type SentReply } from './plugin.js';
import { internalErrorReply, replyTo, withLinksBelow, type Reply } from './reply.js';
import { sharedCheck } from './readiness.js';
import {
  checkExpectation,
  Query,
  readJsonBody,
  readOptionalBody,
  splitTarget,
  type Message,
} from './request.js';
import { Routes, type Resource, type Route } from './router.js';
import type { PetStorage } from './storage.js';

/** The time for which `close` waits for requests in flight; the process has 10 s in all. */
const closeTimeoutMs = 8_000;

/** A store of pets behind HTTP. Its functions work unbound. */
export interface Petstore {
  /**
   * Serves a request of `http.createServer`, Express and the like. Never throws: `next` receives
   * the errors of the host's own code, such as a body that was read before.
   */
  readonly handler: (
    request: IncomingMessage,
    response: ServerResponse,
    next?: (error: unknown) => void,
  ) => void;

  /**
   * Serves one request without a port. It behaves as the platform's `fetch`: a malformed request is
   * a TypeError, and an aborted signal rejects.
   */
  readonly fetch: {
    (request: Request | string | URL, init?: RequestInit): Promise<Response>;
    /** The form in which `Bun.serve` and `Deno.serve` call it. */
    (request: Request, server: object): Promise<Response>;
  };

  /**
   * Opens a port once the plugins are open. It may be called again for another port. Rejects with
   * the error of a plugin or of Node, with `unavailable` once the petstore is closed, or with a
   * TypeError for an invalid option and on Bun and Deno, whose own servers take `fetch`.
   */
  readonly listen: (options?: ListenOptions) => Promise<Listening>;
  /**
   * Resolves once the plugins are open; rejects if a plugin fails to open. `listen` does the same;
   * `fetch` and `handler` wait, then serve without a plugin that failed.
   */
  readonly ready: () => Promise<void>;
  /** Turns `/readyz` to 503, so that a load balancer sends requests elsewhere. */
  readonly drain: () => void;

  /**
   * Closes the ports, finishes the requests in flight, then closes the plugins and the storage. It
   * may be called again.
   */
  readonly close: () => Promise<void>;
  /** As `close`, for `await using`. */
  readonly [Symbol.asyncDispose]: () => Promise<void>;
  /** The storage of the pets. */
  readonly storage: PetStorage;
}

/**
 * Creates a petstore, which does not listen yet.
 * @throws TypeError that names an invalid option; the error of a plugin
 */
export function createPetstore(options: PetstoreOptions): Petstore {
  const resolved = resolveOptions(options, memoryStorage);
  const { storage, clock, keyClock, setClock, log } = resolved;

  const routes = new Routes(clock);
  const hooks = new Hooks(log, {
    onAbandoned: (message, callback) => service.onAbandoned(message, callback),
    checkCurrent: (message, resource) => service.checkCurrent(message, resource),
    isOutdated: ({ resetsBefore }) => resetsBefore !== service.resets,
  });
  const service = new RequestService({ ...resolved, routes, hooks });
  const endpoint = new Endpoint(service);

  const run = new StoreRun();
  storage.onReset?.(() => {
    setClock(undefined);
    run.begin();
    service.reset();
  });
  const ours = [
    ...petRoutes(jsonStoreOf(storage), run, clock, keyClock, () => service.phase === 'closed'),
    ...publicRoutes(checkReady, routes, resolved.baseUrls, hooks),
  ];
  for (const route of ours) routes.add(route);

  const host: PluginHost = Object.freeze({
    ...hooks.host,
    route: (route: Route) => routes.add(checkedRoute(route)),
    routes: () => routes.present().map(({ path, allowed }) => ({ path, methods: allowed })),
    ports: () => endpoint.ports(),
    storage,
    clock,
    setClock,
    log,
  });
  hooks.start(resolved.plugins, host);

  const storageReady = sharedCheck(async () => storage.ready?.());

  /** @throws PetstoreError `unavailable` if reads or writes cannot be expected to succeed */
  async function checkReady(): Promise<void> {
    if (service.phase !== 'open') throw stoppingError();
    await storageReady();
  }

  async function closeAll(): Promise<void> {
    service.stop();
    await Promise.all([endpoint.stop(closeTimeoutMs), service.idle(closeTimeoutMs)]);
    await hooks.close();

    service.phase = 'closed';
    await storage.close();
  }

  let closing: Promise<void> | undefined;
  const close = () => (closing ??= closeAll());

  return {
    handler: (request, response, next) => void endpoint.handle(request, response, next),
    fetch: endpoint.fetch.bind(endpoint),
    listen: (listenOptions = {}) => hooks.opened().then(() => endpoint.listen(listenOptions)),
    drain: () => {
      if (service.phase === 'open') service.phase = 'draining';
    },
    ready: () => hooks.opened(),
    close,
    [Symbol.asyncDispose]: close,
    storage,
  };
}

/**
 * The reply to a request that arrived before a reset (C71). The connection closes, because the
 * client may have pipelined requests that are still unread.
 */
const storageResetReply: Reply = { ...replyTo(storageReset), endsConnection: true };

/** The parts that the path of a request uses. */
interface Parts extends ResolvedOptions {
  readonly routes: Routes;
  readonly hooks: Hooks;
}

/** Takes each request through all steps, and holds the state of the petstore. */
class RequestService implements PetstoreService {
  /**
   * The state of the petstore. `draining` changes only `/readyz`. While `stopping`, connections
   * close after their responses. Once `closed`, requests that need the storage get a 503.
   */
  phase: 'open' | 'draining' | 'stopping' | 'closed' = 'open';
  readonly #parts: Parts;

  /** The number of requests in flight: `handle` raises it, `reportResponse` lowers it. */
  #inFlight = 0;
  /** Called when no request is in flight any more. */
  #onIdle = (): void => undefined;

  /** The number of resets of the storage (C71). */
  resets = 0;
  /** The callbacks of plugins that delay requests, by request. */
  readonly #waits = new Map<Message, (() => void)[]>();
  /** The requests that a plugin has delayed. */
  readonly #hasWaited = new WeakSet<Message>();

  #rejectStopped = (_error: PetstoreError): void => undefined;
  /** Rejects when the petstore stops, for requests that wait until the plugins are open. */
  readonly #stopped = new Promise<never>((_resolve, reject) => (this.#rejectStopped = reject));

  constructor(parts: Parts) {
    this.#parts = parts;
    // A rejection without a waiting request is not an error.
    this.#stopped.catch(() => undefined);
  }

  /**
   * Handles a request, in the order of checks of docs/contract.md. An error that a step throws
   * becomes the response. Never rejects.
   */
  async handle(message: Message): Promise<RoutedReply> {
    this.#inFlight++;
    const { routes, verifyKey, maxBodyBytes, hooks } = this.#parts;
    const { method } = message;

    let resource: Resource | undefined;
    let keyName: string | undefined;
    try {
      if (!hooks.areSettled) await Promise.race([hooks.settled(), this.#stopped]);
      const head = message.readHead();

      const { path, query } = splitTarget(message.target);
      const basePath = this.#basePathOf(message);
      const match = routes.find(method, path, basePath);
      resource = match.resource;

      const operation = resource.operations.get(method);
      if (operation === undefined) throw resource.notAllowed;

      if (resource.needsKey && method !== 'OPTIONS') {
        const token = tokenOf(head.authorization);
        const name = token === undefined ? '' : await verifyKey(token);

        // A verifier in JavaScript may return null or false (C40).
        if (typeof name !== 'string' || name === '')
          return this.#complete(refusalOf(head.authorization), message, resource);

        keyName = name;
      }

      checkExpectation(head);

      const { readsBody = false } = operation;
      const read = readsBody === 'optional' ? readOptionalBody : readJsonBody;
      const body = readsBody === false ? '' : await read(message, head, maxBodyBytes);

      const request = {
        method,
        params: match.params,
        query: new Query(query),
        body,
        keyName,
        idempotencyKey: head.idempotencyKey,
        basePath,
        lacksSlash: message.lacksSlash === true,
      };
      const reply = await hooks.handle({ operation, request, message, resource });

      if (operation.survivesReset === true) message.resetsBefore = this.resets;
      // Only after a delay, because the operation itself may have reset the storage.
      if (this.#hasWaited.has(message)) this.checkCurrent(message, resource);
      return this.#complete(reply, message, resource, keyName);
    } catch (error) {
      const isRefused =
        error === storageReset ||
        (this.#hasWaited.has(message) && this.#isOutdated(message, resource));
      const reply = isRefused ? storageResetReply : this.#failureReply(error);
      return this.#complete(reply, message, resource, keyName);
    }
  }

  /** True if the operation depends on a storage that was reset after the request arrived (C71). */
  #isOutdated({ method, resetsBefore }: Message, resource?: Resource): boolean {
    if (resetsBefore === this.resets) return false;

    const needsKey = resource?.needsKey === true && method !== 'OPTIONS';
    return needsKey && resource.operations.get(method)?.survivesReset !== true;
  }

  /** @throws PetstoreError `unavailable` if the request is outdated by a reset (C71) */
  checkCurrent(message: Message, resource: Resource): void {
    if (this.#isOutdated(message, resource)) throw storageReset;
  }

  /** Notes a reset of the storage, so that requests that arrived before it are refused (C71). */
  reset(): void {
    this.resets++;
    this.#endWaits();
  }

  /** Begins the shutdown: ends the delays of plugins, and lets requests in flight finish. */
  stop(): void {
    this.phase = 'stopping';
    this.#rejectStopped(stoppingError());
    this.#endWaits();
  }

  #endWaits(): void {
    for (const message of [...this.#waits.keys()]) this.#abandon(message);
  }

  #abandon(message: Message): void {
    const callbacks = this.#waits.get(message) ?? [];
    this.#waits.delete(message);
    for (const callback of callbacks) callback();
  }

  /**
   * Calls back when a delay is no longer useful; see `PluginRequest`. The callback never throws.
   */
  onAbandoned(message: Message, callback: () => void): void {
    this.#hasWaited.add(message);
    const callbacks = this.#waits.get(message);
    if (callbacks !== undefined) callbacks.push(callback);
    else if (this.isStopping || message.resetsBefore !== this.resets) callback();
    else {
      this.#waits.set(message, [callback]);
      message.onGone(() => this.#abandon(message));
    }
  }

  /** Returns the reply to a request that failed after its reply was made. */
  replyToLateError(error: PetstoreError, message: Message, { resource }: RoutedReply): Reply {
    return this.#complete(replyTo(error), message, resource).reply;
  }

  /** Returns the reply to a request that the parser refuses, with the headers of plugins. */
  replyToParserError(error: PetstoreError, header: Message['header']): Reply {
    return this.#parts.hooks.withHeadersOfRefused(replyTo(error), header);
  }

  /** Logs an error in this program (C49). */
  logError(thrown: unknown): void {
    this.#parts.log('error', 'internal error', { error: detailOf(thrown) });
  }

  logWarning(message: string, fields: Readonly<Record<string, unknown>>): void {
    this.#parts.log('warn', message, fields);
  }

  /** Reports a response to the plugins; `message` is undefined if the client sent no HTTP. */
  reportResponse(reply: SentReply, message?: Message, routed?: RoutedReply): void {
    this.#parts.hooks.replied(reply, message, routed?.resource?.path, routed?.keyName);
    if (message !== undefined) this.#waits.delete(message);
    if (message !== undefined && --this.#inFlight === 0) this.#onIdle();
  }

  /** Reports the end of a response to the plugins, after `reportResponse`. */
  reportEnd(reply: SentReply, isWhole: boolean, message: Message, routed: RoutedReply): void {
    this.#waits.delete(message);
    const { hooks } = this.#parts;
    if (!hooks.watchesEnds) return;
    hooks.ended(reply, isWhole, message, routed.resource?.path, routed.keyName);
  }

  /** Returns the time of the petstore's clock, in milliseconds since the epoch. */
  now(): number {
    return this.#parts.clock();
  }

  get isStopping(): boolean {
    return this.phase === 'stopping' || this.phase === 'closed';
  }

  /** Resolves once no request is in flight, or after `timeoutMs`. */
  idle(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);

      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };

      if (this.#inFlight === 0) this.#onIdle();
    });
  }

  /** Adds to a reply the headers of its route (C33) and those of plugins. */
  #complete(reply: Reply, message: Message, resource?: Resource, keyName?: string): RoutedReply {
    const own = resource?.headers;
    const announced = own === undefined ? reply : { ...reply, headers: [...own, ...reply.headers] };

    const linked = withLinksBelow(this.#basePathOf(message), announced);
    const { hooks } = this.#parts;
    const completed = hooks.withHeaders(linked, message, resource?.path, keyName);
    return { reply: completed, resource, keyName };
  }

  /** Returns the path that replaces `/v1` in links (C56). */
  #basePathOf({ mountPath = '' }: Message): string {
    return this.#parts.basePath ?? `${mountPath}/v1`;
  }

  /** Returns the reply to anything that was thrown (C49). Never throws. */
  #failureReply(thrown: unknown): Reply {
    try {
      if (isPetstoreError(thrown) && thrown.status !== undefined) return replyTo(thrown);
    } catch (error) {
      this.logError(error);
    }

    this.logError(thrown);
    return internalErrorReply;
  }
}
