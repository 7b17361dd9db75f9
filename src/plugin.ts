/** Owns what a plugin is and what it is given: types only. */
import type { OpenApiDocument } from './http/openapi.js';
import type { Route } from './http/route.js';
import type { Log } from './log.js';
import type { PetStorage } from './storage.js';

/** Called once, while the petstore is created; throws for what it cannot work with. */
export type Plugin = (host: PluginHost) => void;

/** What a plugin can do. The three operations of the specification are served by the same means. */
export interface PluginHost {
  /**
   * Serves a path. Below `/v1` a key is needed, elsewhere none.
   * @throws TypeError for a path that is malformed or taken.
   */
  route(route: Route): void;
  /**
   * Adds headers to each reply to a request, errors included: names and values, alternating. What frames a reply, such as
   * Content-Length, is not theirs to say.
   */
  addHeaders(make: (request: RequestHead) => readonly string[]): void;
  /** Calls back after each reply, those to what was no HTTP included. */
  onReply(watcher: (event: ReplyEvent) => void): void;
  /** Lets the plugin add to the OpenAPI document, each time that it is made. */
  describe(change: (document: OpenApiDocument) => void): void;
  /** Makes `listen` wait for what the plugin opens; where that rejects, `listen` does too, for the same reason. */
  waitFor(opening: Promise<unknown>): void;
  /** Calls back when the petstore closes, before its storage does; a promise is waited for. */
  onClose(close: () => void | Promise<void>): void;
  readonly storage: PetStorage;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  readonly log: Log;
}

/** What a client asked with, whether or not it may. */
export interface RequestHead {
  readonly method: string;
  /** The value of a header by its name in lower case, several joined by `, `; undefined where it did not come. */
  readonly header: (name: string) => string | undefined;
}

/** A reply that left, and what it answered. */
export interface ReplyEvent {
  /** Empty where the request was no HTTP. */
  readonly method: string;
  /** The route's path with its `{param}`s, never the client's; absent where there is none. */
  readonly route?: string;
  readonly status: number;
  /** From the head of the request to its reply. */
  readonly milliseconds: number;
  /** The name of the API key; absent where none was needed or accepted. */
  readonly keyName?: string;
}
