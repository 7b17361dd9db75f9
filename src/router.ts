/** Routes: paths, their methods and their deprecation, and matching a request to them. */
import { METHODS } from 'node:http';
import { PetstoreError } from './errors.js';
import type { OpenApiOperation } from './openapi.js';
import { emptyReply, linkBelow, type HandlerResult, type Reply } from './reply.js';
import { decoded, type Query } from './request.js';

/** A request that has passed every check before its handler. */
export interface OperationRequest {
  /** The method of the request; the handler of GET also handles HEAD. */
  readonly method: string;
  /** The decoded `{param}` segments of the path, by name. */
  readonly params: Params;
  /** The query parameters. */
  readonly query: Query;
  /** The body as a byte string; empty if the operation reads no body. */
  readonly body: string;
  /** The name of the API key; undefined if the route needs none. */
  readonly keyName: string | undefined;

  /** The unchecked header Idempotency-Key. Operations other than adding ignore it. */
  readonly idempotencyKey: string | undefined;
  /**
   * The path that replaces `/v1` in links (C56). The petstore itself puts it into the headers
   * `Location` and `Link` of a reply.
   */
  readonly basePath: string;

  /**
   * True if the client requested the mount path without its slash at the end. The route is `/`, but
   * relative links of a page would miss the mount path (C58).
   */
  readonly lacksSlash: boolean;

  /**
   * Waits while plugins hold the operation. Only present if the operation sets `awaitsHold` and a
   * plugin holds this request.
   * @throws PetstoreError `unavailable` if the storage was reset meanwhile (C71).
   */
  readonly hold?: (() => Promise<void>) | undefined;
}

/** A request as the handler of a plugin's route receives it. */
export interface RouteRequest extends OperationRequest {
  /**
   * Parses the body into plain values. An integer beyond 2^53 becomes a bigint.
   * @throws PetstoreError `invalid_json`
   */
  readonly json: () => unknown;
}

/** One method of a route. */
export interface Operation {
  /** Returns the response, or throws a `PetstoreError` that becomes the response. */
  readonly handler: (request: RouteRequest) => HandlerResult | PromiseLike<HandlerResult>;
  /**
   * True if it reads a JSON body, whose media type and size are then checked. `optional` if the
   * body may be empty, with any media type.
   * @defaultValue false
   */
  readonly readsBody?: boolean | 'optional';
  /**
   * True if the handler awaits `hold` of its request, after it has checked the request and before
   * it reads or changes anything. All other operations are held before their handler.
   * @defaultValue false
   */
  readonly awaitsHold?: boolean;
  /**
   * True if the operation runs even if the storage was reset after the request arrived. All other
   * operations below `/v1` are then refused (C71).
   * @defaultValue false
   */
  readonly survivesReset?: boolean;
  /** Its Operation Object in the OpenAPI document. */
  readonly document?: OpenApiOperation;
}

/** A path and its methods. Paths below `/v1` need an API key, others do not (C41). */
export interface Route {
  /**
   * The path, such as `/v1/pets/{petId}`. A fixed segment takes precedence over a param of another
   * route, without backtracking.
   */
  readonly path: string;

  /**
   * The operations by method. GET adds HEAD (C16). OPTIONS, which needs no key, and the 405 for
   * other methods are added too (C15, C17).
   */
  readonly methods: Readonly<Record<string, Operation>>;
  /** Omitted if the route is not deprecated. */
  readonly deprecation?: Deprecation;
}

/** The deprecation of a route (C33 to C35). Times are in milliseconds since the epoch. */
export interface Deprecation {
  /** The time since which the route is deprecated. */
  readonly since: number;
  /** The last second in which the route is served. */
  readonly sunset: number;
  /** The path to use instead. */
  readonly successor: string;
}

