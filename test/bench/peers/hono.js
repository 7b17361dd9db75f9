// hono on its adapter for Node, with its own validator.
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { validator } from 'hono/validator';
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

const app = new Hono();

app.use(async (context, next) => {
  if (!isAllowed(context.req.header('authorization'))) return context.json(problems[401], 401);
  await next();
});

const query = validator(
  'query',
  (value, context) => pageOf(value) ?? context.json(problems[400], 400),
);
app.get('/v1/pets', query, (context) => {
  const { limit, status } = context.req.valid('query');
  return context.json(animalsOf(limit, status));
});

app.get('/v1/pets/:petId', (context) => {
  const animal = animalOf(context.req.param('petId'));
  return animal === undefined ? context.json(problems[404], 404) : context.json(animal);
});

const draft = validator('json', (value, context) =>
  isDraft(value) ? value : context.json(problems[400], 400),
);
app.post('/v1/pets', draft, (context) => context.json(add(context.req.valid('json')), 201));

serve({ fetch: app.fetch, port: 0, hostname: host }, ({ port }) => say(port));
