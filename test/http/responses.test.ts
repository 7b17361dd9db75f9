/** Tests of every response: C47, C49, C50, C74, and C59 while the storage is unavailable. */
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { test } from 'node:test';
import { errorCodes } from '../../dist/errors.js';
import {
  createPetstore,
  memoryStorage,
  PetstoreError,
  type PetStorage,
  type ReplyErrorCode,
} from '../../dist/index.js';
import { header } from '../support/client.js';
import { sendRequest, key, start, storedPets } from '../support/fixture.js';
import {
  petJson,
  everyTransport,
  expectResponse,
  expectResponses,
  firstPetJson,
  keyHeaders,
  noKey,
  plainStorage,
  routePlugin,
  startLogged,
} from '../support/scenes.js';
import { until } from '../support/waiting.js';

const ours = '500 internal_error';
const add = 'POST /v1/pets';
const adding = { body: petJson };

test('C49 responds 500 and stores nothing if the clock returns no valid time', async (t) => {
  const lastTime = Date.parse('9999-12-31T23:59:59.999Z');
  let now: unknown;
  const clock = (): number => Object(now).response;
  const running = await startLogged(t, { clock });
  const { lines } = running;
  for (const response of [NaN, Infinity, -1, lastTime + 1, '7', 7n, undefined, new Date(7)]) {
    now = { response };
    await expectResponses(running.port, [
      [add, ours, adding],
      [add, ours, { ...adding, headers: ['Idempotency-Key: a'] }],
      ['GET /v1/pets/1', ours],
    ]);
    assert.equal(lines.length, 3, inspect(response));
    for (const line of lines.splice(0))
      assert.match(line, /'error'.*TypeError: the clock must return milliseconds/);
  }
  assert.deepEqual(await storedPets(running), []);
  for (const response of [0, 7.5, lastTime]) {
    now = { response };
    const headers = [`Idempotency-Key: ${response}`];
    await expectResponse(running.port, add, 201, { ...adding, headers });
  }
});

test('C49 hides the reason of a 500 from the client, and logs it with the stack', async (t) => {
  const logged: unknown[][] = [];
  const cause = new Error('the deeper reason');
  const bug = new TypeError('a bug at /srv/secret', { cause });
  const damaged = new PetstoreError('storage_damaged', 'line 3 of /srv/secret');
  // biome-ignore format: one line for each value would hide the test.
  const odd: readonly unknown[] = [Object.create(null), null, undefined, 'text', 7n, Symbol('s'), { code: 'not_found' }];
  const storage = plainStorage(() => ({
    insert: () => Promise.reject(damaged),
    get: (id) => Promise.reject(odd[Number(id)]),
    list: () => Promise.reject(bug),
  }));
  const { port } = await start(t, { storage, log: (...line) => logged.push(line) });
  const message = 'The server failed; its log has the reason.';
  const body = JSON.stringify({ code: 'internal_error', message, status: 500 });
  assert.equal((await expectResponse(port, 'GET /v1/pets', `500 ${body}`)).kept, true);
  assert.equal(logged.length, 1);
  const text = inspect(logged);
  assert.match(text, /a bug at \/srv\/secret[\s\S]*responses\.test[\s\S]*the deeper reason/);
  await expectResponse(port, add, `500 ${body}`, adding);
  assert.match(inspect(logged), /line 3 of \/srv\/secret/);
  for (const id of odd.keys()) await expectResponse(port, `GET /v1/pets/${id}`, ours);
  assert.equal(logged.length, 2 + odd.length);
  for (const [level, , fields] of logged) {
    assert.equal(level, 'error');
    assert.equal(typeof JSON.stringify(fields), 'string');
  }
});

test('C49 responds 500 if a storage returns values that are not JSON texts', async (t) => {
  const odd: readonly unknown[] = [{}, 5, null, ['x'], Symbol('s')];
  // Possible only in JavaScript, because the compiler rejects it.
  const storage: PetStorage = Object({
    ...memoryStorage(),
    texts: {
      insert: () => ({ id: 1n, json: 5 }),
      get: (id: bigint) => odd[Number(id)],
      list: () => ({ texts: null }),
    },
  });
  await expectResponses((await start(t, { storage })).port, [
    ...odd.map((_, id) => [`GET /v1/pets/${id}`, ours] as const),
    ['GET /v1/pets', ours],
    [add, ours, adding],
  ]);
});

test('C50 has a fixed set of error codes', () => {
  const codes =
    'invalid_parameter invalid_json invalid_body bad_request unauthorized forbidden not_found method_not_allowed request_timeout idempotency_in_flight content_too_large unsupported_media_type expectation_failed idempotency_mismatch too_many_requests headers_too_large internal_error not_implemented bad_gateway unavailable gateway_timeout';
  assert.deepEqual(Object.keys(errorCodes), codes.split(' '));
});

test('C29 C42 C43 C44 C48 C57 closes the connection and sends Retry-After by the error code', async (t) => {
  const isCode = (code: string): code is ReplyErrorCode => code in errorCodes;
  const codes = Object.keys(errorCodes).filter(isCode);
  const throwing = (code: ReplyErrorCode) =>
    routePlugin(`/${code}`, () => {
      throw new PetstoreError(code, 'Odd.');
    });
  const { port } = await start(t, { plugins: codes.map(throwing) });
  const ended: string[] = [];
  const retryable: string[] = [];
  for (const code of codes) {
    const response = await expectResponse(
      port,
      `GET /${code}`,
      `${errorCodes[code].status} ${code}`,
    );
    if (!response.kept) ended.push(code);
    if (header(response, 'Retry-After') === '1') retryable.push(code);
  }
  assert.equal(ended.join(' '), 'bad_request request_timeout content_too_large headers_too_large');
  assert.deepEqual(retryable, ['idempotency_in_flight', 'unavailable']);
});

