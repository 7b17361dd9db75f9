/** Owns all routes in the form that a request meets them: what stands at a path, and which methods it has. */
import { METHODS } from 'node:http';
import { PetstoreError } from '../errors.js';
import { deprecationHeaders, goneError, isGone, type Deprecation } from './deprecation.js';
import { emptyReply, type Reply } from './reply.js';
import type { Operation, Route } from './route.js';
import { Router, type Match } from './router.js';

/** A route with all that can be made of it once. */
export interface Resource {
  readonly path: string;
  readonly needsKey: boolean;
  readonly deprecation: Deprecation | undefined;
  /** @throws PetstoreError `method_not_allowed` (C15). */
  operation(method: string): Operation;
  /** A reply with the headers that each of its answers carries (C33). */
  complete(reply: Reply): Reply;
}

const knownMethods: ReadonlySet<string> = new Set(METHODS);

// Made once, as the stack trace of an error costs more than the rest of a 404.
const notFound = new PetstoreError('not_found', 'There is nothing at this path.');

/** What `OPTIONS *` asks about (C17); no other method has a business there. */
const wholeServer: Match<Resource> = {
  params: {},
  value: {
    path: '*',
    needsKey: false,
    deprecation: undefined,
    complete: (reply) => reply,
    operation: (method) => {
      if (method !== 'OPTIONS') throw notFound;
      return optionsOperation('GET, HEAD, POST, OPTIONS');
    },
  },
};

/** Every path that is served. */
export class Resources {
  readonly #router = new Router<Resource>();

  /** @throws TypeError for a path that is malformed or taken, and for a route without methods. */
  add(route: Route): void {
    this.#router.add(route.path, resourceOf(route));
  }

  /**
   * What stands at a path; `clock` answers milliseconds since the epoch.
   * @throws PetstoreError `not_implemented` (C18) or `not_found` (C11, C14, C35).
   */
  find(method: string, path: string, clock: () => number): Match<Resource> {
    if (!knownMethods.has(method)) throw new PetstoreError('not_implemented', 'This method is not known here.');
    const match = path === '*' ? wholeServer : this.#router.find(path);
    if (match === undefined) throw notFound;
    const { deprecation } = match.value;
    if (deprecation !== undefined && isGone(deprecation, clock())) throw goneError(deprecation);
    return match;
  }
}

function resourceOf({ path, methods, deprecation }: Route): Resource {
  const operations = new Map(Object.entries(methods));
  for (const method of operations.keys()) {
    if (!knownMethods.has(method)) throw new TypeError(`route ${path} has an unknown method ${method}`);
  }
  if (operations.size === 0) throw new TypeError(`route ${path} has no methods`);
  const get = operations.get('GET');
  if (get !== undefined) operations.set('HEAD', get);
  const inOrder = ['GET', 'HEAD', ...operations.keys()].filter((method) => operations.has(method) && method !== 'OPTIONS');
  const allow = [...new Set(inOrder), 'OPTIONS'].join(', ');
  if (!operations.has('OPTIONS')) operations.set('OPTIONS', optionsOperation(allow));
  const notAllowed = new PetstoreError('method_not_allowed', `This path allows ${allow}.`, { headers: ['Allow', allow] });
  return {
    path,
    needsKey: path === '/v1' || path.startsWith('/v1/'),
    deprecation,
    complete: deprecation === undefined ? (reply) => reply : completing(deprecationHeaders(deprecation)),
    operation: (method) => {
      const operation = operations.get(method);
      if (operation === undefined) throw notAllowed;
      return operation;
    },
  };
}

/** What a kept reply comes to is kept too. */
function completing(headers: readonly string[]): (reply: Reply) => Reply {
  const kept = new WeakMap<Reply, Reply>();
  const complete = (reply: Reply): Reply => ({ ...reply, headers: reply.headers.length === 0 ? headers : [...headers, ...reply.headers] });
  return (reply) => {
    if (reply.isKept !== true) return complete(reply);
    const known = kept.get(reply);
    if (known !== undefined) return known;
    const completed = complete(reply);
    kept.set(reply, completed);
    return completed;
  };
}

function optionsOperation(allow: string): Operation {
  const reply = emptyReply(204, ['Allow', allow]);
  return { isPublic: true, handler: () => reply };
}
