// Tests the metrics plugin: what Prometheus reads, and the storage's metrics on a disk whose syncs
// the test delays.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { fileStorage } from '../../dist/index.js';
import { metricsPlugin } from '../../dist/plugins/metrics.js';
import { add, start } from '../support/fixture.js';
import { petJson, expectResponse, noKey, plainStorage } from '../support/scenes.js';
import { assertRefused, folder, startServer } from '../support/process.js';
import { newPath } from '../storage/scene.js';
import { nodeDisk } from '../../dist/journal/index.js';
import { serverWithoutLibraries } from './bare.js';
import { readExposition, sampleValue, type Family } from './exposition.js';
import { diskWith } from '../support/disk.js';
import { gate } from '../support/waiting.js';

const plugins = [metricsPlugin()];

/** Returns the value of the sample with a name and labels. */
type Values = (
  name: string,
  labels?: Readonly<Record<string, string>>,
) => ReturnType<typeof sampleValue>;

/** Requests and parses the metrics. */
async function scrape(port: number): Promise<readonly [Values, ReadonlyMap<string, Family>]> {
  const expectedHeaders = { 'Content-Type': 'text/plain; version=0.0.4; charset=utf-8' };
  const { body } = await expectResponse(port, 'GET /metrics', 200, noKey, expectedHeaders);
  assert.ok(!/secret|PROPFIND|key-1/i.test(body));
  const families = readExposition(body);
  return [(name, labels) => sampleValue(families, name, labels), families];
}

test('metrics count and time requests by method, route and status, never by path or key', async (t) => {
  const { port } = await start(t, { plugins });
  const from = performance.now();
  await add(port, petJson);
  for (const [request, status, parts] of [
    ['GET /v1/pets/1', 200],
    ['GET /v1/pets/1', 200],
    ['GET /v1/%70ets/77', 404],
    ['GET /v1/pets/secret-id', 404],
    ['GET /secret-path', 404],
    ['GET /v1/pets?secret=1', 200],
    ['GET /v1/pets', 401, { authorization: 'Bearer secret-key' }],
    ...['PUT', 'PATCH', 'DELETE', 'PROPFIND'].map((name) => [`${name} /v1/pets`, 405] as const),
    ['HEAD /v1/pets', 200],
    ['OPTIONS /v1/pets', 204],
    ['SECRET /', 501],
    ['GET /metrics', 200],
  ] as const)
    await expectResponse(port, request, status, parts);
  const [value, families] = await scrape(port);
  for (const [method, route, status, count] of [
    ['POST', '/v1/pets', '201', 1],
    ['GET', '/v1/pets/{petId}', '200', 2],
    ['GET', '/v1/pets/{petId}', '404', 2],
    ['GET', 'none', '404', 1],
    ['GET', '/v1/pets', '200', 1],
    ['GET', '/v1/pets', '401', 1],
    ...['PUT', 'PATCH', 'DELETE', 'other'].map((method) => [method, '/v1/pets', '405', 1] as const),
    ['HEAD', '/v1/pets', '200', 1],
    ['OPTIONS', '/v1/pets', '204', 1],
    ['other', 'none', '501', 1],
    ['GET', '/metrics', '200', 1],
  ] as const)
    assert.equal(value('http_requests_total', { method, route, status }), count, route);
  const durations = { method: 'GET', route: '/v1/pets/{petId}' };
  assert.equal(value('http_request_duration_seconds_count', durations), 4);
  const seconds = value('http_request_duration_seconds_sum', durations) ?? 0;
  const elapsedSeconds = (performance.now() - from) / 1000;
  assert.ok(seconds > 0 && seconds < elapsedSeconds, `${seconds} of ${elapsedSeconds} s`);
  assert.equal(families.get('http_requests_total')?.type, 'counter');
  assert.equal(families.get('http_request_duration_seconds')?.type, 'histogram');
});

test('metrics include those of the process, such as the lag of the event loop', async (t) => {
  const [value, families] = await scrape((await start(t, { plugins })).port);
  for (const name of [
    'process_cpu_user_seconds_total',
    'process_resident_memory_bytes',
    'nodejs_eventloop_lag_p99_seconds',
    'nodejs_heap_size_used_bytes',
    'nodejs_version_info',
  ])
    assert.ok(families.has(name), name);
  assert.ok((value('process_resident_memory_bytes') ?? 0) > 2 ** 20);
});

