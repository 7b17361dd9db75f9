/** Owns the three operations of the specification and their routes. Knows the storage's contract, never a backend. */
import { andThen } from '../awaitable.js';
import { parseInt64 } from '../int64.js';
import { parseJson } from '../json.js';
import { isPetStatus, parseDraft, petStatuses } from '../pet.js';
import type { PetQuery, PetTexts, TextPage } from '../storage.js';
import { isGone, type Deprecation } from './deprecation.js';
import { idempotencyKeySchema, parseInsertOnce } from './idempotency-key.js';
import { errorResponse, jsonResponse, schemaRef } from './openapi.js';
import { afterParameter, invalidParameter, limitParameter, pageReply, parsePage, queryParameter } from './paging.js';
import type { Query } from './query.js';
import { constantReply, jsonReply, type Reply } from './reply.js';
import type { Operation, Route } from './route.js';

/** The end of `GET /v1/pets/{petId}` (C33, C34). */
export const getPetDeprecation: Deprecation = {
  since: Date.UTC(2026, 10, 20),
  sunset: Date.UTC(2030, 11, 5, 23, 59, 59),
  successor: '/v1/pets',
};

const noSuchPet = constantReply('not_found', 'There is no pet with this id.');

const badStatus = invalidParameter(`status must be one of ${petStatuses.join(', ')}.`);

const needsKey = errorResponse('API key missing or invalid.', { 'WWW-Authenticate': 'The bearer challenge.' });

/** The routes of the specification over a storage; `clock` answers milliseconds since the epoch. */
export function petRoutes(pets: Required<PetTexts>, clock: () => number): readonly Route[] {
  return [
    { path: '/v1/pets', methods: { GET: listPets(pets), POST: createPet(pets, clock) } },
    { path: '/v1/pets/{petId}', methods: { GET: getPet(pets) }, deprecation: getPetDeprecation },
  ];
}

function listPets(pets: PetTexts): Operation {
  // A storage that answers the very same page again says that it can't have changed; so neither has its reply.
  const replies = new WeakMap<TextPage, Reply>();
  return {
    handler: ({ query }) => {
      const petQuery = parsePetQuery(query);
      return andThen(pets.list(petQuery), (page) => {
        const kept = replies.get(page);
        if (kept !== undefined) return kept;
        const reply = pageReply('/v1/pets', petQuery, page);
        if (page.next === undefined) return reply;
        const keptReply = { ...reply, isKept: true };
        replies.set(page, keptReply);
        return keptReply;
      });
    },
    document: {
      operationId: 'listPets',
      summary: 'List animals',
      parameters: [
        limitParameter('animals'),
        queryParameter('status', 'Returns only animals with this availability status.', schemaRef('PetStatus')),
        afterParameter('animals'),
      ],
      responses: {
        200: jsonResponse('A page of animals.', schemaRef('Pets'), { Link: 'The next page, rel="next"; absent on the last.' }),
        400: errorResponse('A parameter has an invalid value.'),
        401: needsKey,
      },
    },
  };
}

function createPet(pets: Required<PetTexts>, clock: () => number): Operation {
  return {
    readsBody: true,
    handler: ({ body, keyName = '', idempotencyKey }) => {
      const once = idempotencyKey === undefined ? undefined : parseInsertOnce({ idempotencyKey, keyName, body }, clock());
      const draft = parseDraft(parseJson(body));
      const added = once === undefined ? pets.insert(draft) : pets.insertOnce(draft, once);
      // A Location that leads nowhere is worse than none (C30).
      return andThen(added, ({ id, json }) => jsonReply(201, json, isGone(getPetDeprecation, clock()) ? [] : ['Location', `/v1/pets/${id}`]));
    },
    document: {
      operationId: 'createPet',
      summary: 'Add an animal',
      parameters: [
        {
          name: 'Idempotency-Key',
          in: 'header',
          required: false,
          description: 'For 24 hours a repeat with the same key and body gives the first answer again and adds nothing.',
          schema: idempotencyKeySchema,
        },
      ],
      requestBody: { required: true, content: { 'application/json': { schema: schemaRef('NewPet') } } },
      responses: {
        201: jsonResponse('Animal added.', schemaRef('Pet'), { Location: 'The path of the animal.' }),
        400: errorResponse('Body is missing required fields or contains invalid values.'),
        401: needsKey,
        409: errorResponse('The first request with this Idempotency-Key is still under way.', { 'Retry-After': 'After how many seconds to try again.' }),
        413: errorResponse('Body is too large.'),
        415: errorResponse('Body is not JSON.', { Accept: 'application/json' }),
        422: errorResponse('The Idempotency-Key was used with another body.'),
      },
    },
  };
}

function getPet(pets: PetTexts): Operation {
  const announced = { Deprecation: 'Since when (RFC 9745).', Sunset: 'Until when (RFC 8594).', Link: 'What to use instead.' };
  return {
    handler: ({ params: { petId = '' } }) => {
      const id = parseInt64(petId);
      if (id === undefined) return noSuchPet;
      return andThen(pets.get(id), (json) => (json === undefined ? noSuchPet : jsonReply(200, json)));
    },
    document: {
      operationId: 'getPet',
      summary: 'Get an animal',
      description: 'To be removed on 5 December 2030; use the list with its status filter.',
      deprecated: true,
      parameters: [{ name: 'petId', in: 'path', required: true, schema: { type: 'integer', format: 'int64' } }],
      responses: {
        200: jsonResponse('The animal.', schemaRef('Pet'), announced),
        401: errorResponse('API key missing or invalid.', { ...announced, 'WWW-Authenticate': 'The bearer challenge.' }),
        404: errorResponse('The requested resource could not be found.', announced),
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