/** True if a route is no longer served at `now`, in milliseconds since the epoch (C35). */
export function isGone(deprecation: Deprecation | undefined, now: number): boolean {
  return deprecation !== undefined && now >= 1000 * (wholeSeconds(deprecation.sunset) + 1);
}

/** Returns the seconds of a time in milliseconds, because the headers of C33 have no fractions. */
function wholeSeconds(milliseconds: number): number {
  return Math.floor(milliseconds / 1000);
}

/** An operation whose handler returns checked replies. */
export interface CheckedOperation extends Operation {
  readonly handler: (request: OperationRequest) => Reply | PromiseLike<Reply>;
}

/** A route of checked operations. */
export interface CheckedRoute extends Route {
  readonly methods: Readonly<Record<string, CheckedOperation>>;
}

/** A route with the values that are computed once. */
export interface Resource extends CheckedRoute {
  /** Header names and values of each response, alternating (C33). */
  readonly headers: readonly string[] | undefined;
  /** True if all methods but OPTIONS need an API key (C17, C41). */
  readonly needsKey: boolean;
  /** The operations by method, including HEAD and OPTIONS (C16, C17). */
  readonly operations: ReadonlyMap<string, CheckedOperation>;
  /** The allowed methods, as in the header Allow (C15). */
  readonly allowed: readonly string[];
  /** The error for any other method (C15). */
  readonly notAllowed: PetstoreError;
}

/** A route in the list of `PluginHost.routes`. */
export interface RouteSummary {
  /** The path, such as `/v1/pets/{petId}`. */
  readonly path: string;
  /** The allowed methods, including HEAD and OPTIONS. */
  readonly methods: readonly string[];
}

/** The decoded `{param}` segments of a path, by name. */
type Params = Readonly<Record<string, string>>;

/** The route of a path. */
interface Match {
  readonly resource: Resource;
  readonly params: Params;
}

const knownMethods: ReadonlySet<string> = new Set(METHODS);
const notFound = new PetstoreError('not_found', 'There is nothing at this path.');
const notImplemented = new PetstoreError(
  'not_implemented',
  'This server does not know this method.',
);

/** The resource of `OPTIONS *` (C17), with the methods of the specification. */
const wholeServer: Match = {
  resource: resourceOf({
    path: '*',
    methods: { OPTIONS: optionsOperation('GET, HEAD, POST, OPTIONS') },
  }),
  params: {},
};

/** A node of the tree of paths: one segment. */
interface RouteNode {
  /** The text of the segment, or the name of its param. */
  readonly name: string;
  /** The nodes below it, by the text of a fixed segment. */
  readonly fixed: Map<string, RouteNode>;
  /** The node below it for any other segment. */
  param?: RouteNode;
  /** The resource of a route that ends here. */
  resource?: Resource;
}

/** The routes of a petstore, in the order in which they were added. */
export class Routes {
  readonly #routes: Resource[] = [];
  readonly #root: RouteNode = { name: '', fixed: new Map() };
  readonly #clock: () => number;

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /**
   * Adds a route.
   * @throws TypeError if the path is taken or malformed, or if there are no methods or unknown ones
   */
  add(route: CheckedRoute): void {
    const { path } = route;

    let node = this.#root;
    for (const segment of segmentsOf(path)) {
      const name = segment.replace(/[{}]/g, '');
      const isParam = name !== segment;

      const next = (isParam ? node.param : node.fixed.get(name)) ?? { name, fixed: new Map() };
      if (next.name !== name)
        throw new TypeError(`route ${path} has {${name}} where another route has {${next.name}}`);

      if (isParam) node.param = next;
      else node.fixed.set(name, next);
      node = next;
    }

    if (node.resource !== undefined) throw new TypeError(`route ${path} is taken`);

    node.resource = resourceOf(route);
    this.#routes.push(node.resource);
  }

  /** Returns the routes that are still served (C35). */
  present(): readonly Resource[] {
    return this.#routes.filter(({ deprecation }) => !isGone(deprecation, this.#clock()));
  }