test('metrics show the stored pets, the size and time of commits, and the queue', async (t) => {
  const [syncing, mayEnd] = [gate(), gate()];
  let isHeld = false;
  const datasync = async (descriptor: number): Promise<void> => {
    if (isHeld) {
      isHeld = false;
      syncing.open();
      await mayEnd.opened;
    }
    await nodeDisk.datasync(descriptor);
  };
  const storage = await fileStorage(newPath(), { disk: diskWith({ datasync }) });
  const { port } = await start(t, { storage, plugins });
  const from = performance.now();
  await add(port, petJson);
  isHeld = true;
  const insert = (name: string) => storage.insert({ name, categoryId: 1n });
  const adding = [insert('b')];
  await syncing.opened;
  const heldFrom = performance.now();
  for (const name of ['c', 'd', 'e']) adding.push(insert(name));
  const [during] = await scrape(port);
  assert.equal(during('petstore_commit_queue_pets'), 3);
  assert.equal(during('petstore_pets'), 1);
  const heldSeconds = (performance.now() - heldFrom) / 1000;
  mayEnd.open();
  await Promise.all(adding);
  const [after] = await scrape(port);
  for (const [name, value, labels] of [
    ['queue_pets', 0],
    ['pets_count', 3],
    ['pets_sum', 5],
    ['pets_bucket', 2, { le: '1' }],
    ['sync_seconds_count', 3],
  ] as const)
    assert.equal(after(`petstore_commit_${name}`, labels), value, name);
  assert.equal(after('petstore_pets'), 5);
  const seconds = after('petstore_commit_sync_seconds_sum') ?? 0;
  const elapsedSeconds = (performance.now() - from) / 1000;
  assert.ok(
    seconds >= heldSeconds && seconds < elapsedSeconds,
    `${seconds} of ${elapsedSeconds} s, ${heldSeconds} s held`,
  );
});

test('metrics leave out values that the storage does not know', async (t) => {
  const { port } = await start(t, { storage: plainStorage(), plugins });
  await add(port, petJson);
  const [value] = await scrape(port);
  for (const name of ['petstore_pets', 'petstore_commit_queue_pets'])
    assert.equal(value(name), undefined);
  assert.equal(value('http_requests_total', { method: 'POST' }), 1);
});

test('each petstore counts its own requests, also after another petstore closed', async (t) => {
  const [one, other] = [await start(t, { plugins }), await start(t, { plugins })];
  for (let count = 0; count < 3; count++) await expectResponse(one.port, 'GET /v1/pets', 200);
  await add(other.port, petJson);
  const route = { route: '/v1/pets' };
  const [ofOther] = await scrape(other.port);
  assert.equal(ofOther('http_requests_total', route), 1);
  await other.petstore.close();
  const [value] = await scrape(one.port);
  assert.equal(value('http_requests_total', route), 3);
  assert.equal(value('petstore_pets'), 0);
});

test('C88 metrics with a registry count only requests without a store', async (t) => {
  const shared = [metricsPlugin({ registry: new Registry() })];
  const { port } = await start(t, { keys: ['a', 'b'], isolate: true, plugins: shared });
  for (const key of ['a', 'b'])
    await expectResponse(port, 'GET /v1/pets', 200, { authorization: `Bearer ${key}` });
  await expectResponse(port, 'GET /v1/pets', 401, noKey);
  const [value] = await scrape(port);
  const list = { method: 'GET', route: '/v1/pets' };
  assert.equal(value('http_requests_total', { ...list, status: '200' }), undefined);
  assert.equal(value('http_requests_total', { ...list, status: '401' }), 1);
  // The owner of the registry may collect the metrics of the process.
  assert.equal(value('process_cpu_user_seconds_total'), undefined);
});

test('--plugin metrics serves metrics, or exits with 2 and one line without its library', async (t) => {
  const cwd = folder(t);
  const server = await startServer(t, ['--plugin', 'metrics'], { cwd });
  await Promise.all(['a', 'b', 'c'].map((name) => server.add(name)));
  const families = readExposition(await (await fetch(`${server.url}/metrics`)).text());
  assert.equal(sampleValue(families, 'petstore_pets'), 3);
  assert.equal(sampleValue(families, 'petstore_commit_pets_sum'), 3);
  const env = { PORT: '0', PETSTORE_API_KEYS: 'a', PETSTORE_PLUGINS: 'metrics' };
  assertRefused(
    await serverWithoutLibraries(t).run(['--storage', 'memory:'], { cwd, env }),
    2,
    /^PETSTORE_PLUGINS metrics needs a package that is not installed: npm install prom-client@15$/m,
  );
});
