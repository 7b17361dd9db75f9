/** The OpenAPI 3.1 document: what is the same for all routes, and the parts of their operations. */
import { errorCodes } from './errors.js';
import { petFields, petIdType, petStatuses } from './pet.js';

/** A value of the document. */
export type OpenApiValue = string | number | boolean | null | readonly OpenApiValue[] | OpenApiMap;

type OpenApiMap = { readonly [name: string]: OpenApiValue };

/** An Operation Object. */
export interface OpenApiOperation {
  readonly [name: string]: OpenApiValue;
  /** Unique: the function's name in a generated client. */
  readonly operationId: string;
  /** By status, such as `errorResponses` makes them. */
  readonly responses: OpenApiMap;
}

/** The whole document, open to a plugin's additions. */
export interface OpenApiDocument {
  [name: string]: OpenApiValue;
  /** A plugin adds its own schemas. */
  readonly components: {
    readonly schemas: { [name: string]: OpenApiValue };
    readonly securitySchemes: OpenApiValue;
  };
  /** Groups of operations: a plugin may add its own. */
  readonly tags: { readonly name: string; readonly description: string }[];
}

/** A reference to a schema by its name. */
export function schemaRef(name: string): OpenApiValue {
  return { $ref: `#/components/schemas/${name}` };
}

const draftProperties = Object.fromEntries(petFields.map(({ name, type }) => [name, type.schema]));
const required = petFields.filter(({ isRequired }) => isRequired).map(({ name }) => name);

const schemas = {
  PetStatus: { type: 'string', enum: petStatuses, description: 'Availability of the animal.' },
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

/** The `content` of a JSON body, with an example. */
export function jsonContent(schema: OpenApiValue, example: OpenApiValue): OpenApiValue {
  return { 'application/json': { schema, example } };
}

/** A Parameter Object; only those of a path are required. */
export function parameter(
  place: 'path' | 'query' | 'header',
  name: string,
  description: string,
  schema: OpenApiValue,
) {
  return { name, in: place, required: place === 'path', description, schema };
}

type HeaderWords = Readonly<Record<string, string>>;

/** A Response Object. */
export function response(
  description: string,
  content: OpenApiValue,
  headers: HeaderWords = {},
): OpenApiValue {
  const schema = { type: 'string' };
  const described = Object.entries(headers).map(([name, text]) => [
    name,
    { description: text, schema },
  ]);
  return { description, headers: Object.fromEntries(described), content };
}

const retryAfter = { 'Retry-After': 'Seconds to wait.' };

/** What an error means, and the headers that come with it. */
const errors = {
  invalid_parameter: ['A parameter has an invalid value.'],
  invalid_body: ['Body is missing required fields or contains invalid values.'],
  unauthorized: ['API key missing or invalid.', { 'WWW-Authenticate': 'The bearer challenge.' }],
  not_found: ['The requested resource could not be found.'],
  request_timeout: ['The request did not arrive in time.'],
  idempotency_in_flight: ['The first request with this key is under way.', retryAfter],
  content_too_large: ['Body is too large.'],
  unsupported_media_type: ['Body is not JSON.', { Accept: 'application/json' }],
  idempotency_mismatch: ['The Idempotency-Key was used with another body.'],
  too_many_requests: ['Too many requests came.', retryAfter],
  internal_error: ['Something went wrong on the side of the server.'],
  bad_gateway: ['A proxy had no valid answer of the server.'],
  unavailable: ['The server cannot do this now.', retryAfter],
  gateway_timeout: ['A proxy had no answer of the server in time.'],
} as const;

/** A Responses Object of errors; all of them carry the headers. */
export function errorResponses(
  codes: readonly (keyof typeof errors)[],
  headers: HeaderWords = {},
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
  'Made by `petstore keys add NAME` where the server runs; ' +
  'after `make run` it is in `data/dev-key`.';
const bearerAuth = { type: 'http', scheme: 'bearer', description: keyOrigin };

/** A copy, for plugins change it. */
export function openApiDocument(paths: OpenApiMap, servers: readonly string[]): OpenApiDocument {
  return structuredClone({
    openapi: '3.1.0',
    info: {
      title: 'Petstore',
      version: '1.0.0',
      description:
        'Manages the animals that a store offers. ' +
        'Ids are int64: JSON.parse rounds those beyond 2^53.',
      contact: { name: 'Whoever runs this server' },
      license: { name: 'MIT', url: 'https://opensource.org/license/mit' },
    },
    servers: servers.map((url) => ({ url })),
    security: [{ bearerAuth: [] }],
    tags: [{ name: 'pets', description: 'The animals of the store.' }],
    paths,
    components: { schemas, securitySchemes: { bearerAuth } },
  });
}
