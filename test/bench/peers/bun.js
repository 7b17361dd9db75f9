// Bun.serve with its routes; runs on Bun, not on Node. Integers of its JSON are exact beyond 2^53.
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

BigInt.prototype.toJSON = function () {
  return JSON.rawJSON(String(this));
};

/** @throws SyntaxError */
const readJson = (text) =>
  JSON.parse(text, (_name, value, { source }) =>
    typeof value === 'number' && /^-?\d{16,}$/.test(source) ? BigInt(source) : value,
  );

const refused = (status) => Response.json(problems[status], { status });

const withKey = (handler) => (request) =>
  isAllowed(request.headers.get('authorization')) ? handler(request) : refused(401);

function list(request) {
  const { searchParams } = new URL(request.url);
  const page = pageOf({
    limit: searchParams.get('limit') ?? undefined,
    status: searchParams.get('status') ?? undefined,
  });
  return page === undefined ? refused(400) : Response.json(listPets(page.limit, page.status));
}

function get(request) {
  const pet = findPet(request.params.petId);
  return pet === undefined ? refused(404) : Response.json(pet);
}

async function create(request) {
  const body = readJson(await request.text());
  return isDraft(body) ? Response.json(add(body), { status: 201 }) : refused(400);
}

const server = Bun.serve({
  port: 0,
  hostname: host,
  error: (error) => {
    if (error instanceof SyntaxError) return refused(400);
    throw error;
  },
  routes: {
    '/v1/pets': { GET: withKey(list), POST: withKey(create) },
    '/v1/pets/:petId': { GET: withKey(get) },
  },
});
say(server.port);
