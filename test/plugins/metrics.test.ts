/**
 * The metrics plugin: what Prometheus reads, read by its grammar; the storage's figures on a disk
 * whose syncs we hold.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileStorage } from '../../dist/index.js';
import { metricsPlugin } from '../../dist/plugins/metrics.js';
import { add, start } from '../support/fixture.js';
import { animal, expectAnswer, noKey, plainStorage } from '../support/scenes.js';
import { assertRefused, folder, startServer } from '../support/process.js';
import { newPath } from '../storage/scene.js';
import { nodeDisk } from '../../dist/journal/index.js';
import { serverWithoutLibraries } from './bare.js';
import { readExposition, figureOf, type Family } from './exposition.js';
import { diskWith } from '../support/disk.js';
import { gate } from '../support/waiting.js';

const plugins = [metricsPlugin()];

/** What is read of the figures: one of a name and labels. */
type Figures = (
  name: string,
  labels?: Readonly<Record<string, string>>,
) => ReturnType<typeof figureOf>;

async function scrape(port: number): Promise<readonly [Figures, ReadonlyMap<string, Family>]> {
  const told = { 'Content-Type': 'text/plain; version=0.0.4; charset=utf-8' };
  const { body } = await expectAnswer(port, 'GET /metrics', 200, noKey, told);
  assert.ok(!/secret|PROPFIND|key-1/i.test(body));
  const families = readExposition(body);
  return [(name, labels) => figureOf(families, name, labels), families];
}

test('requests are counted by method, route and status, and timed; a client’s path, method or key is in no label', async (t) => {
  const { port } = await start(t, { plugins });
  await add(port, animal);
  for (const [request, status, words] of [
    ['GET /v1/pets/1', 200],
    ['GET /v1/pets/1', 200],
    ['GET /v1/%70ets/77', 404],
    ['GET /v1/pets/secret-id', 404],
    ['GET /secret-path', 404],
    ['GET /v1/pets?secret=1', 200],
    ['GET /v1/pets', 401, { authorization: 'Bearer secret-key' }],
    ['PROPFIND /v1/pets', 405],
    ['SECRET /', 501],
    ['GET /metrics', 200],
  ] as const)
    await expectAnswer(port, request, status, words);
  const [figure, families] = await scrape(port);
  for (const [method, route, status, count] of [
    ['POST', '/v1/pets', '201', 1],
    ['GET', '/v1/pets/{petId}', '200', 2],
    ['GET', '/v1/pets/{petId}', '404', 2],
    ['GET', 'none', '404', 1],
    ['GET', '/v1/pets', '200', 1],
    ['GET', '/v1/pets', '401', 1],
    ['other', '/v1/pets', '405', 1],
    ['other', 'none', '501', 1],
    ['GET', '/metrics', '200', 1],
  ] as const)
    assert.equal(figure('http_requests_total', { method, route, status }), count, route);
  const durations = { method: 'GET', route: '/v1/pets/{petId}' };
  assert.equal(figure('http_request_duration_seconds_count', durations), 4);
  const seconds = figure('http_request_duration_seconds_sum', durations) ?? 0;
  assert.ok(seconds > 0 && seconds < 4);
  assert.equal(families.get('http_requests_total')?.type, 'counter');
  assert.equal(families.get('http_request_duration_seconds')?.type, 'histogram');
});

test('it says what the process does, the delay of its event loop included', async (t) => {
  const [figure, families] = await scrape((await start(t, { plugins })).port);
  for (const name of [
    'process_cpu_user_seconds_total',
    'process_resident_memory_bytes',
    'nodejs_eventloop_lag_p99_seconds',
    'nodejs_heap_size_used_bytes',
    'nodejs_version_info',
  ])
    assert.ok(families.has(name), name);
  assert.ok((figure('process_resident_memory_bytes') ?? 0) > 2 ** 20);
});

test('animals held, the size of a commit, its sync and the queue behind it are those of the disk', async (t) => {
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
  await add(port, animal);
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
  assert.ok(seconds >= heldSeconds && seconds < 10, `${seconds} s, held for ${heldSeconds} s`);
});

test('a storage that says neither how much it holds nor when it commits has no such figures, and no zero in their place', async (t) => {
  const { port } = await start(t, { storage: plainStorage(), plugins });
  await add(port, animal);
  const [figure] = await scrape(port);
  for (const name of ['petstore_pets', 'petstore_commit_queue_pets'])
    assert.equal(figure(name), undefined);
  assert.equal(figure('http_requests_total', { method: 'POST' }), 1);
});

test('each of several petstores counts its own, also behind the other’s end', async (t) => {
  const [one, other] = [await start(t, { plugins }), await start(t, { plugins })];
  for (let count = 0; count < 3; count++) await expectAnswer(one.port, 'GET /v1/pets', 200);
  await add(other.port, animal);
  const route = { route: '/v1/pets' };
  const [ofOther] = await scrape(other.port);
  assert.equal(ofOther('http_requests_total', route), 1);
  await other.petstore.close();
  const [figure] = await scrape(one.port);
  assert.equal(figure('http_requests_total', route), 3);
  assert.equal(figure('petstore_pets'), 0);
});

test('the process: --plugin metrics serves them for its own storage; a missing library is one line, exit 2', async (t) => {
  const cwd = folder(t);
  const server = await startServer(t, ['--plugin', 'metrics'], { cwd });
  await Promise.all(['a', 'b', 'c'].map((name) => server.add(name)));
  const families = readExposition(await (await fetch(`${server.url}/metrics`)).text());
  assert.equal(figureOf(families, 'petstore_pets'), 3);
  assert.equal(figureOf(families, 'petstore_commit_pets_sum'), 3);
  const env = { PORT: '0', PETSTORE_API_KEYS: 'a', PETSTORE_PLUGINS: 'metrics' };
  assertRefused(
    await serverWithoutLibraries(t).run(['--storage', 'memory:'], { cwd, env }),
    2,
    /^PETSTORE_PLUGINS metrics needs a package that is not installed: npm install prom-client@15$/m,
  );
});
