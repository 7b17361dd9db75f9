/** Takes the requests of one store through all steps. */
import { clearTimeout, setTimeout } from 'node:timers';
import { refusalOf, tokenOf } from '../auth.js';
import { detailOf, isPetstoreError, type PetstoreError } from '../errors.js';
import { stoppingError, type RoutedReply, type PetstoreService } from '../http/index.js';
import type { ResolvedOptions } from '../options.js';
import type { SentReply } from '../plugin.js';
import { internalErrorReply, replyTo, withLinksBelow, type Reply } from '../reply.js';
import {
  checkExpectation,
  Query,
  readJsonBody,
  readOptionalBody,
  splitTarget,
  type Message,
} from '../request.js';
import type { Resource, Routes } from '../router.js';
import { storageReset, type Hooks } from './hooks.js';

/**
 * The reply to a request that arrived before a reset (C71). The connection closes, because the
 * client may have pipelined requests that are still unread.
 */
const storageResetReply: Reply = { ...replyTo(storageReset), endsConnection: true };

/** The parts that the path of a request uses. */
interface Parts extends ResolvedOptions {
  readonly lifecycle: Lifecycle;
  readonly routes: Routes;
  readonly hooks: Hooks;
}

/** The state that all stores of a petstore share. */
export class Lifecycle {
  /**
   * `draining` changes only `/readyz`. While `stopping`, connections close after their responses.
   * Once `closed`, requests that need the storage get a 503.
   */
  phase: 'open' | 'draining' | 'stopping' | 'closed' = 'open';
  /** The number of resets of all storages (C71). */
  resets = 0;
}

/** Takes each request through all steps, and holds the state of one store. */
export class RequestService implements PetstoreService {
  readonly #parts: Parts;
  readonly #lifecycle: Lifecycle;

  /** The number of requests in flight: `handle` raises it, `reportResponse` lowers it. */
  #inFlight = 0;
  /** Called when no request is in flight any more. */
  #onIdle = (): void => undefined;

  /** The number of the last reset of the storage. */
  #lastReset = 0;
  /** The callbacks of plugins that delay requests, by request. */
  readonly #waits = new Map<Message, (() => void)[]>();
  /** The requests that a plugin has delayed. */
  readonly #hasWaited = new WeakSet<Message>();

  #rejectStopped = (_error: PetstoreError): void => undefined;
  /** Rejects when the petstore stops, for requests that wait until the plugins are open. */
  readonly #stopped = new Promise<never>((_resolve, reject) => (this.#rejectStopped = reject));

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#lifecycle = parts.lifecycle;
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

  /** Returns the reply to a request that failed before its first step. */
  refuse(message: Message, error: unknown): RoutedReply {
    this.#inFlight++;
    return this.#complete(this.#failureReply(error), message);
  }

  /** True if the operation depends on a storage that was reset after the request arrived (C71). */
  #isOutdated(message: Message, resource?: Resource): boolean {
    if (!this.isBeforeReset(message)) return false;

    const { method } = message;
    const needsKey = resource?.needsKey === true && method !== 'OPTIONS';
    return needsKey && resource.operations.get(method)?.survivesReset !== true;
  }

  /** True if the storage was reset after the request arrived (C71). */
  isBeforeReset({ resetsBefore }: Message): boolean {
    return resetsBefore < this.#lastReset;
  }

  /** The number of resets of all storages. */
  get resets(): number {
    return this.#lifecycle.resets;
  }

  /** @throws PetstoreError `unavailable` if the request is outdated by a reset (C71) */
  checkCurrent(message: Message, resource: Resource): void {
    if (this.#isOutdated(message, resource)) throw storageReset;
  }

  /** Notes a reset of the storage, so that requests that arrived before it are refused (C71). */
  reset(): void {
    this.#lastReset = ++this.#lifecycle.resets;
    this.#endWaits();
  }

  /** Begins the shutdown: ends the delays of plugins, and lets requests in flight finish. */
  stop(): void {
    this.#lifecycle.phase = 'stopping';
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
    else if (this.isStopping || this.isBeforeReset(message)) callback();
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

  /** True if a plugin watches the ends of responses. */
  get watchesEnds(): boolean {
    return this.#parts.hooks.watchesEnds;
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
    const { phase } = this.#lifecycle;
    return phase === 'stopping' || phase === 'closed';
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
