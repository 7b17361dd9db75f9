/** Routes: what stands at a path, its methods, its announced end, and the way from a path to it. */
import { METHODS } from 'node:http';
import { PetstoreError } from './errors.js';
import type { OpenApiOperation } from './openapi.js';
import { emptyReply, linkBelow, type HandlerResult, type Reply } from './reply.js';
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
   * The header Idempotency-Key as it came, unchecked. An operation that does not know it ignores
   * it.
   */
  readonly idempotencyKey: string | undefined;
  /** What stands for `/v1` in links (C56). In `Location` and `Link` of a reply it is put by us. */
  readonly basePath: string;

  /**
   * Whether the path is the one that a framework mounted the petstore at, without the slash behind
   * it. To the routes that is `/`, but relative links of a page would not lead below it (C58).
   */
  readonly lacksSlash: boolean;

  /**
   * Waits while plugins hold the operation. Given only to an operation that says `awaitsHold`, and
   * only if a plugin holds this request.
   * @throws PetstoreError `unavailable` if the storage was reset meanwhile (C71).
   */
  readonly hold?: (() => Promise<void>) | undefined;
}

/** A request as the handler of a plugin's route receives it. */
export interface RouteRequest extends OperationRequest {
  /**
   * Parses the body into plain values. A number is a bigint if it is an integer beyond 2^53.
   * @throws PetstoreError `invalid_json`
   */
  readonly json: () => unknown;
}

/** One method of a route. */
export interface Operation {
  /** Returns the response, or throws a `PetstoreError` that becomes the response. */
  readonly handler: (request: RouteRequest) => HandlerResult | PromiseLike<HandlerResult>;
  /** Whether it takes a JSON body, of checked media type and size. */
  readonly readsBody?: boolean;
  /**
   * True if the handler awaits `hold` of its request, after it has checked the request and before
   * it reads or changes anything. All other operations are held before their handler.
   * @defaultValue false
   */
  readonly awaitsHold?: boolean;
  /**
   * True if the operation is carried out although the storage was reset after the request came.
   * All other operations below `/v1` are then refused (C71).
   * @defaultValue false
   */
  readonly survivesReset?: boolean;
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
   * By method. HEAD comes with GET (C16); OPTIONS, which needs no key, and the 405 to all others
   * come by themselves (C15, C17).
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

/** An operation whose handler returns checked replies. */
export interface CheckedOperation extends Operation {
  readonly handler: (request: OperationRequest) => Reply | PromiseLike<Reply>;
}

/** A route of checked operations. */
export interface CheckedRoute extends Route {
  readonly methods: Readonly<Record<string, CheckedOperation>>;
}

/** A route with what is made of it once. */
export interface Resource extends CheckedRoute {
  /** Headers of each of its answers, if any (C33): names and values, alternating. */
  readonly headers: readonly string[] | undefined;
  /** Whether a key is needed, but for OPTIONS (C17, C41). */
  readonly needsKey: boolean;
  /** Its operations by method, HEAD and OPTIONS included (C16, C17). */
  readonly operations: ReadonlyMap<string, CheckedOperation>;
  /** The methods that it allows, as in the header Allow (C15). */
  readonly allowed: readonly string[];
  /** What is thrown for any other method (C15). */
  readonly notAllowed: PetstoreError;
}

/** A route as the host of a plugin lists it. */
export interface RouteSummary {
  /** Such as `/v1/pets/{petId}`. */
  readonly path: string;
  /** The methods that it allows, HEAD and OPTIONS included. */
  readonly methods: readonly string[];
}

/** The decoded segments of a path that stand for the `{param}`s of its route, by their names. */
type Params = Readonly<Record<string, string>>;

/** What a path leads to. */
interface Match {
  readonly resource: Resource;
  readonly params: Params;
}

const knownMethods: ReadonlySet<string> = new Set(METHODS);
const notFound = new PetstoreError('not_found', 'There is nothing at this path.');
const notImplemented = new PetstoreError('not_implemented', 'This method is not known here.');

/** What `OPTIONS *` asks of (C17), with the methods of the specification. */
const wholeServer: Match = {
  resource: resourceOf({
    path: '*',
    methods: { OPTIONS: optionsOperation('GET, HEAD, POST, OPTIONS') },
  }),
  params: {},
};

/** What a beginning of a path leads to, in the tree of all paths. */
interface Place {
  /** The segment that leads here from the place above: its text, or the name of its param. */
  readonly name: string;
  /** The places that a fixed segment leads to, by its text. */
  readonly fixed: Map<string, Place>;
  /** The place that any other segment leads to. */
  param?: Place;
  /** What stands here, if a route ends here. */
  resource?: Resource;
}

/** All routes of a petstore, in the order in which they were added. */
export class Routes {
  readonly #routes: Resource[] = [];
  readonly #root: Place = { name: '', fixed: new Map() };
  readonly #clock: () => number;

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /**
   * Adds a route.
   * @throws TypeError for a path that is taken, or that no request could match, and for no or
   * unknown methods.
   */
  add(route: CheckedRoute): void {
    const { path } = route;

    let place = this.#root;
    for (const segment of segmentsOf(path)) {
      const name = segment.replace(/[{}]/g, '');
      const isParam = name !== segment;

      const next = (isParam ? place.param : place.fixed.get(name)) ?? { name, fixed: new Map() };
      if (next.name !== name)
        throw new TypeError(`route ${path} says {${name}} where another says {${next.name}}`);

      if (isParam) place.param = next;
      else place.fixed.set(name, next);
      place = next;
    }

    if (place.resource !== undefined) throw new TypeError(`route ${path} is taken`);

    place.resource = resourceOf(route);
    this.#routes.push(place.resource);
  }

  /** The routes whose time is not over (C35). */
  present(): readonly Resource[] {
    return this.#routes.filter(({ deprecation }) => !isGone(deprecation, this.#clock()));
  }

  /**
   * Finds what a path leads to, whatever the method; `OPTIONS *` is of the whole server.
   * @param basePath What stands for `/v1` in messages (C56).
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
   * Goes down the tree by the segments of a path, which are decoded after splitting (C12) and not
   * normalised (C11). A fixed segment hides a param, and there is no way back.
   */
  #match(path: string): Match | undefined {
    if (!path.startsWith('/')) return undefined;

    const params: Record<string, string> = {};
    let place = this.#root;
    for (let from = 1; from <= path.length; ) {
      const slashAt = path.indexOf('/', from);
      const end = slashAt < 0 ? path.length : slashAt;
      const segment = decoded(path.slice(from, end));

      if (segment === undefined || segment === '.' || segment === '..') return undefined;

      const next = place.fixed.get(segment) ?? (segment === '' ? undefined : place.param);
      if (next === undefined) return undefined;

      if (next === place.param) params[next.name] = segment;
      place = next;
      from = end + 1;
    }

    return place.resource && { resource: place.resource, params };
  }
}

/** A segment that needs no percent-encoding and is not `.` or `..`, or a `{param}`. */
const fixedOrParam = /^(?:(?!\.{1,2}$)[\w.~-]+|\{\w+\})$/;

/**
 * The segments of a route's path; the last one is empty behind a slash at the end.
 * @throws TypeError for a path that no request could match.
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
      `@${deprecation.since / 1000}`,
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

/** The operation of OPTIONS, which answers what the header Allow is. */
function optionsOperation(allow: string): CheckedOperation {
  return { handler: () => emptyReply(204, ['Allow', allow]) };
}
