/**
 * What a plugin is and what it is given, and its hooks, whose errors end neither a request nor the
 * process.
 */
import { performance } from 'node:perf_hooks';
import { checkHeaders, PetstoreError, reasonOf, shortly } from './errors.js';
import { guarded, type Log } from './log.js';
import type { OpenApiDocument } from './openapi.js';
import { checkReply, type Reply } from './reply.js';
import { splitTarget, type Message } from './request.js';
import type { Operation, OperationRequest, Route, RouteSummary } from './router.js';
import type { PetStorage } from './storage.js';

/** Called once, while the petstore is created. Where it is async, `listen` waits, or rejects. */
export type Plugin = (host: PluginHost) => void | PromiseLike<void>;

/** What a plugin can do. */
export interface PluginHost {
  /**
   * Serves a path: below `/v1` with a key, elsewhere without.
   * @throws TypeError for a path that is malformed or taken.
   */
  route(route: Route): void;
  /** Returns the routes that are there now; one whose sunset is over is missing (C35). */
  routes(): readonly RouteSummary[];
  /**
   * Calls back once all plugins have started, so that all routes are known: before `createPetstore`
   * returns, or before `listen` resolves if a plugin is async. What the callback throws,
   * `createPetstore` throws or `listen` rejects with.
   */
  onStart(callback: StartCallback): void;
  /** Adds headers to each reply: names and values, alternating; none that frames it. */
  addHeaders(make: HeaderMaker): void;
  /** Wraps each operation that is carried out; the first plugin is the outermost. */
  around(wrapper: Wrapper): void;
  /** Calls back once each reply is decided, about as it is sent, even to what was no HTTP. */
  onReply(watcher: ReplyWatcher): void;
  /** Adds to the OpenAPI document, each time that one is made. */
  describe(change: DocumentChange): void;
  /** Makes `listen` wait, and reject where this does. */
  waitFor(opening: PromiseLike<unknown>): void;
  /** Calls back before the storage closes; a promise is waited for. */
  onClose(close: Closer): void;
  /** The petstore's own, open; only the petstore closes it. */
  readonly storage: PetStorage;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  /** The petstore's. */
  readonly log: Log;
}

type HeaderMaker = (request: RequestHead) => readonly string[];
type ReplyWatcher = (event: ReplyEvent, source: ReplySource) => void;
type DocumentChange = (document: OpenApiDocument) => void;
type Closer = () => void | PromiseLike<void>;
type StartCallback = () => unknown;

/**
 * Put around an operation, which `next` carries out: what it answers is the reply, what it throws
 * the error.
 */
export type Wrapper = (request: AcceptedRequest, next: NextOperation) => Promise<Reply>;

/**
 * Carries out an operation and resolves to its reply. `hold`, if given, is awaited once the
 * operation has checked the request and before it reads or changes anything; until the operation
 * has ended, the idempotency key of the request is in flight (C57).
 */
export type NextOperation = (hold?: () => PromiseLike<unknown>) => Promise<Reply>;

/** What a client asked with, whether or not it may. */
export interface RequestHead {
  /** Such as `GET`, as the client wrote it: case counts in methods (RFC 9110 section 9.1). */
  readonly method: string;
  /** A header by its name in lower case, several joined by `, `. */
  readonly header: (name: string) => string | undefined;
}

/** A request that may be carried out. */
export interface AcceptedRequest extends RequestHead {
  /** The API key's name; undefined where none is needed. */
  readonly keyName: string | undefined;
  /** The path of its route, such as `/v1/pets/{petId}`. */
  readonly route: string;
  /**
   * Calls back, at most once, when it becomes pointless to let this request wait: its client is
   * gone or has closed its side of the connection, the petstore closes, or the storage was reset.
   * If it is pointless already, it calls back at once.
   */
  readonly onAbandoned: (callback: () => void) => void;
}

