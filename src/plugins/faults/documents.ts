/** The part of the OpenAPI document that the faults plugin adds. */
import {
  errorResponses,
  int64Schema,
  jsonContent,
  listDocument,
  response,
  schemaRef,
  type OpenApiDocument,
  type OpenApiOperation,
  type OpenApiValue,
} from '../../index.js';
import { codes } from './changes.js';
import { journalParameters } from './journal-filters.js';
import { maxRules, maxSeed } from './rules.js';
import { faultWords } from './words.js';

/** The words, as a list in Markdown. */
const wordList = faultWords
  .map(({ syntax, about, example }) => `- \`${syntax}\`: ${about}. Example: \`${example}\``)
  .join('\n');

/** The Parameter Object of the header. */
const parameter: OpenApiValue = {
  name: 'Petstore-Fault',
  in: 'header',
  description: `A fault for this request alone: words, joined by commas.\n\n${wordList}`,
  // Without an example, because tools would send it with every request.
  schema: { type: 'string', default: '' },
};

const rulesContent = jsonContent(schemaRef('FaultRules'), {
  rules: [{ method: 'POST', path: '/v1/pets', fault: 'delay=200', times: 2 }],
});
/** The errors of an operation that reads a body. */
const bodyErrors = errorResponses(['invalid_body', 'content_too_large', 'unsupported_media_type']);
const rulesResponse = {
  200: response('The rules, each with the number of requests that are left.', rulesContent),
};
const operation = (
  operationId: string,
  summary: string,
  description: string,
  responses: object,
): OpenApiOperation => ({
  operationId,
  tags: ['faults'],
  summary,
  description,
  responses: { ...errorResponses(['invalid_parameter', 'unauthorized']), ...responses },
});
const resetContent = jsonContent(
  {
    type: 'object',
    properties: {
      clock: {
        type: 'string',
        format: 'date-time',
        description: "The time of the petstore's clock from now on; its own clock by default.",
      },
    },
  },
  // Before the sunset of getPet, because tools send the examples.
  { clock: '2026-12-06T00:00:00Z' },
);
const requestContent = jsonContent({ type: 'array', items: schemaRef('JournalItem') }, [
  {
    id: 1,
    time: '2030-12-06T00:00:00.000Z',
    method: 'POST',
    path: '/v1/pets',
    route: '/v1/pets',
    key: 'key-1',
    idempotencyKey: '7d3f0a52',
    bodyLength: 29,
    bodySha256: '2f8e4f7af28e0866e666702f6f172cc1a0eb375d5ac5538733313bc98ad590e5',
    fault: 'drop,after',
    cut: true,
    replayed: false,
    ms: 1.5,
  },
]);

/** The Operation Objects of the plugin's paths. */
export const documents = {
  list: operation(
    'listFaults',
    'List the fault rules',
    'Each rule has the number of requests that it will still meet. `PUT` accepts the result.',
    rulesResponse,
  ),
  set: {
    ...operation(
      'setFaults',
      'Replace all fault rules',
      'A request gets the fault of the first rule that fits. If a rule is wrong, nothing changes.',
      { ...rulesResponse, ...bodyErrors },
    ),
    requestBody: { required: true, content: rulesContent },
  },
  end: operation(
    'endFaults',
    'Delete all fault rules',
    'Requests with the header `Petstore-Fault` still get its fault.',
    { 204: { description: 'Deleted.' } },
  ),
  reset: {
    ...operation(
      'resetStore',
      'Reset the pets, the fault rules and the journal to those of the start',
      'Only of a store in memory, so that each test begins with the same pets.',
      {
        204: { description: 'Reset. Requests that were delayed get 503.' },
        ...bodyErrors,
      },
    ),
    requestBody: { required: false, content: resetContent },
  },
  requests: listDocument('listRequests', 'faults', 'requests', journalParameters, requestContent),
};

const count = { type: 'integer', format: 'int32' };
const text = (description: string) => ({ type: 'string', description });
const schemas = {
  FaultRule: {
    type: 'object',
    description: '`PUT` accepts rules as `GET` returns them.',
    required: ['fault'],
    properties: {
      method: { type: 'string', description: 'Method of the requests; any by default.' },
      path: { type: 'string', description: 'Path of the route; any by default.' },
      fault: { type: 'string', description: `Words, joined by commas.\n\n${wordList}` },
      times: {
        ...count,
        minimum: 1,
        description: 'Number of requests that get the fault; all by default.',
      },
      skip: {
        ...count,
        minimum: 0,
        description: 'Number of requests to skip first; 0 by default.',
      },
      skipped: {
        ...count,
        minimum: 0,
        description: 'Number of requests that were skipped so far.',
      },
      left: {
        // Not `type: ['integer', 'null']`, which tools for OpenAPI 3.0 refuse.
        anyOf: [{ type: 'integer', minimum: 0 }, { enum: [null] }],
        description: 'Number of requests that will still get the fault; null without `times`.',
      },
      drawn: {
        ...int64Schema,
        minimum: 0,
        description: 'Number of requests so far of which the share was drawn.',
      },
    },
  },
  FaultRules: {
    type: 'object',
    required: ['rules'],
    properties: {
      rules: { type: 'array', maxItems: maxRules, items: schemaRef('FaultRule') },
      seed: {
        type: 'integer',
        format: 'int64',
        minimum: 0,
        maximum: maxSeed,
        default: 0,
        description: 'The same seed and the same requests meet the same faults.',
      },
    },
  },
  JournalItem: {
    type: 'object',
    description: 'A request that a client sent.',
    required: ['id', 'time', 'method', 'path', 'cut', 'replayed'],
    properties: {
      id: { ...count, minimum: 1, description: 'Number of the request since the last reset.' },
      time: { type: 'string', format: 'date-time', description: 'When its checks ended.' },
      method: text('As sent; empty if it was no HTTP.'),
      path: text('As sent; empty if it was no HTTP.'),
      query: text('As sent, without the question mark.'),
      route: text('The path of the route.'),
      key: text('The name of the API key.'),
      idempotencyKey: text('The header Idempotency-Key.'),
      bodyLength: { ...count, minimum: 0, description: 'Length of the body in bytes.' },
      bodySha256: text('SHA-256 of the body in 64 hex digits.'),
      status: { ...count, description: 'Status code that was sent; omitted if none was.' },
      fault: text('The fault that met the request.'),
      cut: { type: 'boolean', description: 'True if the response did not reach its end.' },
      replayed: {
        type: 'boolean',
        description: 'True if the response is the stored result of an idempotency key.',
      },
      ms: { type: 'number', description: 'Milliseconds until the end of the response.' },
    },
  },
};

/** Adds the header and the error responses to each operation to which faults apply. */
export function describeFaults(document: OpenApiDocument): void {
  Object.assign(document.components.schemas, schemas);
  document.tags.push({ name: 'faults', description: 'Faults on purpose, to test clients.' });

  const operations = Object.values<object>(Object(document['paths'])).flatMap((item) =>
    Object.values(item),
  );
  // Added to each operation, because many generators ignore the parameters of a path.
  for (const each of operations.filter(({ tags }) => tags !== undefined && tags[0] !== 'faults')) {
    each.parameters = [...(each.parameters ?? []), parameter];
    each.responses = { ...errorResponses(Object.values(codes)), ...each.responses };
  }
}
