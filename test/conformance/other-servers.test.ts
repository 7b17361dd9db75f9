// Tests of `verify` on servers that break more than one rule or only rules of a higher level, and on
// a petstore in another language.
import '../support/unmeasured.js';
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { verifyPetstore, type Level } from '../../dist/conformance/index.js';
import { atEnd } from '../support/at-end.js';
import { Client } from '../support/client.js';
import { childEnvironment, isSkipForbidden } from '../support/environment.js';
import { key } from '../support/fixture.js';
import { freePort, root } from '../support/process.js';
import { until } from '../support/waiting.js';
import { inRequests, withoutHeader } from './servers/wrong-proxies.js';
import { numbersOf, verdictsOf } from './verdicts.js';
import { startWrong } from './wrong-server.js';

/** Returns the numbers of the rules that fail. */
const failedRules = async (url: string, level: Level) =>
  numbersOf(await verdictsOf(url, { level }), 'failed');

test('verify does not try the rules after a rule that ends the server', async (t) => {
  let isOver = false;
  const url = await startWrong(t, {
    request: (bytes) => {
      isOver ||= /^GET \/v1\/pets\/% /.test(bytes);
      return bytes;
    },
    response: (bytes) => (isOver ? 'over\r\n\r\n' : bytes),
  });

  const reasons = new Set<string>();
  const failed: string[] = [];
  for await (const { number, outcome, reason } of verifyPetstore({ url, key })) {
    if (outcome === 'failed') failed.push(number);
    else if (failed.length > 0) reasons.add(reason ?? outcome);
  }
  assert.deepEqual(failed, ['C12']);
  assert.deepEqual([...reasons], ['the server no longer responds since the check of C12']);
});

test('verify uses no base path if the path of the URL is //', async (t) => {
  const url = await startWrong(t, inRequests(/^(GET|POST) \/pets/g, '$1 /v1/pets'));
  assert.deepEqual(await failedRules(`${url}//`, 'specification'), []);
});

test('verify checks no rules of a higher level', async (t) => {
  const url = await startWrong(t, withoutHeader('(?:Date|Cache-Control)'));
  assert.deepEqual(await failedRules(url, 'specification'), []);
  assert.deepEqual(await failedRules(url, 'http'), ['C64']);
});

/** The reason to skip the test, or false. With PETSTORE_TEST_NO_SKIP=1 the test fails instead. */
const withoutPython =
  isSkipForbidden || spawnSync('python3', ['--version']).status === 0
    ? false
    : 'Python is not installed';

test('verify passes a petstore in Python at the level `specification`, and lists its gaps at `http`', {
  skip: withoutPython,
}, async (t) => {
  const port = await freePort();
  const file = join(root, 'test/conformance/petstore.py');
  const python = spawn('python3', [file, key, port], { env: childEnvironment(), stdio: 'ignore' });
  atEnd(t, () => void python.kill());
  await until('Python', () =>
    Client.connect(Number(port)).then(
      (client) => (client.destroy(), true),
      () => (assert.equal(python.exitCode, null), false),
    ),
  );

  const url = `http://127.0.0.1:${port}`;
  assert.deepEqual(await failedRules(url, 'specification'), []);
  const gaps = ['C9', 'C16', 'C36', 'C38', 'C42'];
  assert.deepEqual(await failedRules(url, 'http'), gaps);
});