/** A reply that was decided, whether or not it arrives, and what it answers. */
export interface ReplyEvent {
  /** Empty where the request was no HTTP. */
  readonly method: string;
  /** The route's path with its `{param}`s, never the client's; absent where there is none. */
  readonly route?: string;
  /** The HTTP status of the reply. */
  readonly status: number;
  /** From the head of the request to the reply, waiting included. */
  readonly milliseconds: number;
  /** The API key's name; absent where none was needed or accepted. */
  readonly keyName?: string;
}

/** What is the client's own, for a log, not for labels of metrics. */
export interface ReplySource {
  /**
   * The path as it came, without the query, where a key may stand; empty where the request was no
   * HTTP.
   */
  readonly path: string;
  /** Its IP address, or its proxy's; absent through `fetch`, and once its connection is gone. */
  readonly address?: string;
}

/** The error for a request that came before a reset of the storage (C71). */
export const storageReset = new PetstoreError(
  'unavailable',
  'The storage was reset while this request waited.',
);

/**
 * Returns a copy of a plugin's route whose replies are checked.
 * @throws TypeError if a member has the wrong type, or for a successor that could not stand in a
 * header.
 */
export function checkedRoute(route: Route): Route {
  const { path, methods, deprecation }: Partial<Route> = Object(route);
  if (typeof path !== 'string')
    throw new TypeError(`route takes a path such as /v1/pets/{petId}, not ${shortly(path)}`);
  if (typeof methods !== 'object' || methods === null)
    throw new TypeError(`route ${path} needs methods, such as { GET: { handler } }`);
  checkDeprecation(path, deprecation);

  const checked = Object.entries(methods).map(([method, operation]) => {
    checkOperation(`route ${path} ${method}`, operation);
    const handler = async (request: OperationRequest) =>
      checkReply(await operation.handler(request));
    return [method, { ...operation, handler }];
  });
  return { ...route, methods: Object.fromEntries(checked) };
}

/** @throws TypeError */
function checkDeprecation(path: string, deprecation: Route['deprecation']): void {
  if (deprecation === undefined) return;

  const { since, sunset, successor }: Partial<typeof deprecation> = Object(deprecation);
  if (typeof successor !== 'string' || !/^[!-=?-~]+$/.test(successor))
    throw new TypeError(`the successor of route ${path} must be a path or an address`);
  for (const time of [since, sunset])
    if (typeof time !== 'number' || Number.isNaN(new Date(time).getTime()))
      throw new TypeError(`since and sunset of route ${path} must be milliseconds since the epoch`);
}

/** @throws TypeError that begins with `what` */
function checkOperation(what: string, operation: Operation): void {
  const { handler, document, ...flags }: Partial<Operation> = Object(operation);
  if (typeof handler !== 'function') throw new TypeError(`${what} needs a handler, a function`);
  if (document !== undefined && (typeof document !== 'object' || document === null))
    throw new TypeError(`${what} has a document that is not an Operation Object`);

  for (const name of ['readsBody', 'awaitsHold', 'survivesReset'] as const)
    if (![undefined, true, false].includes(flags[name]))
      throw new TypeError(`${what} has a ${name} that is not true or false`);
}

/** An operation that is about to be carried out. */
interface Call {
  readonly operation: Operation;
  readonly request: OperationRequest;
  readonly message: Message;
  /** The path of the route. */
  readonly route: string;
  /** @throws PetstoreError `unavailable` if the storage was reset since the request came. */
  readonly checkCurrent: () => void;
  /** See `AcceptedRequest`. */
  readonly onAbandoned: (callback: () => void) => void;
}

/** Runs an operation once all of these functions have resolved, one after the other. */
type HeldRun = (holds: readonly (() => PromiseLike<unknown>)[]) => Promise<Reply>;

/**
 * The hooks of all plugins. What one throws or rejects with is logged; of a wrapper, it is the
 * answer.
 */
