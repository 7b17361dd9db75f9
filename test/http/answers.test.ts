/** What every answer says, whatever was asked: C49, C50. */
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { test } from 'node:test';
import { errorCodes } from '../../dist/errors.js';
import {
  memoryStorage,
  PetstoreError,
  type Log,
  type PetStorage,
  type ReplyErrorCode,
} from '../../dist/index.js';
import { assertError, header } from '../support/client.js';
import { ask, start, stored } from '../support/fixture.js';

const body = '{"name":"a","categoryId":1}';

test('C49 a clock that answers no time is a 500 that the log explains, and nothing is stored', async (t) => {
  const lastTime = Date.parse('9999-12-31T23:59:59.999Z');
  let now: unknown;
  const logged: string[] = [];
  const log: Log = (level, _message, fields) =>
    void logged.push(`${level} ${String(fields?.['error'])}`);
  const clock = (): number => Object(now).answer;
  const running = await start(t, { clock, log });
  const headers = ['Idempotency-Key: a'];
  for (const answer of [NaN, Infinity, -1, lastTime + 1, '7', 7n, undefined, new Date(7)]) {
    now = { answer };
    for (const words of [{ body }, { body, headers }])
      assertError(await ask(running.port, 'POST', '/v1/pets', words), 500, 'internal_error');
    assertError(await ask(running.port, 'GET', '/v1/pets/1'), 500, 'internal_error');
    assert.equal(logged.length, 3, inspect(answer));
    for (const line of logged.splice(0))
      assert.match(line, /^error TypeError: the clock must answer milliseconds/);
  }
  assert.deepEqual(await stored(running), []);
  for (const [index, answer] of [0, 7.5, lastTime].entries()) {
    now = { answer };
    const words = { body, headers: [`Idempotency-Key: ${index}`] };
    assert.equal((await ask(running.port, 'POST', '/v1/pets', words)).status, 201);
  }
});

test('C49 our fault answers 500 without a word of why, and the log has all of it', async (t) => {
  const logged: unknown[][] = [];
  const failing = (): Promise<never> =>
    Promise.reject(
      new TypeError('a bug at /srv/secret', { cause: new Error('the deeper reason') }),
    );
  const odd: readonly unknown[] = [
    Object.create(null),
    null,
    undefined,
    'text',
    7n,
    Symbol('s'),
    { code: 'not_found' },
  ];
  const storage: PetStorage = {
    durable: true,
    insert: () => Promise.reject(new PetstoreError('storage_damaged', 'line 3 of /srv/secret')),
    get: (id) => Promise.reject(odd[Number(id)]),
    list: failing,
    close: async () => undefined,
  };
  const running = await start(t, { storage, log: (...line) => logged.push(line) });
  const answer = await ask(running.port, 'GET', '/v1/pets');
  assert.equal(assertError(answer, 500, 'internal_error'), 'Something went wrong on our side.');
  assert.equal(answer.kept, true);
  assert.equal(logged.length, 1);
  assert.match(
    inspect(logged),
    /a bug at \/srv\/secret[\s\S]*answers\.test[\s\S]*the deeper reason/,
  );
  const inserting = await ask(running.port, 'POST', '/v1/pets', { body });
  assert.ok(!assertError(inserting, 500, 'internal_error').includes('secret'));
  assert.match(inspect(logged), /line 3 of \/srv\/secret/);
  for (const id of odd.keys())
    assertError(await ask(running.port, 'GET', `/v1/pets/${id}`), 500, 'internal_error');
  assert.equal(logged.length, 2 + odd.length);
  for (const [level, , fields] of logged) {
    assert.equal(level, 'error');
    assert.equal(typeof JSON.stringify(fields), 'string');
  }
});

test('C49 a storage whose texts are none is a 500, and the petstore closes at once', async (t) => {
  const odd: readonly unknown[] = [{}, 5, null, ['x'], Symbol('s')];
  // As JavaScript may write it; the compiler refuses it.
  const storage: PetStorage = Object({
    ...memoryStorage(),
    texts: {
      insert: () => ({ id: 1n, json: 5 }),
      get: (id: bigint) => odd[Number(id)],
      list: () => ({ texts: null }),
    },
  });
  const running = await start(t, { storage });
  for (const id of odd.keys())
    assertError(await ask(running.port, 'GET', `/v1/pets/${id}`), 500, 'internal_error');
  assertError(await ask(running.port, 'GET', '/v1/pets'), 500, 'internal_error');
  assertError(await ask(running.port, 'POST', '/v1/pets', { body }), 500, 'internal_error');
});

test('C50 the codes are a closed set, each with one status', () => {
  const codes =
    'invalid_parameter invalid_json invalid_body bad_request unauthorized not_found method_not_allowed request_timeout idempotency_in_flight content_too_large unsupported_media_type expectation_failed idempotency_mismatch too_many_requests headers_too_large internal_error not_implemented bad_gateway unavailable gateway_timeout';
  assert.deepEqual(Object.keys(errorCodes), codes.split(' '));
});

test('C29 C42 C43 C44 C48 C57 a code says whether its connection ends and whether to try again, whoever throws it', async (t) => {
  const isCode = (code: string): code is ReplyErrorCode => code in errorCodes;
  const codes = Object.keys(errorCodes).filter(isCode);
  const { port } = await start(t, {
    plugins: [
      ({ route }) => {
        for (const code of codes) {
          const handler = (): never => {
            throw new PetstoreError(code, 'Odd.');
          };
          route({ path: `/${code}`, methods: { GET: { handler } } });
        }
      },
    ],
  });
  const ended: string[] = [];
  const retryable: string[] = [];
  for (const code of codes) {
    const answer = await ask(port, 'GET', `/${code}`);
    assertError(answer, errorCodes[code].status, code);
    if (!answer.kept) ended.push(code);
    if (header(answer, 'Retry-After') === '1') retryable.push(code);
  }
  assert.deepEqual(ended, [
    'bad_request',
    'request_timeout',
    'content_too_large',
    'headers_too_large',
  ]);
  assert.deepEqual(retryable, ['idempotency_in_flight', 'unavailable']);
});
