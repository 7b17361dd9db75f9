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
  /** The header Idempotency-Key as it came, unchecked; an operation that does not know it ignores it. */
  readonly idempotencyKey: string | undefined;
  /** What stands for `/v1` in links (C56), put into `Location` and `Link` by itself. */
  readonly basePath: string;
}

/** One method of a route. */
export interface Operation {
  /** Answers the request, or throws the `PetstoreError` that becomes the answer. */
  readonly handler: (request: OperationRequest) => Reply | PromiseLike<Reply>;
  /** Whether it needs no key even below `/v1`, as OPTIONS (C17). */
  readonly isPublic?: boolean;
  /** Whether it takes a JSON body, of checked media type and size. */
  readonly readsBody?: boolean;
  /** What the OpenAPI document says of it, if anything. */
  readonly document?: OpenApiOperation;
}

/** A path and its methods. Below `/v1` a key is needed, elsewhere none (C41). */
export interface Route {
  /** Such as `/v1/pets/{petId}`. */
  readonly path: string;
  /** By method; HEAD comes with GET (C16), OPTIONS and 405 by themselves (C15, C17). */
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
  /** The operation of a method, HEAD and OPTIONS included. @throws PetstoreError `method_not_allowed` (C15) */
  readonly operationOf: (method: string) => Operation & { readonly needsKey: boolean };
}

export type Params = Readonly<Record<string, string>>;
type Match<Value> = { readonly value: Value; readonly params: Params };

const knownMethods: ReadonlySet<string> = new Set(METHODS);

const notFound = new PetstoreError('not_found', 'There is nothing at this path.');
const notImplemented = new PetstoreError('not_implemented', 'This method is not known here.');

/** `OPTIONS *` (C17), with the methods of the specification. */
const allMethods = { OPTIONS: optionsOperation('GET, HEAD, POST, OPTIONS') };
const wholeServer = { value: resourceOf({ path: '*', methods: allMethods }, notFound), params: {} };

export class Routes {
  readonly #routes: Route[] = [];
  readonly #paths = new PathTree<Resource>();
  readonly #clock: () => number;

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** @throws TypeError for a path that is malformed or taken, and for no or unknown methods. */
  add(route: Route): void {
    this.#paths.add(route.path, resourceOf(route));
    this.#routes.push(route);
  }

  /** The routes that are not gone. */
  present(): readonly Route[] {
    return this.#routes.filter(({ deprecation }) => !isGone(deprecation, this.#clock()));
  }

  /** @throws PetstoreError `not_implemented` (C18) or `not_found` (C11, C14, C35). */
  find(method: string, path: string): Match<Resource> {
    if (!knownMethods.has(method)) throw notImplemented;
    const match = path === '*' ? wholeServer : this.#paths.find(path);
    if (match === undefined) throw notFound;
    const { deprecation } = match.value;
    if (deprecation !== undefined && isGone(deprecation, this.#clock()))
      throw new PetstoreError('not_found', `This path is no longer available; use GET ${deprecation.successor}.`);
    return match;
  }
}

/** @param refusal The answer to any other method. @defaultValue a 405 */
function resourceOf(route: Route, refusal?: PetstoreError): Resource {
  const { path, methods, deprecation } = route;
  const { GET, HEAD, OPTIONS, ...others } = methods;
  // Beside a GET, a HEAD of the route's own does not count (C16).
  const head = GET ?? HEAD;
  const given = new Map(Object.entries({ ...(GET && { GET }), ...(head && { HEAD: head }), ...others }));
  for (const method of given.keys())
    if (!knownMethods.has(method)) throw new TypeError(`route ${path} has an unknown method ${method}`);
  if (given.size === 0 && OPTIONS === undefined) throw new TypeError(`route ${path} has no methods`);
  const allow = [...given.keys(), 'OPTIONS'].join(', ');
  given.set('OPTIONS', OPTIONS ?? optionsOperation(allow));
  const isBelowV1 = path === '/v1' || path.startsWith('/v1/');
  const operations = new Map(
    Array.from(given, ([method, each]) => [method, { ...each, needsKey: isBelowV1 && each.isPublic !== true }]),
  );
  const headers = ['Allow', allow];
  const notAllowed = refusal ?? new PetstoreError('method_not_allowed', `This path allows ${allow}.`, { headers });
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
  return ['Deprecation', `@${since / 1000}`, 'Sunset', new Date(sunset).toUTCString(), 'Link', link];
}

function optionsOperation(allow: string): Operation {
  const reply = emptyReply(204, ['Allow', allow]);
  return { isPublic: true, handler: () => reply };
}

interface Node<Value> {
  readonly children: Map<string, Node<Value>>;
  param?: { readonly name: string; readonly node: Node<Value> };
  value?: Value;
}

/** A tree of path segments. */
export class PathTree<Value> {
  readonly #root: Node<Value> = { children: new Map() };

  /** Puts a value at a path. @throws TypeError for one that is taken, or that no request could match. */
  add(path: string, value: Value): void {
    if (!/^(?=\/)(?:\/(?!\.{1,2}(?:\/|$))(?:[\w.~-]+|\{\w+\}))*\/?$/.test(path))
      throw new TypeError(`route ${path} is not a path such as /v1/pets/{petId}`);
    let node = this.#root;
    for (const segment of path.slice(1).split('/'))
      node = segment.startsWith('{') ? paramOf(node, segment.slice(1, -1)) : childOf(node, segment);
    if (node.value !== undefined) throw new TypeError(`route ${path} is taken`);
    node.value = value;
  }

  /**
   * What stands at a request's path, which is split, then decoded (C12), and not normalised (C11): an empty segment
   * matches the slash at an end alone. No param is tried where a fixed segment fits.
   */
  find(path: string): Match<Value> | undefined {
    let node = this.#root;
    const params: Record<string, string> = {};
    for (let at = 0; at < path.length; ) {
      if (path[at] !== '/') return undefined;
      const slashAt = path.indexOf('/', at + 1);
      const end = slashAt < 0 ? path.length : slashAt;
      const segment = decoded(path.slice(at + 1, end));
      if (segment === undefined || segment === '.' || segment === '..') return undefined;
      const fixed = node.children.get(segment);
      if (fixed !== undefined) node = fixed;
      else if (node.param === undefined || segment === '') return undefined;
      else {
        params[node.param.name] = segment;
        node = node.param.node;
      }
      at = end;
    }
    return node.value === undefined ? undefined : { value: node.value, params };
  }
}

function childOf<Value>({ children }: Node<Value>, segment: string): Node<Value> {
  const child = children.get(segment) ?? { children: new Map() };
  children.set(segment, child);
  return child;
}

function paramOf<Value>(node: Node<Value>, name: string): Node<Value> {
  node.param ??= { name, node: { children: new Map() } };
  if (node.param.name !== name) throw new TypeError(`a route names {${node.param.name}} where another says {${name}}`);
  return node.param.node;
}
