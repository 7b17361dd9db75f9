/** Petstores that are wrong for some pets, at some times, or in one place alone. */
import {
  changedIn,
  filtered,
  isAdd,
  isGet,
  isList,
  isListReply,
  replied,
  rounded,
  textIn,
  wrong,
  type Parts,
  type WrongPetstore,
} from './faults.js';
import {
  key,
  PlainPetstore,
  sleep,
  type ReceivedRequest,
  type Reply,
  type StoredPet,
} from './plain-petstore.js';

/** Changes each pet before it is stored. */
const stored =
  (change: (pet: StoredPet) => StoredPet) =>
  (petstore: PlainPetstore): Parts => ({
    petOf: (id, draft) => change(PlainPetstore.prototype.petOf.call(petstore, id, draft)),
  });

/** Changes each name before it is stored. */
const named = (change: (name: string) => string) =>
  stored((pet) => ({ ...pet, name: change(pet.name) }));

/** Calls `change` after each pet that was stored. */
const afterAdding =
  (change: (petstore: PlainPetstore, pet: StoredPet) => void) =>
  (petstore: PlainPetstore): Parts => {
    let count = 0;
    return {
      nextId: () => String(++count),
      add: async (request) => {
        const reply = await PlainPetstore.prototype.add.call(petstore, request);
        const pet = petstore.pets.at(-1);
        if (reply.status === 201 && pet !== undefined) change(petstore, pet);
        return reply;
      },
    };
  };

/** Keeps the response to each list of `isCached` until the server has got `count` more requests. */
const cached =
  (count: number, isCached: (request: ReceivedRequest) => boolean) =>
  (petstore: PlainPetstore): Parts => {
    const pages = new Map<string, { readonly until: number; readonly reply: Reply }>();
    let requests = 0;
    return {
      handle: (request) => {
        requests++;
        return PlainPetstore.prototype.handle.call(petstore, request);
      },
      list: (request) => {
        const name = request.query.toString();
        const page = pages.get(name);
        if (page !== undefined && requests < page.until) return page.reply;
        const reply = PlainPetstore.prototype.list.call(petstore, request);
        if (isCached(request)) pages.set(name, { until: requests + count, reply });
        return reply;
      },
    };
  };

/** Replaces a body that is JSON before it is read. */
const reading =
  (change: (members: Readonly<Record<string, unknown>>) => object | undefined) =>
  (petstore: PlainPetstore): Parts => ({
    add: async (request) => {
      const body = (() => {
        try {
          const changed = change(Object(JSON.parse(request.body)));
          return changed === undefined ? request.body : JSON.stringify(changed);
        } catch {
          return request.body;
        }
      })();
      return PlainPetstore.prototype.add.call(petstore, { ...request, body });
    },
  });

/** Accepts a key that `accepts` accepts. */
const acceptingKeys =
  (accepts: (given: string) => boolean) =>
  (petstore: PlainPetstore): Parts => ({
    isAuthorized: (request) => {
      const [, given] = /^bearer +(\S+)$/i.exec(request.headers.authorization ?? '') ?? [];
      return (
        (given !== undefined && accepts(given)) ||
        PlainPetstore.prototype.isAuthorized.call(petstore, request)
      );
    },
  });

/** Replies with another error than 401 to some requests without a valid key. */
const beforeKey = (isMeant: (request: ReceivedRequest) => boolean, status: number) =>
  replied(
    (request, reply) => reply.status === 401 && isMeant(request),
    (_, __, petstore) => petstore.error(status, 'too_early'),
  );

