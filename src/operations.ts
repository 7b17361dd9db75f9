/** The operations: the three of the specification, the OpenAPI document and two probes. */
import { hash } from 'node:crypto';
import { inFlight, PetstoreError } from './errors.js';
import { parseInt64, maxBodyValues, parseJson, toByteString } from './json.js';
import {
  documentJson,
  errorResponses,
  jsonContent,
  openApiDocument,
  parameter,
  response,
  schemaRef,
  type OpenApiDocument,
  type OpenApiValue,
} from './openapi.js';
import {
  afterParameter,
  limitParameter,
  listDocument,
  PageCache,
  pageReply,
  parsePage,
  readParameter,
  type ListParameter,
  type ListParameters,
} from './paging.js';
import {
  filterableFields,
  int64Schema,
  parseDraft,
  type FilterName,
  type PetField,
  type PetFilter,
} from './pet.js';
import { jsonReply, replyTo, SharedResponse, type Reply } from './reply.js';
import type { Query } from './request.js';
import {
  isGone,
  type Deprecation,
  type CheckedOperation,
  type CheckedRoute,
  type OperationRequest,
  type Route,
  type Routes,
} from './router.js';
import type { IdempotencyKeyUse, PetQuery, PetTexts, StorageTexts, StoredText } from './storage.js';

/** The deprecation of `GET /v1/pets/{petId}` (C33, C34). */
const getPetDeprecation: Deprecation = {
  since: Date.UTC(2026, 10, 20),
  sunset: Date.UTC(2030, 11, 5, 23, 59, 59),
  successor: '/v1/pets',
};

const noSuchPet = replyTo(new PetstoreError('not_found', 'There is no pet with this id.'));

/** The query parameters that filter a list of pets. */
const filterParameters = filterableFields.map(
  ({ name, type }: PetField): ListParameter<unknown> => ({
    name,
    read: type.parse,
    refusal: new PetstoreError('invalid_parameter', `${name} must be ${type.parameterRule}.`),
    describe: (things) => `Returns only ${things} with this ${name}.`,
    schema: type.schema,
  }),
);

/** The query parameters of a list of pets. */
const petListParameters = {
  limit: limitParameter,
  ...Object.fromEntries(filterParameters.map((row) => [row.name, row])),
  after: afterParameter,
} satisfies ListParameters<Omit<PetQuery, FilterName>>;

/** Returns the filter of a query. @throws PetstoreError `invalid_parameter` (C1, C3) */
function parseFilter(query: Query): PetFilter {
  const filter: Record<string, unknown> = {};
  for (const row of filterParameters) filter[row.name] = readParameter(query, row);
  return filter;
}

/** A pet of data/animals.jsonl, with the id that `make seed` gives it. */
const newPet = { name: 'Wolfgang', categoryId: 1, status: 'available' };
const pet = { id: 4, ...newPet };
const petContent = jsonContent(schemaRef('Pet'), pet);
const petsContent = jsonContent(schemaRef('Pets'), [pet]);

/** The state of the operations between two resets of the storage (C63). */
export class StoreRun {
  readonly pages = new PageCache();
  /** The digests of the idempotency keys whose operations are held by plugins (C57). */
  heldKeys = new Set<string>();

  /** Clears the state. Operations in flight keep the old set of keys. */
  begin(): void {
    this.pages.clear();
    this.heldKeys = new Set();
  }
}

/**
 * Returns the routes of pets.
 * @param keyClock The clock of idempotency keys (C73).
 * @param isClosed Returns true once the storage is closed.
 */
export function petRoutes(
  pets: StorageTexts,
  run: StoreRun,
  clock: () => number,
  keyClock: () => number,
  isClosed: () => boolean,
): readonly CheckedRoute[] {
  return [
    {
      path: '/v1/pets',
      methods: { GET: listPets(pets, run, isClosed), POST: createPet(pets, run, clock, keyClock) },
    },
    { path: '/v1/pets/{petId}', methods: { GET: getPet(pets) }, deprecation: getPetDeprecation },
  ];
}

