/**
 * Adding once for an Idempotency-Key, over a socket, through fetch and behind somebody else's
 * server.
 */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { test, type TestContext } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { createPetstore, fileStorage, memoryStorage, type PetStorage } from '../../dist/index.js';
import { nodeDisk } from '../../dist/journal/index.js';
import { dayMs } from '../storage/once.js';
import { newPath } from '../storage/scene.js';
import { assertError, header, type Answer } from '../support/client.js';
import { ask, exchange, bytesOf, key, start, stored, type Running } from '../support/fixture.js';
import { diskWith } from '../support/disk.js';
import { gate } from '../support/waiting.js';

const body = '{"name":"a","categoryId":1}';
const other = '{"name":"b","categoryId":1}';

type Kept = Answer & { readonly kept: boolean };

function post(
  port: number,
  idempotencyKey: string,
  text = body,
  authorization = `Bearer ${key}`,
): Promise<Kept> {
  return ask(port, 'POST', '/v1/pets', {
    body: text,
    headers: [`Idempotency-Key: ${idempotencyKey}`],
    authorization,
  });
}

/** What an answer says of the animal. */
function added(answer: Answer): readonly unknown[] {
  return [answer.status, header(answer, 'Location'), answer.body];
}

test('C57 every API key has idempotency keys of its own', async (t) => {
  const running = await start(t, { keys: ['one', 'two'] });
  const first = await post(running.port, 'k', body, 'Bearer one');
  assert.deepEqual(added(await post(running.port, 'k', body, 'Bearer two')), [
    201,
    '/v1/pets/2',
    '{"id":2,"name":"a","categoryId":1}',
  ]);
  assert.equal((await post(running.port, 'other', other, 'Bearer two')).status, 201);
  assert.deepEqual(added(await post(running.port, 'k', body, 'Bearer one')), added(first));
  assert.equal((await stored(running)).length, 3);
});

test('C57 names of API keys cannot be chosen so that they meet in one idempotency key', async (t) => {
  const names = ['a', 'a b', 'a"', 'a","b', '\u0000', 'ab', '1', '11', '\ud800', '\ud801'];
  const running = await start(t, { keys: (token) => names[Number(token)] });
  const values = ['a', 'b', '"', ',', '","b', 'ab', '1', '11', '0'];
  for (const value of values)
    for (const index of names.keys())
      assert.equal((await post(running.port, value, body, `Bearer ${index}`)).status, 201);
  assert.equal((await stored(running)).length, names.length * values.length);
});

test('C57 a key is kept for 24 hours by the petstore’s clock', async (t) => {
  let now = 1_795_132_800_000.5;
  const running = await start(t, { clock: () => now });
  const first = await post(running.port, 'k');
  now += dayMs - 1;
  assert.deepEqual(added(await post(running.port, 'k')), added(first));
  assertError(await post(running.port, 'k', other), 422, 'idempotency_mismatch');
  now += 1;
  assert.deepEqual(added(await post(running.port, 'k', other)), [
    201,
    '/v1/pets/2',
    '{"id":2,"name":"b","categoryId":1}',
  ]);
  assertError(await post(running.port, 'k'), 422, 'idempotency_mismatch');
});

test('C57 a repeat behind the end of GET /v1/pets/{petId} names no Location either (C30)', async (t) => {
  let now = Date.UTC(2030, 11, 5, 23, 59, 59);
  const running = await start(t, { clock: () => now });
  assert.equal(header(await post(running.port, 'k'), 'Location'), '/v1/pets/1');
  now += 1000;
  assert.deepEqual(added(await post(running.port, 'k')), [
    201,
    undefined,
    '{"id":1,"name":"a","categoryId":1}',
  ]);
});

/** A petstore on a file whose disk waits in each sync until it may go on. */
async function slow(t: TestContext): Promise<
  Running & {
    readonly path: string;
    readonly syncing: Promise<void>;
    readonly goOn: (failure?: Error) => void;
  }
> {
  const disk = diskWith({});
  const path = newPath();
  const storage = await fileStorage(path, { disk });
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
  return { ...(await start(t, { storage })), path, syncing: syncing.opened, goOn };
}

