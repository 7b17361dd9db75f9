// What clients are built against: --seed, --clock and the faults plugin of the process, and a
// memory storage that begins with animals.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { memoryStorage, petStatuses } from '../../dist/index.js';
import { apiKey, root, type StartedServer } from '../support/process.js';
import { until } from '../support/waiting.js';
import { WorkingFolder } from '../support/working-folder.js';

const sample = join(root, 'data/animals.jsonl');
const samples = readFileSync(sample, 'utf8').trimEnd().split('\n');

const textOf = async (server: StartedServer, path: string): Promise<string> =>
  (await server.get(path, apiKey)).text();
const post = (
  server: StartedServer,
  headers: Readonly<Record<string, string>>,
): Promise<Response> =>
  fetch(`${server.url}/v1/pets`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json', ...headers },
    body: '{"name":"Rex","categoryId":5}',
  });

describe('--seed', { concurrency: 4 }, () => {
  test('an empty memory storage begins with the animals of the file, at every start', async (t) => {
    const here = new WorkingFolder(t);
    for (let count = 0; count < 2; count++) {
      const server = await here.start(['--storage', 'memory:', '--seed', sample]);
      const { pets } = await server.said('listening');
      assert.equal(pets, samples.length);
      const last = await textOf(server, `/v1/pets/${samples.length}`);
      assert.equal(last, samples.at(-1)?.replace('{', `{"id":${samples.length},`));
      assert.equal((await server.said('seeded'))['pets'], samples.length);
      assert.equal((await post(server, {})).status, 201);
      assert.equal((await server.end()).code, 0);
    }
  });

  test('a file storage begins with them once; one that holds animals is left as it is, and the log says so', async (t) => {
    const here = new WorkingFolder(t, {
      'two.jsonl': '{"name":"a","categoryId":1}\n\n{"name":"b","categoryId":2,"status":"sold"}\n',
    });
    const env = { PETSTORE_SEED: 'two.jsonl' };
    const first = await here.start('', env);
    const both =
      '[{"id":1,"name":"a","categoryId":1},{"id":2,"name":"b","categoryId":2,"status":"sold"}]';
    assert.equal(await textOf(first, '/v1/pets'), both);
    await first.end('SIGKILL');
    const second = await here.start('', env);
    assert.equal(await textOf(second, '/v1/pets'), both);
    assert.equal((await second.said('not seeded: the storage holds animals'))['file'], 'two.jsonl');
  });

  test('a file that is bad or not there refuses the start in one line, and nothing is made', async (t) => {
    const here = new WorkingFolder(t, {
      'bad.jsonl': `${samples[0]}\n{"name":5,"categoryId":1}\n`,
    });
    await here.refuses('--seed bad.jsonl', 2, /^bad\.jsonl line 2: name must be a string/);
    await here.refuses(
      '--seed none.jsonl',
      2,
      /^none\.jsonl cannot be read .*; name a file of JSON Lines/,
    );
    assert.ok(!existsSync(here.at('data')));
  });
});

describe('--clock', { concurrency: 4 }, () => {
  test('the deprecated route is there until its last second, and 404 after it', async (t) => {
    const args = [
      '--storage',
      'memory:',
      '--seed',
      sample,
      '--clock',
      '2030-12-06T00:59:58.5+01:00',
    ];
    const server = await new WorkingFolder(t).start(args);
    const { level, now } = await server.said('the clock is set: this is not the time');
    assert.equal(level, 'warn');
    assert.match(String(now), /^2030-12-0[56]T/);
    // It runs on from there: the answer changes while we ask.
    await until(
      'the end of the route',
      async () => (await server.get('/v1/pets/1', apiKey)).status === 404,
    );
    assert.equal((await server.get('/v1/pets', apiKey)).status, 200);
    const early = await new WorkingFolder(t).start(['--storage', 'memory:', '--seed', sample], {
      PETSTORE_CLOCK: '2030-12-05T20:00:00Z',
    });
    assert.equal((await early.get('/v1/pets/1', apiKey)).status, 200);
  });

  test('with a storage that lasts, or for what is no time, the start is refused with 2', async (t) => {
    const here = new WorkingFolder(t);
    await here.refuses(
      '--clock 2030-12-05T23:59:50Z',
      2,
      /^--clock would leave wrong times in file:data\/pets\.jsonl; use it with --storage memory: alone/,
    );
    for (const time of [
      'tomorrow',
      '2030-12-05',
      '2030-02-30T00:00:00Z',
      '2030-12-05T24:00:01Z',
      '1969-12-31T23:59:59Z',
      '2030-12-05 23:59:50',
    ]) {
      await here.refuses(
        ['--storage', 'memory:', `--clock=${time}`],
        2,
        /^--clock must be a time of RFC 3339 from 1970 on, such as 2030-12-05T23:59:50Z/,
      );
    }
    assert.ok(!existsSync(here.at('data')));
  });
});

