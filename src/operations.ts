/** The operations that every petstore serves: the three of the specification, the OpenAPI document and two probes. */
import { hash } from 'node:crypto';
import { PetstoreError } from './errors.js';
import { parseInt64 } from './int64.js';
import { parseJson, toByteString } from './json.js';
import { errorResponses, int64, newPetContent, petContent, petsContent, response, schemaRef } from './openapi.js';
import type { OpenApiDocument } from './openapi.js';
import { invalidParameter, listDocument, pageReply, parsePage } from './paging.js';
import { isPetStatus, parseDraft, petStatuses } from './pet.js';
import { jsonReply, replyTo, type Reply } from './reply.js';
import type { Query } from './request.js';
import { isGone, type Deprecation, type Operation, type OperationRequest, type Route, type Routes } from './router.js';
import type { InsertOnce, PetQuery, PetTexts, StoredText } from './storage.js';

/** The end of `GET /v1/pets/{petId}` (C33, C34). */
export const getPetDeprecation: Deprecation = {
  since: Date.UTC(2026, 10, 20),
  sunset: Date.UTC(2030, 11, 5, 23, 59, 59),
  successor: '/v1/pets',
};

// Made once: a stack trace, and a throw, cost more than the rest of such an answer.
const noSuchPet = replyTo(new PetstoreError('not_found', 'There is no pet with this id.'));
const badStatus = invalidParameter(`status must be one of ${petStatuses.join(', ')}.`);

/** The routes of the specification over a storage; `clock` answers milliseconds since the epoch. */
export function petRoutes(pets: Required<PetTexts>, clock: () => number): readonly Route[] {
  return [
    { path: '/v1/pets', methods: { GET: listPets(pets), POST: createPet(pets, clock) } },
    { path: '/v1/pets/{petId}', methods: { GET: getPet(pets) }, deprecation: getPetDeprecation },
  ];
}

function listPets(pets: PetTexts): Operation {
  const full = new FullPages();
  const list = async (text: string, query: PetQuery): Promise<Reply> => {
    const page = await pets.list(query);
    const reply = pageReply('/v1/pets', query, page);
    if (page.next !== undefined) full.keep(text, reply);
    return reply;
  };
  return {
    handler: ({ query }) => full.get(query.text) ?? list(query.text, parsePetQuery(query)),
    document: listDocument('listPets', 'pets', 'animals', schemaRef('PetStatus'), petsContent),
  };
}

function createPet(pets: Required<PetTexts>, clock: () => number): Operation {
  const created = async (adding: StoredText | Promise<StoredText>): Promise<Reply> => {
    const { id, json } = await adding;
    // A Location that leads nowhere is worse than none (C30).
    return jsonReply(201, json, isGone(getPetDeprecation, clock()) ? [] : ['Location', `/v1/pets/${id}`]);
  };
  return {
    readsBody: true,
    handler: ({ body, keyName = '', idempotencyKey }) => {
      const once = idempotencyKey === undefined ? undefined : insertOnceOf(idempotencyKey, keyName, body, clock());
      const draft = parseDraft(parseJson(body));
      return created(once === undefined ? pets.insert(draft) : pets.insertOnce(draft, once));
    },
    document: {
      operationId: 'createPet',
      tags: ['pets'],
      summary: 'Add an animal',
      description: 'Once this is answered with 201 the animal is stored for good: none can be changed or deleted.',
      parameters: [
        {
          name: 'Idempotency-Key',
          in: 'header',
          required: false,
          description: 'For 24 hours a repeat with the same key and body gives the first answer and adds nothing.',
          schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[!-~]+$' },
        },
      ],
      requestBody: { required: true, content: newPetContent },
      responses: {
        201: response('Animal added.', petContent, { Location: 'The path of the animal.' }),
        ...errorResponses(['invalid_body', 'unauthorized', 'idempotency_in_flight']),
        ...errorResponses(['content_too_large', 'unsupported_media_type', 'idempotency_mismatch']),
      },
    },
  };
}