test('C57 while the first is under way a repeat is 409 and may try again in a second; then it has the answer', async (t) => {
  const { port, petstore, syncing, goOn } = await slow(t);
  const first = post(port, 'k');
  await syncing;
  for (const text of [body, other]) {
    const answer = await post(port, 'k', text);
    assertError(answer, 409, 'idempotency_in_flight');
    assert.equal(header(answer, 'Retry-After'), '1');
    assert.equal(answer.kept, true);
  }
  goOn();
  assert.equal((await first).status, 201);
  assert.deepEqual(added(await post(port, 'k')), added(await first));
  assertError(await post(port, 'k', other), 422, 'idempotency_mismatch');
  assert.equal((await petstore.storage.list({ limit: 5 })).length, 1);
});

test('C57 behind a disk that failed a repeat is 503 like every add, not 409', async (t) => {
  const { port, syncing, goOn } = await slow(t);
  const first = post(port, 'k');
  await syncing;
  goOn(new Error('EIO'));
  assertError(await first, 503, 'unavailable');
  for (const text of [body, other]) assertError(await post(port, 'k', text), 503, 'unavailable');
});

test('C57 a repeat behind a restart has the first answer, and the file knows neither the key nor the body', async (t) => {
  const path = newPath();
  const first = createPetstore({ keys: [key], storage: await fileStorage(path) });
  const secret = 'my-secret-order';
  const add = (petstore: Pick<typeof first, 'fetch'>): Promise<Response> =>
    petstore.fetch(
      new Request('http://a/v1/pets', {
        method: 'POST',
        headers: { Authorization: `Bearer ${key}`, 'Idempotency-Key': secret },
        body: Buffer.from(body),
      }),
    );
  const answer = await (await add(first)).text();
  await first.close();
  const file = readFileSync(path, 'utf8');
  assert.ok(!file.includes(secret) && !file.includes(key));
  const { idempotency } = JSON.parse(file.split('\n')[0] ?? '');
  assert.equal(idempotency.key, hash('sha256', `["key-1","${secret}"]`));
  assert.equal(idempotency.body, hash('sha256', body));
  assert.ok(Math.abs(Date.now() - idempotency.at) < 60_000);

  const second = createPetstore({ keys: [key], storage: await fileStorage(path) });
  atEnd(t, () => second.close());
  const again = await add(second);
  assert.deepEqual(
    [again.status, again.headers.get('location'), await again.text()],
    [201, '/v1/pets/1', answer],
  );
  assert.equal(readFileSync(path, 'utf8'), file);
});

test('C57 a storage that keeps no keys is 400 for a request with one, never a promise that nobody keeps', async (t) => {
  const { insert, get, list, close } = memoryStorage();
  const storage: PetStorage = { durable: false, insert, get, list, close };
  const { port } = await start(t, { storage });
  assert.match(
    assertError(await post(port, 'k'), 400, 'invalid_parameter'),
    /keeps no idempotency keys/,
  );
  assert.equal((await ask(port, 'POST', '/v1/pets', { body })).status, 201);
});

test('C57 fetch and handler do the same', async (t) => {
  const petstore = createPetstore({ keys: [key] });
  const server = createServer(petstore.handler).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  atEnd(t, async () => {
    server.close();
    await petstore.close();
  });
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const fetched = async (
    headers: readonly (readonly [string, string])[],
    text = body,
  ): Promise<readonly unknown[]> => {
    const all: [string, string][] = [
      ['Authorization', `Bearer ${key}`],
      ...headers.map(([name, value]): [string, string] => [name, value]),
    ];
    const response = await petstore.fetch(
      new Request('http://a/v1/pets', { method: 'POST', headers: all, body: Buffer.from(text) }),
    );
    return [
      response.status,
      response.headers.get('location'),
      response.status === 201 ? await response.text() : JSON.parse(await response.text()).code,
    ];
  };
  const first = await fetched([['idempotency-key', 'k']]);
  assert.deepEqual(first, [201, '/v1/pets/1', '{"id":1,"name":"a","categoryId":1}']);
  assert.deepEqual(await fetched([['Idempotency-Key', 'k']]), first);
  const bytes = bytesOf('POST', '/v1/pets', { body, headers: ['Idempotency-Key: k'] });
  assert.deepEqual(added(await exchange(address.port, bytes, 'POST')), first);
  assert.deepEqual(await fetched([['Idempotency-Key', 'k']], other), [
    422,
    null,
    'idempotency_mismatch',
  ]);
  for (const headers of [
    [
      ['Idempotency-Key', 'k'],
      ['Idempotency-Key', 'k'],
    ],
    [['Idempotency-Key', '']],
  ] as const) {
    assert.deepEqual(await fetched(headers), [400, null, 'invalid_parameter']);
  }
});
