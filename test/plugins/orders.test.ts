// Tests the orders plugin: placing and listing orders, where they are stored, and errors.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createPetstore, fileStorage, memoryStorage } from '../../dist/index.js';
import { ordersPlugin } from '../../dist/plugins/orders.js';
import { assertError, header, type RawResponse } from '../support/client.js';
import { sendRequest, key, start, type Running } from '../support/fixture.js';
import {
  petJson,
  expectResponse,
  expectResponses,
  firstPetJson,
  keyHeaders,
  plainStorage,
} from '../support/scenes.js';
import { assertRefused, folder, runServer, startServer } from '../support/process.js';
import { newPath } from '../storage/scene.js';

const path = '/v1/store/orders';
const [list, place] = [`GET ${path}`, `POST ${path}`];
const order = { body: '{"petId":1,"quantity":1}' };

/** Returns the JSON of an order of pet 1. */
const placed = (id: number, quantity = 1): string =>
  `{"id":${id},"petId":1,"quantity":${quantity},"status":"placed","placedAt":"2026-11-21T08:00:00.000Z"}`;
const idsOf = ({ body }: RawResponse): readonly number[] =>
  JSON.parse(body).map(({ id }: { readonly id: number }) => id);

/** Starts a petstore with one pet and the plugin. */
async function startWithPet(
  t: Parameters<typeof start>[0],
  options: Parameters<typeof start>[1] = {},
): Promise<Running> {
  const clock = (): number => Date.UTC(2026, 10, 21, 8);
  const running = await start(t, { plugins: [ordersPlugin()], clock, ...options });
  await expectResponse(running.port, 'POST /v1/pets', 201, { body: petJson });
  return running;
}

test('an order of a stored pet is stored with id, status and time, and listed', async (t) => {
  const { port } = await startWithPet(t);
  const most = 2_147_483_647;
  await expectResponses(port, [
    [place, `201 ${placed(1, 2)}`, { body: '{"petId":1,"quantity":2,"status":"shipped","id":77}' }],
    [place, `201 ${placed(2, most)}`, { body: ` {"quantity":${most}.0,"petId":1e0}` }],
    [list, `200 [${placed(1, 2)},${placed(2, most)}]`, {}, { Link: undefined }],
    ['GET /v1/pets', `200 [${firstPetJson}]`],
  ]);
});

test('a list of orders takes limit, after and status, and Link leads through all pages', async (t) => {
  const { port } = await startWithPet(t);
  for (let count = 0; count < 25; count++) await expectResponse(port, place, 201, order);
  for (const [query, ids] of [
    ['?limit=2&after=3&other=1', [4, 5]],
    ['?status=placed&after=24', [25]],
    ['', Array.from({ length: 20 }, (_, index) => index + 1)],
  ] as const)
    assert.deepEqual(idsOf(await sendRequest(port, 'GET', path + query)), ids);
  const seen: number[] = [];
  for (let next: string | undefined = `${path}?limit=10&status=placed`; next !== undefined; ) {
    const response: RawResponse = await sendRequest(port, 'GET', next);
    seen.push(...idsOf(response));
    next = /^<([^>]*)>; rel="next"$/.exec(header(response, 'Link') ?? '')?.[1];
    if (next !== undefined) assert.match(next, /\?limit=10&status=placed&after=\d+$/);
  }
  assert.deepEqual(
    seen,
    Array.from({ length: 25 }, (_, index) => index + 1),
  );
  // biome-ignore format: many short values; one per line would hide the test.
  for (const query of ['limit=0', 'limit=101', 'limit=05', 'limit=', 'after=-1', 'after=x', 'status=sold', 'status=Placed', 'status=', 'limit=1&limit=1', '%zz'])
    await expectResponse(port, `${list}?${query}`, '400 invalid_parameter');
});

test('an invalid order, or one of an unknown pet, is 400 and names each wrong field', async (t) => {
  const { port } = await startWithPet(t);
  const both = /petId .*quantity must be an integer from 1 to 2147483647\.$/;
  for (const [body, message] of [
    ['{}', /petId .*quantity/],
    ['[]', /petId .*quantity/],
    ['{"petId":"1","quantity":0}', both],
    ...['0', '-1', '2147483648', '1.5', 'null'].map(
      (quantity) => [`{"petId":1,"quantity":${quantity}}`, /^quantity/] as const,
    ),
    ...['2', '0', '9223372036854775808'].map(
      (id) => [`{"petId":${id},"quantity":1}`, /^petId must be the id of a pet/] as const,
    ),
  ] as const) {
    const response = await sendRequest(port, 'POST', path, { body });
    assert.match(assertError(response, 400, 'invalid_body'), message, body);
  }
  await expectResponses(port, [
    [place, '400 invalid_json', { body: '{"petId":1,"petId":1}' }],
    [list, '200 []'],
  ]);
});

