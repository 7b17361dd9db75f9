/** Assembles a petstore: routes, the path of a request, the plugin host, listening and closing. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { keyNameOf, refusalOf, tokenOf } from './auth.js';
import { textsOf } from './engine/index.js';
import { memoryStorage } from './memory/index.js';
import { detailOf, isPetstoreError, reasonOf } from './errors.js';
import {
  Endpoint,
  stopping,
  type Answer,
  type Listening,
  type ListenOptions,
} from './http/index.js';
import { guarded, type Log } from './log.js';
import { petRoutes, publicRoutes } from './operations.js';
import { resolveOptions, type PetstoreOptions } from './options.js';
import { checkedRoute, Hooks, type PluginHost } from './plugin.js';
import { internalErrorReply, replyTo, withLinksBelow, type Reply } from './reply.js';
import {
  checkExpectation,
  Query,
  readJsonBody,
  splitTarget,
  type HeadFields,
  type Message,
} from './request.js';
import { Routes, type Params, type Route } from './router.js';
import type { PetStorage } from './storage.js';

const ignore = (): void => undefined;
/** For requests under way; the process has 10 s in all. */
const closeTimeoutMs = 8_000;

/** A store of animals behind HTTP. Its functions work unbound. */
export interface Petstore {
  /**
   * Fits `http.createServer`, Express and the like. `next` gets the error where somebody read the
   * body before.
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
  /** Turns `/readyz` to 503 for good, for balancers; all else goes on. */
  readonly drain: () => void;
  /**
   * Closes the ports, finishes requests under way, closes plugins and storage. Calling it again is
   * fine.
   */
  readonly close: () => Promise<void>;
  /** Where its animals are. */
  readonly storage: PetStorage;
}

/**
 * Makes a petstore; nothing listens yet. @throws TypeError that names an option, and whatever a
 * plugin throws.
 */
export function createPetstore(options: PetstoreOptions): Petstore {
  const { verifyKey, storage, clock, plugins, maxBodyBytes, basePath, baseUrls, ...given } =
    resolveOptions(options, memoryStorage);
  /** A log that fails does no harm: where fields cannot be written, the message is, and says so. */
  const log: Log = (level, message, fields) => {
    const write = (these: typeof fields, failed: (error: unknown) => void) =>
      void guarded(() => given.log(level, message, these), failed);
    write(fields, (error) =>
      write({ unwritten: `the fields could not be logged: ${reasonOf(error)}` }, ignore),
    );
  };
  const routes = new Routes(clock);
  const hooks = new Hooks(log);
  let closing: Promise<void> | undefined;
  let isClosed = false;
  let isDraining = false;
  let answering = 0;
  /** Called when no request is under way. */
  let idled = ignore;

  const host: PluginHost = Object.freeze({
    ...hooks.host,
    route: (route: Route) => routes.add(checkedRoute(route)),
    storage,
    clock,
    log,
  });
  for (const route of petRoutes(textsOf(storage), clock, () => isClosed)) routes.add(route);
  for (const route of publicRoutes(ready, routes, baseUrls, hooks)) routes.add(route);
  for (const plugin of plugins) host.waitFor(Promise.resolve(plugin(host)));

  /**
   * The path of every request, in the order of checks of docs/contract.md; what it throws is the
   * answer.
   */
  async function answer(message: Message): Promise<Answer> {
    const result: Answer = { reply: internalErrorReply, resource: undefined, keyName: undefined };
    try {
      const head = message.readHead();
      const { path, query } = splitTarget(message.target);
      const { resource, params } = routes.find(message.method, path);
      result.resource = resource;
      const operation = resource.operations.get(message.method);
      if (operation === undefined) throw resource.notAllowed;
      const needsKey = resource.needsKey && message.method !== 'OPTIONS';
      const token = needsKey ? tokenOf(head.authorization) : undefined;
      if (token !== undefined) result.keyName = keyNameOf(await verifyKey(token));
      if (needsKey && !result.keyName)
        return dressed(refusalOf(head.authorization), result, message);
      checkExpectation(head);
      const body =
        operation.readsBody === true ? await readJsonBody(message, head, maxBodyBytes) : '';
      const asked = askedOf(message, head, params, new Query(query), body, result.keyName);
      return dressed(await hooks.handle(operation, asked, message), result, message);
    } catch (error) {
      return dressed(failureReply(error), result, message);
    }
  }

  function askedOf(
    message: Message,
    head: HeadFields,
    params: Params,
    query: Query,
    body: string,
    keyName?: string,
  ) {
    const { idempotencyKey } = head;
    return {
      method: message.method,
      params,
      query,
      body,
      keyName,
      idempotencyKey,
      basePath: basePathOf(message),
    };
  }

  function basePathOf({ mountPath }: Message): string {
    return basePath ?? (mountPath === undefined ? '/v1' : `${mountPath}/v1`);
  }

  /** Puts a reply into the result, with the headers of its route (C33) and of plugins. */
  function dressed(reply: Reply, result: Answer, message: Message): Answer {
    const own = result.resource?.headers ?? [];
    const announced = own.length === 0 ? reply : { ...reply, headers: [...own, ...reply.headers] };
    result.reply = hooks.withHeaders(withLinksBelow(basePathOf(message), announced), message);
    return result;
  }

  /** The reply to a failure (C49). Never throws, whatever was thrown. */
  function failureReply(thrown: unknown): Reply {
    try {
      if (isPetstoreError(thrown) && thrown.status !== undefined) return replyTo(thrown);
    } catch (error) {
      logFault(error);
    }
    logFault(thrown);
    return internalErrorReply;
  }

  function logFault(thrown: unknown): void {
    log('error', 'internal error', { error: detailOf(thrown) });
  }

  const endpoint = new Endpoint({
    answer: (message) => {
      answering++;
      return answer(message);
    },
    failed: (error, message, given) => dressed(replyTo(error), given, message).reply,
    fault: logFault,
    replied: (status, message, answered) => {
      hooks.replied(status, message, answered?.resource?.path, answered?.keyName);
      if (message !== undefined && --answering === 0) idled();
    },
    get isStopping() {
      return closing !== undefined;
    },
  });

  async function ready(): Promise<void> {
    if (isDraining || closing !== undefined) throw stopping();
    await storage.ready?.();
  }

  async function closeAll(): Promise<void> {
    // Those of `fetch` and `handler` too, whose sockets are not ours.
    const idle = new Promise<void>((resolve) => (idled = resolve));
    if (answering === 0) idled();
    const timer = setTimeout(idled, closeTimeoutMs);
    await endpoint.stop(closeTimeoutMs);
    await idle;
    clearTimeout(timer);
    await hooks.close();
    isClosed = true;
    await storage.close();
  }

  return {
    handler: (request, response, next) => void endpoint.handle(request, response, next),
    fetch: endpoint.fetch.bind(endpoint),
    listen: async (listenOptions = {}) => {
      await hooks.opened();
      return endpoint.listen(listenOptions);
    },
    drain: () => void (isDraining = true),
    close: () => (closing ??= closeAll()),
    storage,
  };
}
