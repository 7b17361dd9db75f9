// express 5 with a router. It uses express.text(), because express.json() would round integers beyond 2^53.
import express from 'express';
import {
  add,
  findPet,
  listPets,
  host,
  isAllowed,
  isDraft,
  pageOf,
  problems,
  say,
} from './catalogue.js';
import { readJson, writeJson } from './exact-json.js';

const app = express();

app.use((request, response, next) => {
  if (isAllowed(request.get('authorization'))) next();
  else response.status(401).json(problems[401]);
});

app.get('/v1/pets', (request, response) => {
  const page = pageOf(request.query);
  if (page === undefined) response.status(400).json(problems[400]);
  else response.type('json').send(writeJson(listPets(page.limit, page.status)));
});

app.get('/v1/pets/:petId', (request, response) => {
  const pet = findPet(request.params.petId);
  if (pet === undefined) response.status(404).json(problems[404]);
  else response.type('json').send(writeJson(pet));
});

app.post('/v1/pets', express.text({ type: 'application/json' }), (request, response) => {
  const draft = readJson(request.body ?? '');
  if (isDraft(draft))
    response
      .status(201)
      .type('json')
      .send(writeJson(add(draft)));
  else response.status(400).json(problems[400]);
});

app.use((error, _request, response, next) => {
  if (error instanceof SyntaxError) response.status(400).json(problems[400]);
  else next(error);
});

const server = app.listen(0, host, () => say(server.address().port));