function listPets(pets: PetTexts, run: StoreRun, isClosed: () => boolean): CheckedOperation {
  async function list(query: Query): Promise<Reply> {
    const { limit, after } = parsePage(query);
    const asked: Required<Omit<PetQuery, FilterName>> = { limit, ...parseFilter(query), after };

    const { resets } = run.pages;
    const page = await pets.list(asked);
    const reply = pageReply('/v1/pets', asked, page);

    if (page.next !== undefined) run.pages.keep(query.text, reply, resets);
    return reply;
  }

  return {
    // After `close`, a cached page would hide that the storage is closed (C59).
    handler: ({ query }) => (isClosed() ? undefined : run.pages.get(query.text)) ?? list(query),
    document: listDocument('listPets', 'pets', 'pets', petListParameters, petsContent),
  };
}

/** Returns the operation that adds a pet, once per idempotency key (C57). */
function createPet(
  pets: StorageTexts,
  run: StoreRun,
  clock: () => number,
  keyClock: () => number,
): CheckedOperation {
  const keySchema = { type: 'string', minLength: 1, maxLength: 255, pattern: '^[!-~]+$' };
  const repeats =
    'For 24 hours a repeat with the same key and body gets the first response and adds nothing.';
  const exampleKey = '1f0c9a52-6d2e-4c1b-9f43-5a7d0e8b3c61';
  return {
    readsBody: true,
    awaitsHold: true,
    handler: async ({ body, keyName = '', idempotencyKey, hold }) => {
      // Read before the pet is stored, because the clock may throw.
      const now = clock();
      const keyUse =
        idempotencyKey === undefined
          ? undefined
          : keyUseOf(idempotencyKey, keyName, body, keyClock());
      const draft = parseDraft(parseJson(body, maxBodyValues));

      const insert = () =>
        keyUse === undefined ? pets.insert(draft) : pets.insertOnce(draft, keyUse);
      const { heldKeys } = run;
      if (keyUse !== undefined && heldKeys.has(keyUse.key)) throw inFlight;
      // Without a hold, because a storage that keeps no keys rejects at once.
      const isRefused = keyUse !== undefined && !pets.keepsKeys;
      const { id, json, isReplay } = await (hold === undefined || isRefused
        ? insert()
        : insertHeld(insert, hold, heldKeys, keyUse?.key));

      // No Location after the sunset of the route of one pet (C30).
      const location = isGone(getPetDeprecation, now) ? [] : ['Location', `/v1/pets/${id}`];
      const reply = jsonReply(201, json, location);
      return isReplay === true ? { ...reply, isReplay } : reply;
    },
    document: {
      operationId: 'createPet',
      tags: ['pets'],
      summary: 'Add a pet',
      description: 'A 201 means that the pet is stored for good: no pet can be changed or deleted.',
      parameters: [parameter('header', 'Idempotency-Key', repeats, keySchema, exampleKey)],
      requestBody: { required: true, content: jsonContent(schemaRef('NewPet'), newPet) },
      responses: {
        201: response('Pet added.', petContent, { Location: 'The path of the pet.' }),
        ...errorResponses(['invalid_body', 'unauthorized', 'idempotency_in_flight']),
        ...errorResponses([
          'content_too_large',
          'unsupported_media_type',
          'idempotency_mismatch',
          'unavailable',
        ]),
      },
    },
  };
}

/** Inserts after `hold` has resolved. The key is in flight until the insert has ended (C57). */
async function insertHeld(
  insert: () => StoredText | Promise<StoredText>,
  hold: () => Promise<void>,
  heldKeys: Set<string>,
  key: string | undefined,
): Promise<StoredText> {
  if (key !== undefined) heldKeys.add(key);
  try {
    await hold();
    return await insert();
  } finally {
    if (key !== undefined) heldKeys.delete(key);
  }
}

