/** What every peer shares, so that they differ in their frameworks alone: the animals, their rules, the key. Knows no framework. */

const statuses = ['available', 'pending', 'sold'];
const credential = `Bearer ${process.env.PETSTORE_API_KEYS}`;

const animals = [];

/** Whether a request with this Authorization header may go on. One comparison: the least that a peer can get by with. */
export function isAllowed(authorization) {
  return authorization === credential;
}

/** The animal of an id as it stands in the path, or undefined. */
export function animalOf(id) {
  return animals[Number(id) - 1];
}

/** The first `limit` animals, of one status where it is given. */
export function animalsOf(limit, status) {
  if (status === undefined) return animals.slice(0, limit);
  const page = [];
  for (const animal of animals) {
    if (animal.status === status && page.push(animal) === limit) break;
  }
  return page;
}

/** Adds an animal and answers it. */
export function add({ name, categoryId, status }) {
  const animal = { id: animals.length + 1, name, categoryId, status };
  animals.push(animal);
  return animal;
}

/** Whether a value of JSON is an int64; a number that may have been rounded is none. */
export function isInt64(value) {
  return typeof value === 'bigint'
    ? BigInt.asIntN(64, value) === value
    : Number.isSafeInteger(value);
}

/** Whether a body is an animal before it has an id. */
export function isDraft(body) {
  return (
    typeof body?.name === 'string' &&
    isInt64(body.categoryId) &&
    (body.status === undefined || statuses.includes(body.status))
  );
}

/** The limit and status of a query's texts, or undefined where they are against the rules. */
export function pageOf({ limit = '20', status }) {
  const isFine =
    /^[1-9][0-9]?$|^100$/.test(limit) && (status === undefined || statuses.includes(status));
  return isFine ? { limit: Number(limit), status } : undefined;
}

/** The Error bodies that are sent. */
export const problems = {
  400: { code: 'invalid', message: 'The request is against the rules.', status: 400 },
  401: { code: 'unauthorized', message: 'The API key is missing or invalid.', status: 401 },
  404: { code: 'not_found', message: 'There is no such animal.', status: 404 },
};

/** The JSON Schemas of the specification, for frameworks that take them; `isInt64` is a keyword of ours. */
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
  animal: {
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

/** Where a peer listens. */
export const host = '127.0.0.1';

/** Says that the peer listens, in the line that the petstore itself logs. */
export function say(port) {
  console.log(JSON.stringify({ msg: 'listening', url: `http://${host}:${port}` }));
}
