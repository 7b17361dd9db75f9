// Tests the stories of `verify`: random requests of several clients, compared with a model.
import '../support/unmeasured.js';
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { verifyPetstore, type Verdict } from '../../dist/conformance/index.js';
import { command } from '../support/command.js';
import { key, start } from '../support/fixture.js';
import { assertRefused, root } from '../support/process.js';
import {
  PlainPetstore,
  startPlain,
  type PlainPetstore as Petstore,
} from './servers/plain-petstore.js';
import { rightPetstores } from './servers/right-petstores.js';
import { subtlePetstores } from './servers/subtle-petstores.js';
import { startWrong } from './wrong-server.js';

/** Returns the verdicts of the rules that the stories or the checks have broken. */
async function brokenBy(
  options: Parameters<typeof verifyPetstore>[0],
): Promise<readonly Verdict[]> {
  const broken: Verdict[] = [];
  for await (const verdict of verifyPetstore(options))
    if (verdict.outcome === 'failed') broken.push(verdict);
  return broken;
}

/** Returns a petstore whose filters miss pets that were added at the same time. */
function racingPetstore(): Petstore {
  const wrong = subtlePetstores.find(({ does }) => does.includes('added at the same time'));
  return wrong?.make() ?? assert.fail('there is no such petstore');
}

test('stories find a fault of several clients, and shorten it', async (t) => {
  const url = await startPlain(t, racingPetstore());
  const [verdict, ...others] = await brokenBy({ url, key, level: 'specification', seed: 7 });
  assert.deepEqual([verdict?.number, others], ['C7', []]);
  const { sent = '', expected = '', command: line = '' } = verdict?.failure ?? {};
  assert.match(
    sent,
    /^GET \/v1\/pets\?.*status=.* \(story \d+ of seed 7, shortened to 2 of \d+ requests\)$/,
  );
  assert.match(expected, /^the pet \d+, "verify .*", which was added before$/);
  const [round = '', list = '', ...rest] = line.split('\n');
  assert.deepEqual(rest, []);
  assert.match(round, /^\(curl .* -d?.* & curl .* & wait\)$/);
  assert.match(list, /^curl .*\$PETSTORE_KEY.*status=/);

  const other = await startPlain(t, racingPetstore());
  assert.deepEqual(await brokenBy({ url: other, key, level: 'specification', stories: 0 }), []);
});

/** Returns the requests of the stories of a seed. Those of a round may arrive in any order. */
async function requestsOf(t: TestContext, seed: number): Promise<readonly string[]> {
  const petstore = new PlainPetstore();
  const requests: string[] = [];
  petstore.handle = (request) => {
    const { method, path, query } = request;
    requests.push(`${method} ${path.replace(/\d+$/, 'ID')}?${query}`);
    return PlainPetstore.prototype.handle.call(petstore, request);
  };
  const url = await startPlain(t, petstore);
  assert.deepEqual(
    await brokenBy({ url, key, level: 'specification', only: ['S1'], stories: 3, seed }),
    [],
  );
  return requests.sort();
}

test('stories of one seed have the same requests', async (t) => {
  const requests = await requestsOf(t, 7);
  assert.deepEqual(await requestsOf(t, 7), requests);
  assert.notDeepEqual(await requestsOf(t, 8), requests);
});

test('stories find an idempotency key that is forgotten at times (C57)', async (t) => {
  const only = ['C57', 'C6', 'C5', 'S1', 'S2', 'C7', 'C30', 'C31', 'C34'];
  let adds = 0;
  const url = await startWrong(t, {
    // Of many keys, the second use of one is forgotten.
    request: (bytes) =>
      /^POST .*\r\nIdempotency-Key: [\da-f-]{36}\r\n/s.test(bytes) && ++adds % 9 === 0
        ? bytes.replace(/Idempotency-Key: .*\r\n/, '')
        : bytes,
  });
  const [verdict, ...others] = await brokenBy({ url, key, only });
  assert.deepEqual([verdict?.number, others], ['C57', []]);
});

for (const is of ['lists the newest pet first', 'has random ids of 63 bits', 'has unique names'])
  test(`60 stories pass a petstore that ${is}`, async (t) => {
    const right = rightPetstores.find((each) => each.is === is) ?? assert.fail(is);
    const options = { key, stories: 60, only: ['S1', 'C7', 'C30', 'C31', 'C34'] };
    const url = await right.start(t);
    assert.deepEqual(await brokenBy({ ...options, url, level: 'http' }), []);
  });

test('stories pass while another client adds pets, and on a server with many pets', async (t) => {
  const petstore = new PlainPetstore();
  for (let id = 1; id <= 300; id++)
    petstore.pets.push({ id: `${id}`, name: `${id}`, categoryId: '1', status: 'sold' });
  const url = await startPlain(t, petstore);
  const adding = setInterval(() => {
    petstore.pets.push({
      id: petstore.nextId(),
      name: 'other',
      categoryId: '1',
      status: 'pending',
    });
  }, 2);
  t.after(() => clearInterval(adding));
  assert.deepEqual(await brokenBy({ url, key, level: 'http', stories: 40 }), []);
});

test('verify prints the number and the seed of its stories', async (t) => {
  const { port } = await start(t);
  const args = ['verify', `http://127.0.0.1:${port}`, '--key', key, '--only', 'S1,C57'];
  const run = (...more: readonly string[]) => command([...args, ...more], { cwd: root });

  const { code, stdout } = await run('--stories', '3', '--seed', '42');
  assert.equal(code, 0, stdout);
  assert.match(stdout, /^stories: 3, with --seed 42$/m);
  assert.match((await run('--thorough')).stdout, /^stories: 200, with --seed \d+$/m);
  const { stories, seed } = JSON.parse((await run('--seed', '9', '--format', 'json')).stdout);
  assert.deepEqual([stories, seed], [20, 9]);
  for (const format of ['junit', 'markdown'])
    assert.match((await run('--seed', '9', '--format', format)).stdout, /with --seed 9\b/);

  assertRefused(
    await run('--stories', '-1'),
    2,
    /^--stories must be a whole number from 0 to 10000/,
  );
  assertRefused(await run('--seed', 'x'), 2, /^--seed must be a whole number from 0 to 4294967295/);
});
