/** Assembles the petstore: routes, the plugin host, listening and closing. The path of a request is in `request-path`. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { inspect } from 'node:util';
import { messageOf, PetstoreError } from './errors.js';
import type { Service } from './http/connection.js';
import { messageOfRequest, responseOf } from './http/fetch.js';
import { Exchange, type Message } from './http/message.js';
import { openApiDocument, openApiRoute, type OpenApiDocument } from './http/openapi.js';
import { petRoutes } from './http/operations.js';
import { Outbox } from './http/outbox.js';
import { probeRoutes } from './http/probes.js';
import { errorReply, internalErrorReply, type Reply } from './http/reply.js';
import { Resources } from './http/resources.js';
import type { Route } from './http/route.js';
import { HttpServer, stopping, type ListenOptions } from './http/server.js';
import { resolveOptions, type PetstoreOptions } from './options.js';
import type { PluginHost } from './plugin.js';
import { ReplyHeaders } from './reply-headers.js';
import { ReplyWatchers } from './reply-watchers.js';
import { answer, type RequestPathOptions } from './request-path.js';
import type { PetStorage } from './storage.js';
import { textsOf } from './storage/texts.js';

/** How long requests under way may take once the petstore closes; the process has 10 s in all. */
const closeTimeoutMs = 8_000;

/** A store of animals behind HTTP. Its functions work unbound. */
export interface Petstore {
  /** Answers one request; fits `http.createServer`, Express and the like. */
  readonly handler: (request: IncomingMessage, response: ServerResponse) => void;
  /** Answers one request with no port open; never rejects. */
  readonly fetch: (request: Request) => Promise<Response>;
  /**
   * Opens a port, once the storage is open, and resolves to its address; may be called for several.
   * Rejects with the storage's or a plugin's error, with Node's (`EADDRINUSE`, …) where the port cannot be had, and with
   * `unavailable` once the petstore is closed.
   */
  readonly listen: (options?: ListenOptions) => Promise<{ readonly url: string; readonly port: number }>;
  /** Takes no more requests, lets those under way finish, closes plugins and storage. Calling it again is fine. */
  readonly close: () => Promise<void>;
  readonly storage: PetStorage;
}

/**
 * Makes a petstore; nothing listens yet.
 * @throws TypeError for an option against its rules, by name.
 */
export function createPetstore(options: PetstoreOptions): Petstore {
  const { verifyKey, storage, opening, clock, plugins, log, maxBodyBytes, baseUrls } = resolveOptions(options);
  const resources = new Resources();
  const routes: Route[] = [];
  const watchers = new ReplyWatchers(log);
  const replyHeaders = new ReplyHeaders(log);
  const describers: ((document: OpenApiDocument) => void)[] = [];
  const closers: (() => void | Promise<void>)[] = [];
  const openings = [opening];
  const servers: HttpServer[] = [];
  const outbox = new Outbox({ failureReply, isStopping: () => closing !== undefined });
  let closing: Promise<void> | undefined;
  let answering = 0;
  let whenIdle: (() => void) | undefined;

  const requestPath: RequestPathOptions = { resources, verifyKey, clock, maxBodyBytes, checkServing, failureReply };

  const host: PluginHost = {
    route: (route) => {
      resources.add(route);
      routes.push(route);
    },
    addHeaders: (make) => replyHeaders.add(make),
    onReply: (watcher) => watchers.add(watcher),
    describe: (change) => void describers.push(change),
    waitFor: (other) => {
      openings.push(other);
      // Whoever listens hears of a failure; until somebody does, it is nobody's unhandled rejection.
      other.catch(() => undefined);
    },
    onClose: (closer) => void closers.push(closer),
    storage,
    clock,
    log,
  };
  for (const route of [...petRoutes(textsOf(storage), clock), ...probeRoutes(ready), openApiRoute(routes, document, clock)]) host.route(route);
  for (const plugin of plugins) plugin(host);

  function checkServing(message: Message): void {
    if (closing !== undefined) throw stopping();
    if (message.isOverdue) throw new PetstoreError('unavailable', 'Too many requests are waiting.');
  }

  /** The reply to a failure; what is not the client's business goes to the log alone (C49). */
  function failureReply(error: unknown): Reply {
    const reply = errorReply(error);
    if (reply !== undefined) return reply;
    log('error', 'internal error', { error: inspect(error) });
    return internalErrorReply;
  }

  /** Answers a message, and tells those who watch what left. */
  function respond(message: Message, send: Send): void {
    const startedAt = performance.now();
    answering++;
    void answer(message, requestPath, ({ reply, resource, keyName }) => {
      send(replyHeaders.complete(reply, message), ({ status }) => {
        watchers.tell(message.method, status, startedAt, resource?.path, keyName);
        answering--;
        if (answering === 0) whenIdle?.();
      });
    });
  }

  const service: Service = {
    serve: (exchange) => respond(exchange, (reply, onLeft) => outbox.put(exchange, reply, onLeft)),
    refused: (reply) => watchers.tell('', reply.status, performance.now()),
  };

  async function ready(): Promise<void> {
    if (closing !== undefined) throw stopping();
    await storage.ready?.();
  }

  function document(present: readonly Route[]): OpenApiDocument {
    const made = openApiDocument(present, baseUrls);
    for (const change of describers) change(made);
    return made;
  }

  /** The timer keeps the process alive, or plugins and storage would not be closed where nothing else does. */
  function allAnswered(): Promise<void> {
    return new Promise((resolve) => {
      if (answering === 0) return resolve();
      const timer = setTimeout(resolve, closeTimeoutMs);
      whenIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  async function closeAll(): Promise<void> {
    await Promise.all(servers.map((server) => server.stop(closeTimeoutMs)));
    // Those of `fetch` and `handler` too, whose sockets are not ours.
    await allAnswered();
    for (const closer of closers) {
      try {
        await closer();
      } catch (error) {
        log('error', 'a plugin failed to close', { error: messageOf(error) });
      }
    }
    await storage.close();
  }

  return {
    handler: (request, response) => service.serve(new Exchange(request, response, false)),
    fetch: async (request) => {
      const [reply, onLeft] = await new Promise<Parameters<Send>>((resolve) => respond(messageOfRequest(request), (...sent) => resolve(sent)));
      try {
        const response = responseOf(reply, request.method);
        onLeft(reply);
        return response;
      } catch (error) {
        const failure = failureReply(error);
        onLeft(failure);
        return responseOf(failure, request.method);
      }
    },
    listen: async (listenOptions = {}) => {
      await Promise.all(openings);
      const server = await HttpServer.listen(service, listenOptions);
      servers.push(server);
      if (closing !== undefined) {
        await server.stop(0);
        throw stopping();
      }
      return { url: server.url, port: server.port };
    },
    close: () => (closing ??= closeAll()),
    storage,
  };
}

/** Sends a reply, and calls back with the one that left: it may be another one. */
type Send = (reply: Reply, onLeft: (left: Reply) => void) => void;
