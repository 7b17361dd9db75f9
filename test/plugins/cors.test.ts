// Tests the cors plugin: which pages a browser lets read a response, and preflight requests.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { corsPlugin } from '../../dist/plugins/cors.js';
import { header } from '../support/client.js';
import { command } from '../support/command.js';
import { start, type RequestParts } from '../support/fixture.js';
import { assertRefused, folder, startServer } from '../support/process.js';
import { petJson, expectResponse, expectResponses, noKey } from '../support/scenes.js';
import { serverWithoutLibraries } from './bare.js';

const [ours, another, theirs] = [
  'https://app.example',
  'http://localhost:5173',
  'https://app.example.evil',
];
const plugins = [corsPlugin({ origins: [ours, another] })];
const allow = 'Access-Control-Allow-Origin';
/** The response headers of the contract that a client acts on. */
const contractHeaders = [
  ...['Accept', 'Allow', 'Deprecation', 'Link', 'Location'],
  ...['Retry-After', 'Sunset', 'WWW-Authenticate'],
];

test('pages of listed origins may read every response, and other pages none', async (t) => {
  const { port, petstore } = await start(t, { plugins });
  const body = petJson;
  for (const [request, status, { headers = [], ...parts } = {}] of [
    ['POST /v1/pets', 201, { body }],
    ['GET /v1/pets', 200],
    ['HEAD /v1/pets', 200],
    ['GET /v1/pets/1', 200],
    ['GET /v1/pets?limit=0', 400],
    ['POST /v1/pets', 400, { body: '{' }],
    ['GET /v1/pets', 401, noKey],
    ['GET /v1/pets/777', 404],
    ['GET /nowhere', 404],
    ['PUT /v1/pets', 405],
    ['FOO /v1/pets', 501],
    ['DESCRIBE /v1/pets', 501],
    ['POST /v1/pets', 413, { body: ' '.repeat(65_537) }],
    ['POST /v1/pets', 415, { body, headers: ['Content-Type: a/b'] }],
    ['GET /v1/pets', 431, { headers: [`X: ${'x'.repeat(20_000)}`] }],
    ['GET /openapi.json', 200, noKey],
  ] as readonly (readonly [string, number, RequestParts?])[])
    for (const origin of [ours, another, theirs, 'null', 'https://APP.example', `${ours}/`, '']) {
      const isListed = origin === ours || origin === another;
      // Without Vary a cache would serve the response for another origin.
      const expectedHeaders = { [allow]: isListed ? origin : undefined, Vary: 'Origin' };
      const sent = { ...parts, headers: [...headers, `oRiGiN: ${origin}`] };
      const response = await expectResponse(port, request, status, sent, expectedHeaders);
      const exposed = header(response, 'Access-Control-Expose-Headers')?.split(',');
      for (const name of contractHeaders) assert.ok(!isListed || exposed?.includes(name), name);
    }
  const response = await petstore.fetch('http://a/v1/pets', { headers: { Origin: ours } });
  assert.equal(response.headers.get(allow), ours);
});

test('a preflight needs no key, and allows the requested method and headers for listed origins', async (t) => {
  const requestedHeaders = 'authorization,content-type';
  const preflight = (origin: string) => ({
    ...noKey,
    headers: [
      `Origin: ${origin}`,
      'Access-Control-Request-Method: POST',
      `Access-Control-Request-Headers: ${requestedHeaders}`,
    ],
  });
  const { port } = await start(t, { plugins });
  for (const path of ['/v1/pets', '/v1/pets/1']) {
    const response = await expectResponse(port, `OPTIONS ${path}`, 204, preflight(ours), {
      [allow]: ours,
      'Access-Control-Allow-Headers': requestedHeaders,
      'Access-Control-Max-Age': '600',
      Vary: 'Origin, Access-Control-Request-Headers',
    });
    const methods = header(response, 'Access-Control-Allow-Methods')?.split(',');
    for (const method of ['GET', 'HEAD', 'POST']) assert.ok(methods?.includes(method));
  }
  const plain = await start(t);
  const closed = await start(t, { plugins: [corsPlugin({ origins: [] })] });
  const nothing = { [allow]: undefined };
  await expectResponse(port, 'OPTIONS /v1/pets', 204, preflight(theirs), nothing);
  const { headers } = preflight(ours);
  for (const each of [plain, closed])
    await expectResponses(each.port, [
      ['GET /v1/pets', 200, { headers }, nothing],
      ['OPTIONS /v1/pets', 204, { headers }, nothing],
    ]);
  const { came } = await expectResponse(plain.port, 'OPTIONS /v1/pets', 204, { headers });
  assert.doesNotMatch(came, /^(access-control|vary)/im);
});

