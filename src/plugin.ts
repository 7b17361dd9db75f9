/**
 * What a plugin is and what it is given, and its hooks, whose errors end neither a request nor the
 * process.
 */
import { reasonOf } from './errors.js';
import { guarded, type Log } from './log.js';
import type { OpenApiDocument } from './openapi.js';
import { checkReply, type Reply } from './reply.js';
import { splitTarget, type Message } from './request.js';
import type { Operation, OperationRequest, Route } from './router.js';
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

/**
 * Put around an operation, which `next` carries out: what it answers is the reply, what it throws
 * the error.
 */
export type Wrapper = (request: AcceptedRequest, next: () => Promise<Reply>) => Promise<Reply>;

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

/**
 * A plugin's route, whose replies are checked.
 * @throws TypeError for a successor that could not stand in a header.
 */
export function checkedRoute(route: Route): Route {
  if (route.deprecation !== undefined && !/^[!-=?-~]+$/.test(route.deprecation.successor))
    throw new TypeError(`the successor of route ${route.path} must be a path or an address`);

  const methods = Object.entries(route.methods).map(([method, operation]) => [
    method,
    {
      ...operation,
      handler: async (request: OperationRequest) => checkReply(await operation.handler(request)),
    },
  ]);

  return { ...route, methods: Object.fromEntries(methods) };
}

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

  constructor(log: Log) {
    this.#log = log;
  }

  /** What plugins add their hooks by. */
  readonly host: Omit<PluginHost, 'route' | 'storage' | 'clock' | 'log'> = {
    around: (wrapper) => void this.#wrappers.push(wrapper),
    addHeaders: (make) => void this.#makers.push(make),
    onReply: (watcher) => void this.#watchers.push(watcher),
    describe: (change) => void this.#changes.push(change),
    onClose: (close) => void this.#closers.push(close),
    waitFor: (opening) => {
      // What is no promise yet, as a query of a database may be, is begun once.
      const opened = Promise.resolve(opening);
      this.#openings.push(opened);
      // `listen` reports its failure: until then that is no unhandled rejection.
      void guarded(() => opened);
    },
  };

  /** Resolves once all that plugins wait for has; rejects where one of it does, with the same. */
  opened(): Promise<unknown> {
    return Promise.all(this.#openings);
  }

  /** Carries out an operation, within the wrappers of all plugins. */
  handle(
    operation: Operation,
    request: OperationRequest,
    message: Message,
    route: string,
  ): Reply | PromiseLike<Reply> {
    if (this.#wrappers.length === 0) return operation.handler(request);

    const accepted = Object.freeze({ ...headOf(message), keyName: request.keyName, route });

    const wrapped = this.#wrappers.reduceRight<() => Promise<Reply>>(
      (next, wrapper) => async () => checkReply(await wrapper(accepted, next)),
      // A copy: what it answers may be a reply that other requests get too.
      async () => checkReply(await operation.handler(request)),
    );

    return wrapped();
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

        completed = checkReply({ ...completed, headers: [...completed.headers, ...Object(added)] });
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

  /** The OpenAPI document, once plugins have changed it. */
  described(document: OpenApiDocument): OpenApiDocument {
    for (const change of this.#changes) void this.#guard('describe itself', () => change(document));
    return document;
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
