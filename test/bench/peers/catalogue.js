/** The code that all peers share, so that they differ only in their frameworks: pets, checks and the key. */

const statuses = ['available', 'pending', 'sold'];
const credential = `Bearer ${process.env.PETSTORE_API_KEYS}`;

const pets = [];

/** True if the Authorization header has the valid key. One comparison, the minimum of a peer. */
export function isAllowed(authorization) {
  return authorization === credential;
}

/** Returns the pet of an id in the path, or undefined. */
export function findPet(id) {
  return pets[Number(id) - 1];
}

/** Returns the first `limit` pets, of one status if it is given. */
export function listPets(limit, status) {
  if (status === undefined) return pets.slice(0, limit);
  const page = [];
  for (const pet of pets) {
    if (pet.status === status && page.push(pet) === limit) break;
  }
  return page;
}

/** Adds a pet and returns it. */
export function add({ name, categoryId, status }) {
  const pet = { id: pets.length + 1, name, categoryId, status };
  pets.push(pet);
  return pet;
}

/** True if a JSON value is an int64. A number that may have been rounded is not. */
export function isInt64(value) {
  return typeof value === 'bigint'
    ? BigInt.asIntN(64, value) === value
    : Number.isSafeInteger(value);
}

/** True if a body is a valid draft. */
export function isDraft(body) {
  return (
    typeof body?.name === 'string' &&
    isInt64(body.categoryId) &&
    (body.status === undefined || statuses.includes(body.status))
  );
}

/** Returns the limit and status of a query, or undefined if they are not valid. */
export function pageOf({ limit = '20', status }) {
  const isFine =
    /^[1-9][0-9]?$|^100$/.test(limit) && (status === undefined || statuses.includes(status));
  return isFine ? { limit: Number(limit), status } : undefined;
}

/** The Error bodies. */
export const problems = {
  400: { code: 'invalid', message: 'The request is against the rules.', status: 400 },
  401: { code: 'unauthorized', message: 'The API key is missing or invalid.', status: 401 },
  404: { code: 'not_found', message: 'There is no such pet.', status: 404 },
};

/** The JSON Schemas of the specification, for frameworks that use them; `isInt64` is a keyword of the peers. */
export const schemas = {
  draft: {
    type: 'object',
    required: ['name', 'categoryId'],
    properties: {
      name: { type: 'string' },
      categoryId: { isInt64: true },
      status: { enum: statuses },
    },
  },
  pet: {
    type: 'object',
    properties: {
      id: { type: 'integer' },
      name: { type: 'string' },
      categoryId: { type: 'integer' },
      status: { type: 'string' },
    },
  },
  query: {
    type: 'object',
    properties: {
      limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 },
      status: { enum: statuses },
    },
  },
  problem: {
    type: 'object',
    properties: {
      code: { type: 'string' },
      message: { type: 'string' },
      status: { type: 'integer' },
    },
  },
};

/** The address on which a peer listens. */
export const host = '127.0.0.1';

/** Logs that the peer listens, in the form of the petstore. */
export function say(port) {
  console.log(JSON.stringify({ msg: 'listening', url: `http://${host}:${port}` }));
}
