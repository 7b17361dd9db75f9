// fastify 5: JSON Schemas check requests and write responses. Only queries are coerced, so that a number is not
// accepted as a name. Bodies are parsed exactly, because its own parser would round integers beyond 2^53.
import { Ajv } from 'ajv';
import fastify from 'fastify';
import {
  add,
  findPet,
  listPets,
  host,
  isAllowed,
  isInt64,
  problems,
  say,
  schemas,
} from './catalogue.js';
import { readJson } from './exact-json.js';

const { pet, draft, problem, query } = schemas;
const app = fastify();

const validators = {
  body: new Ajv({
    keywords: [{ keyword: 'isInt64', validate: (_schema, value) => isInt64(value) }],
  }),
  querystring: new Ajv({ coerceTypes: true, useDefaults: true }),
};
app.setValidatorCompiler(({ schema, httpPart }) => validators[httpPart].compile(schema));

app.addContentTypeParser('application/json', { parseAs: 'string' }, async (_request, body) =>
  readJson(body),
);

app.addHook('onRequest', (request, reply, done) => {
  if (isAllowed(request.headers.authorization)) done();
  else reply.code(401).send(problems[401]);
});

app.setErrorHandler((error, _request, reply) => {
  if (!error.validation && !(error instanceof SyntaxError)) throw error;
  reply.code(400).send(problems[400]);
});

app.get(
  '/v1/pets',
  {
    schema: {
      querystring: query,
      response: { 200: { type: 'array', items: pet }, '4xx': problem },
    },
  },
  (request, reply) => {
    reply.send(listPets(request.query.limit, request.query.status));
  },
);

app.get(
  '/v1/pets/:petId',
  { schema: { response: { 200: pet, '4xx': problem } } },
  (request, reply) => {
    const found = findPet(request.params.petId);
    if (found === undefined) reply.code(404).send(problems[404]);
    else reply.send(found);
  },
);

app.post(
  '/v1/pets',
  { schema: { body: draft, response: { 201: pet, '4xx': problem } } },
  (request, reply) => {
    reply.code(201).send(add(request.body));
  },
);

await app.listen({ port: 0, host });
say(app.server.address().port);