test('C47 sends a cached response with the current Date, and without a body for HEAD', async (t) => {
  let now = Date.UTC(2026, 10, 21, 12, 0, 0);
  const { petstore, port } = await start(t, { clock: () => now });
  for (let i = 0; i < 3; i++)
    await petstore.storage.insert({ name: 'Rex'.repeat(200), categoryId: 5n });
  const next = '</v1/pets?limit=2&after=2>; rel="next"';
  const successor = '</v1/pets>; rel="successor-version"';
  for (const [second, afterMs] of [
    ['00', 500],
    ['00', 500],
    ['01', 1000],
    ['02', 0],
  ] as const) {
    const date = `Sat, 21 Nov 2026 12:00:${second} GMT`;
    for (const [request, status, words, link, bytes] of [
      ['GET /v1/pets?limit=2', 200, {}, next, 1269],
      ['HEAD /v1/pets?limit=2', 200, {}, next, 0],
      ['GET /v1/pets/1', 401, noKey, successor, 98],
    ] as const) {
      const response = await expectResponse(port, request, status, words, {
        Date: date,
        Link: link,
      });
      assert.equal(response.body.length, bytes);
    }
    now += afterMs;
  }
});

test('C47 takes the header Date from the clock, even at the epoch', async (t) => {
  for (const second of [0, 1, 2]) {
    const { port } = await start(t, { clock: () => second * 1000 });
    const date = `Thu, 01 Jan 1970 00:00:0${second} GMT`;
    await expectResponse(port, 'GET /healthz', 200, {}, { Date: date });
  }
});

const full = 'GET /v1/pets?limit=1';

/** Adds two pets, so that the page above is full. */
async function withTwo(storage: PetStorage): Promise<PetStorage> {
  for (const name of ['a', 'b']) await storage.insert({ name, categoryId: 1n });
  return storage;
}

test('C74 responds ok to probes, and 503 to /readyz while it is not ready', async (t) => {
  const { port, petstore } = await start(t);
  const ok = '200 {"status":"ok"}';
  for (const path of ['GET /healthz', 'GET /readyz']) await expectResponse(port, path, ok, noKey);
  petstore.drain();
  await expectResponse(port, 'GET /healthz', ok, noKey);
  await expectResponse(port, 'GET /readyz', '503 unavailable', noKey);
});

test('C59 responds 503 to all that needs the storage once it is closed, even to a cached page', async (t) => {
  const petstore = createPetstore({ keys: [key], storage: await withTwo(memoryStorage()) });
  const { port } = await petstore.listen({ port: 0 });
  const [, ...ways] = await everyTransport(t, { petstore, port });
  for (let times = 0; times < 3; times++) await expectResponse(port, full, `200 [${firstPetJson}]`);
  await petstore.close();
  // A late drain must not open the petstore again.
  petstore.drain();
  const post = { method: 'POST', body: petJson };
  for (const sendRequest of ways)
    for (const [path, status, init] of [
      ['/v1/pets?limit=1', 503],
      ['/v1/pets', 503],
      ['/v1/pets/1', 503],
      ['/v1/pets', 503, post],
      ['/readyz', 503],
      // These need no storage.
      ['/v1/pets?limit=0', 400],
      ['/v1/pets', 401, { headers: {} }],
      ['/healthz', 200],
      ['/openapi.json', 200],
    ] as const) {
      const response = await sendRequest(path, { headers: keyHeaders, ...init });
      const again = status === 503 ? '1' : null;
      assert.deepEqual(
        [response.status, response.headers.get('Retry-After')],
        [status, again],
        path,
      );
    }
});

test('C63 does not cache a page that was read before a reset', async (t) => {
  const { texts, size, list, ...memory } = memoryStorage();
  const addTwo = async (name: string) => {
    for (let count = 0; count < 2; count++) await memory.insert({ name, categoryId: 1n });
  };
  let release = (): void => undefined;
  let reading = 0;
  let gate: Promise<void> | undefined = new Promise((resolve) => (release = resolve));
  const storage: PetStorage = {
    ...memory,
    list: async (query) => {
      const pets = await list(query);
      reading++;
      await gate;
      return pets;
    },
  };
  await addTwo('old');
  const { port } = await start(t, { storage });
  const path = '/v1/pets?limit=1';

  const early = [sendRequest(port, 'GET', path), sendRequest(port, 'GET', path)];
  await until('both pages were read', () => reading === 2);
  await memory.reset();
  await addTwo('new');
  release();
  for (const { body } of await Promise.all(early)) assert.match(body, /"old"/);

  gate = undefined;
  for (let times = 0; times < 3; times++)
    assert.match((await sendRequest(port, 'GET', path)).body, /"new"/);
});

test('C59 serves a cached full page while the storage is unavailable', async (t) => {
  let isAway = false;
  const storage = plainStorage(({ list }) => ({
    list: async (query) => {
      if (isAway) throw new PetstoreError('unavailable', 'The database is away.');
      return list(query);
    },
  }));
  const { port } = await start(t, { storage: await withTwo(storage) });
  for (let times = 0; times < 2; times++) await sendRequest(port, 'GET', '/v1/pets?limit=1');
  isAway = true;
  await expectResponses(port, [
    [full, `200 [${firstPetJson}]`],
    ['GET /v1/pets?limit=1&after=1', '503 unavailable'],
  ]);
});
