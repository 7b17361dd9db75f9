/** The OpenAPI 3.1 document: its frame, and helpers for the operations of routes. */
import { errorCodes } from './errors.js';
import { petFields, petIdType, petStatuses } from './pet.js';

/** A JSON value of the document. */
export type OpenApiValue = string | number | boolean | null | readonly OpenApiValue[] | OpenApiMap;

type OpenApiMap = { readonly [name: string]: OpenApiValue };

/** An Operation Object. */
export interface OpenApiOperation {
  readonly [name: string]: OpenApiValue;
  /** A unique name; generators name the function of a client by it. */
  readonly operationId: string;
  /** The Response Objects by status code, as `errorResponses` returns them. */
  readonly responses: OpenApiMap;
}

/** The whole document, which plugins may change. */
export interface OpenApiDocument {
  [name: string]: OpenApiValue;
  /** The schemas, to which a plugin can add its own. */
  readonly components: {
    readonly schemas: { [name: string]: OpenApiValue };
    readonly securitySchemes: OpenApiValue;
  };
  /** The groups of operations, to which a plugin can add its own. */
  readonly tags: { readonly name: string; readonly description: string }[];
}

/** Returns a reference to a schema by its name. */
export function schemaRef(name: string): OpenApiValue {
  return { $ref: `#/components/schemas/${name}` };
}

const draftProperties = Object.fromEntries(petFields.map(({ name, type }) => [name, type.schema]));
const required = petFields.filter(({ isRequired }) => isRequired).map(({ name }) => name);

const schemas = {
  PetStatus: { type: 'string', enum: petStatuses, description: 'Availability of the pet.' },
  NewPet: { type: 'object', required, properties: draftProperties },
  Pet: {
    type: 'object',
    required: ['id', ...required],
    properties: { id: petIdType.schema, ...draftProperties },
  },
  Pets: { type: 'array', items: schemaRef('Pet') },
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

/** Returns the `content` of a JSON body, with an example. */
export function jsonContent(schema: OpenApiValue, example: OpenApiValue): OpenApiValue {
  return { 'application/json': { schema, example } };
}

/** Returns a Parameter Object; only path parameters are required. */
export function parameter(
  place: 'path' | 'query' | 'header',
  name: string,
  description: string,
  schema: OpenApiValue,
) {
  return { name, in: place, required: place === 'path', description, schema };
}

/** Descriptions of headers by name. */
type HeaderDescriptions = Readonly<Record<string, string>>;

/** Returns a Response Object. */
export function response(
  description: string,
  content: OpenApiValue,
  headers: HeaderDescriptions = {},
): OpenApiValue {
  const schema = { type: 'string' };
  const described = Object.entries(headers).map(([name, text]) => [
    name,
    { description: text, schema },
  ]);
  return { description, headers: Object.fromEntries(described), content };
}

const retryAfter = { 'Retry-After': 'Seconds to wait.' };

/** The description of each error, and of the headers of its response. */
const errors = {
  invalid_parameter: ['A parameter has an invalid value.'],
  invalid_body: ['Body is missing required fields or contains invalid values.'],
  unauthorized: ['API key missing or invalid.', { 'WWW-Authenticate': 'The bearer challenge.' }],
  not_found: ['The requested resource could not be found.'],
  request_timeout: ['The request did not arrive in time.'],
  idempotency_in_flight: ['The first request with this key is in flight.', retryAfter],
  content_too_large: ['Body is too large.'],
  unsupported_media_type: ['Body is not JSON.', { Accept: 'application/json' }],
  idempotency_mismatch: ['The Idempotency-Key was used with another body.'],
  too_many_requests: ['Too many requests.', retryAfter],
  internal_error: ['The server failed.'],
  bad_gateway: ['A proxy got no valid response from the server.'],
  unavailable: ['The server cannot do this now.', retryAfter],
  gateway_timeout: ['A proxy got no response from the server in time.'],
} as const;

/** Returns a Responses Object of errors, each with these headers. */
export function errorResponses(
  codes: readonly (keyof typeof errors)[],
  headers: HeaderDescriptions = {},
): OpenApiMap {
  const responses = codes.map((code) => {
    const [message, own] = errors[code];
    const { status } = errorCodes[code];
    const content = jsonContent(schemaRef('Error'), { code, message, status });
    return [status, response(message, content, { ...headers, ...own })];
  });
  return Object.fromEntries(responses);
}

const keyOrigin =
  '`petstore keys add NAME` makes a key on the machine of the server; ' +
  'after `make run` a key is in `data/dev-key`.';
const bearerAuth = { type: 'http', scheme: 'bearer', description: keyOrigin };

/** Returns a new document, which plugins may change. */
export function openApiDocument(paths: OpenApiMap, servers: readonly string[]): OpenApiDocument {
  return structuredClone({
    openapi: '3.1.0',
    info: {
      title: 'Petstore',
      version: '1.0.0',
      description:
        'Manages the pets of a store. ' + 'Ids are int64: JSON.parse rounds those beyond 2^53.',
      contact: { name: 'The operator of this server' },
      license: { name: 'MIT', url: 'https://opensource.org/license/mit' },
    },
    servers: servers.map((url) => ({ url })),
    security: [{ bearerAuth: [] }],
    tags: [{ name: 'pets', description: 'The pets of the store.' }],
    paths,
    components: { schemas, securitySchemes: { bearerAuth } },
  });
}
