// hono on its adapter for Node, with its validator of queries. Its validator of JSON would round integers beyond 2^53.
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { validator } from 'hono/validator';
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

const app = new Hono();
const json = { 'Content-Type': 'application/json' };

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
  return context.body(writeJson(listPets(limit, status)), 200, json);
});

app.get('/v1/pets/:petId', (context) => {
  const pet = findPet(context.req.param('petId'));
  if (pet === undefined) return context.json(problems[404], 404);
  return context.body(writeJson(pet), 200, json);
});

app.post('/v1/pets', async (context) => {
  const draft = readJson(await context.req.text());
  if (!isDraft(draft)) return context.json(problems[400], 400);
  return context.body(writeJson(add(draft)), 201, json);
});

app.onError((error, context) => {
  if (error instanceof SyntaxError) return context.json(problems[400], 400);
  throw error;
});

serve({ fetch: app.fetch, port: 0, hostname: host }, ({ port }) => say(port));
