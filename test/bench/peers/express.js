// express 5: express.json() and a router.
import express from 'express';
import {
  add,
  animalOf,
  animalsOf,
  host,
  isAllowed,
  isDraft,
  pageOf,
  problems,
  say,
} from './catalogue.js';

const app = express();

app.use((request, response, next) => {
  if (isAllowed(request.get('authorization'))) next();
  else response.status(401).json(problems[401]);
});

app.get('/v1/pets', (request, response) => {
  const page = pageOf(request.query);
  if (page === undefined) response.status(400).json(problems[400]);
  else response.json(animalsOf(page.limit, page.status));
});

app.get('/v1/pets/:petId', (request, response) => {
  const animal = animalOf(request.params.petId);
  if (animal === undefined) response.status(404).json(problems[404]);
  else response.json(animal);
});

app.post('/v1/pets', express.json(), (request, response) => {
  if (isDraft(request.body)) response.status(201).json(add(request.body));
  else response.status(400).json(problems[400]);
});

const server = app.listen(0, host, () => say(server.address().port));
