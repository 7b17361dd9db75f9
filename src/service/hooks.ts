/** The hooks that plugins register. An error in a hook ends neither a request nor the process. */
import { performance } from 'node:perf_hooks';
import { PetstoreError, reasonOf, shortly } from '../errors.js';
import { callSafely, type Log } from '../log.js';
import type { OpenApiDocument } from '../openapi.js';
import type {
  AcceptedRequest,
  Closer,
  DocumentChange,
  EndWatcher,
  HeaderMaker,
  NextOperation,
  Plugin,
  PluginHost,
  PluginRequest,
  ReplyEvent,
  ReplyWatcher,
  SentReply,
  StartCallback,
  Wrapper,
} from '../plugin.js';
import { checkReply, headerList, isSameReply, replyOf, type Reply } from '../reply.js';
import { splitTarget, type Message } from '../request.js';
import type { CheckedOperation, OperationRequest, Resource } from '../router.js';

/** The error for a request that arrived before a reset of the storage (C71). */
export const storageReset = new PetstoreError(
  'unavailable',
  'The storage was reset while this request waited.',
);

/** An operation that is about to run. */
interface Call {
  readonly operation: CheckedOperation;
  readonly request: OperationRequest;
  readonly message: Message;
  readonly resource: Resource;
}

/** The functions of the petstore that the hooks call. */
interface RequestState {
  /** Calls back when delaying a request is no longer useful; see `PluginRequest`. */
  readonly onAbandoned: (message: Message, callback: () => void) => void;
  /** @throws PetstoreError `unavailable` if the request is outdated by a reset (C71) */
  readonly checkCurrent: (message: Message, resource: Resource) => void;
  /** True if the storage was reset after the request arrived. */
  readonly isOutdated: (message: Message) => boolean;
}

/** Calls the holds one after the other, then runs an operation. */
type HeldRun = (holds: readonly (() => PromiseLike<unknown>)[]) => Promise<Reply>;

/**
 * The hooks of all plugins. What a hook throws or rejects with is logged; what a wrapper throws
 * becomes the response.
 */
export class Hooks {
  readonly #log: Log;
  readonly #state: RequestState;
  readonly #requests = new WeakMap<Message, PluginRequest>();
  readonly #wrappers: Wrapper[] = [];
  readonly #makers: HeaderMaker[] = [];
  readonly #watchers: ReplyWatcher[] = [];
  readonly #endWatchers: EndWatcher[] = [];
  readonly #changes: DocumentChange[] = [];
  readonly #closers: Closer[] = [];
  readonly #openings: PromiseLike<unknown>[] = [];
  readonly #starters: StartCallback[] = [];
  #hasStarted = false;
  #areSettled = true;

  constructor(log: Log, state: RequestState) {
    this.#log = log;
    this.#state = state;
  }

  /** The functions of the host that register hooks. */
  readonly host: Omit<
    PluginHost,
    'route' | 'routes' | 'ports' | 'storage' | 'clock' | 'setClock' | 'log' | 'isolatedKey'
  > = {
    around: (wrapper) => void this.#wrappers.push(checkFunction('around', wrapper)),
    addHeaders: (make) => void this.#makers.push(checkFunction('addHeaders', make)),
    onReply: (watcher) => void this.#watchers.push(checkFunction('onReply', watcher)),
    onResponseEnd: (watcher) =>
      void this.#endWatchers.push(checkFunction('onResponseEnd', watcher)),
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
   * Starts the plugins in their order, then calls the callbacks of `onStart`.
   * @throws TypeError, or the error of a plugin
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

  /** Calls the callbacks of `onStart` and returns their results. */
  #callStarters(): readonly unknown[] {
    this.#hasStarted = true;
    return this.#starters.map((callback) => callback());
  }

