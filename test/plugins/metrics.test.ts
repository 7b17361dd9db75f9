/**
 * The metrics plugin: what Prometheus reads, read by its grammar; the storage's figures on a disk
 * whose syncs we hold.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileStorage, memoryStorage } from '../../dist/index.js';
import { metricsPlugin } from '../../dist/plugins/metrics.js';
import { Client, header } from '../support/client.js';
import { add, ask, bytesOf, start } from '../support/fixture.js';
import { assertRefused, folder, startServer } from '../support/process.js';
import { newPath } from '../storage/scene.js';
import { nodeDisk } from '../../dist/journal/index.js';
import { serverWithoutLibraries } from './bare.js';
import { readExposition, figureOf, type Family } from './exposition.js';
import { diskWith } from '../support/disk.js';
import { gate, until } from '../support/waiting.js';

const animal = '{"name":"a","categoryId":1}';

async function scrape(port: number): Promise<ReadonlyMap<string, Family>> {
  const answer = await ask(port, 'GET', '/metrics', { authorization: null });
  assert.equal(answer.status, 200, answer.body);
  assert.equal(header(answer, 'Content-Type'), 'text/plain; version=0.0.4; charset=utf-8');
  return readExposition(answer.body);
}

test('requests are counted by method, route and status, and timed; a client’s path, method or key is in no label', async (t) => {
  const { port } = await start(t, { plugins: [metricsPlugin()] });
  await add(port, animal);
  for (const path of [
    '/v1/pets/1',
    '/v1/pets/1',
    '/v1/%70ets/77',
    '/v1/pets/secret-id',
    '/secret-path',
    '/v1/pets?secret=1',
  ])
    await ask(port, 'GET', path);
  await ask(port, 'GET', '/v1/pets', { authorization: 'Bearer secret-key' });
  await ask(port, 'PROPFIND', '/v1/pets');
  const client = (await Client.connect(port)).send(bytesOf('SECRET', '/'));
  await client.answer();
  client.destroy();
  const answer = await ask(port, 'GET', '/metrics');
  assert.ok(!/secret|PROPFIND|key-1/i.test(answer.body));
  const families = await scrape(port);
  const requests = (method: string, route: string, status: number): number | undefined =>
    figureOf(families, 'http_requests_total', { method, route, status: String(status) });
  assert.equal(requests('POST', '/v1/pets', 201), 1);
  assert.equal(requests('GET', '/v1/pets/{petId}', 200), 2);
  assert.equal(requests('GET', '/v1/pets/{petId}', 404), 2);
  assert.equal(requests('GET', 'none', 404), 1);
  assert.equal(requests('GET', '/v1/pets', 200), 1);
  assert.equal(requests('GET', '/v1/pets', 401), 1);
  assert.equal(requests('other', '/v1/pets', 405), 1);
  assert.equal(requests('other', 'none', 501), 1);
  assert.equal(requests('GET', '/metrics', 200), 1);
  const durations = { method: 'GET', route: '/v1/pets/{petId}' };
  assert.equal(figureOf(families, 'http_request_duration_seconds_count', durations), 4);
  const seconds = figureOf(families, 'http_request_duration_seconds_sum', durations) ?? 0;
  assert.ok(seconds > 0 && seconds < 4);
  assert.equal(families.get('http_requests_total')?.type, 'counter');
  assert.equal(families.get('http_request_duration_seconds')?.type, 'histogram');
});

test('it says what the process does, the delay of its event loop included', async (t) => {
  const { port } = await start(t, { plugins: [metricsPlugin()] });
  const families = await scrape(port);
  for (const name of [
    'process_cpu_user_seconds_total',
    'process_resident_memory_bytes',
    'nodejs_eventloop_lag_p99_seconds',
    'nodejs_heap_size_used_bytes',
    'nodejs_version_info',
  ]) {
    assert.ok(families.has(name), name);
  }
  assert.ok((figureOf(families, 'process_resident_memory_bytes') ?? 0) > 2 ** 20);
});

test('animals held, the size of a commit, its sync and the queue behind it are those of the disk', async (t) => {
  const gates: ReturnType<typeof gate>[] = [];
  let isHeld = false;
  const disk = diskWith({
    datasync: async (descriptor) => {
      if (isHeld) await gates[gates.push(gate()) - 1]?.opened;
      await nodeDisk.datasync(descriptor);
    },
  });
  const { port, petstore } = await start(t, {
    storage: await fileStorage(newPath(), { disk }),
    plugins: [metricsPlugin()],
  });
  await add(port, animal);
  isHeld = true;
  const adding = [petstore.storage.insert({ name: 'b', categoryId: 1n })];
  await until('the sync', () => gates[0]);
  const heldFrom = performance.now();
  for (const name of ['c', 'd', 'e'])
    adding.push(petstore.storage.insert({ name, categoryId: 1n }));
  const during = await scrape(port);
  assert.equal(figureOf(during, 'petstore_commit_queue_pets'), 3);
  assert.equal(figureOf(during, 'petstore_pets'), 1);
  isHeld = false;
  const heldSeconds = (performance.now() - heldFrom) / 1000;
  gates[0]?.open();
  await Promise.all(adding);
  const after = await scrape(port);
  assert.equal(figureOf(after, 'petstore_commit_queue_pets'), 0);
  assert.equal(figureOf(after, 'petstore_pets'), 5);
  assert.equal(figureOf(after, 'petstore_commit_pets_count'), 3);
  assert.equal(figureOf(after, 'petstore_commit_pets_sum'), 5);
  assert.equal(figureOf(after, 'petstore_commit_pets_bucket', { le: '1' }), 2);
  assert.equal(figureOf(after, 'petstore_commit_sync_seconds_count'), 3);
  const seconds = figureOf(after, 'petstore_commit_sync_seconds_sum') ?? 0;
  assert.ok(seconds >= heldSeconds && seconds < 10, `${seconds} s, held for ${heldSeconds} s`);
});

test('a storage that says neither how much it holds nor when it commits has no such figures, and no zero in their place', async (t) => {
  const { insert, get, list, close } = memoryStorage();
  const { port } = await start(t, {
    storage: { durable: false, insert, get, list, close },
    plugins: [metricsPlugin()],
  });
  await add(port, animal);
  const families = await scrape(port);
  assert.deepEqual(
    [figureOf(families, 'petstore_pets'), figureOf(families, 'petstore_commit_queue_pets')],
    [undefined, undefined],
  );
  assert.equal(figureOf(families, 'http_requests_total', { method: 'POST' }), 1);
});

test('each of several petstores counts its own, also behind the other’s end', async (t) => {
  const [one, other] = [
    await start(t, { plugins: [metricsPlugin()] }),
    await start(t, { plugins: [metricsPlugin()] }),
  ];
  for (let count = 0; count < 3; count++) await ask(one.port, 'GET', '/v1/pets');
  await add(other.port, animal);
  assert.equal(figureOf(await scrape(other.port), 'http_requests_total', { route: '/v1/pets' }), 1);
  await other.petstore.close();
  const families = await scrape(one.port);
  assert.equal(figureOf(families, 'http_requests_total', { route: '/v1/pets' }), 3);
  assert.equal(figureOf(families, 'petstore_pets'), 0);
});

test('the process: --plugin metrics serves them for its own storage; a missing library is one line, exit 2', async (t) => {
  const cwd = folder(t);
  const server = await startServer(t, ['--plugin', 'metrics'], { cwd });
  await Promise.all(['a', 'b', 'c'].map((name) => server.add(name)));
  const families = readExposition(await (await fetch(`${server.url}/metrics`)).text());
  assert.equal(figureOf(families, 'petstore_pets'), 3);
  assert.equal(figureOf(families, 'petstore_commit_pets_sum'), 3);
  const env = {
    PORT: '0',
    PETSTORE_API_KEYS: 'a',
    PETSTORE_STORAGE: 'memory:',
    PETSTORE_PLUGINS: 'metrics',
  };
  assertRefused(
    await serverWithoutLibraries(t).run([], { cwd, env }),
    2,
    /^PETSTORE_PLUGINS metrics needs a package that is not installed: npm install prom-client@15$/m,
  );
});
