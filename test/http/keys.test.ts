/** Tests of API keys that no client can make (C40). */
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { digestOfKey, KeyRing } from '../../dist/index.js';
import { start } from '../support/fixture.js';
import { expectResponse, routePlugin, startLogged } from '../support/scenes.js';

const list = 'GET /v1/pets';
const refused = '401 unauthorized';
const keyed = (key: string) => ({ authorization: `Bearer ${key}` });

test('C40 accepts each of several keys, and shows none in logs, errors or events', async (t) => {
  const keys = ['first-key-aaaaaaaa', 'second-key-bbbbbbbb', "!#$%&'()*+~third"];
  const seen: unknown[] = [];
  const { port, petstore } = await start(t, {
    keys,
    log: (...line) => seen.push(line),
    plugins: [
      routePlugin('/v1/broken', () => Promise.reject(new Error('broken'))),
      ({ onReply }) => onReply((event) => seen.push(event)),
    ],
  });
  for (const own of keys) {
    for (const [path, status] of [
      ['pets', 200],
      ['pets?limit=0', 400],
      ['nothing', 404],
      ['broken', 500],
    ] as const) {
      const { came } = await expectResponse(port, `GET /v1/${path}`, status, keyed(own));
      assert.ok(!came.includes(own));
    }
    await expectResponse(port, list, refused, keyed(`${own}z`));
  }
  const everything = inspect([seen, petstore], { depth: 20, showHidden: true });
  for (const own of keys) assert.ok(!everything.includes(own));
  assert.match(everything, /keyName: 'key-2'/);
});

test('C40 rejects an expired key by the clock, and stores only digests of keys', () => {
  let now = 0;
  const [a, b] = [digestOfKey('a'), digestOfKey('b')];
  const clock = (): number => now;
  const ring = new KeyRing(
    [
      { name: 'forever', digest: a },
      { name: 'until', digest: b, expiresAt: 2_000 },
      { name: 'forgotten', digest: a, expiresAt: 1 },
    ],
    clock,
  );
  // A key is active as long as any of its entries is.
  const twice = new KeyRing(
    [
      { name: 'forever', digest: a },
      { name: 'until', digest: a, expiresAt: 3_000 },
    ],
    clock,
  );
  for (const [at, forB, forBoth] of [
    [1_000, 'until', 'until'],
    [2_000, undefined, 'until'],
    [1_999, 'until', 'until'],
    [3_000, undefined, 'forever'],
  ] as const) {
    now = at;
    const found = ['a', 'b', 'c', ''].map((key) => ring.verify(key));
    assert.deepEqual(found, ['forever', forB, undefined, undefined], `${at}`);
    assert.equal(twice.verify('a'), forBoth);
  }
  assert.equal(a.length, 32);
  assert.ok(!inspect(ring, { depth: 9, showHidden: true }).includes("'a'"));
  for (let i = 0; i < 3_000; i++) assert.equal(ring.verify(`guess ${i}`), undefined);
});

test('C40 verifies a token with the same work for any number of keys', () => {
  let reads = 0;
  const entryOf = (name: string) => {
    const digest = digestOfKey(name);
    return {
      name,
      get digest() {
        reads++;
        return digest;
      },
    };
  };
  const ring = new KeyRing(['a', 'b', 'c'].map(entryOf), () => 0);
  const readsBefore = reads;
  const found = ['a', 'c', 'nobody'].map((token) => ring.verify(token));
  assert.deepEqual(found, ['a', 'c', undefined]);
  assert.equal(reads, readsBefore);
});

test('C40 rejects a digest of another length with a TypeError', () => {
  const short = digestOfKey('a').subarray(1);
  assert.throws(() => new KeyRing([{ name: 'a', digest: short }], Date.now), TypeError);
});

test('C40 takes the key name from a custom verifier, and rejects any other result with 401', async (t) => {
  const seen: (string | undefined)[] = [];
  const responses: readonly unknown[] = [null, false, true, 0, {}, undefined, ''];
  const { port } = await start(t, {
    // Possible only in JavaScript.
    keys: (token) =>
      token in responses ? Object({ name: responses[Number(token)] }).name : `is ${token}`,
    plugins: [({ onReply }) => onReply(({ keyName }) => seen.push(keyName))],
  });
  for (const token of responses.keys())
    await expectResponse(port, list, refused, keyed(`${token}`));
  await expectResponse(port, list, 200, keyed('abc'));
  assert.ok(seen.includes('is abc'));

  const slow = await start(t, { keys: (token) => sleep(20, token === 'ok' ? 'me' : undefined) });
  await expectResponse(slow.port, list, 200, keyed('ok'));
  await expectResponse(slow.port, list, refused, keyed('no'));
});

test('C40 responds 500 and serves nothing if a verifier fails', async (t) => {
  const { port, lines } = await startLogged(t, {
    keys: () => Promise.reject(new Error('the directory is away')),
  });
  const { body } = await expectResponse(port, list, '500 internal_error');
  assert.ok(!body.includes('directory'));
  assert.match(lines.join(), /the directory is away/);
});
