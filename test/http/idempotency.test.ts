/** Tests of Idempotency-Key that need several API keys, a clock, or a slow disk. */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test, type TestContext } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { createPetstore, fileStorage, type Petstore } from '../../dist/index.js';
import { nodeDisk } from '../../dist/journal/index.js';
import { dayMs } from '../storage/once.js';
import { newPath } from '../storage/scene.js';
import { assertError } from '../support/client.js';
import { key, start, storedPets, type Running } from '../support/fixture.js';
import {
  petJson,
  expectResponse,
  firstPetJson,
  keyHeaders,
  plainStorage,
} from '../support/scenes.js';
import { diskWith } from '../support/disk.js';
import { gate } from '../support/waiting.js';

const other = '{"name":"b","categoryId":1}';
const mismatch = '422 idempotency_mismatch';
const firstAt = { Location: '/v1/pets/1' };

/** Adds a pet with an idempotency key, and checks the response. */
function post(
  port: number,
  expected: number | string,
  { value = 'k', body = petJson, token = key } = {},
  headers?: Parameters<typeof expectResponse>[4],
): ReturnType<typeof expectResponse> {
  const authorization = `Bearer ${token}`;
  const words = { body, headers: [`Idempotency-Key: ${value}`], authorization };
  return expectResponse(port, 'POST /v1/pets', expected, words, headers);
}

test('C57 the idempotency keys of different API keys never collide, whatever the names of the API keys', async (t) => {
  const names = ['a', 'a b', 'a"', 'a","b', '\u0000', 'ab', '1', '11', '\ud800', '\ud801'];
  const running = await start(t, { keys: (token) => names[Number(token)] });
  const values = ['a', 'b', '"', ',', '","b', 'ab', '1', '11', '0'];
  for (const value of values)
    for (const index of names.keys()) await post(running.port, 201, { value, token: `${index}` });
  assert.equal((await storedPets(running)).length, names.length * values.length);
});

test('C57 keeps an idempotency key for 24 hours by the petstore’s clock', async (t) => {
  let now = 1_795_132_800_000.5;
  const { port } = await start(t, { clock: () => now });
  await post(port, `201 ${firstPetJson}`);
  now += dayMs - 1;
  await post(port, `201 ${firstPetJson}`, {}, firstAt);
  await post(port, mismatch, { body: other });
  now += 1;
  const second = '{"id":2,"name":"b","categoryId":1}';
  await post(port, `201 ${second}`, { body: other }, { Location: '/v1/pets/2' });
  await post(port, mismatch);
});

/** Adds the same pet with the same idempotency key each time; returns its id. */
async function addAgain(petstore: Petstore): Promise<unknown> {
  const headers = { Authorization: keyHeaders.Authorization, 'Idempotency-Key': 'k' };
  const init = { method: 'POST', headers, body: Buffer.from(petJson) };
  return JSON.parse(await (await petstore.fetch('http://a/v1/pets', init)).text()).id;
}

test('C73 counts the 24 hours by the given clock, and accepts a repeat from before the first use', async (t) => {
  const storage = await fileStorage(newPath());
  let now = 1_795_132_800_000;
  const petstore = createPetstore({ keys: [key], storage, clock: () => now });
  atEnd(t, () => petstore.close());
  assert.equal(await addAgain(petstore), 1);
  now -= 3 * dayMs;
  assert.equal(await addAgain(petstore), 1);
  now += 4 * dayMs;
  assert.equal(await addAgain(petstore), 2);
});

test('C57 sends no Location with a repeat after the end of GET /v1/pets/{petId} (C30)', async (t) => {
  let now = Date.UTC(2030, 11, 5, 23, 59, 59);
  const { port } = await start(t, { clock: () => now });
  await post(port, 201, {}, firstAt);
  now += 1000;
  await post(port, `201 ${firstPetJson}`, {}, { Location: undefined });
});

/** Starts a petstore on a file, whose disk blocks each sync until `goOn` is called. */
async function slow(t: TestContext): Promise<
  Running & {
    readonly syncing: Promise<void>;
    readonly goOn: (failure?: Error) => void;
  }
> {
  const disk = diskWith({});
  const storage = await fileStorage(newPath(), { disk });
  const [syncing, mayEnd] = [gate(), gate()];
  let failure: Error | undefined;
  disk.datasync = async (descriptor) => {
    syncing.open();
    await mayEnd.opened;
    if (failure !== undefined) throw failure;
    await nodeDisk.datasync(descriptor);
  };
  const goOn = (error?: Error): void => {
    failure = error;
    mayEnd.open();
  };
  atEnd(t, () => goOn());
  return { ...(await start(t, { storage })), syncing: syncing.opened, goOn };
}

test('C57 responds 409 to a repeat while the first request is in flight, then the first result', async (t) => {
  const { port, petstore, syncing, goOn } = await slow(t);
  const first = post(port, 201);
  await syncing;
  for (const body of [petJson, other]) {
    const again = { 'Retry-After': '1' };
    const response = await post(port, '409 idempotency_in_flight', { body }, again);
    assert.equal(response.kept, true);
  }
  goOn();
  await post(port, `201 ${(await first).body}`, {}, firstAt);
  await post(port, mismatch, { body: other });
  assert.equal((await petstore.storage.list({ limit: 5 })).length, 1);
});

test('C57 responds 503 to a repeat after the disk has failed', async (t) => {
  const { port, syncing, goOn } = await slow(t);
  const first = post(port, '503 unavailable');
  await syncing;
  goOn(new Error('EIO'));
  await first;
  for (const body of [petJson, other]) await post(port, '503 unavailable', { body });
});

test('C57 repeats the first result after a restart, and stores only hashes of key and body', async (t) => {
  const path = newPath();
  const secret = 'my-secret-order';
  const body = '{"name":"Möhrchen","categoryId":1}';
  const headers = { Authorization: keyHeaders.Authorization, 'Idempotency-Key': secret };
  const init = { method: 'POST', headers, body: Buffer.from(body) };
  const texts: string[] = [];
  for (let starts = 0; starts < 2; starts++) {
    const petstore = createPetstore({ keys: [key], storage: await fileStorage(path) });
    atEnd(t, () => petstore.close());
    const response = await petstore.fetch('http://a/v1/pets', init);
    assert.deepEqual([response.status, response.headers.get('location')], [201, '/v1/pets/1']);
    assert.equal(await response.text(), '{"id":1,"name":"Möhrchen","categoryId":1}');
    await petstore.close();
    texts.push(readFileSync(path, 'utf8'));
  }
  const [file = '', again] = texts;
  assert.equal(again, file);
  assert.ok(!file.includes(secret) && !file.includes(key));
  const { idempotency } = JSON.parse(file.split('\n')[0] ?? '');
  assert.equal(idempotency.key, hash('sha256', `["key-1","${secret}"]`));
  assert.equal(idempotency.body, hash('sha256', body));
  assert.ok(Math.abs(Date.now() - idempotency.at) < 60_000);
});

test('C57 responds 400 to an idempotency key if the storage cannot keep keys', async (t) => {
  const { port } = await start(t, { storage: plainStorage() });
  const refusal = assertError(await post(port, 400), 400, 'invalid_parameter');
  assert.match(refusal, /keeps no idempotency keys/);
  await expectResponse(port, 'POST /v1/pets', 201, { body: petJson });
});
