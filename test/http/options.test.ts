/** Tests of the options of `createPetstore` and `listen`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { createPetstore, memoryStorage } from '../../dist/index.js';
import { key, start } from '../support/fixture.js';
import { root, StartedProcess } from '../support/process.js';
import { expectResponse, keyHeaders, petJson } from '../support/scenes.js';

/** Calls `createPetstore` as JavaScript can, with any value. */
const create = (options: unknown): unknown => Reflect.apply(createPetstore, undefined, [options]);

test('rejects an invalid, unknown or misspelt option with a TypeError that names it', () => {
  const storage = memoryStorage();
  // biome-ignore format: one line for each value would hide the test.
  const bad: Readonly<Record<string, readonly unknown[]>> = {
    keys: [undefined, null, [], 'psk', [''], ['a b'], ['ä'], ['a', 7], [null], ['a\n'], {}, 7, new Set(['a'])],
    storage: [null, 7, 'memory:', {}, { insert() {} }, { ...storage, close: undefined }, { ...storage, list: 1 }],
    clock: [null, 7, '0', {}, new Date()],
    plugins: [null, {}, 'x', [null], [{}], () => undefined, [() => undefined, 'x']],
    log: [null, {}, 'info', console, true],
    maxBodyBytes: [null, 0, -1, 1.5, NaN, Infinity, '65536', 65536n, 2 ** 24 + 1, {}],
    baseUrl: [null, '', 'example.com/v1', '/v1', 'ftp://example.com', 'javascript:0', 7, new URL('http://a'), 'http://',
      'https://u:p@x.example/v1', 'https://u@x.example', 'https://@x.example', 'https://x.example/v1?q=1', 'https://x.example?',
      'https://x.example/v1#f', 'https://x.example#', 'https:///x.example', 'https://x.example\\v1', ' https://x.example',
      'https://x.example/a b', 'https://x.example\r', 'https://{host}.example', 'https://*.example', 'https://x.example/"',
      // A link to //v1 would lead to the host v1.
      'https://x.example//v1', 'https://x.example//'],
    stagingBaseUrl: [null, '', 'example.com', '/v1', 7, 'https://u:p@x.example', 'https://x.example?a', 'https://x.example#a'],
  };
  const refused = (options: unknown, message: RegExp): void =>
    assert.throws(() => create(options), { name: 'TypeError', message }, inspect(options));
  for (const [name, values] of Object.entries(bad))
    for (const value of values)
      refused({ keys: [key], [name]: value }, new RegExp(`^option ${name} `));
  for (const options of [undefined, null, 7, 'x']) refused(options, /options/);
  refused({}, /^option keys /);
  for (const name of ['key', 'Keys', 'maxBodyByte', 'port', 'toString', '']) {
    const message = new RegExp(`^option ${name} is unknown; known are keys, storage, `);
    refused({ keys: [key], [name]: 1 }, message);
  }
  // Messages may be logged, so they must not contain the password of a URL.
  assert.throws(
    () => create({ keys: [key], baseUrl: 'https://u:secret@x.example' }),
    (error) => !inspect(error).includes('secret'),
  );
  refused({ keys: [key], storage: Promise.resolve(storage) }, /storage must be open: await it/);
});

test('accepts valid options, and does not change the caller’s object', async () => {
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

test('copies the list of keys, so that later changes have no effect', async (t) => {
  const keys = [key];
  const { port } = await start(t, { keys });
  keys[0] = 'other';
  await expectResponse(port, 'GET /v1/pets', 200);
});

test('leaves the storage open if createPetstore or a plugin throws', async () => {
  const storage = memoryStorage();
  const plugins = [() => assert.fail('no plugin')];
  assert.throws(() => createPetstore({ keys: [key], storage, plugins }), /no plugin/);
  assert.throws(() => createPetstore({ keys: [], storage }), TypeError);
  assert.equal((await storage.insert({ name: 'a', categoryId: 1n })).id, 1n);
  await storage.close();
});

test('stores nothing if the clock throws, at whichever of its calls', async () => {
  const init = (number: number) => ({
    method: 'POST',
    headers: { ...keyHeaders, 'Idempotency-Key': `key-${number}` },
    body: petJson,
  });
  let statuses = new Set<number>();
  for (let failing = 0; failing < 8; failing++) {
    let calls = -1;
    const clock = () => {
      if (calls++ === failing) throw new Error('no time');
      return Date.UTC(2026, 10, 26);
    };
    const storage = memoryStorage();
    const petstore = createPetstore({ keys: [key], storage, clock });
    calls = 0;
    const { status } = await petstore.fetch('http://any/v1/pets', init(failing));
    assert.equal(storage.size, status === 201 ? 1 : 0, `call ${failing}`);
    statuses = statuses.add(status);
    await petstore.close();
  }
  assert.deepEqual([...statuses].sort(), [201, 500]);
});

test('keeps no token that is not valid', { timeout: 120_000 }, async () => {
  const script = `
    import { digestOfKey, KeyRing } from ${JSON.stringify(import.meta.resolve('../../dist/index.js'))};
    const ring = new KeyRing([{ name: 'a', digest: digestOfKey('a') }], Date.now);
    const used = () => (gc(), gc(), process.memoryUsage().heapUsed);
    const before = used();
    for (let count = 0; count < 5_000; count++) ring.verify(String(count).padStart(10_000, 'x'));
    console.log(used() - before);`;
  const args = ['--expose-gc', '--input-type=module', '-e', script];
  const { stdout, stderr } = await new StartedProcess(process.execPath, args, { cwd: root }).ended;
  // All tokens together are 50 MB.
  assert.ok(Number(stdout) < 10e6, `${stdout} bytes ${stderr}`);
});

test('listen defaults to 127.0.0.1 and port 3000, and rejects an invalid port', async (t) => {
  const { listen } = (await start(t)).petstore;
  assert.match((await listen({ port: 0 })).url, /^http:\/\/127\.0\.0\.1:/);
  // No machine has this address (RFC 5737), so that the port stays free for other programs.
  await assert.rejects(listen({ host: '203.0.113.1' }), { code: 'EADDRNOTAVAIL', port: 3_000 });
  await assert.rejects(listen({ port: 70_000 }), { code: 'ERR_SOCKET_BAD_PORT' });
  // Node would create a socket file of that name in the current folder.
  const message = 'port must be an integer';
  for (const port of ['pets.sock', '3000', 1.5, null])
    await assert.rejects(listen(Object({ port })), { name: 'TypeError', message });
  await assert.rejects(listen({ port: 0, host: '203.0.113.1' }), { code: 'EADDRNOTAVAIL' });
  const six = await listen({ port: 0, host: '::1' }).catch(() => undefined);
  if (six !== undefined) assert.equal(six.url, `http://[::1]:${six.port}`);
  await expectResponse((await listen({ port: 0 })).port, 'GET /x', '404 not_found');
});
