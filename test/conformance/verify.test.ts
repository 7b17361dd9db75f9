/** The command `verify`, and the petstore in another language that the documents name. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { assertRefused, folder, freePort, root, runServer } from '../support/process.js';
import { key, startWrong } from './wrong-server.js';

/** The port of a service that nobody runs. */
const closedUrl = 'http://127.0.0.1:9';

test('verify of a server that is right prints a line for each number and a sum, and exits by 0, twice on one store', async (t) => {
  const url = await startWrong(t, {});
  for (let count = 0; count < 2; count++) {
    const { code, stdout, stderr } = await runServer(['verify', url, '--key', key], {
      cwd: folder(t),
    });
    assert.deepEqual([code, stderr], [0, '']);
    assert.match(stdout, /^ {2}✔ C10 an id that is no canonical int64 is 404$/m);
    assert.match(stdout, /^ {2}- C35 .* \(its clock is before the sunset of .*\)$/m);
    assert.match(stdout, /^ {2}9 of 9 hold +Listing$/m);
    assert.match(stdout, /\n {2}(\d+) of (\d+) hold, 1 not tried +all\n$/);
  }
});

test('verify of a server that is wrong says what was sent, what came and what it costs, and exits by 1', async (t) => {
  const url = await startWrong(t, {
    answer: (bytes) => bytes.replace('9223372036854775807', '9223372036854775808'),
  });
  const args = ['verify', url, '--key', key, '--level', 'specification'];
  const { code, stdout } = await runServer(args, { cwd: folder(t) });
  assert.equal(code, 1);
  assert.match(
    stdout,
    /^ {2}✖ C23 int64 exact: sent 9223372036854775807, got 9223372036854775808, not 9223372036854775807$/m,
  );
  assert.match(stdout, /^ {6}what it costs: ids past 2\^53 silently become/m);
  assert.match(stdout, /1 failed +all\n$/);
  assert.doesNotMatch(stdout, / C1 /, 'a rule of a higher level');

  const json = await runServer([...args, '--format', 'json'], { cwd: folder(t) });
  assert.equal(json.code, 1);
  const { passed, failed, untried, verdicts } = JSON.parse(json.stdout);
  assert.deepEqual([failed, untried, verdicts.length], [1, 0, passed + 1]);
  const verdict = verdicts.find(({ number }: { number: string }) => number === 'C23');
  assert.equal(verdict.outcome, 'failed');
  assert.match(verdict.failure.sentBytes, /^POST \/v1\/pets HTTP\/1\.1\r\n/);
});

test('verify refuses in one line what it cannot try: no server, a wrong key, another base path, bad options', async (t) => {
  const url = await startWrong(t, {});
  const cwd = folder(t);
  for (const [args, message] of [
    [[closedUrl, '--key', key], /^no server answers at http:\/\/127\.0\.0\.1:9\/ \(.*\); start it/],
    [[url, '--key', 'wrong'], /refuses the key \(GET \/v1\/pets is 401\); give one that it takes/],
    [[`${url}/v2`, '--key', key], /\(GET \/v2\/pets is 404\); give its base path in URL/],
    [[url], /^`verify` needs --key KEY/],
    [[], /^`verify` needs one URL, such as/],
    [['ftp://a', '--key', key], /^URL must be an address such as .*, not "ftp:\/\/a"/],
    [[`${url}/v1?limit=1`, '--key', key], /^URL must be an address/],
    [[url.replace('//', '//user:secret@'), '--key', key], /^URL must be an address/],
    [[url, '--key', key, '--level', 'all'], /^--level must be one of specification, http, full/],
    [[url, '--key', 'a b'], /^--key must be an API key/],
  ] as const)
    assertRefused(await runServer(['verify', ...args], { cwd }), 2, message);
});

/** Why the test is left out, or false; where PETSTORE_TEST_NO_SKIP is 1 it fails instead. */
const withoutPython =
  process.env['PETSTORE_TEST_NO_SKIP'] === '1' || spawnSync('python3', ['--version']).status === 0
    ? false
    : 'Python is not installed';

test('a petstore in Python, of what the specification says alone, passes that level and is named where it goes no further', {
  skip: withoutPython,
}, async (t) => {
  const port = await freePort();
  const file = join(root, 'test/conformance/petstore.py');
  const python = spawn('python3', [file, key, port], { stdio: 'ignore' });
  atEnd(t, () => void python.kill());
  await once(python, 'spawn');

  const url = `http://127.0.0.1:${port}`;
  const cwd = folder(t);
  const verify = (level: string) =>
    runServer(['verify', url, '--key', key, '--level', level], { cwd });
  while ((await verify('specification')).code === 2) assert.equal(python.exitCode, null);

  assert.equal((await verify('specification')).code, 0);
  const { code, stdout } = await verify('http');
  assert.equal(code, 1);
  assert.deepEqual(
    Array.from(stdout.matchAll(/✖ (\w+) /g), ([, number]) => number),
    ['C9', 'C12', 'C15', 'C16', 'C30', 'C36', 'C38', 'C42'],
  );
});
