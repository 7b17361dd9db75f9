/** Petstores on plain node:http that are wrong in exactly one way. */
import {
  accepting,
  asHtml,
  changedIn,
  filtered,
  isAdd,
  isAddedReply,
  isGet,
  isList,
  isListReply,
  listed,
  replied,
  rounded,
  sendRaw,
  textIn,
  written,
  wrong,
  type WrongPetstore,
} from './faults.js';
import { PlainPetstore, sleep, type StoredPet } from './plain-petstore.js';

export const wrongPetstores: readonly WrongPetstore[] = [
  wrong(
    'S1',
    'wraps a list in an object',
    replied(
      (request, reply) => isList(request) && isListReply(reply),
      (reply) => ({ ...reply, body: `{"pets":${reply.body}}` }),
    ),
  ),
  wrong(
    'S1',
    'sends a list with 206',
    replied(
      (request, reply) => isList(request) && isListReply(reply),
      (reply) => ({ ...reply, status: 206 }),
    ),
  ),
  wrong(
    'S1',
    'responds with 500 to each list',
    replied(isList, (_, __, petstore) => petstore.error(500, 'internal_error')),
  ),
  wrong(
    'S1',
    'responds with 500 to a list after a pet without a status',
    replied(
      (request) => isList(request),
      (reply, _, petstore) =>
        petstore.pets.some(({ status }) => status === undefined)
          ? petstore.error(500, 'internal_error')
          : reply,
    ),
  ),
  wrong(
    'S1',
    'redirects the list to another host',
    replied(isList, (reply) => ({
      ...reply,
      status: 302,
      headers: { Location: 'http://127.0.0.1:9/login' },
    })),
  ),
  wrong('S1', 'sends an HTML page for the list', replied(isList, asHtml)),
  wrong(
    'S1',
    'lists names in lowercase',
    changedIn('list', (pet) => ({ ...pet, name: pet.name.toLowerCase() })),
  ),
  wrong(
    'S1',
    'lists names with HTML escapes',
    changedIn('list', (pet) => ({ ...pet, name: pet.name.replaceAll('<', '&lt;') })),
  ),
  wrong(
    'S1',
    'lists categories as 0',
    changedIn('list', (pet) => ({ ...pet, categoryId: '0' })),
  ),
  wrong(
    'S1',
    'lists ids as strings',
    textIn('list', (json) => json.replace(/"id":(\d+)/, '"id":"$1"')),
  ),
  wrong(
    'S1',
    'lists no status',
    changedIn('list', ({ id, name, categoryId }) => ({ id, name, categoryId })),
  ),
  wrong(
    'S1',
    'lists sold pets as available',
    changedIn('list', (pet) => (pet.status === 'sold' ? { ...pet, status: 'available' } : pet)),
  ),
  wrong(
    'S1',
    'lists a pet twice',
    listed((pets) => (pets.length > 1 ? [...pets, ...pets.slice(-1)] : pets)),
  ),
  wrong('S1', 'does not list each fifth pet', (petstore) => ({
    filtered: (status) =>
      PlainPetstore.prototype.filtered
        .call(petstore, status)
        .filter(({ id }) => Number(id) % 5 !== 0),
  })),
  wrong(
    'S1',
    'lists null for a missing status',
    changedIn('list', (pet) => ({ status: null, ...pet })),
  ),
  wrong('S2', 'lists 10 pets by default', (petstore) => ({
    limitOf: (text) => (text === null ? 10 : PlainPetstore.prototype.limitOf.call(petstore, text)),
  })),
  wrong('S2', 'ignores the limit', (petstore) => ({
    find: (status) => petstore.filtered(status).slice(0, 20),
  })),
  wrong('S2', 'lists one pet too many', (petstore) => ({
    find: (status, limit) => petstore.filtered(status).slice(0, limit + 1),
  })),
  wrong('S2', 'lists at most 50 pets', (petstore) => ({
    find: (status, limit) => petstore.filtered(status).slice(0, Math.min(limit, 50)),
  })),
  wrong('S2', 'ignores the limit of a filtered list', (petstore) => ({
    find: (status, limit) => petstore.filtered(status).slice(0, status === null ? limit : 100),
  })),
  wrong('C7', 'filters after it has limited the list', (petstore) => ({
    find: (status, limit) =>
      petstore.pets.slice(0, limit).filter((pet) => status === null || pet.status === status),
  })),
  wrong('C1', 'lists 101 pets for a limit of 101', (petstore) => ({
    limitOf: (text) => (text === null ? 20 : Number(text)),
    find: (status, limit) => petstore.filtered(status).slice(0, limit),
  })),
  wrong(
    'C7',
    'ignores the filter',
    filtered((pets) => pets),
  ),
  wrong(
    'C7',
    'finds pets without a status too',
    filtered((pets, status) =>
      pets.filter((pet) => pet.status === undefined || pet.status === status),
    ),
  ),
  wrong(
    'C7',
    'finds no pending pet',
    filtered((pets, status) =>
      status === 'pending' ? [] : pets.filter((pet) => pet.status === status),
    ),
  ),
  wrong(
    'C7',
    'misses each seventh pet',
    filtered((pets, status) =>
      pets.filter((pet) => pet.status === status && Number(pet.id) % 7 !== 0),
    ),
  ),
  wrong(
    'C7',
    'finds a pet twice',
    filtered((pets, status) => {
      const found = pets.filter((pet) => pet.status === status);
      return status === 'available' ? found.flatMap((pet) => [pet, pet]) : found;
    }),
  ),
  wrong(
    'C7',
    'changes the category of filtered pets',
    filtered((pets, status) =>
      pets.filter((pet) => pet.status === status).map((pet) => ({ ...pet, categoryId: '77' })),
    ),
  ),
  wrong('S3', 'responds with 200 and null to a missing pet', () => ({
    missing: () => new PlainPetstore().ok(200, 'null'),
  })),
  wrong('S3', 'responds with 400 to a missing pet', () => ({
    missing: () => new PlainPetstore().error(400, 'bad_id'),
  })),
  wrong('S3', 'responds with 500 to a missing pet', () => ({
    missing: () => new PlainPetstore().error(500, 'crash'),
  })),
  wrong(
    'S3',
    'closes the connection for a missing pet',
    replied(
      (request, reply) => isGet(request) && reply.status === 404,
      () => {
        throw new Error('crash');
      },
    ),
  ),
  wrong('P3', 'leaves the status out of errors', (petstore) => ({
    error: (status, code, headers) =>
      petstore.ok(status, JSON.stringify({ code, message: code }), headers),
  })),
  wrong('P3', 'sends another status in errors', (petstore) => ({
    error: (status, code, headers) =>
      petstore.ok(status, JSON.stringify({ code, message: code, status: 200 }), headers),
  })),
  wrong('P3', 'sends the status of an error as a string', (petstore) => ({
    error: (status, code, headers) =>
      petstore.ok(status, JSON.stringify({ code, message: code, status: `${status}` }), headers),
  })),
  wrong('P3', 'sends errors as text', (petstore) => ({
    error: (status, code, headers) =>
      petstore.ok(status, JSON.stringify({ code, message: code, status }), {
        ...headers,
        'Content-Type': 'text/plain',
      }),
  })),
  wrong('P3', 'sends 401 without a body', (petstore) => ({
    unauthorized: () => ({
      ...petstore.error(401, 'unauthorized', { 'WWW-Authenticate': 'Bearer' }),
      body: '',
    }),
  })),
  wrong(
    'P3',
    'sends a list as text/html',
    replied(isList, (reply) => ({
      ...reply,
      headers: { ...reply.headers, 'Content-Type': 'text/html' },
    })),
  ),
  wrong(
    'P3',
    'counts characters in Content-Length',
    written(
      ({ body }) => body.length !== Buffer.byteLength(body),
      (response, { status, body }) => {
        const head = `HTTP/1.1 ${status} X\r\nContent-Type: application/json\r\nDate: ${new Date().toUTCString()}\r\n`;
        sendRaw(response, `${head}Content-Length: ${body.length}\r\n\r\n${body}`);
      },
    ),
  ),
  wrong(
    'P3',
    'closes the connection in the middle of a list',
    written(isListReply, (response, { body }) => {
      sendRaw(
        response,
        `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length + 10}\r\n\r\n${body}`,
      );
    }),
  ),
  wrong(
    'P3',
    'sends JSON that is cut off',
    replied(
      (request, reply) => isList(request) && isListReply(reply) && reply.body.length > 300,
      (reply) => ({ ...reply, body: reply.body.slice(0, -5) }),
    ),
  ),
  wrong('C19', 'sets a missing status to null', (petstore) => ({
    petOf: (id, draft) => ({
      status: null,
      ...PlainPetstore.prototype.petOf.call(petstore, id, draft),
    }),
  })),
  wrong('C19', 'sets a missing status to "unknown"', (petstore) => ({
    petOf: (id, draft) => ({
      status: 'unknown',
      ...PlainPetstore.prototype.petOf.call(petstore, id, draft),
    }),
  })),
  wrong(
    'C20',
    'accepts a pet without a category',
    accepting(({ name, categoryId }) => name !== undefined && categoryId === undefined),
  ),
  wrong(
    'C20',
    'accepts an unknown status',
    accepting(
      ({ name, categoryId, status }) =>
        name !== undefined && categoryId !== undefined && status === 'gone',
    ),
  ),
  wrong(
    'C20',
    'accepts a status of null',
    accepting(
      ({ name, categoryId, status, hasStatus }) =>
        name !== undefined && categoryId !== undefined && hasStatus && status === undefined,
    ),
  ),
  wrong(
    'C20',
    'responds with 500 to a missing name',
    replied(
      (request, reply) =>
        isAdd(request) &&
        reply.status === 400 &&
        !request.body.includes('"name"') &&
        request.body.startsWith('{'),
      (_, __, petstore) => petstore.error(500, 'crash'),
    ),
  ),
  wrong(
    'C20',
    'responds with 422 to an invalid body',
    replied(
      (_, reply) => reply.body.includes('invalid_body'),
      (_, __, petstore) => petstore.error(422, 'unprocessable'),
    ),
  ),
  wrong('C23', 'rounds categories', (petstore) => ({
    petOf: (id, draft) => {
      const pet = PlainPetstore.prototype.petOf.call(petstore, id, draft);
      return { ...pet, categoryId: rounded(pet.categoryId) };
    },
  })),
  wrong('C23', 'refuses a category over 2^53', (petstore) => ({
    problemWith: (draft) =>
      Number(draft.categoryId) > 2 ** 53
        ? 'too large'
        : PlainPetstore.prototype.problemWith.call(petstore, draft),
  })),
  wrong(
    'C24',
    'accepts a category over 2^63',
    accepting(
      ({ name, categoryId = '0' }) => name !== undefined && BigInt(categoryId) >= 2n ** 63n,
    ),
  ),
  wrong('C25', 'trims names', (petstore) => ({
    petOf: (id, draft) => {
      const pet = PlainPetstore.prototype.petOf.call(petstore, id, draft);
      return { ...pet, name: pet.name.trim() };
    },
  })),
  wrong('C25', 'normalizes names', (petstore) => ({
    petOf: (id, draft) => {
      const pet = PlainPetstore.prototype.petOf.call(petstore, id, draft);
      return { ...pet, name: pet.name.normalize('NFC') };
    },
  })),
  wrong('C25', 'replaces characters beyond the BMP', (petstore) => ({
    petOf: (id, draft) => {
      const pet = PlainPetstore.prototype.petOf.call(petstore, id, draft);
      return { ...pet, name: pet.name.replace(/[\u{10000}-\u{10ffff}]/gu, '?') };
    },
  })),
  wrong(
    'C26',
    'responds with 500 to a body that is not JSON',
    replied(
      (_, reply) => reply.body.includes('invalid_json'),
      (_, __, petstore) => petstore.error(500, 'crash'),
    ),
  ),
  wrong(
    'C30',
    'responds with 200 to an added pet',
    replied(
      (_, reply) => isAddedReply(reply),
      (reply) => ({ ...reply, status: 200 }),
    ),
  ),
  wrong(
    'C30',
    'returns only the id of an added pet',
    textIn('add', (json) => json.replace(/,.*\}$/, '}')),
  ),
  wrong('C30', 'returns ids as strings', (petstore) => ({
    json: (pet) => PlainPetstore.prototype.json.call(petstore, { ...pet, id: `"${pet.id}"` }),
  })),
  wrong(
    'C30',
    'returns an added pet in an array',
    replied(
      (_, reply) => isAddedReply(reply),
      (reply) => ({ ...reply, body: `[${reply.body}]` }),
    ),
  ),
  wrong('C30', 'loses the status of an added pet', (petstore) => ({
    petOf: (id, draft) =>
      PlainPetstore.prototype.petOf.call(petstore, id, { ...draft, status: undefined }),
  })),
  wrong(
    'C30',
    'responds with 503 to each added pet',
    replied(isAdd, (reply, _, petstore) =>
      reply.status === 401 ? reply : petstore.error(503, 'unavailable'),
    ),
  ),
  wrong(
    'C30',
    'has a key that may only read',
    replied(isAdd, (reply, _, petstore) =>
      reply.status === 401 ? reply : petstore.error(403, 'forbidden'),
    ),
  ),
  wrong(
    'C30',
    'redirects the adding of a pet',
    replied(isAdd, (reply) =>
      reply.status === 401 ? reply : { ...reply, status: 307, headers: { Location: '/v1/pets/' } },
    ),
  ),
  wrong(
    'C30',
    'sends an HTML page for an added pet',
    replied((_, reply) => isAddedReply(reply), asHtml),
  ),
  wrong('C31', 'gives requests at the same time one id', (petstore) => ({
    add: async (request) => {
      const id = String(petstore.pets.length + 1);
      await sleep(5);
      petstore.nextId = () => id;
      return PlainPetstore.prototype.add.call(petstore, request);
    },
  })),
  wrong('C31', 'swaps responses to requests at the same time', (petstore) => {
    let waiting:
      | { readonly pet: StoredPet; readonly resolve: (pet: StoredPet) => void }
      | undefined;
    return {
      add: async (request) => {
        const reply = await PlainPetstore.prototype.add.call(petstore, request);
        const own = petstore.pets.at(-1);
        if (reply.status !== 201 || own === undefined) return reply;
        const other = waiting;
        if (other !== undefined) {
          waiting = undefined;
          other.resolve(own);
          return petstore.added(other.pet);
        }
        const given = await Promise.race([
          new Promise<StoredPet>((resolve) => {
            waiting = { pet: own, resolve };
          }),
          sleep(5).then(() => own),
        ]);
        waiting = undefined;
        return petstore.added(given);
      },
    };
  }),
  wrong(
    'C34',
    'returns a pet in an array',
    textIn('get', (json) => `[${json}]`),
  ),
  wrong(
    'C34',
    'returns a pet without its status',
    changedIn('get', ({ id, name, categoryId }) => ({ id, name, categoryId })),
  ),
  wrong('C34', 'returns the pet before', (petstore) => ({
    get: (id) =>
      PlainPetstore.prototype.get.call(
        petstore,
        Number(id) > 1 && Number(id) < 1e6 ? String(Number(id) - 1) : id,
      ),
  })),
  wrong('C34', 'does not know GET of one pet', () => ({
    get: () => new PlainPetstore().error(404, 'not_found'),
  })),
  wrong('C36', 'needs no key to list', (petstore) => ({
    isAuthorized: (request) =>
      (isList(request) && request.headers.authorization === undefined) ||
      PlainPetstore.prototype.isAuthorized.call(petstore, request),
  })),
  wrong('C36', 'needs no key to add', (petstore) => ({
    isAuthorized: (request) =>
      (isAdd(request) && request.headers.authorization === undefined) ||
      PlainPetstore.prototype.isAuthorized.call(petstore, request),
  })),
  wrong('C36', 'responds with 403 without a key', (petstore) => ({
    unauthorized: () => petstore.error(403, 'forbidden'),
  })),
  wrong('C36', 'checks the body before the key', (petstore) => ({
    handle: async (request) => {
      const reply = await PlainPetstore.prototype.handle.call(petstore, request);
      if (!isAdd(request) || reply.status !== 401 || request.headers.authorization !== undefined)
        return reply;
      const isBad = (() => {
        try {
          return petstore.problemWith(JSON.parse(request.body)) !== undefined;
        } catch {
          return true;
        }
      })();
      return isBad && !request.body.includes('verify')
        ? petstore.error(400, 'invalid_body')
        : reply;
    },
  })),
  wrong('C37', 'accepts any key', (petstore) => ({
    isAuthorized: ({ headers }) =>
      /^bearer +\S/i.test(headers.authorization ?? '') && petstore !== undefined,
  })),
  wrong('C37', 'accepts a key in another letter case', () => ({
    isAuthorized: ({ headers }) => headers.authorization?.toLowerCase() === 'bearer psk_test',
  })),
  wrong('C37', 'accepts a key with more behind it', () => ({
    isAuthorized: ({ headers }) => /^bearer +psk_test/i.test(headers.authorization ?? ''),
  })),
  wrong('C37', 'accepts another scheme', (petstore) => ({
    isAuthorized: (request) =>
      /^token psk_test$/i.test(request.headers.authorization ?? '') ||
      PlainPetstore.prototype.isAuthorized.call(petstore, request),
  })),
  wrong(
    'C15',
    'sends 405 without Allow',
    (petstore) => ({ notAllowed: () => petstore.error(405, 'method_not_allowed') }),
    'http',
  ),
  wrong(
    'C15',
    'responds with 200 to DELETE',
    (petstore) => ({ notAllowed: () => petstore.ok(200, '{}') }),
    'http',
  ),
  wrong(
    'C14',
    'responds with 200 to an unknown path',
    replied(
      ({ path }, reply) => /petz|owner/.test(path) && reply.status === 404,
      (_, __, petstore) => petstore.ok(200, '{}'),
    ),
    'http',
  ),
  wrong(
    'C16',
    'does not know HEAD',
    replied(
      ({ method }) => method === 'HEAD',
      (_, __, petstore) => petstore.error(405, 'no', { Allow: 'GET, POST' }),
    ),
    'http',
  ),
  wrong(
    'C16',
    'sends a body to HEAD',
    written(
      (_, method) => method === 'HEAD',
      (response, { body }) => {
        response.socket?.write(
          `HTTP/1.1 200 OK\r\nDate: ${new Date().toUTCString()}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
        );
      },
    ),
    'http',
  ),
  wrong(
    'C36',
    'sends 401 without WWW-Authenticate',
    (petstore) => ({ unauthorized: () => petstore.error(401, 'unauthorized') }),
    'http',
  ),
  wrong(
    'C38',
    'does not know bearer in lowercase',
    (petstore) => ({
      isAuthorized: (request) =>
        /^Bearer /.test(request.headers.authorization ?? '') &&
        PlainPetstore.prototype.isAuthorized.call(petstore, request),
    }),
    'http',
  ),
  wrong(
    'C64',
    'sends no Date',
    (petstore) => ({
      write: (response, reply, method) => {
        response.sendDate = false;
        PlainPetstore.prototype.write.call(petstore, response, reply, method);
      },
    }),
    'http',
  ),
];
