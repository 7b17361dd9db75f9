/** Plugins: the host that a plugin receives, its hooks, and the requests and responses they see. */
import type { Log } from './log.js';
import type { OpenApiDocument } from './openapi.js';
import type { HandlerResult, HeaderValues, Reply } from './reply.js';
import type { Route, RouteSummary } from './router.js';
import type { PetStorage } from './storage.js';

/**
 * A plugin: a function that registers hooks and routes. It is called once, by `createPetstore`. If
 * it is async, requests wait until it has resolved.
 */
export type Plugin = (host: PluginHost) => void | PromiseLike<void>;

/** A port that the petstore listens on. */
export interface PortSummary {
  readonly url: string;
  /** The interface of Node in use: `fast` with undocumented behaviour, else `documented` (C79). */
  readonly mode: 'fast' | 'documented';
}

/** The host of a plugin: the functions by which it registers hooks and routes. */
export interface PluginHost {
  /**
   * Serves a path. Paths below `/v1` need an API key, others do not.
   * @throws TypeError if the path is malformed or taken
   */
  route(route: Route): void;
  /** Returns the routes that are served now, without those past their sunset (C35). */
  routes(): readonly RouteSummary[];
  /** Returns the ports that the petstore listens on. */
  ports(): readonly PortSummary[];
  /**
   * Calls back after all plugins have started, when all routes are known. If no plugin is async,
   * that is before `createPetstore` returns. An error of the callback is thrown by
   * `createPetstore`, or rejects `listen` if a plugin is async.
   */
  onStart(callback: StartCallback): void;
  /**
   * Adds headers to each response: an object of names and values, or an array in which they
   * alternate. Headers that frame a response, such as Content-Length, are refused.
   */
  addHeaders(make: HeaderMaker): void;
  /**
   * Wraps each operation. A request that is refused before its operation, such as by a 401, is not
   * wrapped. The first plugin is the outermost.
   */
  around(wrapper: Wrapper): void;
  /** Calls back when a response is about to be sent, also to bytes that are not HTTP. */
  onReply(watcher: ReplyWatcher): void;
  /**
   * Calls back when a response has ended: all of its bytes were passed to the system, or it was
   * cut. Each call follows that of `onReply`. Not called for bytes that are not HTTP.
   */
  onResponseEnd(watcher: EndWatcher): void;
  /** Changes the OpenAPI document each time that it is rendered. */
  describe(change: DocumentChange): void;
  /** Makes `listen`, `fetch` and `handler` wait; `listen` rejects if the promise does. */
  waitFor(opening: PromiseLike<unknown>): void;
  /** Calls back, and waits for a promise, before the storage closes. */
  onClose(close: Closer): void;
  /** The storage of the petstore, which the petstore closes. */
  readonly storage: PetStorage;
  /** Returns milliseconds since the epoch. */
  readonly clock: () => number;
  /**
   * Sets the clock of the petstore, which goes on from there; undefined returns to the clock of the
   * options. A reset of the storage returns to it too (C87).
   * @throws TypeError if the time is not in milliseconds since 1970, up to the year 9999
   */
  setClock(time: number | undefined): void;
  readonly log: Log;
  /** With the option `isolate`, the name of the API key that has this store for itself (C88). */
  readonly isolatedKey: string | undefined;
}

export type HeaderMaker = (request: PluginRequest) => HeaderValues;
export type ReplyWatcher = (event: ReplyEvent, request: PluginRequest) => void;
export type EndWatcher = (event: ResponseEnd, request: PluginRequest) => void;
export type DocumentChange = (document: OpenApiDocument) => void;
export type Closer = () => void | PromiseLike<void>;
export type StartCallback = () => unknown;

/**
 * Wraps an operation: `next` runs it and resolves to its reply. What the wrapper returns becomes
 * the response; what it throws becomes the error.
 */
export type Wrapper = (request: AcceptedRequest, next: NextOperation) => Promise<HandlerResult>;

/**
 * Runs an operation and resolves to a copy of its reply. `hold`, if given, is awaited after
 * the operation has checked the request and before it reads or changes anything. Until the
 * operation has ended, the idempotency key of the request is in flight (C57).
 */
export type NextOperation = (hold?: () => PromiseLike<unknown>) => Promise<Reply>;

/**
 * A request as plugins see it: one frozen object per request, the same for every hook, so that a
 * plugin can key a WeakMap by it.
 */
export interface PluginRequest {
  /** Case-sensitive, such as `GET` (RFC 9110 section 9.1); empty if the client sent no HTTP. */
  readonly method: string;
  /**
   * The path as the client sent it, without the query; empty if the client sent no HTTP. It may
   * hold a key by mistake: do not use it as a label of a metric.
   */
  readonly path: string;
  /** The query as the client sent it, without the `?`. It may hold a key by mistake too. */
  readonly query: string;
  /** Returns a header by its lowercase name; repeated ones are joined by `, `. */
  readonly header: (name: string) => string | undefined;
  /** The path of the route, such as `/v1/pets/{petId}`; undefined if no route matched. */
  readonly route: string | undefined;
  /** The name of the API key; undefined if none was needed or accepted. */
  readonly keyName: string | undefined;
  /**
   * The IP address of the client or its proxy; undefined through `fetch` and once the connection is
   * closed.
   */
  readonly address: string | undefined;
  /**
   * Calls back, at most once, when delaying this request is no longer useful: the client has
   * disconnected or closed its side of the connection, the petstore closes, or the storage was
   * reset. If one of these has happened already, it calls back at once.
   */
  readonly onAbandoned: (callback: () => void) => void;
  /** Returns true if the storage was reset after the request arrived (C71). */
  readonly isOutdated: () => boolean;
}

/** A request whose operation is about to run. */
export interface AcceptedRequest extends PluginRequest {
  readonly route: string;
  /** The body as a byte string; undefined if the operation reads none. */
  readonly body: string | undefined;
  /** Names the fault that a plugin makes, for the events of all plugins (C90). */
  readonly reportFault: (fault: string) => void;
}

/** @deprecated Use {@link PluginRequest}; removed in 2.0. */
export type RequestHead = PluginRequest;

/** @deprecated Use {@link PluginRequest}; removed in 2.0. */
export type ReplySource = PluginRequest;

/** A response that is about to be sent, whether or not it arrives. */
export interface ReplyEvent {
  /** Empty if the client sent no HTTP. */
  readonly method: string;
  /** The path of the route, such as `/v1/pets/{petId}`; omitted if no route matched. */
  readonly route?: string;
  /** The HTTP status code. */
  readonly status: number;
  /** The time from the head of the request to the response, in milliseconds. */
  readonly milliseconds: number;
  /** The name of the API key; omitted if none was needed or accepted. */
  readonly keyName?: string;
  /** The fault that a plugin has made for the request; omitted if none did. */
  readonly fault?: string;
  /**
   * Omitted if the response is sent whole. `drop`, `truncate` and `end` are those of `Reply`;
   * `client` if the client is gone.
   */
  readonly cut?: NonNullable<Reply['cut']> | 'client';
  /** True if the response is the stored result of an idempotency key, else omitted. */
  readonly isReplay?: true;
}

/** A response that has ended. `milliseconds` is the time until its end. */
export interface ResponseEnd extends ReplyEvent {
  /** True if all bytes of the response were passed to the system. */
  readonly isWhole: boolean;
}

/** A reply as it was sent. */
export interface SentReply extends Pick<Reply, 'status' | 'isReplay'> {
  readonly cut?: ReplyEvent['cut'] | undefined;
}