test('corsPlugin throws a TypeError with a hint for an origin that no browser sends', () => {
  for (const [message, origins] of [
    [
      /write https:\/\/app\.example$/,
      ['example/', 'example/path', 'EXAMPLE', 'example:443'].map((end) => `https://app.${end}`),
    ],
    [/such as https:/, ['app.example', 'null', '', 'file:///home', 'https://a..example']],
    [/a \* matches no origin/, ['*', 'https://*', 'https://*.a.example', '*.a.example']],
    // The message must not repeat the password.
    [
      /^origin 2 is not in the form that browsers send; write https:\/\/app\.example$/,
      ['https://u:secret@app.example'],
    ],
  ] as const)
    for (const origin of origins) {
      const making = () => corsPlugin({ origins: [ours, origin] });
      assert.throws(making, { name: 'TypeError', message }, origin);
    }
  assert.throws(() => corsPlugin(JSON.parse('{"origins":"https://app.example"}')), {
    name: 'TypeError',
    message: /origins must be an array/,
  });
});

test('--cors-origin and PETSTORE_CORS_ORIGINS list origins', async (t) => {
  const cwd = folder(t);
  const env = { PETSTORE_STORAGE: 'memory:' };
  const allowed = async (url: string): Promise<readonly (string | null)[]> =>
    Promise.all(
      [ours, another, theirs].map(async (Origin) =>
        (await fetch(`${url}/v1/pets`, { headers: { Origin } })).headers.get(
          'Access-Control-Allow-Origin',
        ),
      ),
    );
  const args = ['--cors-origin', ours, `--cors-origin=${another}`, '--plugin', 'cors'];
  const flags = await startServer(t, args, { cwd, env });
  assert.deepEqual(await allowed(flags.url), [ours, another, null]);
  const more = { PETSTORE_CORS_ORIGINS: ` ${ours},` };
  const variable = await startServer(t, [], { cwd, env: { ...env, ...more } });
  assert.deepEqual(await allowed(variable.url), [ours, null, null]);
});

test('the process exits with 2 and one line for a wrong origin or a missing library', async (t) => {
  const cwd = folder(t);
  const env = { PORT: '0', PETSTORE_API_KEYS: 'a', PETSTORE_STORAGE: 'memory:' };
  for (const [args, more, line] of [
    [['--plugin', 'cors'], {}, /^--plugin cors .*--cors-origin ORIGIN$/m],
    [
      ['--cors-origin', `${ours}/`],
      {},
      /^--cors-origin: "https:\/\/app\.example\/": .*is not in the form.*write https:\/\/app\.example$/m,
    ],
    [[], { PETSTORE_CORS_ORIGINS: '*' }, /^PETSTORE_CORS_ORIGINS: "\*"/],
    [['keys', 'list', '--cors-origin', ours], {}, /--cors-origin is not for keys/],
  ] as const)
    assertRefused(await command(args, { cwd, env: { ...env, ...more } }), 2, line);
  const bare = await serverWithoutLibraries(t).run(['--cors-origin', ours], { cwd, env });
  const install = /^--cors-origin cors needs a package that is not installed: npm install cors@2$/m;
  assertRefused(bare, 2, install);
});