test('C60 an order with over 65,536 values is 400', async (t) => {
  const { port } = await startWithPet(t, { maxBodyBytes: 2 ** 20 });
  const withValues = (count: number) => ({
    body: `{"petId":1,"quantity":1,"more":[${'1,'.repeat(count - 1)}1]}`,
  });
  await expectResponses(port, [
    [place, 201, withValues(65_000)],
    [place, '400 invalid_json', withValues(65_537)],
  ]);
});

test('orders are stored in a file next to that of the pets, and survive restarts', async (t) => {
  const storagePath = newPath();
  const first = await startWithPet(t, { storage: await fileStorage(storagePath) });
  const adding = Array.from({ length: 5 }, () => expectResponse(first.port, place, 201, order));
  await Promise.all(adding);
  const { body } = await sendRequest(first.port, 'GET', path);
  await first.petstore.close();
  const lines = readFileSync(`${storagePath}.orders`, 'utf8').split('\n');
  assert.equal(`[${lines.filter((line) => line.startsWith('{"id"')).join(',')}]`, body);
  const second = await startWithPet(t, { storage: await fileStorage(storagePath) });
  await expectResponses(second.port, [
    [list, `200 ${body}`],
    [place, `201 ${placed(6)}`, order],
  ]);
  await expectResponse((await startWithPet(t, { storage: memoryStorage() })).port, list, '200 []');
});

test('a damaged file of orders stops the petstore from listening and is not changed', async () => {
  const storagePath = newPath();
  await (await fileStorage(storagePath)).close();
  for (const line of [
    'garbage',
    '{"id":1}',
    placed(1, 0),
    placed(0),
    placed(1).replace('"placed"', '"lost"'),
    '{"id":1,"petId":1,"quantity":1,"status":"placed","placedAt":"today"}',
  ]) {
    const text = `${line}\n{"commit":{"from":0,"crc32":"00000000"}}\n`;
    writeFileSync(`${storagePath}.orders`, text);
    const storage = await fileStorage(storagePath);
    const petstore = createPetstore({ keys: [key], storage, plugins: [ordersPlugin()] });
    const message = /\.orders line 1, byte 0: .*; nothing was changed/;
    await assert.rejects(petstore.listen({ port: 0 }), { code: 'storage_damaged', message }, line);
    for (const [target, status] of [
      [path, 503],
      ['/readyz', 503],
      ['/v1/pets', 200],
    ] as const) {
      const response = await petstore.fetch(`http://a${target}`, { headers: keyHeaders });
      assert.equal(response.status, status, target);
    }
    await petstore.close();
    assert.equal(readFileSync(`${storagePath}.orders`, 'utf8'), text);
  }
});

test('ordersPlugin throws a TypeError for a storage without records', () => {
  const options = { keys: [key], storage: plainStorage(), plugins: [ordersPlugin()] };
  const message = /keeps only pets/;
  assert.throws(() => createPetstore(options), { name: 'TypeError', message });
});

test('--plugin orders keeps acknowledged orders after kill -9, and exits with 3 for damage', async (t) => {
  const cwd = folder(t);
  const args = ['--plugin', 'orders'];
  const first = await startServer(t, args, { cwd });
  await first.add('a');
  const headers = { ...keyHeaders, Authorization: 'Bearer test-key' };
  const init = { method: 'POST', headers, ...order };
  const bodies = await Promise.all(
    Array.from({ length: 20 }, async () => (await fetch(first.url + path, init)).text()),
  );
  await first.end('SIGKILL');
  const second = await startServer(t, args, { cwd });
  const listed = await (await second.get(path)).text();
  for (const body of bodies) assert.ok(listed.includes(body), body);
  assert.equal((await second.end()).code, 0);
  const file = join(cwd, 'data/pets.jsonl.orders');
  writeFileSync(file, readFileSync(file, 'utf8').replace('"quantity":1', '"quantity":2'));
  const damaged = /data\/pets\.jsonl\.orders line \d+, byte \d+: .*; nothing was changed/;
  const env = { PORT: '0', PETSTORE_API_KEYS: 'a' };
  assertRefused(await runServer(args, { cwd, env }), 3, damaged);
});
