// Tests the aids for developers of clients: --seed, --clock, resets, and memoryStorage with pets.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fileStorage, memoryStorage } from '../../dist/index.js';
import { readStorage } from '../../dist/cli/storages.js';
import { apiKey, folder, root, type StartedServer } from '../support/process.js';
import { until } from '../support/waiting.js';
import { testInFolder, testRefusal, testRefusals } from '../support/working-folder.js';

const sample = join(root, 'data/animals.jsonl');
const samples = readFileSync(sample, 'utf8').trimEnd().split('\n');

const seeded = ['--storage', 'memory:', '--seed', sample];

const resetOf = ({ url }: StartedServer): Promise<Response> =>
  fetch(`${url}/v1/reset`, { method: 'POST', headers: { Authorization: `Bearer ${apiKey}` } });

describe('--seed', { concurrency: 4 }, () => {
  testInFolder('an in-memory storage starts with the pets of the file', async (here) => {
    const server = await here.start(seeded);
    const last = await server.text(`/v1/pets/${samples.length}`);
    assert.equal(last, samples.at(-1)?.replace('{', `{"id":${samples.length},`));
    for (const line of ['listening', 'seeded'])
      assert.equal((await server.waitForLog(line))['pets'], samples.length, line);
  });

  testInFolder(
    'C63 adds the seed only to an empty storage file, which has no reset',
    {
      'two.jsonl': '{"name":"a","categoryId":1}\n\n{"name":"b","categoryId":2,"status":"sold"}\n',
    },
    async (here) => {
      const first = await here.start('PETSTORE_SEED=two.jsonl');
      const both =
        '[{"id":1,"name":"a","categoryId":1},{"id":2,"name":"b","categoryId":2,"status":"sold"}]';
      assert.equal(await first.text('/v1/pets'), both);
      await first.end('SIGKILL');
      const second = await here.start('PETSTORE_SEED=two.jsonl --plugin faults');
      assert.equal(await second.text('/v1/pets'), both);
      assert.equal(
        (await second.waitForLog('not seeded, because the storage already has pets'))['file'],
        'two.jsonl',
      );
      assert.equal((await resetOf(second)).status, 404);
    },
  );

  test('F12 adds no seed if another program has added pets since the file was empty', async (t) => {
    const path = join(folder(t), 'pets.jsonl');
    const named = await readStorage({ text: `file:${path}`, from: '--storage' });
    const first = await fileStorage(path);
    await first.insert({ name: 'other', categoryId: 1n });
    await first.close();

    const nothing = () => undefined;
    assert.equal(await named?.seed([{ name: 'seed', categoryId: 1n }], 'source', nothing), false);
    const second = await fileStorage(path);
    assert.deepEqual(
      (await second.list({ limit: 9 })).map(({ name }) => name),
      ['other'],
    );
    await second.close();
  });

  testRefusals(
    {
      // an invalid line
      '--seed bad.jsonl': /^bad\.jsonl line 2: name must be a string/,
      // a missing file
      '--seed none.jsonl': /^--seed none\.jsonl cannot be read .*; name a JSON Lines file/,
      // standard input
      '--seed -': /^--seed must be a file: "-"; write \.\/- for a file with this name/,
      'PETSTORE_SEED=-': /^PETSTORE_SEED must be a file/,
    },
    { 'bad.jsonl': `${samples[0]}\n{"name":5,"categoryId":1}\n` },
  );
});

describe('--clock', () => {
  testRefusal(
    '--clock 2030-12-05T23:59:50Z',
    /^--clock would leave wrong times in file:data\/pets\.jsonl; use it only with --storage memory:/,
  );
  for (const time of [
    'tomorrow',
    '2030-12-05',
    '2030-02-30T00:00:00Z',
    '2030-12-05T24:00:01Z',
    '1969-12-31T23:59:59Z',
    '2030-12-05 23:59:50',
    // the year 10000 in UTC
    '9999-12-31T23:59:59-01:00',
  ])
    testRefusal(
      ['--storage', 'memory:', `--clock=${time}`],
      /^--clock must be a time of RFC 3339 such as 2030-12-05T23:59:50Z, from 1970/,
    );

  testInFolder(
    'C63 C64 the clock of --clock ends the deprecated route, and a reset restarts clock and seed',
    async (here) => {
      const clock = '2030-12-06T00:59:58.5+01:00';
      const server = await here.start([...seeded, '--plugin', 'faults', '--clock', clock]);
      const { level, now, machine } = await server.waitForLog(
        'the clock is set by --clock and differs from the machine',
      );
      assert.equal(level, 'warn');
      assert.ok(Math.abs(Date.parse(String(machine)) - Date.now()) < 3_600_000, `${machine}`);
      for (const time of [now, (await server.waitForLog('listening'))['time']])
        assert.match(String(time), /^2030-12-0(5T23:59:5|6T00)/);

      // The clock passes midnight during the test.
      await until('the end of the route', async () => (await server.status('/v1/pets/1')) === 404);
      const after = await server.get('/v1/pets');
      assert.equal(after.status, 200);
      assert.match(after.headers.get('Date') ?? '', /^Fri, 06 Dec 2030 00:/);
      assert.equal((await server.add('Rex')).status, 201);

      const reset = await resetOf(server);
      assert.equal(reset.status, 204);
      assert.match(reset.headers.get('Date') ?? '', /^Thu, 05 Dec 2030 23:59:5[89] GMT$/);
      assert.equal(await server.text(`/v1/pets?after=${samples.length}`), '[]');

      const early = await here.start(['PETSTORE_CLOCK=2030-12-05T20:00:00Z', ...seeded]);
      assert.equal(await early.status('/v1/pets/1'), 200);
    },
  );
});

testInFolder(
  'C64 the clock of --clock stops at the end of the year 9999, and pets can still be added',
  async (here) => {
    const server = await here.start('--storage memory: --clock 9999-12-31T23:59:59.99Z');
    const lastTime = '9999-12-31T23:59:59.999Z';
    // The start takes longer than the ten milliseconds that are left.
    assert.equal((await server.add('Rex')).status, 201);
    const headers = {
      Authorization: `Bearer ${apiKey}`,
      'Content-Type': 'application/json',
      'Idempotency-Key': 'a',
    };
    const body = '{"name":"Tom","categoryId":1}';
    const add = () => fetch(`${server.url}/v1/pets`, { method: 'POST', headers, body });
    const first = await add();
    assert.match(first.headers.get('Date') ?? '', /^Fri, 31 Dec 9999 23:59:59 GMT$/);
    assert.deepEqual([first.status, await (await add()).text()], [201, await first.text()]);
    await server.stopCleanly();
    assert.equal(server.log.at(-1)?.['time'], lastTime);
  },
);

test('memoryStorage({ pets }) numbers its pets from 1, and rejects invalid pets and options', async () => {
  const rex = { name: 'Rex', categoryId: 1n };
  const tom = { name: 'Tom', categoryId: 2n, status: 'sold' } as const;
  const storage = memoryStorage({ pets: new Set([rex, tom]) });
  assert.deepEqual(await storage.list({ limit: 9 }), [
    { id: 1n, ...rex },
    { id: 2n, ...tom },
  ]);
  assert.equal((await storage.insert(rex)).id, 3n);
  assert.throws(() => memoryStorage({ pets: [Object({ name: 'a', categoryId: 1 })] }), TypeError);
  assert.throws(
    () => memoryStorage(Object({ animals: [] })),
    /option of memoryStorage animals is unknown/,
  );
});