  #waitFor(opening: PromiseLike<unknown>): void {
    this.#areSettled = false;
    // Resolved once, because a thenable may start its work each time, such as a database query.
    const opened = Promise.resolve(opening);
    this.#openings.push(opened);
    // `ready` and `listen` report its failure, so that it is not an unhandled rejection.
    void callSafely(() => opened);
  }

  /** True if no plugin is still opening. */
  get areSettled(): boolean {
    return this.#areSettled;
  }

  /** Resolves once all plugins are open; rejects with the error of one that fails. */
  async opened(): Promise<void> {
    await this.settled();
    await Promise.all(this.#openings);
  }

  /** Resolves once no plugin is still opening, even if a plugin failed. */
  async settled(): Promise<void> {
    const { length } = this.#openings;
    await Promise.allSettled(this.#openings);
    // A plugin may have called `waitFor` while it opened.
    if (length < this.#openings.length) return this.settled();
    this.#areSettled = true;
  }

  /** Runs an operation within the wrappers of all plugins. */
  handle({ operation, request, message, resource }: Call) {
    if (this.#wrappers.length === 0) {
      this.#state.checkCurrent(message, resource);
      return operation.handler(request);
    }

    const { readsBody = false } = operation;
    const body = readsBody === false ? undefined : request.body;
    const accepted = this.#requestOf(message, resource.path, request.keyName, body);

    const carryOut: HeldRun = async (holds) => {
      const hold = async () => {
        for (const each of holds) await each();
        this.#state.checkCurrent(message, resource);
      };
      const isHeldWithin = holds.length > 0 && operation.awaitsHold === true;
      if (!isHeldWithin) await hold();
      return operation.handler(isHeldWithin ? { ...request, hold } : request);
    };

    const wrapped = this.#wrappers.reduceRight<HeldRun>(
      (inner, wrapper) => async (holds) => {
        let inside: Reply | undefined;
        const next: NextOperation = async (hold) => {
          // A foreign `then(next)` calls it with a value that is not a function.
          inside = await inner(typeof hold === 'function' ? [...holds, hold] : holds);
          // A copy, because a wrapper may change what it gets, and other requests get the original.
          return { ...inside, headers: [...inside.headers] };
        };

        const reply = await replyOf(await wrapper(accepted, next));
        if (inside !== undefined && isSameReply(reply, inside)) return inside;
        return checkReply(reply, 'a function given to `around`', inside);
      },
      carryOut,
    );
    return wrapped([]);
  }

  /**
   * Returns a reply with the headers that plugins add. If they add none, it is the same reply, so
   * that a shared response stays shared.
   */
  withHeaders(reply: Reply, message: Message, route?: string, keyName?: string): Reply {
    if (this.#makers.length === 0) return reply;
    return this.#withHeaders(reply, this.#requestOf(message, route, keyName));
  }

  /** Returns a reply to a request that the parser refuses, with the headers that plugins add. */
  withHeadersOfRefused(reply: Reply, header: PluginRequest['header']): Reply {
    return this.#withHeaders(reply, Object.freeze({ ...noRequest, header }));
  }

  #withHeaders(reply: Reply, request: PluginRequest): Reply {
    const added: string[] = [];
    for (const make of this.#makers) {
      try {
        const headers: unknown = make(request);
        if (isThenable(headers)) {
          void this.#guard('add headers', () => headers);
          throw new TypeError('headers cannot wait');
        }
        added.push(...headerList(headers));
      } catch (error) {
        this.#logFailure('add headers', error);
      }
    }
    return added.length === 0 ? reply : { ...reply, headers: [...reply.headers, ...added] };
  }

  /** Reports a response to the watchers; `message` is undefined if the client sent no HTTP. */
  replied(sent: SentReply, message?: Message, route?: string, keyName?: string): void {
    if (this.#watchers.length === 0) return;

    const request = message === undefined ? noRequest : this.#requestOf(message, route, keyName);
    const event: ReplyEvent = Object.freeze(eventOf(sent, message, route, keyName));
    for (const watcher of this.#watchers)
      void this.#guard('watch a reply', () => watcher(event, request));
  }

  /** True if a plugin watches the ends of responses. */
  get watchesEnds(): boolean {
    return this.#endWatchers.length > 0;
  }

  /** Reports the end of a response to the watchers. */
  ended(sent: SentReply, isWhole: boolean, message: Message, route?: string, keyName?: string) {
    const request = this.#requestOf(message, route, keyName);
    const event = Object.freeze({ ...eventOf(sent, message, route, keyName), isWhole });
    for (const watcher of this.#endWatchers)
      void this.#guard('watch the end of a response', () => watcher(event, request));
  }

  /** Returns the object that all hooks get for a request. */
  #requestOf(message: Message, route: string, keyName?: string, body?: string): AcceptedRequest;
  #requestOf(message: Message, route?: string, keyName?: string): PluginRequest;
  #requestOf(message: Message, route?: string, keyName?: string, body?: string): PluginRequest {
    const known = this.#requests.get(message);
    if (known !== undefined) return known;

    const { path, query } = splitTarget(message.target);
    const request: PluginRequest & Pick<AcceptedRequest, 'body' | 'reportFault'> = Object.freeze({
      method: message.method,
      path,
      query,
      header: (name: string) => message.header(name),
      route,
      keyName,
      body,
      reportFault: (fault: string) => void (message.fault = fault),
      address: message.clientAddress,
      isOutdated: () => this.#state.isOutdated(message),
      onAbandoned: (callback: () => void) => {
        checkFunction('onAbandoned', callback);
        this.#state.onAbandoned(message, () => {
          void this.#guard('hear that a request is abandoned', callback);
        });
      },
    });
    this.#requests.set(message, request);
    return request;
  }

  /**
   * Returns the OpenAPI document with the changes of plugins. A change that fails is dropped.
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

  /**
   * @throws TypeError if a change returned a new document or a promise, or the draft is not JSON
   */
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

  /** Calls the callbacks of `onClose` one after the other. Never rejects. */
  async close(): Promise<void> {
    for (const close of this.#closers) await this.#guard('close', close);
  }

  #guard(what: string, call: () => unknown): Promise<void> {
    return callSafely(call, (error) => this.#logFailure(what, error));
  }

  #logFailure(what: string, error: unknown): void {
    this.#log('error', `a plugin failed to ${what}`, { error: reasonOf(error) });
  }
}

function eventOf(
  { status, cut, isReplay }: SentReply,
  message: Message | undefined,
  route: string | undefined,
  keyName: string | undefined,
): ReplyEvent {
  const now = performance.now();
  return {
    method: message?.method ?? '',
    status,
    milliseconds: now - (message?.startedAt ?? now),
    ...(route === undefined ? {} : { route }),
    ...(keyName === undefined ? {} : { keyName }),
    ...(message?.fault === undefined ? {} : { fault: message.fault }),
    ...(cut === undefined ? {} : { cut }),
    ...(isReplay === true ? { isReplay } : {}),
  };
}

/** The request of a response to bytes that are not HTTP. */
const noRequest: PluginRequest = Object.freeze({
  method: '',
  path: '',
  query: '',
  header: () => undefined,
  route: undefined,
  keyName: undefined,
  address: undefined,
  onAbandoned: () => undefined,
  isOutdated: () => false,
});

/** Returns a plugin's hook. @throws TypeError if it is not a function. */
function checkFunction<Hook>(name: string, hook: Hook): Hook {
  if (typeof hook === 'function') return hook;
  throw new TypeError(`${name} takes a function, not ${shortly(hook)}`);
}

/** @throws TypeError if a plugin returned a function, because that function is the plugin */
function checkStarted(plugin: Plugin, result: unknown): void {
  if (typeof result !== 'function') return;
  const name = plugin.name || 'a plugin';
  throw new TypeError(`${name} returned a function: pass what it returns, such as ${name}()`);
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof Object(value).then === 'function';
}