export class Hooks {
  readonly #log: Log;
  readonly #wrappers: Wrapper[] = [];
  readonly #makers: HeaderMaker[] = [];
  readonly #watchers: ReplyWatcher[] = [];
  readonly #changes: DocumentChange[] = [];
  readonly #closers: Closer[] = [];
  readonly #openings: PromiseLike<unknown>[] = [];
  readonly #starters: StartCallback[] = [];
  #hasStarted = false;

  constructor(log: Log) {
    this.#log = log;
  }

  /** The functions by which plugins add their hooks. */
  readonly host: Omit<PluginHost, 'route' | 'routes' | 'storage' | 'clock' | 'log'> = {
    around: (wrapper) => void this.#wrappers.push(checkFunction('around', wrapper)),
    addHeaders: (make) => void this.#makers.push(checkFunction('addHeaders', make)),
    onReply: (watcher) => void this.#watchers.push(checkFunction('onReply', watcher)),
    describe: (change) => void this.#changes.push(checkFunction('describe', change)),
    onClose: (close) => void this.#closers.push(checkFunction('onClose', close)),
    onStart: (callback) => {
      checkFunction('onStart', callback);
      if (this.#hasStarted) throw new TypeError('onStart is too late: all plugins have started');
      this.#starters.push(callback);
    },
    waitFor: (opening) => {
      if (!isThenable(opening))
        throw new TypeError(`waitFor takes a promise, not ${shortly(opening)}`);
      this.#waitFor(opening);
    },
  };

  /**
   * Starts plugins in their order, then calls back those that wait for the last of them.
   * @throws TypeError, and what a plugin throws.
   */
  start(plugins: readonly Plugin[], host: PluginHost): void {
    const started: readonly unknown[] = plugins.map((plugin) => {
      const result: unknown = plugin(host);
      if (isThenable(result)) this.#waitFor(result);
      else checkStarted(plugin, result);
      return result;
    });

    if (started.some(isThenable))
      this.#waitFor(
        Promise.all(started).then((results) => {
          plugins.forEach((plugin, index) => checkStarted(plugin, results[index]));
          return Promise.all(this.#callStarters());
        }),
      );
    else for (const result of this.#callStarters()) if (isThenable(result)) this.#waitFor(result);
  }

  /** Calls back those that wait for the start of all plugins; returns what they returned. */
  #callStarters(): readonly unknown[] {
    this.#hasStarted = true;
    return this.#starters.map((callback) => callback());
  }

  #waitFor(opening: PromiseLike<unknown>): void {
    // What is no promise yet, as a query of a database may be, is begun once.
    const opened = Promise.resolve(opening);
    this.#openings.push(opened);
    // `listen` reports its failure: until then that is no unhandled rejection.
    void guarded(() => opened);
  }