  /**
   * Finds the route of a path, for any known method.
   * @param basePath The path that replaces `/v1` in messages (C56).
   * @throws PetstoreError `not_implemented` (C18) or `not_found` (C11, C14, C35).
   */
  find(method: string, path: string, basePath: string): Match {
    if (!knownMethods.has(method)) throw notImplemented;

    const match = method === 'OPTIONS' && path === '*' ? wholeServer : this.#match(path);
    if (match === undefined) throw notFound;

    const { deprecation } = match.resource;
    if (deprecation !== undefined && isGone(deprecation, this.#clock()))
      throw new PetstoreError(
        'not_found',
        `This path is no longer available; use GET ${linkBelow(basePath, deprecation.successor)}.`,
      );
    return match;
  }

  /**
   * Walks down the tree by the segments of a path. They are decoded after splitting (C12) and not
   * normalised (C11).
   */
  #match(path: string): Match | undefined {
    if (!path.startsWith('/')) return undefined;

    const params: Record<string, string> = {};
    let node = this.#root;
    for (let from = 1; from <= path.length; ) {
      const slashAt = path.indexOf('/', from);
      const end = slashAt < 0 ? path.length : slashAt;
      const segment = decoded(path.slice(from, end));

      if (segment === undefined || segment === '.' || segment === '..') return undefined;

      const next = node.fixed.get(segment) ?? (segment === '' ? undefined : node.param);
      if (next === undefined) return undefined;

      if (next === node.param) params[next.name] = segment;
      node = next;
      from = end + 1;
    }

    return node.resource && { resource: node.resource, params };
  }
}

/** A `{param}`, or a segment that needs no percent-encoding and is not `.` or `..`. */
const fixedOrParam = /^(?:(?!\.{1,2}$)[\w.~-]+|\{\w+\})$/;

/**
 * Splits the path of a route; after a slash at the end, the last segment is empty.
 * @throws TypeError if no request could match the path
 */
function segmentsOf(path: string): readonly string[] {
  const segments = path.slice(1).split('/');
  const isPath = segments.every((segment, index) =>
    segment === '' ? index === segments.length - 1 : fixedOrParam.test(segment),
  );

  if (!path.startsWith('/') || !isPath)
    throw new TypeError(`route ${path} is not a path such as /v1/pets/{petId}`);

  return segments;
}

function resourceOf(route: CheckedRoute): Resource {
  const { path, deprecation } = route;
  const names = Object.keys(route.methods);
  if (names.length === 0) throw new TypeError(`route ${path} has no methods`);
  for (const method of names)
    if (!knownMethods.has(method))
      throw new TypeError(`route ${path} has an unknown method ${method}`);

  const { GET, OPTIONS, ...others } = route.methods;
  const withHead = GET === undefined ? others : { GET, HEAD: GET, ...others };
  const allowed = Object.freeze([...Object.keys(withHead), 'OPTIONS']);
  const allow = allowed.join(', ');

  const methods = { ...withHead, OPTIONS: OPTIONS ?? optionsOperation(allow) };
  return {
    ...route,
    // RFC 9745, RFC 8594, RFC 5829.
    headers: deprecation && [
      'Deprecation',
      `@${wholeSeconds(deprecation.since)}`,
      'Sunset',
      new Date(deprecation.sunset).toUTCString(),
      'Link',
      `<${deprecation.successor}>; rel="successor-version"`,
    ],
    needsKey: path === '/v1' || path.startsWith('/v1/'),
    operations: new Map(Object.entries(methods)),
    allowed,
    notAllowed: new PetstoreError('method_not_allowed', `This path allows ${allow}.`, {
      headers: ['Allow', allow],
    }),
  };
}

/** Returns the operation for OPTIONS, whose response has the header Allow. */
function optionsOperation(allow: string): CheckedOperation {
  return { handler: () => emptyReply(204, ['Allow', allow]) };
}
