/** Owns the OpenAPI 3.1 document: what all operations share, and how routes become paths. Knows no handler. */
import { petStatuses } from '../pet.js';
import { toByteString } from '../json.js';
import { isGone } from './deprecation.js';
import { jsonReply, type Reply } from './reply.js';
import type { Route } from './route.js';

/** A value of the document, as OpenAPI 3.1 and JSON Schema 2020-12 define it. */
export type OpenApiValue = string | number | boolean | null | readonly OpenApiValue[] | { readonly [name: string]: OpenApiValue };

/** An Operation Object. */
export interface OpenApiOperation {
  readonly [name: string]: OpenApiValue;
  readonly operationId: string;
  readonly responses: { readonly [status: string]: OpenApiValue };
}

/** The whole document, open to a plugin's additions. */
export interface OpenApiDocument {
  [name: string]: OpenApiValue;
  /** What references lead to; a plugin puts its own schemas beside those of the animals. */
  readonly components: { readonly schemas: { [name: string]: OpenApiValue }; readonly securitySchemes: OpenApiValue };
}

/** What precedes the paths of the document and stands in its `servers`. */
const basePath = '/v1';

const int64 = { type: 'integer', format: 'int64' };
const newPetProperties = {
  name: { type: 'string', description: "The animal's name." },
  categoryId: { ...int64, description: 'Identifier of the category the animal belongs to.' },
  status: { $ref: '#/components/schemas/PetStatus' },
};

const schemas = {
  PetStatus: { type: 'string', enum: petStatuses, description: 'Availability of the animal.' },
  NewPet: { type: 'object', required: ['name', 'categoryId'], properties: newPetProperties },
  Pet: {
    type: 'object',
    required: ['id', 'name', 'categoryId'],
    properties: { id: { ...int64, description: 'Assigned by the service on creation.' }, ...newPetProperties },
  },
  Pets: { type: 'array', items: { $ref: '#/components/schemas/Pet' } },
  Error: {
    type: 'object',
    required: ['code', 'message', 'status'],
    properties: {
      code: { type: 'string', description: 'Machine-readable error code.' },
      message: { type: 'string', description: 'Human-readable description.' },
      status: { type: 'integer', description: 'The HTTP status code of the response.' },
    },
  },
};

/** A reference to one of the schemas of the specification. */
export function schemaRef(name: keyof typeof schemas): OpenApiValue {
  return { $ref: `#/components/schemas/${name}` };
}

/** A Response Object with a JSON body, and the headers that it carries by name. */
export function jsonResponse(description: string, schema: OpenApiValue, headers: Readonly<Record<string, string>> = {}): OpenApiValue {
  const content = { 'application/json': { schema } };
  const described = Object.entries(headers).map(([name, text]) => [name, { description: text, schema: { type: 'string' } }]);
  return described.length === 0 ? { description, content } : { description, headers: Object.fromEntries(described), content };
}

/** A Response Object with the Error body. */
export function errorResponse(description: string, headers: Readonly<Record<string, string>> = {}): OpenApiValue {
  return jsonResponse(description, schemaRef('Error'), headers);
}

/**
 * The document of some routes; an operation without a description of its own is left out.
 * It is a copy, so that a plugin that changes it changes no other petstore's.
 * @param baseUrls Absolute base addresses that follow `/v1` in `servers`: production, then staging.
 */
export function openApiDocument(routes: Iterable<Route>, baseUrls: readonly string[]): OpenApiDocument {
  const paths: Record<string, OpenApiValue> = {};
  for (const route of routes) {
    const operations: Record<string, OpenApiValue> = {};
    for (const [method, { document }] of Object.entries(route.methods)) {
      if (document !== undefined) operations[method.toLowerCase()] = document;
    }
    if (Object.keys(operations).length === 0) continue;
    if (route.path.startsWith(`${basePath}/`)) paths[route.path.slice(basePath.length)] = operations;
    else paths[route.path] = { servers: [{ url: '/' }], ...operations };
  }
  return structuredClone({
    openapi: '3.1.0',
    info: { title: 'Petstore', version: '1.0.0', description: 'Manages the animals that a store offers.', license: { name: 'MIT', identifier: 'MIT' } },
    servers: [basePath, ...baseUrls].map((url) => ({ url })),
    security: [{ bearerAuth: [] }],
    paths,
    components: { schemas, securitySchemes: { bearerAuth: { type: 'http', scheme: 'bearer' } } },
  });
}

/**
 * Serves the document at `/openapi.json`, made anew only when a route has gone meanwhile (C35).
 * @param document Makes the document of the routes that are still there.
 * @param clock Milliseconds since the epoch.
 */
export function openApiRoute(routes: readonly Route[], document: (routes: readonly Route[]) => OpenApiDocument, clock: () => number): Route {
  let made: { readonly routeCount: number; readonly reply: Reply } | undefined;
  const handler = (): Reply => {
    const present = routes.filter(({ deprecation }) => !isGone(deprecation, clock()));
    if (made?.routeCount !== present.length) {
      made = { routeCount: present.length, reply: jsonReply(200, toByteString(JSON.stringify(document(present)))) };
    }
    return made.reply;
  };
  return { path: '/openapi.json', methods: { GET: { handler } } };
}
