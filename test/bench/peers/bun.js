// Bun.serve with its routes; run by Bun, not by Node.
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

const refused = (status) => Response.json(problems[status], { status });

const withKey = (handler) => (request) =>
  isAllowed(request.headers.get('authorization')) ? handler(request) : refused(401);

function list(request) {
  const { searchParams } = new URL(request.url);
  const page = pageOf({
    limit: searchParams.get('limit') ?? undefined,
    status: searchParams.get('status') ?? undefined,
  });
  return page === undefined ? refused(400) : Response.json(animalsOf(page.limit, page.status));
}

function get(request) {
  const animal = animalOf(request.params.petId);
  return animal === undefined ? refused(404) : Response.json(animal);
}

async function create(request) {
  const body = await request.json();
  return isDraft(body) ? Response.json(add(body), { status: 201 }) : refused(400);
}

const server = Bun.serve({
  port: 0,
  hostname: host,
  routes: {
    '/v1/pets': { GET: withKey(list), POST: withKey(create) },
    '/v1/pets/:petId': { GET: withKey(get) },
  },
});
say(server.port);
