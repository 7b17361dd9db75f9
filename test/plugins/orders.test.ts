/**
 * The orders plugin: placing and listing, what it keeps where, its part of the document, and how it
 * fails.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { createPetstore, fileStorage, memoryStorage } from '../../dist/index.js';
import { ordersPlugin } from '../../dist/plugins/orders.js';
import { assertError, header, type Answer } from '../support/client.js';
import { add, ask, key, start, type Running, type Words } from '../support/fixture.js';
import {
  assertRefused,
  folder,
  runServer,
  type StartedServer,
  startServer,
} from '../support/process.js';
import { newPath } from '../storage/scene.js';

const path = '/v1/store/orders';
const now = Date.UTC(2026, 10, 21, 8);
const animal = '{"name":"a","categoryId":1}';

const place = (port: number, body: string, words: Words = {}): Promise<Answer> =>
  ask(port, 'POST', path, { body, ...words });
const list = async (port: number, query = ''): Promise<readonly number[]> =>
  JSON.parse((await ask(port, 'GET', path + query)).body).map(
    ({ id }: { readonly id: number }) => id,
  );

/** A petstore with one animal and the plugin. */
async function withOne(
  t: Parameters<typeof start>[0],
  options: Parameters<typeof start>[1] = {},
): Promise<Running> {
  const running = await start(t, { plugins: [ordersPlugin()], clock: () => now, ...options });
  await add(running.port, animal);
  return running;
}

test('an order of a known animal is placed with id, status and time, and listed', async (t) => {
  const { port } = await withOne(t);
  const first = await place(port, '{"petId":1,"quantity":2,"status":"shipped","id":77}');
  assert.equal(first.status, 201, first.body);
  assert.equal(
    first.body,
    '{"id":1,"petId":1,"quantity":2,"status":"placed","placedAt":"2026-11-21T08:00:00.000Z"}',
  );
  const second = await place(port, ' {"quantity":2147483647.0,"petId":1e0}');
  assert.equal(
    second.body,
    '{"id":2,"petId":1,"quantity":2147483647,"status":"placed","placedAt":"2026-11-21T08:00:00.000Z"}',
  );
  const listed = await ask(port, 'GET', path);
  assert.deepEqual(
    [listed.status, listed.body, header(listed, 'Link')],
    [200, `[${first.body},${second.body}]`, undefined],
  );
  assert.equal((await ask(port, 'GET', '/v1/pets')).body, '[{"id":1,"name":"a","categoryId":1}]');
});

test('limit, after and status are as on pets, and Link leads through all pages', async (t) => {
  const { port } = await withOne(t);
  for (let count = 0; count < 25; count++) await place(port, '{"petId":1,"quantity":1}');
  assert.equal((await list(port)).length, 20);
  assert.deepEqual(await list(port, '?limit=2&after=3&other=1'), [4, 5]);
  assert.deepEqual(await list(port, '?status=placed&after=24'), [25]);
  const seen: number[] = [];
  for (let next: string | undefined = `${path}?limit=10&status=placed`; next !== undefined; ) {
    const answer: Answer = await ask(port, 'GET', next);
    seen.push(...JSON.parse(answer.body).map(({ id }: { readonly id: number }) => id));
    next = /^<([^>]*)>; rel="next"$/.exec(header(answer, 'Link') ?? '')?.[1];
    if (next !== undefined) assert.match(next, /\?limit=10&status=placed&after=\d+$/);
  }
  assert.deepEqual(
    seen,
    Array.from({ length: 25 }, (_, index) => index + 1),
  );
  for (const query of [
    'limit=0',
    'limit=101',
    'limit=05',
    'limit=',
    'after=-1',
    'after=x',
    'status=sold',
    'status=Placed',
    'status=',
    'limit=1&limit=1',
    '%zz',
  ]) {
    assertError(await ask(port, 'GET', `${path}?${query}`), 400, 'invalid_parameter');
  }
});

