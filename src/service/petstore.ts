/** Assembles a petstore: its stores, its ports and shutdown. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Endpoint, type Listening, type ListenOptions } from '../http/index.js';
import { IsolatedStores } from './isolated-stores.js';
import { memoryStorage } from '../memory/index.js';
import { isolatedOptions, resolveOptions, type PetstoreOptions } from '../options.js';
import { Lifecycle } from './request-service.js';
import type { PetStorage } from '../storage.js';
import { Store } from './store.js';

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
  const lifecycle = new Lifecycle();
  const ports = () => endpoint.ports();
  const base = new Store(resolved, lifecycle, ports);
  const isolated = resolved.isolate
    ? new IsolatedStores(base.service, resolved.verifyKey, (name) => {
        const store = new Store(isolatedOptions(resolved), lifecycle, ports, name);
        store.start();
        return store;
      })
    : undefined;
  const endpoint = new Endpoint(isolated ?? base.service);
  base.start();

  const stores = () => [base, ...(isolated?.stores ?? [])];

  async function closeAll(): Promise<void> {
    for (const { service } of stores()) service.stop();
    const idle = stores().map(({ service }) => service.idle(closeTimeoutMs));
    await Promise.all([endpoint.stop(closeTimeoutMs), ...idle]);
    for (const { hooks } of stores()) await hooks.close();

    lifecycle.phase = 'closed';
    for (const { storage } of stores()) await storage.close();
  }

  let closing: Promise<void> | undefined;
  const close = () => (closing ??= closeAll());

  const opened = () => base.hooks.opened();
  return {
    handler: (request, response, next) => void endpoint.handle(request, response, next),
    fetch: endpoint.fetch.bind(endpoint),
    listen: (listenOptions = {}) => opened().then(() => endpoint.listen(listenOptions)),
    drain: () => {
      if (lifecycle.phase === 'open') lifecycle.phase = 'draining';
    },
    ready: opened,
    close,
    [Symbol.asyncDispose]: close,
    storage: base.storage,
  };
}
