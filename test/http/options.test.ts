/** The options of createPetstore: each rule by its name, and a storage that is still to come. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createPetstore, memoryStorage, type PetstoreOptions } from '../../dist/index.js';
import { assertError } from '../support/client.js';
import { ask, key, start } from '../support/fixture.js';

/** What a program without types may hand over. */
function create(options: Readonly<Record<string, unknown>> | null | undefined): unknown {
  const make: (options: PetstoreOptions) => unknown = createPetstore;
  return Reflect.apply(make, undefined, [options]);
}

test('every option against its rule is a TypeError that names it', () => {
  const bad: Readonly<Record<string, readonly unknown[]>> = {
    keys: [
      undefined,
      null,
      [],
      'psk',
      [''],
      ['a b'],
      ['ä'],
      ['a', 7],
      [null],
      ['a\n'],
      {},
      7,
      new Set(['a']),
    ],
    storage: [
      null,
      7,
      'memory:',
      {},
      { insert() {} },
      { ...memoryStorage(), close: undefined },
      { ...memoryStorage(), list: 1 },
    ],
    clock: [null, 7, '0', {}, new Date()],
    plugins: [null, {}, 'x', [null], [{}], () => undefined, [() => undefined, 'x']],
    log: [null, {}, 'info', console, true],
    maxBodyBytes: [null, 0, -1, 1.5, NaN, Infinity, '65536', 65536n, 2 ** 24 + 1, {}],
    baseUrl: [
      null,
      '',
      'example.com/v1',
      '/v1',
      'ftp://example.com',
      'javascript:0',
      7,
      new URL('http://a'),
      'http://',
    ],
    stagingBaseUrl: [null, '', 'example.com', '/v1', 7],
  };
  for (const [name, values] of Object.entries(bad)) {
    for (const value of values) {
      assert.throws(
        () => create({ keys: [key], [name]: value }),
        { name: 'TypeError', message: new RegExp(`^option ${name} `) },
        `${name}: ${String(value)}`,
      );
    }
  }
  for (const options of [undefined, null, 7, 'x'])
    assert.throws(() => Reflect.apply(createPetstore, undefined, [options]), {
      name: 'TypeError',
      message: /options/,
    });
  assert.throws(() => create({}), { name: 'TypeError', message: /^option keys / });
});

test('an unknown option is refused by its name, a misspelt one included', () => {
  for (const name of ['key', 'Keys', 'maxBodyByte', 'port', 'toString', '']) {
    assert.throws(() => create({ keys: [key], [name]: 1 }), {
      name: 'TypeError',
      message: new RegExp(`^option ${name} is unknown; known are keys, storage, `),
    });
  }
});

test('good options are taken as they are, and the caller’s object stays untouched', async () => {
  const keys = Object.freeze([key]);
  const options = Object.freeze({
    keys,
    storage: memoryStorage(),
    clock: Date.now,
    plugins: Object.freeze([]),
    log: () => undefined,
    maxBodyBytes: 2 ** 24,
    baseUrl: 'https://a.example/v1',
    stagingBaseUrl: 'http://b.example/v1',
  });
  const { storage, close } = createPetstore(options);
  assert.equal(storage, options.storage);
  await close();
  await createPetstore({ keys, maxBodyBytes: 1 }).close();
});

test('a key list that changes later changes nothing', async (t) => {
  const keys = [key];
  const { port } = await start(t, { keys });
  keys[0] = 'other';
  assert.equal((await ask(port, 'GET', '/v1/pets')).status, 200);
});

test('a storage is open when it is handed over: a promise of one is refused with the mend', () => {
  const options: PetstoreOptions = {
    keys: [key],
    storage: Object(Promise.resolve(memoryStorage())),
  };
  assert.throws(() => createPetstore(options), {
    name: 'TypeError',
    message: /storage must be open: await it/,
  });
});

test('where createPetstore or a plugin throws, the storage is still the caller’s, open', async () => {
  const storage = memoryStorage();
  const plugins = [
    (): never => {
      throw new Error('no plugin');
    },
  ];
  assert.throws(() => createPetstore({ keys: [key], storage, plugins }), /no plugin/);
  assert.throws(() => createPetstore({ keys: [], storage }), TypeError);
  assert.equal((await storage.insert({ name: 'a', categoryId: 1n })).id, 1n);
  await storage.close();
});

test('listen takes 3000 and 127.0.0.1 where nothing is said, and Node’s refusal of what is no port', async (t) => {
  const { petstore } = await start(t);
  await assert.rejects(petstore.listen({ port: 70_000 }), { code: 'ERR_SOCKET_BAD_PORT' });
  // Node would make a socket file of that name in the working folder.
  for (const port of ['pets.sock', '3000', 1.5, null])
    await assert.rejects(petstore.listen({ port } as object), {
      name: 'TypeError',
      message: 'port must be an integer',
    });
  await assert.rejects(petstore.listen({ port: 0, host: '203.0.113.1' }), {
    code: 'EADDRNOTAVAIL',
  });
  const six = await petstore.listen({ port: 0, host: '::1' }).catch(() => undefined);
  if (six !== undefined) assert.equal(six.url, `http://[::1]:${six.port}`);
  assertError(await ask((await petstore.listen({ port: 0 })).port, 'GET', '/x'), 404, 'not_found');
});
