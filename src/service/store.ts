/** One store of pets: its routes, its plugins and the path of its requests. */
import { jsonStoreOf } from '../engine/index.js';
import { stoppingError } from '../http/index.js';
import { petRoutes, publicRoutes, StoreRun } from '../operations.js';
import type { ResolvedOptions } from '../options.js';
import type { PluginHost, PortSummary } from '../plugin.js';
import { Hooks } from './hooks.js';
import { checkedRoute } from './plugin-routes.js';
import { sharedCheck } from './readiness.js';
import { RequestService, type Lifecycle } from './request-service.js';
import { Routes, type Route } from '../router.js';
import type { PetStorage } from '../storage.js';

/** A store of pets, whose plugins start by `start`. */
export class Store {
  readonly service: RequestService;
  readonly hooks: Hooks;
  readonly storage: PetStorage;
  readonly #options: ResolvedOptions;
  readonly #lifecycle: Lifecycle;
  readonly #host: PluginHost;

  /** @param isolatedKey The name of the API key that has the store for itself. */
  constructor(
    options: ResolvedOptions,
    lifecycle: Lifecycle,
    ports: () => readonly PortSummary[],
    isolatedKey?: string,
  ) {
    const { storage, clock, keyClock, setClock, log, baseUrls } = options;
    this.#options = options;
    this.#lifecycle = lifecycle;
    this.storage = storage;

    const routes = new Routes(clock);
    this.hooks = new Hooks(log, {
      onAbandoned: (message, callback) => this.service.onAbandoned(message, callback),
      checkCurrent: (message, resource) => this.service.checkCurrent(message, resource),
      isOutdated: (message) => this.service.isBeforeReset(message),
    });
    this.service = new RequestService({ ...options, lifecycle, routes, hooks: this.hooks });

    const run = new StoreRun();
    storage.onReset?.(() => {
      setClock(undefined);
      run.begin();
      this.service.reset();
    });
    const isClosed = () => lifecycle.phase === 'closed';
    const storageReady = sharedCheck(async () => storage.ready?.());
    const ours = [
      ...petRoutes(jsonStoreOf(storage), run, clock, keyClock, isClosed),
      ...publicRoutes(
        () => this.#checkReady(storageReady),
        routes,
        baseUrls,
        (document) => this.hooks.described(document),
      ),
    ];
    for (const route of ours) routes.add(route);

    this.#host = Object.freeze({
      ...this.hooks.host,
      route: (route: Route) => routes.add(checkedRoute(route)),
      routes: () => routes.present().map(({ path, allowed }) => ({ path, methods: allowed })),
      ports,
      storage,
      clock,
      setClock,
      log,
      isolatedKey,
    });
  }

  /** Starts the plugins. @throws TypeError, or the error of a plugin */
  start(): void {
    this.hooks.start(this.#options.plugins, this.#host);
  }

  /** @throws PetstoreError `unavailable` if reads or writes cannot be expected to succeed */
  async #checkReady(storageReady: () => Promise<void>): Promise<void> {
    if (this.#lifecycle.phase !== 'open') throw stoppingError();
    await storageReady();
  }
}