test('what is no order, or of no animal that is there, is a 400 that names every field, and nothing is kept', async (t) => {
  const { port } = await withOne(t);
  const bad: readonly (readonly [string, RegExp])[] = [
    ['{}', /petId .*quantity/],
    ['[]', /petId .*quantity/],
    ['{"petId":"1","quantity":0}', /petId .*quantity must be an integer from 1 to 2147483647\.$/],
    ['{"petId":1,"quantity":0}', /^quantity/],
    ['{"petId":1,"quantity":-1}', /^quantity/],
    ['{"petId":1,"quantity":2147483648}', /^quantity/],
    ['{"petId":1,"quantity":1.5}', /^quantity/],
    ['{"petId":1,"quantity":null}', /^quantity/],
    ['{"petId":2,"quantity":1}', /^petId must be the id of an animal/],
    ['{"petId":0,"quantity":1}', /^petId/],
    ['{"petId":9223372036854775808,"quantity":1}', /^petId/],
  ];
  for (const [body, message] of bad)
    assert.match(assertError(await place(port, body), 400, 'invalid_body'), message, body);
  assertError(await place(port, '{"petId":1,"petId":1}'), 400, 'invalid_json');
  assertError(await place(port, ' '.repeat(65_537)), 413, 'content_too_large');
  assertError(
    await place(port, '{}', { headers: ['Content-Type: a/b'] }),
    415,
    'unsupported_media_type',
  );
  assert.deepEqual(await list(port), []);
});

test('it needs the key, has HEAD, OPTIONS and 405, and is not there without the plugin', async (t) => {
  const { port } = await withOne(t);
  assertError(await ask(port, 'GET', path, { authorization: null }), 401, 'unauthorized');
  assertError(await place(port, '{}', { authorization: 'Bearer no' }), 401, 'unauthorized');
  assert.equal((await ask(port, 'HEAD', path)).status, 200);
  assert.equal(header(await ask(port, 'PUT', path), 'Allow'), 'GET, HEAD, POST, OPTIONS');
  const plain = await start(t);
  assertError(await ask(plain.port, 'GET', path), 404, 'not_found');
});

test('orders are in a file beside the animals’, and outlast restarts; in memory they do not', async (t) => {
  const storagePath = newPath();
  const first = await withOne(t, { storage: await fileStorage(storagePath) });
  await Promise.all(Array.from({ length: 5 }, () => place(first.port, '{"petId":1,"quantity":3}')));
  const body = (await ask(first.port, 'GET', path)).body;
  await first.petstore.close();
  const lines = readFileSync(`${storagePath}.orders`, 'utf8').split('\n');
  assert.equal(`[${lines.filter((line) => line.startsWith('{"id"')).join(',')}]`, body);
  const second = await start(t, {
    storage: await fileStorage(storagePath),
    plugins: [ordersPlugin()],
  });
  assert.equal((await ask(second.port, 'GET', path)).body, body);
  assert.equal(JSON.parse((await place(second.port, '{"petId":1,"quantity":1}')).body).id, 6);
  const inMemory = await withOne(t, { storage: memoryStorage() });
  assert.deepEqual(await list(inMemory.port), []);
});

test('the document has both operations, marked experimental, and live answers fit it', async (t) => {
  const { port } = await withOne(t);
  const document = JSON.parse((await ask(port, 'GET', '/openapi.json')).body);
  const operations = document.paths['/store/orders'];
  assert.deepEqual(Object.keys(operations), ['get', 'post']);
  for (const operation of [operations.get, operations.post])
    assert.equal(operation['x-experimental'], true);
  assert.ok(!JSON.stringify(document.paths['/pets']).includes('x-experimental'));
  const ajv = new Ajv2020({
    strict: true,
    allErrors: true,
    formats: { int64: true, int32: true, 'date-time': /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/ },
  });
  const moved = (value: unknown): object =>
    Object(
      JSON.parse(JSON.stringify(value).replaceAll('#/components/schemas/', 'document#/$defs/')),
    );
  ajv.addSchema({ $id: 'document', $defs: moved(document.components.schemas) });
  // One whose storage is closed.
  const away = await withOne(t);
  await away.petstore.storage.close();
  const live: readonly (readonly [string, Promise<Answer>])[] = [
    ['post', place(port, '{"petId":1,"quantity":1}')],
    ['post', place(port, '{}')],
    ['post', place(port, '{}', { authorization: null })],
    ['post', place(port, '{}', { headers: ['Content-Type: a/b'] })],
    ['post', place(port, ' '.repeat(65_537))],
    ['get', ask(port, 'GET', path)],
    ['get', ask(port, 'GET', `${path}?limit=0`)],
    ['get', ask(port, 'GET', path, { authorization: null })],
    ['post', place(away.port, '{"petId":1,"quantity":1}')],
    ['get', ask(away.port, 'GET', path)],
  ];
  const seen = new Set<string>();
  for (const [method, asked] of live) {
    const answer = await asked;
    const response =
      operations[method].responses[answer.status] ?? assert.fail(`${method} ${answer.status}`);
    seen.add(`${method} ${answer.status}`);
    const validate = ajv.compile(moved(response.content['application/json'].schema));
    assert.ok(
      validate(JSON.parse(answer.body)),
      `${method} ${answer.status}: ${JSON.stringify(validate.errors)}`,
    );
    for (const name of Object.keys(response.headers ?? {}))
      if (name !== 'Link') assert.ok(header(answer, name), name);
  }
  const documented = ['get', 'post'].flatMap((method) =>
    Object.keys(operations[method].responses).map((status) => `${method} ${status}`),
  );
  assert.deepEqual([...seen].sort(), documented.sort());
});