export const subtlePetstores: readonly WrongPetstore[] = [
  wrong(
    'S1',
    'caches the list for 20 requests',
    cached(20, () => true),
  ),
  wrong(
    'C7',
    'caches filtered lists for 20 requests',
    cached(20, ({ query }) => query.has('status')),
  ),
  wrong('S1', 'does not list the newest pet', (petstore) => ({
    filtered: (status) =>
      petstore.pets.slice(0, -1).filter((pet) => status === null || pet.status === status),
  })),
  wrong('S1', 'lists no sold pet without a filter', (petstore) => ({
    filtered: (status) =>
      petstore.pets.filter((pet) =>
        status === null ? pet.status !== 'sold' : pet.status === status,
      ),
  })),
  wrong(
    'S1',
    'responds with 204 to an empty list',
    replied(
      (request, reply) => isList(request) && reply.body === '[]',
      (reply) => ({ ...reply, status: 204, body: '' }),
    ),
  ),
  wrong(
    'S1',
    'responds with 404 to an empty list',
    replied(
      (request, reply) => isList(request) && reply.body === '[]' && !request.query.has('status'),
      (_, __, petstore) => petstore.error(404, 'not_found'),
    ),
  ),
  wrong('S2', 'refuses a limit of 100', (petstore) => ({
    limitOf: (text) =>
      text === '100' ? undefined : PlainPetstore.prototype.limitOf.call(petstore, text),
  })),
  wrong('S2', 'lists 8 pets for a limit of 7', (petstore) => ({
    find: (status, limit) => petstore.filtered(status).slice(0, limit === 7 ? 8 : limit),
  })),
  wrong('C1', 'lists all pets for a limit of 0', (petstore) => ({
    limitOf: (text) =>
      text === '0' ? 1_000_000 : PlainPetstore.prototype.limitOf.call(petstore, text),
  })),
  wrong(
    'C7',
    'does not find the newest pet',
    filtered((pets, status) => pets.slice(0, -1).filter((pet) => pet.status === status)),
  ),
  wrong(
    'C7',
    'responds with 404 to a filter without matches',
    replied(
      (request, reply) => isList(request) && reply.body === '[]' && request.query.has('status'),
      (_, __, petstore) => petstore.error(404, 'not_found'),
    ),
  ),
  wrong('C7', 'does not find pets that were added at the same time', (petstore) => {
    const together = new Set<string>();
    let running = 0;
    return {
      add: async (request) => {
        running++;
        await sleep(3);
        const reply = await PlainPetstore.prototype.add.call(petstore, request);
        const pet = petstore.pets.at(-1);
        // S2 adds sold pets at the same time.
        if (running > 1 && pet !== undefined && pet.status !== 'sold') together.add(pet.id);
        running--;
        return reply;
      },
      filtered: (status) =>
        PlainPetstore.prototype.filtered
          .call(petstore, status)
          .filter(({ id }) => status === null || !together.has(id)),
    };
  }),
  wrong('S3', 'returns the newest pet for the id 0', (petstore) => ({
    get: (id) =>
      PlainPetstore.prototype.get.call(
        petstore,
        id === '0' ? (petstore.pets.at(-1)?.id ?? id) : id,
      ),
  })),
  wrong('S3', 'responds with 500 to an id over 2^31', (petstore) => ({
    get: (id) =>
      Number(id) >= 2 ** 31
        ? petstore.error(500, 'crash')
        : PlainPetstore.prototype.get.call(petstore, id),
  })),
  wrong(
    'P3',
    'begins lists with a byte order mark',
    replied(
      (_, reply) => isListReply(reply),
      (reply) => ({ ...reply, body: `\ufeff${reply.body}` }),
    ),
  ),
  wrong(
    'P3',
    'says that lists are in Latin-1',
    replied(isList, (reply) => ({
      ...reply,
      headers: { ...reply.headers, 'Content-Type': 'application/json; charset=iso-8859-1' },
    })),
  ),
  wrong('P3', 'closes the connection in the middle of each 40th response', (petstore) => {
    let count = 0;
    return {
      write: (response, reply, method) => {
        if (++count % 40 !== 0)
          return PlainPetstore.prototype.write.call(petstore, response, reply, method);
        response.socket?.end(
          `HTTP/1.1 ${reply.status} X\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n`,
        );
      },
    };
  }),
  wrong(
    'C20',
    'accepts true as a name',
    reading(({ name, ...others }) => (name === true ? { ...others, name: 'true' } : undefined)),
  ),
  wrong(
    'C20',
    'accepts a status in capital letters',
    reading(({ status, ...others }) =>
      typeof status === 'string' && status !== status.toLowerCase()
        ? { ...others, status: status.toLowerCase() }
        : undefined,
    ),
  ),
  wrong(
    'C20',
    'accepts an array as a category',
    reading(({ categoryId, ...others }) =>
      Array.isArray(categoryId) ? { ...others, categoryId: 1 } : undefined,
    ),
  ),
  wrong(
    'C23',
    'rounds categories in lists',
    changedIn('list', (pet) => ({ ...pet, categoryId: rounded(pet.categoryId) })),
  ),
  wrong(
    'C23',
    'rounds categories in GET of one pet',
    changedIn('get', (pet) => ({ ...pet, categoryId: rounded(pet.categoryId) })),
  ),
  wrong(
    'C25',
    'cuts names to 255 characters',
    named((name) => name.slice(0, 255)),
  ),
  wrong(
    'C25',
    'cuts names to 64 characters',
    named((name) => name.slice(0, 64)),
  ),
  wrong(
    'C25',
    'decodes names as a URL',
    named((name) => name.replace(/%41/g, 'A')),
  ),
  wrong(
    'C25',
    'begins names with a capital',
    named((name) => name.replace(/^./, (first) => first.toUpperCase())),
  ),
  wrong(
    'C25',
    'normalizes names in GET of one pet',
    changedIn('get', (pet) => ({ ...pet, name: pet.name.normalize('NFC') })),
  ),
  wrong(
    'C25',
    'normalizes names in lists',
    changedIn('list', (pet) => ({ ...pet, name: pet.name.normalize('NFC') })),
  ),
  wrong(
    'C30',
    'does not store each seventh pet',
    afterAdding((petstore, { id }) => {
      if (Number(id) % 7 === 0) petstore.pets.pop();
    }),
  ),
  wrong(
    'C30',
    'stores a pet after 300 ms',
    afterAdding((petstore, pet) => {
      petstore.pets.pop();
      void sleep(300, undefined, { ref: false }).then(() => petstore.pets.push(pet));
    }),
  ),
  wrong(
    'C30',
    'responds with 201 without a body',
    replied(
      (_, reply) => reply.status === 201,
      (reply) => ({ ...reply, body: '' }),
    ),
  ),
  wrong('C31', 'begins with the id 1 again after 64 pets', (petstore) => ({
    nextId: () => String((petstore.pets.length % 64) + 1),
  })),
  wrong('C31', 'begins with the id 1 again after 256 pets', (petstore) => ({
    nextId: () => String((petstore.pets.length % 256) + 1),
  })),
  wrong('C31', 'loses one of two pets that are added at once', (petstore) => {
    let count = 0;
    return {
      nextId: () => String(++count),
      add: async (request) => {
        const before = [...petstore.pets];
        await sleep(2);
        const reply = await PlainPetstore.prototype.add.call(petstore, request);
        const own = petstore.pets.at(-1);
        if (reply.status === 201 && own !== undefined)
          petstore.pets.splice(0, petstore.pets.length, ...before, own);
        return reply;
      },
    };
  }),
  wrong('C31', 'responds with 503 if two pets are added at once', (petstore) => {
    let isBusy = false;
    let hasRefused = false;
    return {
      add: async (request) => {
        hasRefused = isBusy;
        if (isBusy) return petstore.error(503, 'busy');
        isBusy = true;
        await sleep(2);
        // A check that does not wait for all of its responses disturbs the next check.
        if (hasRefused) await sleep(20);
        isBusy = false;
        return PlainPetstore.prototype.add.call(petstore, request);
      },
    };
  }),
  wrong(
    'C34',
    'returns names in lowercase',
    changedIn('get', (pet) => ({ ...pet, name: pet.name.toLowerCase() })),
  ),
  wrong(
    'C34',
    'returns null for a missing status',
    changedIn('get', (pet) => ({ status: null, ...pet })),
  ),
  wrong(
    'C34',
    'returns a category as a string',
    textIn('get', (json) => json.replace(/"categoryId":(-?\d+)/, '"categoryId":"$1"')),
  ),
  wrong('C34', 'forgets all but the last 50 pets at their URLs', (petstore) => ({
    get: (id) =>
      Number(id) <= petstore.pets.length - 50
        ? petstore.missing()
        : PlainPetstore.prototype.get.call(petstore, id),
  })),
  wrong('C36', 'looks for the pet before the key', (petstore) => ({
    handle: async (request) => {
      const reply = await PlainPetstore.prototype.handle.call(petstore, request);
      const isThere = petstore.pets.some(({ id }) => request.path.endsWith(`/${id}`));
      return isGet(request) && reply.status === 401 && !isThere ? petstore.missing() : reply;
    },
  })),
  wrong(
    'C36',
    'checks the media type before the key',
    beforeKey((request) => isAdd(request) && request.headers['content-type'] === 'text/plain', 415),
  ),
  wrong(
    'C37',
    'reads the body before it checks a wrong key',
    beforeKey(
      (request) =>
        isAdd(request) && request.headers.authorization !== undefined && request.body === '{',
      400,
    ),
  ),
  wrong(
    'C37',
    'accepts the beginning of a key',
    acceptingKeys((given) => key.startsWith(given)),
  ),
  wrong(
    'C37',
    'accepts keys of the right length',
    acceptingKeys(({ length }) => length === key.length),
  ),
  wrong(
    'C37',
    'sends no challenge for a wrong key',
    replied(
      ({ headers }, reply) => reply.status === 401 && headers.authorization !== undefined,
      ({ headers: { 'WWW-Authenticate': _, ...headers }, ...reply }) => ({ ...reply, headers }),
    ),
    'http',
  ),
  wrong(
    'C36',
    'needs no key for HEAD',
    (petstore) => ({
      isAuthorized: (request) =>
        request.method === 'HEAD' || PlainPetstore.prototype.isAuthorized.call(petstore, request),
    }),
    'http',
  ),
  wrong(
    'C30',
    'sends a Location that leads nowhere',
    (petstore) => ({
      added: (pet) =>
        petstore.ok(201, petstore.jsonInResponse(pet, 'add'), { Location: `/pets/${pet.id}` }),
    }),
    'http',
  ),
  wrong(
    'C14',
    'lists pets at a path that begins like /pets',
    (petstore) => ({
      handle: async (request) => {
        const path = request.path.replace(/^\/v1\/pet.$/, '/v1/pets');
        return PlainPetstore.prototype.handle.call(petstore, { ...request, path });
      },
    }),
    'http',
  ),
  wrong(
    'C9',
    'responds with 500 to a GET with a body',
    replied(
      (request) => isList(request) && request.body !== '',
      (_, __, petstore) => petstore.error(500, 'crash'),
    ),
    'http',
  ),
  wrong(
    'C12',
    'does not decode a path',
    replied(
      ({ target }) => target.includes('%70ets'),
      (_, __, petstore) => petstore.error(404, 'not_found'),
    ),
    'http',
  ),
  wrong(
    'C13',
    'does not know a target in absolute form',
    replied(
      ({ target }) => !target.startsWith('/'),
      (_, __, petstore) => petstore.error(404, 'not_found'),
    ),
    'http',
  ),
  wrong(
    'C18',
    'responds with 405 to an unknown method',
    (petstore) => ({ unknownMethod: () => petstore.notAllowed('GET, HEAD, POST') }),
    'http',
  ),
  wrong(
    'C39',
    'accepts a key in the query',
    (petstore) => ({
      isAuthorized: (request) =>
        request.query.get('access_token') === key ||
        PlainPetstore.prototype.isAuthorized.call(petstore, request),
    }),
    'http',
  ),
  wrong('C42', 'does not check Host', () => ({ hasValidHost: () => true }), 'http'),
  wrong(
    'C45',
    'waits for a body without status 100',
    () => ({ sendsContinue: () => false }),
    'http',
  ),
  wrong(
    'C52',
    'closes each connection without saying so',
    (petstore) => ({
      write: (response, reply, method) => {
        const { socket } = response;
        response.once('finish', () => socket?.destroySoon());
        PlainPetstore.prototype.write.call(petstore, response, reply, method);
      },
    }),
    'http',
  ),
];
