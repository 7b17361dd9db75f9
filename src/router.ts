/** Routes: what stands at a path, its methods, its announced end; and the way from a path to it. */
import { METHODS } from 'node:http';
import { PetstoreError } from './errors.js';
import type { OpenApiOperation } from './openapi.js';
import { emptyReply, type Reply } from './reply.js';
import { decoded, type Query } from './request.js';

/** A request that passed every check before its handler. */
export interface OperationRequest {
  /** As it came: the handler of GET answers HEAD too. */
  readonly method: string;
  /** The decoded texts of the path's `{param}` segments. */
  readonly params: Params;
  /** The parameters after the `?`. */
  readonly query: Query;
  /** A byte string; empty where no body is read. */
  readonly body: string;
  /** The name of the API key; undefined where none is needed. */
  readonly keyName: string | undefined;
  /**
   * The header Idempotency-Key as it came, unchecked; an operation that does not know it ignores
   * it.
   */
  readonly idempotencyKey: string | undefined;
  /** What stands for `/v1` in links (C56), put into `Location` and `Link` by itself. */
  readonly basePath: string;
}

/** One method of a route. */
export interface Operation {
  /** Answers the request, or throws the `PetstoreError` that becomes the answer. */
  readonly handler: (request: OperationRequest) => Reply | PromiseLike<Reply>;
  /** Whether it takes a JSON body, of checked media type and size. */
  readonly readsBody?: boolean;
  /** What the OpenAPI document says of it, if anything. */
  readonly document?: OpenApiOperation;
}

/** A path and its methods. Below `/v1` a key is needed, elsewhere none (C41). */
export interface Route {
  /**
   * Such as `/v1/pets/{petId}`. Where a fixed segment of any route fits, no other route's param is
   * tried.
   */
  readonly path: string;
  /**
   * By method; HEAD comes with GET (C16), OPTIONS, which needs no key, and 405 by themselves (C15,
   * C17).
   */
  readonly methods: Readonly<Record<string, Operation>>;
  /** Absent where no end is announced. */
  readonly deprecation?: Deprecation;
}

/** The announced end of a route (C33 to C35), in milliseconds since the epoch. */
export interface Deprecation {
  /** From when it should not be used. */
  readonly since: number;
  /** The last second in which it is served. */
  readonly sunset: number;
  /** The path to use instead. */
  readonly successor: string;
}

/** Whether a route's time is over, at a moment in milliseconds since the epoch (C35). */
export function isGone(deprecation: Deprecation | undefined, now: number): boolean {
  return deprecation !== undefined && now >= deprecation.sunset + 1000;
}

/** A route with what is made of it once. */
export interface Resource extends Route {
  /** Of each of its answers (C33). */
  readonly headers: readonly string[];
  /**
   * The operation of a method, HEAD and OPTIONS included. @throws PetstoreError
   * `method_not_allowed` (C15)
   */
  readonly operationOf: (method: string) => Operation & { readonly needsKey: boolean };
}

export type Params = Readonly<Record<string, string>>;
type Match = { readonly resource: Resource; readonly params: Params };

const knownMethods: ReadonlySet<string> = new Set(METHODS);
const notFound = new PetstoreError('not_found', 'There is nothing at this path.');
const notImplemented = new PetstoreError('not_implemented', 'This method is not known here.');

const optionsOperation = (allow: string): Operation => ({
  handler: () => emptyReply(204, ['Allow', allow]),
});
/** `OPTIONS *` (C17), with the methods of the specification. */
const allMethods = { OPTIONS: optionsOperation('GET, HEAD, POST, OPTIONS') };
const wholeServer: Match = { resource: resourceOf({ path: '*', methods: allMethods }), params: {} };

/** In the tree of paths, what a segment leads to. */
interface Place {
  readonly name: string;
  readonly below: Map<string, Place>;
  param?: Place;
  resource?: Resource;
}