function getPet(pets: PetTexts): CheckedOperation {
  return {
    handler: async ({ params: { petId = '' } }) => {
      const id = parseInt64(petId);
      const json = id === undefined ? undefined : await pets.get(id);
      return json === undefined ? noSuchPet : jsonReply(200, json);
    },
    document: {
      operationId: 'getPet',
      tags: ['pets'],
      summary: 'Get a pet',
      description: 'To be removed on 5 December 2030; use the list with its status filter.',
      deprecated: true,
      parameters: [parameter('path', 'petId', 'Identifier of the pet.', int64Schema, 1)],
      responses: {
        200: response('The pet.', petContent),
        ...errorResponses(['invalid_parameter', 'unauthorized', 'not_found', 'unavailable']),
      },
    },
  };
}

/** Returns the use of an idempotency key. @throws PetstoreError `invalid_parameter` (C57) */
function keyUseOf(
  idempotencyKey: string,
  keyName: string,
  body: string,
  now: number,
): IdempotencyKeyUse {
  // A repeated header contains a space.
  const rule = 'Idempotency-Key must be given only once, as 1 to 255 visible ASCII characters.';
  if (!/^[!-~]{1,255}$/.test(idempotencyKey)) throw new PetstoreError('invalid_parameter', rule);
  // As JSON, so that two different pairs never have the same digest.
  const key = hash('sha256', JSON.stringify([keyName, idempotencyKey]));
  return { key, body: hash('sha256', Buffer.from(body, 'latin1')), at: Math.floor(now) };
}

/**
 * Returns the routes of the two probes and of the OpenAPI document.
 * @param ready Rejects while reads or writes cannot be expected to succeed.
 * @param described Returns the document with the changes of plugins.
 */
export function publicRoutes(
  ready: () => Promise<void>,
  routes: Routes,
  urls: readonly string[],
  described: (document: OpenApiDocument) => OpenApiDocument,
): CheckedRoute[] {
  const healthy = jsonReply(200, toByteString('{"status":"ok"}'));
  let cached: { readonly key: string; readonly reply: SharedResponse } | undefined;
  /** Renders the document again if a route is gone (C35) or the base path differs (C56). */
  const serveDocument = ({ basePath }: OperationRequest): Reply => {
    const present = routes.present();
    const key = `${present.length} ${basePath}`;
    if (cached?.key === key) return cached.reply;
    const document = openApiDocument(pathsOf(present, basePath), [...urls, basePath]);
    const deprecated = present.filter(({ deprecation }) => deprecation !== undefined);
    const text = documentJson(described(document), deprecated.map(documentPath));
    cached = { key, reply: new SharedResponse(jsonReply(200, toByteString(text))) };
    return cached.reply;
  };
  return [
    { path: '/healthz', methods: { GET: { handler: () => healthy } } },
    { path: '/readyz', methods: { GET: { handler: () => ready().then(() => healthy) } } },
    { path: '/openapi.json', methods: { GET: { handler: serveDocument } } },
  ];
}

/**
 * Returns the Paths Object of the documented operations. Paths below `/v1` omit it, because
 * `servers` has it.
 */
function pathsOf(
  routes: readonly Route[],
  basePath: string,
): Readonly<Record<string, OpenApiValue>> {
  const paths: Record<string, OpenApiValue> = {};
  for (const { path, methods } of routes) {
    const operations: Record<string, OpenApiValue> = {};
    for (const [method, { document }] of Object.entries(methods))
      if (document !== undefined) operations[method.toLowerCase()] = document;
    if (Object.keys(operations).length === 0) continue;
    const servers = [{ url: basePath.replace(/\/v1$/, '') || '/' }];
    paths[documentPath({ path })] = path.startsWith('/v1/')
      ? operations
      : { servers, ...operations };
  }
  return paths;
}

/** Returns the path of a route in the document. */
function documentPath({ path }: Pick<Route, 'path'>): string {
  return path.startsWith('/v1/') ? path.slice('/v1'.length) : path;
}
