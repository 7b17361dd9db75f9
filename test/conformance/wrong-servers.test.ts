// Tests that `verify` fails the rule that a server breaks and no other rule, and that a petstore in
// another language can pass it.
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
import { startWrong, type Fault } from './wrong-server.js';

/** The rule that a server breaks, what the server does, and how. */
type WrongServer = readonly [number: string, does: string, fault: Fault];

/** Returns a fault that replaces text in requests. */
const inRequests = (from: string | RegExp, to: string): Fault => ({
  request: (bytes) => bytes.replaceAll(from, to),
});
/** Returns a fault that replaces text in responses. */
const inResponses = (from: string | RegExp, to: string): Fault => ({
  response: (bytes) => bytes.replaceAll(from, to),
});
/** Returns a fault that removes a header from responses. */
const withoutHeader = (name: string): Fault =>
  inResponses(new RegExp(`^${name}: .*\r\n`, 'gim'), '');

/** Faults of a proxy before our petstore, at the level `full`. */
const wrongServers: readonly (readonly WrongServer[])[] = [
  [
    [
      'C23',
      'rounds an int64',
      {
        response: (bytes) =>
          bytes.replace(/(?<=categoryId":)-?\d{16,}/g, (text) => `${Number(text)}`),
      },
    ],
    [
      'C7',
      'does not know the status sold',
      inRequests(/GET \/v1\/pets\?(.*)status=sold/g, 'GET /v1/pets?$1status=pending'),
    ],
    [
      'C1',
      'reduces a limit that is too large to 100',
      inRequests(/limit=(101|1000) /g, 'limit=100 '),
    ],
    [
      'C5',
      'lists the last pet first',
      {
        response: (bytes) =>
          bytes.replace(/\[\{"id".*\}\]$/s, (list) => {
            const pets = list.slice(1, -1).split(/(?<=\}),(?=\{"id")/);
            return `[${pets.reverse().join(',')}]`;
          }),
      },
    ],
    ['C6', 'sends no Link', inResponses(/^Link: <[^>]*limit=2.*\r\n/gm, '')],
    ['C12', 'does not decode a path', inRequests('/%70ets', '/petz')],
    [
      'C18',
      'responds with 400 to an unknown method',
      {
        response: (bytes) =>
          bytes
            .replace('501 Not Implemented', '400 Bad Request')
            .replace('"status":501', '"status":400'),
      },
    ],
    [
      'C21',
      'returns unknown members',
      inResponses(/^(HTTP\/1\.1 201 .*)(?="categoryId":)/gs, '$1"extra":1,'),
    ],
    ['C25', 'trims a name', inRequests('"name":" a "', '"name":"a"')],
    [
      'C28',
      'accepts text/plain as JSON',
      inRequests(/Content-Type: text\/plain\r\n(?!.*Expect)(?<!Expect.*)/gs, ''),
    ],
    ['C30', 'sends no Location', withoutHeader('Location')],
    [
      'C36',
      'sends no WWW-Authenticate',
      inResponses(/^WWW-Authenticate: (?!.*invalid_token).*\r\n/gm, ''),
    ],
    [
      'C39',
      'accepts a key in the query',
      inRequests(
        `/v1/pets?access_token=${key} HTTP/1.1\r\n`,
        `/v1/pets HTTP/1.1\r\nAuthorization: Bearer ${key}\r\n`,
      ),
    ],
    [
      'C50',
      'uses an unknown code for an invalid body',
      inResponses('"invalid_body"', '"validation"'),
    ],
    ['C64', 'sends no Date', withoutHeader('Date')],
  ],
  [
    [
      'C30',
      'responds with 200 to an added pet',
      inResponses('HTTP/1.1 201 Created', 'HTTP/1.1 200 OK'),
    ],
    [
      'S2',
      'lists 10 pets by default',
      inRequests('GET /v1/pets HTTP', 'GET /v1/pets?limit=10 HTTP'),
    ],
    ['P3', 'leaves the status out of errors', inResponses(/,"status":\d+\}/g, '}')],
    ['C3', 'accepts the first of two parameters', inRequests(/limit=5&limit=\d/g, 'limit=5')],
    ['C6', 'does not know after', inRequests(/&after=[^& ]*|(?<=\?)after=[^& ]*&?/g, '')],
    ['C10', 'accepts 007 as 7', inRequests('/v1/pets/007 ', '/v1/pets?limit=1 ')],
    [
      'C15',
      'sends a 405 without Allow',
      inResponses(/^(HTTP\/1\.1 405 .*\r\n)Allow: [^\r]*\r\n/gs, '$1'),
    ],
    [
      'C19',
      'sets a missing status to available',
      inResponses(/("categoryId":-?\d+)\}/g, '$1,"status":"available"}'),
    ],
    ['C22', 'refuses 1.0 as an integer', inRequests('"categoryId":1.0', '"categoryId":1.5')],
    [
      'C26',
      'responds with 500 to a body that is not JSON',
      {
        response: (bytes) =>
          bytes.includes('"invalid_json"') ? bytes.replaceAll('400', '500') : bytes,
      },
    ],
    ['C33', 'sends no Sunset', withoutHeader('Sunset')],
    [
      'C37',
      'accepts any key',
      inRequests(/^Authorization: Bearer no-key-[0-9a-f-]+/gim, `Authorization: Bearer ${key}`),
    ],
    [
      'C38',
      'does not know BEARER',
      inRequests(/^Authorization: BEARER /gm, 'Authorization: Basic '),
    ],
    [
      'C46',
      'responds with 406 to another Accept',
      {
        response: (bytes, request) =>
          request.includes('Accept: text/html') ? bytes.replace('200 OK', '406 No') : bytes,
      },
    ],
    ['C56', 'sends links without the base path', inResponses(/^(Location: |Link: <)\/v1/gm, '$1')],
  ],
  [
    ['C30', 'returns ids as strings', inResponses(/"id":(\d+)/g, '"id":"$1"')],
    [
      'S3',
      'responds with 200 and null to a missing pet',
      {
        response: (bytes, request) =>
          /^GET \/v1\/pets\/(9223372036854775807|4611686018427400249) /.test(request) &&
          bytes.includes('"not_found"')
            ? bytes.replace('404 Not Found', '200 OK').replace(/\{.*\}$/, 'null')
            : bytes,
      },
    ],
    [
      'P3',
      'sends errors as text/html',
      inResponses(/(?<=^HTTP\/1\.1 4.*Content-Type: )application\/json/gs, 'text/html'),
    ],
    ['C4', 'refuses an unknown parameter', inRequests('utm_source=x', 'limit=x')],
    [
      'C8',
      'responds with 404 to an empty list',
      {
        response: (bytes, request) =>
          request.includes('after=9223372036854775807')
            ? bytes.replace(/200 OK(.*)\[\]$/s, '404 Not Found$1{}')
            : bytes,
      },
    ],
    ['C11', 'serves a path with a trailing slash', inRequests('/v1/pets/ HTTP', '/v1/pets HTTP')],
    [
      'C16',
      'sends a body in a response to HEAD',
      { response: (bytes, request) => (request.startsWith('HEAD') ? `${bytes}[]` : bytes) },
    ],
    [
      'C20',
      'accepts a number as a name',
      inRequests('{"name":5,"categoryId":1}', '{"name":"5","categoryId":1}'),
    ],
    ['C24', 'rounds 1.5', inRequests('"categoryId":1.5', '"categoryId":2')],
    [
      'C27',
      'needs a Content-Type',
      {
        request: (bytes) =>
          bytes.includes('"name":"verify') && !/content-(type|encoding)|expect/i.test(bytes)
            ? bytes.replace('Host:', 'Content-Type: none\r\nHost:')
            : bytes,
      },
    ],
    [
      'C14',
      'checks the key before the path',
      {
        response: (bytes, request) =>
          /^Authorization:/im.test(request) ? bytes : bytes.replace('404 Not Found', '401 No'),
      },
    ],
    [
      'C36',
      'needs no key',
      {
        request: (bytes) =>
          /^authorization:/im.test(bytes) ||
          !/^(GET|POST) \/v1\/pets.* HTTP\/1.1\r\nHost: 127/.test(bytes)
            ? bytes
            : bytes.replace('\r\n', `\r\nAuthorization: Bearer ${key}\r\n`),
      },
    ],
    ['C42', 'accepts the first of two Hosts', inRequests('Host: a\r\nHost: a\r\n', 'Host: a\r\n')],
    ['C47', 'lets caches keep responses', withoutHeader('Cache-Control')],
    ['C57', 'forgets idempotency keys', inRequests(/^Idempotency-Key: [0-9a-f-]{36}\r\n/gm, '')],
  ],
];

/** Returns the numbers of the rules that fail. */
async function failedRules(url: string, level: Level = 'full'): Promise<readonly string[]> {
  const failed: string[] = [];
  for await (const { number, outcome } of verifyPetstore({ url, key, level }))
    if (outcome === 'failed') failed.push(number);
  return failed;
}

for (const [number, does, fault] of wrongServers.flat())
  test(`verify fails only ${number} on a server that ${does}`, async (t) => {
    assert.deepEqual(await failedRules(await startWrong(t, fault)), [number]);
  });

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