export class Routes {
  readonly #routes: Route[] = [];
  readonly #root: Place = { name: '', below: new Map() };
  readonly #clock: () => number;

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /**
   * @throws TypeError for a path that is taken, or that no request could match, and for no or
   * unknown methods.
   */
  add(route: Route): void {
    const { path } = route;
    if (!/^(?=\/)(?:\/(?!\.{1,2}(?:\/|$))(?:[\w.~-]+|\{\w+\}))*\/?$/.test(path))
      throw new TypeError(`route ${path} is not a path such as /v1/pets/{petId}`);
    let place = this.#root;
    for (const segment of path.slice(1).split('/')) {
      const name = segment.replace(/[{}]/g, '');
      const isParam = name !== segment;
      const next = (isParam ? place.param : place.below.get(name)) ?? { name, below: new Map() };
      if (next.name !== name)
        throw new TypeError(`route ${path} says {${name}} where another says {${next.name}}`);
      if (isParam) place.param = next;
      else place.below.set(name, next);
      place = next;
    }
    if (place.resource !== undefined) throw new TypeError(`route ${path} is taken`);
    place.resource = resourceOf(route);
    this.#routes.push(route);
  }

  present(): readonly Route[] {
    return this.#routes.filter(({ deprecation }) => !isGone(deprecation, this.#clock()));
  }

  /** @throws PetstoreError `not_implemented` (C18) or `not_found` (C11, C14, C35). */
  find(method: string, path: string): Match {
    if (!knownMethods.has(method)) throw notImplemented;
    const match = method === 'OPTIONS' && path === '*' ? wholeServer : this.#match(path);
    if (match === undefined) throw notFound;
    const { deprecation } = match.resource;
    if (deprecation !== undefined && isGone(deprecation, this.#clock()))
      throw new PetstoreError(
        'not_found',
        `This path is no longer available; use GET ${deprecation.successor}.`,
      );
    return match;
  }

  /**
   * By segments, decoded after splitting (C12), not normalised (C11). A fixed segment hides a
   * param.
   */
  #match(path: string): Match | undefined {
    let place = this.#root;
    const params: Record<string, string> = {};
    for (let at = 0; at < path.length; ) {
      if (path[at] !== '/') return undefined;
      const slashAt = path.indexOf('/', at + 1);
      const end = slashAt < 0 ? path.length : slashAt;
      const segment = decoded(path.slice(at + 1, end));
      if (segment === undefined || segment === '.' || segment === '..') return undefined;
      const fixed = place.below.get(segment);
      if (fixed !== undefined) place = fixed;
      else if (place.param === undefined || segment === '') return undefined;
      else {
        params[place.param.name] = segment;
        place = place.param;
      }
      at = end;
    }
    return place.resource && { resource: place.resource, params };
  }
}

function resourceOf(route: Route): Resource {
  const { path, deprecation } = route;
  const { GET, OPTIONS, ...others } = route.methods;
  const methods: Route['methods'] = { ...(GET && { GET, HEAD: GET }), ...others };
  const unknown = Object.keys(methods).find((method) => !knownMethods.has(method));
  if (unknown !== undefined) throw new TypeError(`route ${path} has an unknown method ${unknown}`);
  if (Object.keys(route.methods).length === 0) throw new TypeError(`route ${path} has no methods`);
  const allow = [...Object.keys(methods), 'OPTIONS'].join(', ');
  const isBelowV1 = path === '/v1' || path.startsWith('/v1/');
  const operations = new Map(
    Object.entries(methods).map(([method, operation]) => [
      method,
      { ...operation, needsKey: isBelowV1 },
    ]),
  );
  operations.set('OPTIONS', { ...(OPTIONS ?? optionsOperation(allow)), needsKey: false });
  const headers = ['Allow', allow];
  const notAllowed = new PetstoreError('method_not_allowed', `This path allows ${allow}.`, {
    headers,
  });
  return {
    ...route,
    headers: deprecation === undefined ? [] : deprecationHeaders(deprecation),
    operationOf: (method) => {
      const operation = operations.get(method);
      if (operation === undefined) throw notAllowed;
      return operation;
    },
  };
}

function deprecationHeaders({ since, sunset, successor }: Deprecation): readonly string[] {
  const link = `<${successor}>; rel="successor-version"`;
  return [
    'Deprecation',
    `@${since / 1000}`,
    'Sunset',
    new Date(sunset).toUTCString(),
    'Link',
    link,
  ];
}
