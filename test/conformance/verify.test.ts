// Tests what the command `verify` prints, and its exit codes.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { PetstoreError, type Plugin } from '../../dist/index.js';
import { command } from '../support/command.js';
import { childEnvironment } from '../support/environment.js';
import { key, start } from '../support/fixture.js';
import { assertRefused, freePort, root, StartedProcess } from '../support/process.js';
import { readXml } from '../support/xml.js';
import { startWrong } from './wrong-server.js';

/** Runs `verify` with arguments. */
const verify = (...args: readonly string[]) => command(['verify', ...args], { cwd: root });

/** Returns notes without those of a server that a busy machine makes slow. */
const withoutSlowness = (notes: string) =>
  notes.replace(/^note: (?:only \d+ of \d+ stories ran|a response takes about) .*\n/gm, '');

test('verify prints a line for each rule and exits with 0 if a server keeps all rules', async (t) => {
  const { port } = await start(t);
  const { code, stdout, stderr } = await verify(`http://127.0.0.1:${port}`, '--key', key);
  assert.deepEqual([code, withoutSlowness(stderr)], [0, '']);
  for (const line of [
    /^ {2}✔ C10 an id that is not a canonical int64 is 404$/m,
    /^ {2}- C35 .* \(not applicable: the clock of the server is before the sunset of .*\)$/m,
    /^ {2}9 of 9 held +Listing$/m,
    /\n\d+ rules: \d+ held, 1 not applicable \(C35\)\n$/,
  ])
    assert.match(stdout, line);
});

/** Starts a server that stores a wrong category. */
const startRounding = (t: TestContext) =>
  startWrong(t, {
    response: (bytes) => bytes.replace('9223372036854775807', '9223372036854775808'),
  });

test('verify prints evidence that can be pasted, and exits with 1 for a broken rule', async (t) => {
  const url = await startRounding(t);
  const { code, stdout } = await verify(url, '--key', key, '--level', 'specification');
  assert.equal(code, 1);
  for (const line of [
    /^ {2}✖ C23 an int64 is stored and returned exactly$/m,
    /^ {6}sent: 9223372036854775807$/m,
    /^ {6}got: 9223372036854775808$/m,
    /^ {6}expected: 9223372036854775807$/m,
    /^ {6}written in: the specification, Animal: categoryId is an int64$/m,
    /^ {6}cost: ids past 2\^53 silently become/m,
    /^ {6}try: curl -sS .*-H 'Authorization: Bearer '"\$PETSTORE_KEY" .*\/v1\/pets$/m,
    /1 broken \(C23\)\n$/,
  ])
    assert.match(stdout, line);
  assert.doesNotMatch(stdout, / C2 /, 'a rule of a higher level');

  const [, line = ''] = /try: (curl .*)$/m.exec(stdout) ?? [];
  const shell = await promisify(execFile)('sh', ['-c', line], {
    env: childEnvironment({ PETSTORE_KEY: key }),
  });
  assert.match(shell.stdout, /^HTTP\/1\.1 201 Created[\s\S]*9223372036854775808/);
});

test('verify prints no key in any format, however the server repeats it', async (t) => {
  const secret = 'S3cret"key%#1';
  const { port } = await start(t, { keys: [secret] });
  const proxied = await startWrong(t, {
    port,
    response: (bytes, request) =>
      bytes.replace(/\{"code.*\}$/s, () => {
        const [, given = ''] = /^Authorization: (.*)\r$/im.exec(request) ?? [];
        const echo = [given, given.toUpperCase(), given.toLowerCase(), request];
        return `{"echo":${JSON.stringify(echo)}}`;
      }),
  });
  for (const format of ['text', 'json', 'junit', 'markdown']) {
    const args = ['verify', proxied, '--format', format];
    const { code, stdout, stderr } = await command(args, {
      cwd: root,
      env: { PETSTORE_KEY: secret },
    });
    assert.equal(code, 1, stderr);
    const base64 = Buffer.from(`${secret}:`).toString('base64');
    const otherCases = [secret.toUpperCase(), secret.toLowerCase()];
    for (const form of [secret, secret.slice(1), base64, encodeURIComponent(secret), ...otherCases])
      for (const text of [form, JSON.stringify(form).slice(1, -1), form.replace('"', '&quot;')])
        assert.ok(!`${stdout}${stderr}`.includes(text), `${format} contains ${text}`);
  }
});