  /** Resolves once all that plugins wait for has; rejects where one of it does, with the same. */
  opened(): Promise<unknown> {
    return Promise.all(this.#openings);
  }

  /** Carries out an operation, within the wrappers of all plugins. */
  handle({ operation, request, message, route, checkCurrent, onAbandoned }: Call) {
    if (this.#wrappers.length === 0) {
      checkCurrent();
      return operation.handler(request);
    }

    const accepted: AcceptedRequest = Object.freeze({
      ...headOf(message),
      keyName: request.keyName,
      route,
      onAbandoned: (callback: () => void) => {
        checkFunction('onAbandoned', callback);
        onAbandoned(() => void this.#guard('hear that a request is abandoned', callback));
      },
    });

    const carryOut: HeldRun = async (holds) => {
      const hold = async () => {
        for (const each of holds) await each();
        checkCurrent();
      };
      const isHeldWithin = holds.length > 0 && operation.awaitsHold === true;
      if (!isHeldWithin) await hold();
      // A copy: what it answers may be a reply that other requests get too.
      return checkReply(await operation.handler(isHeldWithin ? { ...request, hold } : request));
    };

    const wrapped = this.#wrappers.reduceRight<HeldRun>(
      (inner, wrapper) => async (holds) => {
        // Somebody else's `then(next)` calls it with a value that is not a function.
        const next: NextOperation = (hold) =>
          inner(typeof hold === 'function' ? [...holds, hold] : holds);
        return checkReply(await wrapper(accepted, next), 'a function given to `around`');
      },
      carryOut,
    );
    return wrapped([]);
  }

  /** A reply with the headers that plugins add to it. */
  withHeaders(reply: Reply, message: Message): Reply {
    if (this.#makers.length === 0) return reply;

    const request = headOf(message);

    let completed = reply;
    for (const make of this.#makers) {
      try {
        const added: unknown = make(request);
        if (added instanceof Promise) {
          void this.#guard('add headers', () => added);
          throw new TypeError('headers cannot wait');
        }

        const headers = [...completed.headers, ...checkHeaders(added)];
        completed = checkReply({ ...completed, headers });
      } catch (error) {
        this.#logFailure('add headers', error);
      }
    }
    return completed;
  }

  /** Tells the watchers of a reply; without a message, the request was no HTTP. */
  replied(status: number, message?: Message, route?: string, keyName?: string): void {
    if (this.#watchers.length === 0) return;

    const now = performance.now();
    const { method = '', target = '', startedAt = now, clientAddress: address } = message ?? {};

    const event: ReplyEvent = Object.freeze({
      method,
      status,
      milliseconds: now - startedAt,
      ...(route === undefined ? {} : { route }),
      ...(keyName === undefined ? {} : { keyName }),
    });

    const source: ReplySource = Object.freeze({
      path: splitTarget(target).path,
      ...(address === undefined ? {} : { address }),
    });

    for (const watcher of this.#watchers)
      void this.#guard('watch a reply', () => watcher(event, source));
  }

  /**
   * Returns the OpenAPI document with the changes of plugins. One that fails is left out whole.
   */
  described(document: OpenApiDocument): OpenApiDocument {
    let described = document;
    for (const change of this.#changes) {
      const draft = structuredClone(described);
      try {
        this.#checkChange(draft, change(draft));
        described = draft;
      } catch (error) {
        this.#logFailure('describe itself', error);
      }
    }
    return described;
  }

  /** @throws TypeError if a change returned something that would be lost, or made no JSON */
  #checkChange(draft: OpenApiDocument, returned: unknown): void {
    if (isThenable(returned)) {
      void this.#guard('describe itself', () => returned);
      throw new TypeError('describe cannot wait');
    }
    if (returned !== draft && Object(returned).openapi !== undefined)
      throw new TypeError('describe must change the document that it is given, not return another');
    structuredClone(draft);
    JSON.stringify(draft);
  }

  /** Closes what plugins have opened, one after the other; never rejects. */
  async close(): Promise<void> {
    for (const close of this.#closers) await this.#guard('close', close);
  }

  #guard(what: string, call: () => unknown): Promise<void> {
    return guarded(call, (error) => this.#logFailure(what, error));
  }

  #logFailure(what: string, error: unknown): void {
    this.#log('error', `a plugin failed to ${what}`, { error: reasonOf(error) });
  }
}

function headOf(message: Message): RequestHead {
  return Object.freeze({ method: message.method, header: (name: string) => message.header(name) });
}

/** Returns a plugin's hook. @throws TypeError if it is not a function. */
function checkFunction<Hook>(name: string, hook: Hook): Hook {
  if (typeof hook === 'function') return hook;
  throw new TypeError(`${name} takes a function, not ${shortly(hook)}`);
}

/** @throws TypeError if a plugin returned a function, because that is the plugin. */
function checkStarted(plugin: Plugin, result: unknown): void {
  if (typeof result !== 'function') return;
  const name = plugin.name || 'a plugin';
  throw new TypeError(`${name} returned a function: pass what it returns, such as ${name}()`);
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof Object(value).then === 'function';
}
