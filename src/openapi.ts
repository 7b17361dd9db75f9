/** The OpenAPI 3.1 document: its frame, and helpers for the operations of routes. */
import { errorCodes } from './errors.js';
import { int64Max, int64Min } from './json.js';
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

/**
 * Returns a Parameter Object; only path parameters are required.
 * @param example A value with which the request succeeds, because tools send it.
 */
export function parameter(
  place: 'path' | 'query' | 'header',
  name: string,
  description: string,
  schema: OpenApiValue,
  example?: OpenApiValue,
) {
  const base = { name, in: place, required: place === 'path', description, schema };
  return example === undefined ? base : { ...base, example };
}

/** A header that each response of a kind has. */
interface RequiredHeader {
  readonly description: string;
  readonly required: true;
}

/** The headers of a response by name; one with only a description may be absent. */
type HeaderDescriptions = Readonly<Record<string, string | RequiredHeader>>;

const always = (description: string): RequiredHeader => ({ description, required: true });

/** Returns a Response Object. */
export function response(
  description: string,
  content: OpenApiValue,
  headers: HeaderDescriptions = {},
): OpenApiValue {
  return { description, headers: describeHeaders(headers), content };
}

/** Returns Header Objects by name. */
function describeHeaders(headers: HeaderDescriptions): OpenApiMap {
  const schema = { type: 'string' };
  const described = Object.entries(headers).map(([name, header]) => [
    name,
    { ...(typeof header === 'string' ? { description: header } : header), schema },
  ]);
  return Object.fromEntries(described);
}

const retryAfter = { 'Retry-After': always('Seconds to wait.') };

/** The description of each error, and of the headers of its response. */
const errors = {
  invalid_parameter: ['A parameter has an invalid value.'],
  invalid_body: ['Body is missing required fields or contains invalid values.'],
  unauthorized: [
    'API key missing or invalid.',
    { 'WWW-Authenticate': always('The bearer challenge.') },
  ],
  forbidden: ['A policy forbids this request.'],
  not_found: ['The requested resource could not be found.'],
  request_timeout: ['The request did not arrive in time.'],
  idempotency_in_flight: ['The first request with this key is in flight.', retryAfter],
  content_too_large: ['Body is too large.'],
  unsupported_media_type: ['Body is not JSON.', { Accept: always('application/json') }],
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

/** The headers of each response of a deprecated route (C33). */
const deprecationHeaders = describeHeaders({
  Deprecation: always('The time since which it is deprecated (RFC 9745).'),
  Sunset: always('The time until which it is served (RFC 8594).'),
  Link: always('Its successor.'),
});

/** Returns a Path Item Object whose responses have the headers of a deprecated route. */
function withDeprecationHeaders(pathItem: OpenApiValue): OpenApiValue {
  return mapMembers(pathItem, (operation) => {
    const { responses } = isMap(operation) ? operation : {};
    if (responses === undefined) return operation;
    const described = mapMembers(responses, (each) =>
      isMap(each)
        ? { ...each, headers: { ...deprecationHeaders, ...Object(each['headers']) } }
        : each,
    );
    return { ...Object(operation), responses: described };
  });
}

function mapMembers(value: OpenApiValue, change: (member: OpenApiValue) => OpenApiValue) {
  if (!isMap(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, change(member)]));
}

function isMap(value: OpenApiValue | undefined): value is OpenApiMap {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Returns the JSON of a document.
 * @param deprecatedPaths The paths whose responses have the headers of a deprecated route.
 */
export function documentJson(
  document: OpenApiDocument,
  deprecatedPaths: readonly string[],
): string {
  const { paths } = document;
  const described = Object.entries(isMap(paths) ? paths : {}).map(([path, item]) => [
    path,
    deprecatedPaths.includes(path) ? withDeprecationHeaders(item) : item,
  ]);
  const json = JSON.stringify({ ...document, paths: Object.fromEntries(described) });
  // Numbers have rounded the bounds of an int64. Strings are matched whole, so that they stay.
  return json.replace(/"[^"\\]*(?:\\.[^"\\]*)*"|-?9223372036854776000/g, (token) =>
    token.startsWith('"') ? token : String(token.startsWith('-') ? int64Min : int64Max),
  );
}