test('verify reports as JSON, JUnit and Markdown', async (t) => {
  const args = [await startRounding(t), '--key', key, '--only', 'S1,C23'];
  const json = await verify(...args, '--format', 'json');
  assert.equal(json.code, 1);
  const { passed, failed, untried, verdicts } = JSON.parse(json.stdout);
  assert.deepEqual([passed, failed, untried, verdicts.length], [1, 1, 0, 2]);
  const [, verdict] = verdicts;
  assert.deepEqual(
    [verdict.number, verdict.outcome, verdict.level, verdict.source],
    ['C23', 'failed', 'specification', 'the specification, Animal: categoryId is an int64'],
  );
  assert.match(verdict.failure.sentBytes, /^POST \/v1\/pets HTTP\/1\.1\r\n/);

  const junit = await verify(...args, '--format', 'junit');
  assert.equal(junit.code, 1);
  assert.match(junit.stdout, /<testsuite name=".*" tests="2" failures="1" errors="0" skipped="0">/);
  assert.match(junit.stdout, /<failure message="got 9223372036854775808, not /);

  const markdown = await verify(...args, '--format', 'markdown');
  assert.equal(markdown.code, 1);
  assert.match(markdown.stdout, /^\| C23 \| an int64 .* \| broken \|$/m);
});

test('verify --format junit prints well-formed XML for any characters of a response', async (t) => {
  const body = `[<a href="b" c='d'>&amp;]]>\t\r\n\n\u0000\u001b\ufffe😀`;
  const url = await startWrong(t, {
    response: (bytes, request) =>
      request.startsWith('GET /v1/pets')
        ? bytes.replace(/(?<=\r\n\r\n).*$/s, () => Buffer.from(body).toString('latin1'))
        : bytes,
  });
  const args = ['--key', key, '--only', 'P3,S1', '--stories', '0', '--format', 'junit'];
  const { code, stdout } = await verify(url, ...args);
  assert.equal(code, 1, stdout);
  const shown = body.replace(/[\u0000\u001b\ufffe]/g, '\ufffd');
  // Once in the attribute `message`, and once in a text.
  assert.equal(readXml(stdout).filter((text) => text.includes(shown)).length, 2, stdout);
});

test('verify lists the rules of a level with their sources', async () => {
  const { code, stdout } = await verify('--list', '--level', 'http');
  assert.equal(code, 0);
  assert.match(stdout, /^S1 +specification a list is 200 .*\[the specification, Endpoints, 1/m);
  assert.match(stdout, /^C18 +http +an unknown method is 501 \[RFC 9110 §9\.1: SHOULD .*\]$/m);
  assert.doesNotMatch(stdout, /^C2 /m);
});

test('C44 verify tries the timeouts of requests only with --slow', async () => {
  for (const [args, isListed] of [
    [[], false],
    [['--slow'], true],
  ] as const)
    assert.equal(/^C44 /m.test((await verify('--list', ...args)).stdout), isListed);
});

test('verify warns of a broken recommendation of a standard, and fails the rule at level full', async (t) => {
  const url = await startWrong(t, {
    response: (bytes) =>
      bytes
        .replace('501 Not Implemented', '400 Bad Request')
        .replace('"status":501', '"status":400'),
  });
  const args = [url, '--key', key, '--only', 'C18'];
  const http = await verify(...args, '--level', 'http');
  assert.equal(http.code, 0);
  assert.match(http.stdout, /^ {2}! C18 /m);
  assert.equal((await verify(...args)).code, 1);
});

/** Returns a response that limits the rate of requests for longer than `verify` waits. */
const limited = (bytes: string) => bytes.replace(/ \d+ .*/, ' 429 Slow\r\nRetry-After: 1000');

test('verify exits with 3 if a rule was not tried, unless that is allowed', async (t) => {
  const url = await startWrong(t, {
    response: (bytes, request) => (/^GET \/v1\/pets\/\d/.test(request) ? limited(bytes) : bytes),
  });
  const args = [url, '--key', key, '--only', 'S1,S3'];
  const { code, stdout } = await verify(...args);
  assert.equal(code, 3, stdout);
  assert.match(
    stdout,
    /^ {2}\? S3 .* \(not tried: the server limits the rate of requests \(429\) for too long/m,
  );
  assert.equal((await verify(...args, '--allow-untried')).code, 0);
});

test('verify exits with 3 if the server limits the rate of all requests', async (t) => {
  const url = await startWrong(t, { response: limited });
  for (const args of [[], ['--allow-untried']]) {
    const { code, stdout, stderr } = await verify(url, '--key', key, '--only', 'S1', ...args);
    assert.equal(code, 3, stdout);
    assert.match(stderr, /the server limits the rate of requests \(429\) for too long/);
  }
});

test('verify reads the key from PETSTORE_KEY or from a file', async (t) => {
  const url = `http://127.0.0.1:${(await start(t)).port}`;
  const args = ['verify', url, '--only', 'S3'];
  const byVariable = await command(args, { cwd: root, env: { PETSTORE_KEY: key } });
  assert.equal(byVariable.code, 0, byVariable.stderr);

  const file = join(mkdtempSync(join(tmpdir(), 'petstore-key-')), 'key');
  t.after(() => rmSync(dirname(file), { recursive: true }));
  for (const end of ['', '\n', '\r\n']) {
    writeFileSync(file, key + end);
    const byFile = await command([...args, '--key-file', file], { cwd: root });
    assert.equal(byFile.code, 0, byFile.stderr);
  }
});

test('verify exits with 3 and one line if no server responds', async () => {
  const closedPort = await freePort();
  const closedUrl = `http://127.0.0.1:${closedPort}`;
  assertRefused(
    await verify(closedUrl, '--key', key),
    3,
    new RegExp(
      `^no server responds at http://127\\.0\\.0\\.1:${closedPort}/ \\(the connection is refused\\); start it`,
    ),
  );
});

test('verify exits with 2 and one line for a wrong key or a bad option', async (t) => {
  const url = `http://127.0.0.1:${(await start(t)).port}`;
  const keyed = ['--key', key];
  for (const [args, message] of [
    [[url, '--key', 'wrong'], /refuses the key \(GET \/v1\/pets is 401\); give a valid one/],
    [[`${url}/v2`, ...keyed], /\(GET \/v2\/pets is 404\); give its base path in the URL/],
    [[url], /^`verify` needs an API key .*; set PETSTORE_KEY or give --key-file/],
    [[], /^`verify` needs one URL, such as/],
    [['ftp://a', ...keyed], /^URL must be a URL such as .*, not "ftp:\/\/a"/],
    [[`${url}/v1?limit=1`, ...keyed], /^URL must be a URL such as/],
    [[url.replace('//', '//user:secret@'), ...keyed], /^URL must be a URL such as/],
    [[url, ...keyed, '--level', 'all'], /^--level must be one of specification, http, full/],
    [[url, ...keyed, '--only', 'Z9'], /^--only must be numbers of rules such as C7,S1/],
    [
      [url, ...keyed, '--only', 'C2', '--level', 'specification'],
      /^--only names no rule of this level; choose a higher --level$/m,
    ],
    [[url, ...keyed, '--category', '1.5'], /^--category must be an integer/],
    [[url, ...keyed, '--timeout', '0'], /^--timeout must be a whole number from 1 to 3600/],
    [[url, ...keyed, '--key-file', 'k'], /^give --key or --key-file, not both/],
    [[url, '--key', 'a b'], /^--key must be an API key/],
  ] as const)
    assertRefused(await verify(...args), 2, message);
});

test('verify exits with 2 if the server forbids what the key may do', async (t) => {
  const forbid: Plugin = ({ around }) =>
    around(() => Promise.reject(new PetstoreError('forbidden', 'Not with this key.')));
  const url = `http://127.0.0.1:${(await start(t, { plugins: [forbid] })).port}`;
  const message = /refuses the key \(GET \/v1\/pets is 403\); give a valid one/;
  assertRefused(await verify(url, '--key', key), 2, message);
});

test('verify loads no test runner', async (t) => {
  const url = `http://127.0.0.1:${(await start(t)).port}`;
  const script = `
    const { verifyPetstore } = await import('./dist/conformance/verify-petstore.js');
    await verifyPetstore({ url: '${url}', key: '${key}' }).next();
    console.log(process.moduleLoadList.filter((name) => /internal.test_runner|node:test/.test(name)));`;
  const args = ['--input-type=module', '--eval', script];
  const { stdout } = await new StartedProcess(process.execPath, args, { cwd: root }).ended;
  assert.equal(stdout.trim(), '[]');
});
