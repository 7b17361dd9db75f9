// Tests what the command `verify` prints, and its exit codes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { command } from '../support/command.js';
import { key, start } from '../support/fixture.js';
import { assertRefused, freePort, root } from '../support/process.js';
import { startWrong } from './wrong-server.js';

/** Runs `verify` with arguments. */
const verify = (...args: readonly string[]) => command(['verify', ...args], { cwd: root });

test('verify prints a line for each rule and exits with 0 if a server keeps all rules', async (t) => {
  const { port } = await start(t);
  const { code, stdout, stderr } = await verify(`http://127.0.0.1:${port}`, '--key', key);
  assert.deepEqual([code, stderr], [0, '']);
  for (const line of [
    /^ {2}✔ C10 an id that is not a canonical int64 is 404$/m,
    /^ {2}- C35 .* \(the clock of the server is before the sunset of .*\)$/m,
    /^ {2}9 of 9 hold +Listing$/m,
    /\n {2}(\d+) of (\d+) hold, 1 not tried +all\n$/,
  ])
    assert.match(stdout, line);
});

test('verify prints the evidence and the cost of a broken rule, and exits with 1', async (t) => {
  const url = await startWrong(t, {
    response: (bytes) => bytes.replace('9223372036854775807', '9223372036854775808'),
  });
  const args = [url, '--key', key, '--level', 'specification'];
  const { code, stdout } = await verify(...args);
  assert.equal(code, 1);
  for (const line of [
    /^ {2}✖ C23 an int64 is stored and returned exactly: sent 9223372036854775807, got 9223372036854775808, expected 9223372036854775807$/m,
    /^ {6}cost: ids past 2\^53 silently become/m,
    /1 failed +all\n$/,
  ])
    assert.match(stdout, line);
  assert.doesNotMatch(stdout, / C1 /, 'a rule of a higher level');

  const json = await verify(...args, '--format', 'json');
  assert.equal(json.code, 1);
  const { passed, failed, untried, verdicts } = JSON.parse(json.stdout);
  assert.deepEqual([failed, untried, verdicts.length], [1, 0, passed + 1]);
  const verdict = verdicts.find(({ number }: { number: string }) => number === 'C23');
  assert.equal(verdict.outcome, 'failed');
  assert.match(verdict.failure.sentBytes, /^POST \/v1\/pets HTTP\/1\.1\r\n/);
});

test('verify exits with 2 and one line for a missing server, a wrong key or a bad option', async (t) => {
  const url = `http://127.0.0.1:${(await start(t)).port}`;
  const closedPort = await freePort();
  const closedUrl = `http://127.0.0.1:${closedPort}`;
  const keyed = ['--key', key];
  for (const [args, message] of [
    [
      [closedUrl, ...keyed],
      new RegExp(`^no server responds at http://127\\.0\\.0\\.1:${closedPort}/ \\(.*\\); start it`),
    ],
    [[url, '--key', 'wrong'], /refuses the key \(GET \/v1\/pets is 401\); give a valid one/],
    [[`${url}/v2`, ...keyed], /\(GET \/v2\/pets is 404\); give its base path in the URL/],
    [[url], /^`verify` needs --key KEY/],
    [[], /^`verify` needs one URL, such as/],
    [['ftp://a', ...keyed], /^URL must be a URL such as .*, not "ftp:\/\/a"/],
    [[`${url}/v1?limit=1`, ...keyed], /^URL must be a URL such as/],
    [[url.replace('//', '//user:secret@'), ...keyed], /^URL must be a URL such as/],
    [[url, ...keyed, '--level', 'all'], /^--level must be one of specification, http, full/],
    [[url, '--key', 'a b'], /^--key must be an API key/],
  ] as const)
    assertRefused(await verify(...args), 2, message);
});
