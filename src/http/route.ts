/** Owns what stands at a path: its methods, what each of them needs and answers. Knows no path's meaning. */
import type { Awaitable } from '../awaitable.js';
import type { OpenApiOperation } from './openapi.js';
import type { Query } from './query.js';
import type { Reply } from './reply.js';
import type { Deprecation } from './deprecation.js';

/** A request that passed every check before its handler (CONTRACT.md, order of checks). */
export interface OperationRequest {
  readonly method: string;
  /** The decoded texts of the path's `{param}` segments. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: Query;
  /** A byte string; empty unless the operation reads a body. */
  readonly body: string;
  /** The name of the API key; undefined where none is needed. */
  readonly keyName: string | undefined;
  /** The header Idempotency-Key as it came, unchecked, or undefined; an operation that does not know it ignores it. */
  readonly idempotencyKey: string | undefined;
}

/** One method of a route. */
export interface Operation {
  /** Answers the request, or throws a `PetstoreError` that becomes the answer. */
  readonly handler: (request: OperationRequest) => Awaitable<Reply>;
  /** Whether it needs no key even below `/v1`, as OPTIONS (C17). */
  readonly isPublic?: boolean;
  /** Whether it takes a JSON body; only then are media type and size checked and the body read. */
  readonly readsBody?: boolean;
  /** What the OpenAPI document says of it; without it, the operation is not in the document. */
  readonly document?: OpenApiOperation;
}

/** A path and its methods. Below `/v1` a key is needed, elsewhere none (C41). */
export interface Route {
  /** Such as `/v1/pets/{petId}`. */
  readonly path: string;
  /** By method; HEAD comes with GET (C16), OPTIONS and 405 of themselves (C15, C17). */
  readonly methods: Readonly<Record<string, Operation>>;
  readonly deprecation?: Deprecation;
}
