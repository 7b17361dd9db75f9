/** The part of the OpenAPI document that the faults plugin adds. */
import {
  errorResponses,
  jsonContent,
  response,
  schemaRef,
  type OpenApiDocument,
  type OpenApiOperation,
  type OpenApiValue,
} from '../../index.js';
import { maxRules } from './rules.js';
import { codes, faultWords } from './words.js';

/** The Parameter Object of the header. */
const parameter: OpenApiValue = {
  name: 'Petstore-Fault',
  in: 'header',
  description: `A fault for this request alone: ${faultWords}.`,
  // Without an example, because tools would send it with every request.
  schema: { type: 'string', default: '' },
};

const rulesContent = jsonContent(schemaRef('FaultRules'), {
  rules: [{ method: 'POST', path: '/v1/pets', fault: 'delay=200', times: 2 }],
});
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
      {
        ...rulesResponse,
        ...errorResponses(['invalid_body', 'content_too_large', 'unsupported_media_type']),
      },
    ),
    requestBody: { required: true, content: rulesContent },
  },
  end: operation(
    'endFaults',
    'Delete all fault rules',
    'Requests with the header `Petstore-Fault` still get its fault.',
    { 204: { description: 'Deleted.' } },
  ),
  reset: operation(
    'resetStore',
    'Reset the pets and the fault rules to those of the start',
    'Only of a store in memory, so that each test begins with the same pets.',
    { 204: { description: 'Reset. Requests that were delayed get 503.' } },
  ),
};

const count = { type: 'integer', format: 'int32' };
const schemas = {
  FaultRule: {
    type: 'object',
    description: '`PUT` accepts rules as `GET` returns them.',
    required: ['fault'],
    properties: {
      method: { type: 'string', description: 'Method of the requests; any by default.' },
      path: { type: 'string', description: 'Path of the route; any by default.' },
      fault: { type: 'string', description: `The fault: ${faultWords}.` },
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
        type: ['integer', 'null'],
        minimum: 0,
        description: 'Number of requests that will still get the fault; null without `times`.',
      },
    },
  },
  FaultRules: {
    type: 'object',
    required: ['rules'],
    properties: { rules: { type: 'array', maxItems: maxRules, items: schemaRef('FaultRule') } },
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
