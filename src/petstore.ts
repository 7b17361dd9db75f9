/** Assembles a petstore: routes, the path of a request, the plugin host, listening and closing. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { clearTimeout, setTimeout } from 'node:timers';
import { refusalOf, tokenOf } from './auth.js';
import { jsonStoreOf } from './engine/index.js';
import { detailOf, isPetstoreError, type PetstoreError } from './errors.js';
import {
  Endpoint,
  stopping,
  type Answer,
  type Listening,
  type ListenOptions,
} from './http/index.js';
import { memoryStorage } from './memory/index.js';
import { petRoutes, publicRoutes, StoreRun } from './operations.js';
import { resolveOptions, type PetstoreOptions, type ResolvedOptions } from './options.js';
import { checkedRoute, Hooks, storageReset, type PluginHost } from './plugin.js';
import { internalErrorReply, replyTo, withLinksBelow, type Reply } from './reply.js';
import { checkExpectation, Query, readJsonBody, splitTarget, type Message } from './request.js';
import { Routes, type Resource, type Route } from './router.js';
import type { PetStorage } from './storage.js';

/** How long closing waits for requests under way; the process has 10 s in all. */
const closeTimeoutMs = 8_000;

/** A store of animals behind HTTP. Its functions work unbound. */
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
   * Answers one request without a port, as the platform's `fetch`, its TypeErrors and aborting
   * included.
   */
  readonly fetch: {
    (request: Request | string | URL, init?: RequestInit): Promise<Response>;
    /** As `Bun.serve` and `Deno.serve` call it. */
    (request: Request, server: object): Promise<Response>;
  };

  /**
   * Opens another port once plugins are ready. Rejects with a plugin's error, Node's, `unavailable`
   * once closed, or a TypeError for wrong options and on Bun and Deno, whose own servers take
   * `fetch`.
   */
  readonly listen: (options?: ListenOptions) => Promise<Listening>;
  /**
   * Resolves once the plugins are open; rejects if a plugin fails to open. `listen` does the same;
   * `fetch` and `handler` wait, then serve without a plugin that failed.
   */
  readonly ready: () => Promise<void>;
  /** Turns `/readyz` to 503 for good, for balancers; all else goes on. */
  readonly drain: () => void;

  /**
   * Closes the ports, finishes requests under way, closes plugins and storage. Calling it again is
   * fine.
   */
  readonly close: () => Promise<void>;
  /** As `close`, for `await using`. */
  readonly [Symbol.asyncDispose]: () => Promise<void>;
  /** The storage of the pets. */
  readonly storage: PetStorage;
}

/**
 * Makes a petstore; nothing listens yet.
 * @throws TypeError that names an option, and whatever a plugin throws.
 */
