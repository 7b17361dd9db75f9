/** Keys as nobody outside sees them, C40. */
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { test } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { digestOfKey, KeyRing } from '../../dist/index.js';
import { assertError } from '../support/client.js';
import { ask, start } from '../support/fixture.js';

test('C40 any of several keys is accepted, and none appears in logs, errors or events', async (t) => {
  const keys = ['first-key-aaaaaaaa', 'second-key-bbbbbbbb', "!#$%&'()*+~third"];
  const seen: unknown[] = [];
  const { port, petstore } = await start(t, {
    keys,
    log: (...line) => seen.push(line),
    plugins: [
      (host) => {
        host.onReply((event) => seen.push(event));
        host.route({
          path: '/v1/broken',
          methods: { GET: { handler: () => Promise.reject(new Error('broken')) } },
        });
      },
    ],
  });
  for (const own of keys) {
    assert.equal(
      (await ask(port, 'GET', '/v1/pets', { authorization: `Bearer ${own}` })).status,
      200,
    );
    for (const path of ['/v1/broken', '/v1/pets?limit=0', '/v1/nothing']) {
      const answer = await ask(port, 'GET', path, { authorization: `Bearer ${own}` });
      assert.ok(!answer.came.includes(own));
    }
    assertError(
      await ask(port, 'GET', '/v1/pets', { authorization: `Bearer ${own}z` }),
      401,
      'unauthorized',
    );
  }
  const everything = inspect([seen, petstore], { depth: 20, showHidden: true });
  for (const own of keys) assert.ok(!everything.includes(own));
  assert.match(everything, /keyName: 'key-2'/);
});

test('C40 a key ring knows digests: an expired key is none, a clock set back makes it one again', () => {
  let now = 1_000;
  const ring = new KeyRing(
    [
      { name: 'forever', digest: digestOfKey('a') },
      { name: 'until', digest: digestOfKey('b'), expiresAt: 2_000 },
      { name: 'forgotten', digest: digestOfKey('a'), expiresAt: 1 },
    ],
    () => now,
  );
  assert.deepEqual(
    [ring.verify('a'), ring.verify('b'), ring.verify('c'), ring.verify('')],
    ['forever', 'until', undefined, undefined],
  );
  now = 1_999;
  assert.equal(ring.verify('b'), 'until');
  now = 2_000;
  assert.deepEqual([ring.verify('a'), ring.verify('b')], ['forever', undefined]);
  const twice = new KeyRing(
    [
      { name: 'forever', digest: digestOfKey('a') },
      { name: 'until', digest: digestOfKey('a'), expiresAt: 3_000 },
    ],
    () => now,
  );
  assert.equal(twice.verify('a'), 'until');
  now = 3_000;
  assert.equal(twice.verify('a'), 'forever', 'a key is active as long as any of its entries is');
  assert.equal(digestOfKey('a').length, 32);
  assert.ok(!inspect(ring, { depth: 9, showHidden: true }).includes("'a'"));
  for (let i = 0; i < 3_000; i++) assert.equal(ring.verify(`guess ${i}`), undefined);
});

test('C40 a token is compared with every digest, all in constant time', (t) => {
  const compare = t.mock.method(crypto, 'timingSafeEqual');
  syncBuiltinESMExports();
  atEnd(t, () => {
    compare.mock.restore();
    syncBuiltinESMExports();
  });
  const ring = new KeyRing(
    ['a', 'b', 'c'].map((key) => ({ name: key, digest: digestOfKey(key) })),
    () => 0,
  );
  for (const token of ['a', 'c', 'nobody']) ring.verify(token);
  assert.equal(compare.mock.callCount(), 9);
});

test('C40 a verifier of one’s own names the key or answers nothing; what is no name is no key', async (t) => {
  const seen: (string | undefined)[] = [];
  const answers = new Map<string, unknown>([
    ['n', null],
    ['f', false],
    ['t', true],
    ['z', 0],
    ['o', {}],
    ['u', undefined],
    ['e', ''],
  ]);
  // What a program without types might do.
  const verify = (token: string): string | undefined =>
    answers.has(token)
      ? JSON.parse(JSON.stringify(answers.get(token) ?? null))
      : `name of ${token}`;
  const { port } = await start(t, {
    keys: verify,
    plugins: [(host) => host.onReply(({ keyName }) => seen.push(keyName))],
  });
  for (const token of answers.keys())
    assertError(
      await ask(port, 'GET', '/v1/pets', { authorization: `Bearer ${token}` }),
      401,
      'unauthorized',
    );
  assert.equal((await ask(port, 'GET', '/v1/pets', { authorization: 'Bearer abc' })).status, 200);
  assert.ok(seen.includes('name of abc'));
});

test('C40 a verifier that fails or is slow is our fault or our wait, never an open door', async (t) => {
  const logged: unknown[] = [];
  const slow = await start(t, {
    keys: async (token) => (
      await new Promise((resolve) => setTimeout(resolve, 20)), token === 'ok' ? 'me' : undefined
    ),
  });
  assert.equal(
    (await ask(slow.port, 'GET', '/v1/pets', { authorization: 'Bearer ok' })).status,
    200,
  );
  assertError(
    await ask(slow.port, 'GET', '/v1/pets', { authorization: 'Bearer no' }),
    401,
    'unauthorized',
  );
  const failing = await start(t, {
    keys: () => Promise.reject(new Error('the directory is away')),
    log: (...line) => logged.push(line),
  });
  const answer = await ask(failing.port, 'GET', '/v1/pets');
  assertError(answer, 500, 'internal_error');
  assert.ok(!answer.body.includes('directory'));
  assert.match(inspect(logged, { depth: 9 }), /the directory is away/);
});