function getPet(pets: PetTexts): Operation {
  const announced = { Deprecation: 'Since when (RFC 9745).', Sunset: 'Until when (RFC 8594).', Link: 'Its successor.' };
  return {
    handler: async ({ params: { petId = '' } }) => {
      const id = parseInt64(petId);
      const json = id === undefined ? undefined : await pets.get(id);
      return json === undefined ? noSuchPet : jsonReply(200, json);
    },
    document: {
      operationId: 'getPet',
      tags: ['pets'],
      summary: 'Get an animal',
      description: 'To be removed on 5 December 2030; use the list with its status filter.',
      deprecated: true,
      parameters: [
        { name: 'petId', in: 'path', required: true, description: 'Identifier of the animal.', schema: int64 },
      ],
      responses: {
        200: response('The animal.', petContent, announced),
        ...errorResponses(['unauthorized', 'not_found'], announced),
      },
    },
  };
}

/** @throws PetstoreError `invalid_parameter` (C1 to C3). */
function parsePetQuery(query: Query): PetQuery {
  const { limit, after } = parsePage(query);
  const status = query.get('status');
  if (status !== undefined && !isPetStatus(status)) throw badStatus;
  return { limit, after, status };
}

/** How many replies are cached, how long their query's text may be, and how many bytes their body: 8 MiB in all. */
const maxCached = { replies: 512, queryLength: 100, bodyBytes: 16_384 } as const;

/**
 * Finished replies of full pages by the text of their query. A full page never changes: ids only grow, and animals
 * neither change nor go. Worth 38 % of a list of 20 and 49 % of one of 100 (`make bench PARTS=speed` without it).
 */
class FullPages {
  readonly #replies = new Map<string, Reply | undefined>();

  get(query: string): Reply | undefined {
    return this.#replies.get(query);
  }

  /** Caches a reply from the second time on: whoever walks through all pages asks once for each. */
  keep(query: string, reply: Reply): void {
    const isSmall = typeof reply.body === 'string' && reply.body.length <= maxCached.bodyBytes;
    if (!isSmall || query.length > maxCached.queryLength) return;
    const isAskedAgain = this.#replies.has(query);
    if (!isAskedAgain && this.#replies.size === maxCached.replies) this.#replies.clear();
    this.#replies.set(query, isAskedAgain ? reply : undefined);
  }
}

/**
 * What makes an insert count once: digests of the key together with the API key's name, and of the body (C57).
 * @param now Milliseconds since the epoch.
 * @throws PetstoreError `invalid_parameter` for a header against its grammar; one that came twice holds a space.
 */
function insertOnceOf(idempotencyKey: string, keyName: string, body: string, now: number): InsertOnce {
  if (!/^[!-~]{1,255}$/.test(idempotencyKey)) {
    const rule = 'Idempotency-Key must be given only once, as 1 to 255 visible ASCII characters.';
    throw new PetstoreError('invalid_parameter', rule);
  }
  // As JSON, so that no two pairs of texts make the same.
  const key = hash('sha256', JSON.stringify([keyName, idempotencyKey]));
  return { key, body: hash('sha256', Buffer.from(body, 'latin1')), at: Math.floor(now) };
}

/**
 * `/healthz` and `/readyz`, for whoever decides where requests go.
 * @param ready Resolves while reads and writes can be expected to succeed, else rejects with `unavailable`.
 */
export function probeRoutes(ready: () => Promise<void>): readonly Route[] {
  const healthy = jsonReply(200, '{"status":"ok"}');
  return [
    { path: '/healthz', methods: { GET: { handler: () => healthy } } },
    { path: '/readyz', methods: { GET: { handler: () => ready().then(() => healthy) } } },
  ];
}

/**
 * Serves the document at `/openapi.json`, made anew only when a route has gone meanwhile (C35) or it is asked for under
 * another path (C56).
 * @param document Makes the document of the routes that are still there, below a path.
 */
export function openApiRoute(
  routes: Routes,
  document: (present: readonly Route[], basePath: string) => OpenApiDocument,
): Route {
  let made: { readonly routeCount: number; readonly basePath: string; readonly reply: Reply } | undefined;
  const handler = ({ basePath }: OperationRequest): Reply => {
    const present = routes.present();
    const routeCount = present.length;
    if (made?.routeCount !== routeCount || made.basePath !== basePath) {
      const text = toByteString(JSON.stringify(document(present, basePath)));
      made = { routeCount, basePath, reply: jsonReply(200, text) };
    }
    return made.reply;
  };
  return { path: '/openapi.json', methods: { GET: { handler } } };
}