export function createPetstore(options: PetstoreOptions): Petstore {
  const resolved = resolveOptions(options, memoryStorage);
  const { storage, clock, keyClock, log } = resolved;

  const routes = new Routes(clock);
  const hooks = new Hooks(log, (message, callback) => service.onAbandoned(message, callback));
  const service = new RequestService({ ...resolved, routes, hooks });
  const endpoint = new Endpoint(service);

  const run = new StoreRun();
  storage.onReset?.(() => {
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
    storage,
    clock,
    log,
  });
  hooks.start(resolved.plugins, host);

  /** @throws PetstoreError `unavailable` while reads or writes cannot be expected to succeed. */
  async function checkReady(): Promise<void> {
    if (service.phase !== 'open') throw stopping();
    await storage.ready?.();
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
 * The reply to a request that came before a reset (C71). The connection ends, because requests that
 * the client sent behind it may still be unread.
 */
const storageResetReply: Reply = { ...replyTo(storageReset), endsConnection: true };

/** What the path of a request leads through. */
interface Parts extends ResolvedOptions {
  readonly routes: Routes;
  readonly hooks: Hooks;
}

/** The answer to each request, and what else http needs of a petstore. */
class RequestService {
  /**
   * How far the petstore is in its life. While it drains only `/readyz` says so; while it stops
   * connections end after their answers; once it is closed nothing is answered from the storage.
   */
  phase: 'open' | 'draining' | 'stopping' | 'closed' = 'open';
  readonly #parts: Parts;

  /**
   * How many requests have no reply yet, those of `fetch` and `handler` included: `answer` counts
   * up, `replied` down.
   */
  #underWay = 0;
  /** Called when no request is under way any more. */
  #onIdle = (): void => undefined;

  /** How many times the storage was reset (C71). */
  resets = 0;
  /** The callbacks of plugins that let requests wait, by the requests. */
  readonly #waits = new Map<Message, (() => void)[]>();
  /** The requests that a plugin has let wait. */
  readonly #hasWaited = new WeakSet<Message>();

  #rejectStopped = (_error: PetstoreError): void => undefined;
  /** Rejects when the petstore stops, for requests that wait until the plugins are open. */
  readonly #stopped = new Promise<never>((_resolve, reject) => (this.#rejectStopped = reject));

  constructor(parts: Parts) {
    this.#parts = parts;
    // Mostly nobody waits for it.
    this.#stopped.catch(() => undefined);
  }

  /**
   * The path of every request, in the order of checks of docs/contract.md. What a step throws
   * becomes the answer. Never rejects.
   */
  async answer(message: Message): Promise<Answer> {
    this.#underWay++;
    const { routes, verifyKey, maxBodyBytes, hooks } = this.#parts;
    const { method } = message;

    let resource: Resource | undefined;
    let keyName: string | undefined;
    let needsCurrent = false;
    /** True if the storage was reset since the request came, and that matters (C71). */
    const isOutdated = () => needsCurrent && message.resetsBefore !== this.resets;
    try {
      if (!hooks.areSettled) await Promise.race([hooks.settled(), this.#stopped]);
      const head = message.readHead();

      const { path, query } = splitTarget(message.target);
      const basePath = this.#basePathOf(message);
      const match = routes.find(method, path, basePath);
      resource = match.resource;

      const operation = resource.operations.get(method);
      if (operation === undefined) throw resource.notAllowed;

      const needsKey = resource.needsKey && method !== 'OPTIONS';
      if (needsKey) {
        const token = tokenOf(head.authorization);
        const name = token === undefined ? '' : await verifyKey(token);

        // A verifier without types may say no by null or false (C40).
        if (typeof name !== 'string' || name === '')
          return this.#answerBy(refusalOf(head.authorization), message, resource);

        keyName = name;
      }

      checkExpectation(head);

      const body =
        operation.readsBody === true ? await readJsonBody(message, head, maxBodyBytes) : '';

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
      const { survivesReset = false } = operation;
      needsCurrent = needsKey && !survivesReset;
      const checkCurrent = () => {
        if (isOutdated()) throw storageReset;
      };
      const route = resource.path;
      const reply = await hooks.handle({ operation, request, message, route, checkCurrent });

      if (survivesReset) message.resetsBefore = this.resets;
      // Only after a wait, because the operation itself may have reset the storage.
      if (this.#hasWaited.has(message)) checkCurrent();
      return this.#answerBy(reply, message, resource, keyName);
    } catch (error) {
      const isRefused = error === storageReset || (this.#hasWaited.has(message) && isOutdated());
      const reply = isRefused ? storageResetReply : this.#failureReply(error);
      return this.#answerBy(reply, message, resource, keyName);
    }
  }

  /** Refuses the requests that came before, because the storage has just begun anew (C71). */
  reset(): void {
    this.resets++;
    this.#endWaits();
  }

  /** Begins to stop: requests under way are finished, without waits of plugins. */
  stop(): void {
    this.phase = 'stopping';
    this.#rejectStopped(stopping());
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

  /** Calls back when a wait becomes pointless; see `PluginRequest`. The callback never throws. */
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

  /** The reply to a request that failed after its answer was made. */
  failed(error: PetstoreError, message: Message, { resource }: Answer): Reply {
    return this.#answerBy(replyTo(error), message, resource).reply;
  }

  /** Returns the reply to a request that the parser refuses, with the headers of plugins. */
  refusal(error: PetstoreError, header: Message['header']): Reply {
    return this.#parts.hooks.withHeadersOfRefused(replyTo(error), header);
  }

  /** Logs a failure that is ours (C49). */
  fault(thrown: unknown): void {
    this.#parts.log('error', 'internal error', { error: detailOf(thrown) });
  }

  /** Hears of each reply once it is decided; without a message, of one to what was no HTTP. */
  replied(status: number, message?: Message, answer?: Answer): void {
    this.#parts.hooks.replied(status, message, answer?.resource?.path, answer?.keyName);
    if (message !== undefined) this.#waits.delete(message);
    if (message !== undefined && --this.#underWay === 0) this.#onIdle();
  }

  /** The petstore's time, in milliseconds since the epoch. */
  now(): number {
    return this.#parts.clock();
  }

  get isStopping(): boolean {
    return this.phase === 'stopping' || this.phase === 'closed';
  }

  /** Resolves once no request is under way, or the time is up. */
  idle(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);

      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };

      if (this.#underWay === 0) this.#onIdle();
    });
  }

  /** An answer by a reply, which gets the headers of its route (C33) and those of plugins. */
  #answerBy(reply: Reply, message: Message, resource?: Resource, keyName?: string): Answer {
    const own = resource?.headers;
    const announced = own === undefined ? reply : { ...reply, headers: [...own, ...reply.headers] };

    const linked = withLinksBelow(this.#basePathOf(message), announced);
    const { hooks } = this.#parts;
    const completed = hooks.withHeaders(linked, message, resource?.path, keyName);
    return { reply: completed, resource, keyName };
  }

  /** What stands for `/v1` in links (C56). */
  #basePathOf({ mountPath = '' }: Message): string {
    return this.#parts.basePath ?? `${mountPath}/v1`;
  }

  /** The reply to a failure (C49). Never throws, whatever was thrown. */
  #failureReply(thrown: unknown): Reply {
    try {
      if (isPetstoreError(thrown) && thrown.status !== undefined) return replyTo(thrown);
    } catch (error) {
      this.fault(error);
    }

    this.fault(thrown);
    return internalErrorReply;
  }
}