test('--plugin faults: a 503 after the animal was kept, and a retry with its Idempotency-Key adds nothing', async (t) => {
  const server = await new WorkingFolder(t).start('--storage memory: --plugin faults');
  const failed = await post(server, {
    'Idempotency-Key': 'a',
    'Petstore-Fault': 'status=503,after',
  });
  assert.deepEqual([failed.status, failed.headers.get('Retry-After')], [503, '1']);
  assert.equal((await post(server, { 'Idempotency-Key': 'a' })).status, 201);
  assert.equal(await textOf(server, '/v1/pets'), '[{"id":1,"name":"Rex","categoryId":5}]');
});

test('memoryStorage({ pets }) begins with them as 1, 2, 3 …, and refuses what is no animal or no option', async () => {
  const drafts = petStatuses.map((status, index) => ({
    name: status,
    categoryId: BigInt(index),
    status,
  }));
  const storage = memoryStorage({ pets: new Set(drafts) });
  assert.deepEqual(
    await storage.list({ limit: 9 }),
    drafts.map((draft, index) => ({ id: BigInt(index + 1), ...draft })),
  );
  assert.equal((await storage.insert({ name: 'a', categoryId: 1n })).id, 4n);
  assert.throws(() => memoryStorage({ pets: [Object({ name: 'a', categoryId: 1 })] }), TypeError);
  assert.throws(
    () => memoryStorage(Object({ animals: [] })),
    /option of memoryStorage animals is unknown/,
  );
});

test('C63 C64 reset: the seed and the clock begin anew; Date and the times of the log are of the clock', async (t) => {
  const words = ['--storage', 'memory:', '--plugin', 'faults', '--seed', sample];
  const clock = ['--clock', '2030-12-05T23:59:59Z'];
  const server = await new WorkingFolder(t).start([...words, ...clock]);
  const { time } = await server.said('listening');
  assert.match(String(time), /^2030-12-0(5T23:59:59|6T00)/);

  const ask = async (method: string, path: string): Promise<Response> =>
    fetch(`${server.url}${path}`, { method, headers: { Authorization: `Bearer ${apiKey}` } });
  // The deprecated route ends by the clock, and with it the day of the header.
  await until('the end of the route', async () => (await ask('GET', '/v1/pets/1')).status === 404);
  assert.match((await ask('GET', '/v1/pets')).headers.get('Date') ?? '', /^Fri, 06 Dec 2030 00:/);
  assert.equal((await post(server, {})).status, 201);

  const reset = await ask('POST', '/v1/reset');
  assert.equal(reset.status, 204);
  assert.match(reset.headers.get('Date') ?? '', /^Thu, 05 Dec 2030 23:59:59 GMT$/);
  assert.equal((await ask('GET', `/v1/pets?after=${samples.length}`)).headers.get('Link'), null);
  assert.equal(await textOf(server, `/v1/pets?after=${samples.length}`), '[]');
});

test('C63 a storage that lasts has no reset', async (t) => {
  const server = await new WorkingFolder(t).start('--plugin faults');
  const answer = await fetch(`${server.url}/v1/reset`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${apiKey}` },
  });
  assert.equal(answer.status, 404);
});