test('orders that cannot be read stop a petstore from listening, touch nothing, and answer 503 elsewhere', async () => {
  const storagePath = newPath();
  await (await fileStorage(storagePath)).close();
  for (const line of [
    'garbage',
    '{"id":1}',
    '{"id":1,"petId":1,"quantity":0,"status":"placed","placedAt":"2026-11-21T08:00:00.000Z"}',
    '{"id":0,"petId":1,"quantity":1,"status":"placed","placedAt":"2026-11-21T08:00:00.000Z"}',
    '{"id":1,"petId":1,"quantity":1,"status":"lost","placedAt":"2026-11-21T08:00:00.000Z"}',
    '{"id":1,"petId":1,"quantity":1,"status":"placed","placedAt":"today"}',
  ]) {
    const text = `${line}\n{"commit":{"from":0,"crc32":"00000000"}}\n`;
    writeFileSync(`${storagePath}.orders`, text);
    const petstore = createPetstore({
      keys: [key],
      storage: await fileStorage(storagePath),
      plugins: [ordersPlugin()],
    });
    await assert.rejects(
      petstore.listen({ port: 0 }),
      { code: 'storage_damaged', message: /\.orders line 1, byte 0: .*; nothing was changed/ },
      line,
    );
    const request = (target: string): Request =>
      new Request(`http://a${target}`, { headers: { Authorization: `Bearer ${key}` } });
    assert.equal((await petstore.fetch(request(path))).status, 503);
    assert.equal((await petstore.fetch(request('/readyz'))).status, 503);
    assert.equal((await petstore.fetch(request('/v1/pets'))).status, 200);
    await petstore.close();
    assert.equal(readFileSync(`${storagePath}.orders`, 'utf8'), text);
  }
});

test('a storage that keeps nothing but animals is refused', async () => {
  const { insert, get, list: listPets, close } = memoryStorage();
  const storage = { durable: false, insert, get, list: listPets, close };
  assert.throws(() => createPetstore({ keys: [key], storage, plugins: [ordersPlugin()] }), {
    name: 'TypeError',
    message: /nothing but animals/,
  });
});

test('the process: what was answered 201 is there behind a kill -9; a damaged file is one line, exit 3', async (t) => {
  const cwd = folder(t);
  const placeAt = (server: StartedServer): Promise<Response> =>
    fetch(server.url + path, {
      method: 'POST',
      headers: { Authorization: 'Bearer test-key', 'Content-Type': 'application/json' },
      body: '{"petId":1,"quantity":1}',
    });
  const first = await startServer(t, ['--plugin', 'orders'], { cwd });
  await first.add('a');
  const answers = await Promise.all(Array.from({ length: 20 }, () => placeAt(first)));
  const bodies = await Promise.all(answers.map((answer) => answer.text()));
  await first.end('SIGKILL');
  const second = await startServer(t, ['--plugin', 'orders'], { cwd });
  const listed = await (await second.get(path)).text();
  for (const body of bodies) assert.ok(listed.includes(body), body);
  assert.equal((await second.end()).code, 0);
  const file = join(cwd, 'data/pets.jsonl.orders');
  writeFileSync(file, readFileSync(file, 'utf8').replace('"quantity":1', '"quantity":2'));
  assertRefused(
    await runServer(['--plugin', 'orders'], { cwd, env: { PORT: '0', PETSTORE_API_KEYS: 'a' } }),
    3,
    /data\/pets\.jsonl\.orders line \d+, byte \d+: .*; nothing was changed/,
  );
});
