/** The OpenAPI document of the faults plugin. */
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

/** The header in the OpenAPI document. */
const parameter: OpenApiValue = {
  name: 'Petstore-Fault',
  in: 'header',
  description: `A fault for this request alone: ${faultWords}.`,
  schema: { type: 'string', examples: ['status=503', 'drop,after', 'delay=1500'] },
};

const rulesContent = jsonContent(schemaRef('FaultRules'), {
  rules: [{ method: 'POST', path: '/v1/pets', fault: 'status=503,after', times: 2 }],
});
const rulesResponse = {
  200: response('The rules, each with how many requests are left.', rulesContent),
};
const operation = (operationId: string, summary: string, responses: object): OpenApiOperation => ({
  operationId,
  tags: ['faults'],
  summary,
  responses: { ...responses, ...errorResponses(['unauthorized']) },
});
/** The Operation Objects of the plugin's own paths. */
export const documents = {
  list: operation('listFaults', 'List the fault rules', rulesResponse),
  set: {
    ...operation('setFaults', 'Set the fault rules, in the place of those before', {
      ...rulesResponse,
      ...errorResponses(['invalid_body']),
    }),
    requestBody: { required: true, content: rulesContent },
  },
  end: operation('endFaults', 'End all fault rules', { 204: { description: 'Ended.' } }),
  reset: operation('resetStore', 'Reset the store to the pets and the fault rules of its start', {
    204: { description: 'Reset; requests that were waiting get 503.' },
  }),
};

const count = { type: 'integer', format: 'int32' };
const schemas = {
  FaultRule: {
    type: 'object',
    description: 'A rule of `GET` can be put back as it is.',
    required: ['fault'],
    properties: {
      method: { type: 'string', description: 'Of the requests; left out for any.' },
      path: { type: 'string', description: 'Of their route; left out for any.' },
      fault: { type: 'string', description: `What goes wrong: ${faultWords}.` },
      times: { ...count, minimum: 1, description: 'How many requests it meets; left out for all.' },
      skip: { ...count, minimum: 0, description: 'How many are let pass first.' },
      skipped: { ...count, minimum: 0, description: 'How many of `skip` were let pass so far.' },
      left: {
        type: ['integer', 'null'],
        minimum: 0,
        description: 'How many it will still meet; null if `times` is left out.',
      },
    },
  },
  FaultRules: {
    type: 'object',
    required: ['rules'],
    properties: { rules: { type: 'array', maxItems: maxRules, items: schemaRef('FaultRule') } },
  },
};

/** Adds the header and the responses of all faults to each operation that a fault can meet. */
export function describeFaults(document: OpenApiDocument): void {
  Object.assign(document.components.schemas, schemas);
  document.tags.push({ name: 'faults', description: 'What goes wrong on purpose.' });

  const operations = Object.values<object>(Object(document['paths'])).flatMap((item) =>
    Object.values(item),
  );
  // Added to each operation: many generators ignore the parameters of a path.
  for (const each of operations.filter(({ tags }) => tags !== undefined && tags[0] !== 'faults')) {
    each.parameters = [...(each.parameters ?? []), parameter];
    each.responses = { ...errorResponses(Object.values(codes)), ...each.responses };
  }
}
