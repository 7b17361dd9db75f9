/** The cors plugin: whose pages a browser lets read which answer, and how a preflight goes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { corsPlugin } from '../../dist/plugins/cors.js';
import { header, type Answer } from '../support/client.js';
import { ask, exchange, key, start, type Words } from '../support/fixture.js';
import { assertRefused, folder, runServer, startServer } from '../support/process.js';
import { serverWithoutLibraries } from './bare.js';

const [ours, another, theirs] = [
  'https://app.example',
  'http://localhost:5173',
  'https://app.example.evil',
];
const plugins = [corsPlugin({ origins: [ours, another] })];
const noKey = { authorization: null };
const animal = '{"name":"a","categoryId":1}';

/**
 * Whether a browser would let a page of this origin read the answer (Fetch, section 4.10, without
 * credentials).
 */
function isReadable(answer: Answer, origin: string): boolean {
  const allowed = header(answer, 'Access-Control-Allow-Origin');
  return allowed === '*' || allowed === origin;
}

test('pages of listed origins read every answer, errors included; others read none', async (t) => {
  const { port, petstore } = await start(t, { plugins });
  const requests: readonly (readonly [string, string, Words, number])[] = [
    ['POST', '/v1/pets', { body: animal }, 201],
    ['GET', '/v1/pets', {}, 200],
    ['HEAD', '/v1/pets', {}, 200],
    ['GET', '/v1/pets/1', {}, 200],
    ['GET', '/v1/pets?limit=0', {}, 400],
    ['POST', '/v1/pets', { body: '{' }, 400],
    ['GET', '/v1/pets', noKey, 401],
    ['GET', '/v1/pets/777', {}, 404],
    ['GET', '/nowhere', {}, 404],
    ['PUT', '/v1/pets', {}, 405],
    ['POST', '/v1/pets', { body: ' '.repeat(65_537) }, 413],
    ['POST', '/v1/pets', { body: animal, headers: ['Content-Type: a/b'] }, 415],
    ['GET', '/v1/pets', { headers: [`X: ${'x'.repeat(20_000)}`] }, 431],
    ['GET', '/openapi.json', noKey, 200],
  ];
  for (const [method, target, words, status] of requests) {
    const what = `${method} ${target} ${status}`;
    const from = (origin: string): Promise<Answer> =>
      ask(port, method, target, {
        ...words,
        headers: [...(words.headers ?? []), `oRiGiN: ${origin}`],
      });
    for (const origin of [ours, another]) {
      const answer = await from(origin);
      assert.equal(answer.status, status, what);
      assert.ok(isReadable(answer, origin), what);
      assert.equal(header(answer, 'Vary'), 'Origin');
      const exposed = (header(answer, 'Access-Control-Expose-Headers') ?? '').split(',');
      for (const name of ['Link', 'Location', 'Deprecation', 'Sunset', 'Accept'])
        assert.ok(exposed.includes(name), name);
    }
    for (const origin of [theirs, 'null', 'https://APP.example', `${ours}/`, '']) {
      const answer = await from(origin);
      assert.equal(answer.status, status);
      assert.ok(!answer.headers.has('access-control-allow-origin'), `${what} from ${origin}`);
      assert.equal(
        header(answer, 'Vary'),
        'Origin',
        'a cache must not hand on what another origin got',
      );
    }
  }
  const headers = { Origin: ours, Authorization: `Bearer ${key}` };
  assert.equal(
    (await petstore.fetch(new Request('http://a/v1/pets', { headers }))).headers.get(
      'Access-Control-Allow-Origin',
    ),
    ours,
  );
});

test('what a deprecated route says stands beside what the plugin says', async (t) => {
  const { port } = await start(t, { plugins });
  const answer = await ask(port, 'GET', '/v1/pets/1', { headers: [`Origin: ${ours}`] });
  assert.ok(header(answer, 'Deprecation') && header(answer, 'Sunset') && header(answer, 'Link'));
  assert.ok(isReadable(answer, ours));
});

test('a preflight needs no key and allows the method and headers that it asks for', async (t) => {
  const { port } = await start(t, { plugins });
  const preflight = (path: string, origin: string): Promise<Answer> =>
    ask(port, 'OPTIONS', path, {
      ...noKey,
      headers: [
        `Origin: ${origin}`,
        'Access-Control-Request-Method: POST',
        'Access-Control-Request-Headers: authorization,content-type',
      ],
    });
  for (const path of ['/v1/pets', '/v1/pets/1']) {
    const answer = await preflight(path, ours);
    assert.equal(answer.status, 204);
    assert.ok(isReadable(answer, ours));
    const methods = (header(answer, 'Access-Control-Allow-Methods') ?? '').split(',');
    for (const method of ['GET', 'HEAD', 'POST']) assert.ok(methods.includes(method));
    assert.equal(header(answer, 'Access-Control-Allow-Headers'), 'authorization,content-type');
    assert.equal(header(answer, 'Access-Control-Max-Age'), '600');
    assert.equal(header(answer, 'Vary'), 'Origin, Access-Control-Request-Headers');
  }
  assert.ok(!(await preflight('/v1/pets', theirs)).headers.has('access-control-allow-origin'));
});

test('nothing is allowed by default, and the plugin with no origin allows nothing', async (t) => {
  const plain = await start(t);
  const closed = await start(t, { plugins: [corsPlugin({ origins: [] })] });
  for (const { port } of [plain, closed]) {
    for (const method of ['GET', 'OPTIONS']) {
      const answer = await ask(port, method, '/v1/pets', {
        headers: [`Origin: ${ours}`, 'Access-Control-Request-Method: GET'],
      });
      assert.ok(!answer.headers.has('access-control-allow-origin'));
    }
  }
  const answer = await ask(plain.port, 'OPTIONS', '/v1/pets', { headers: [`Origin: ${ours}`] });
  assert.deepEqual(
    [...answer.headers.keys()].filter((name) => /^(access-control|vary)/.test(name)),
    [],
  );
});

test('what never was a request is answered as ever', async (t) => {
  const { port } = await start(t, { plugins });
  assert.equal((await exchange(port, 'garbage\r\n\r\n')).status, 400);
});

test('what is no origin as a browser sends it is a TypeError that says what to write', () => {
  const bad: readonly (readonly [string, RegExp])[] = [
    ['https://app.example/', /write https:\/\/app\.example$/],
    ['https://app.example/path', /write https:\/\/app\.example$/],
    ['https://APP.example', /write https:\/\/app\.example$/],
    ['https://app.example:443', /write https:\/\/app\.example$/],
    ['app.example', /such as https:/],
    ['*', /such as https:/],
    ['null', /such as https:/],
    ['', /such as https:/],
    ['file:///home', /such as https:/],
  ];
  for (const [origin, message] of bad)
    assert.throws(
      () => corsPlugin({ origins: [ours, origin] }),
      { name: 'TypeError', message },
      origin,
    );
  assert.throws(() => corsPlugin(JSON.parse('{"origins":"https://app.example"}')), {
    name: 'TypeError',
    message: /origins must be an array/,
  });
});

test('the process: --cors-origin turns it on, is repeatable, and has a variable', async (t) => {
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
  const flags = await startServer(
    t,
    ['--cors-origin', ours, `--cors-origin=${another}`, '--plugin', 'cors'],
    {
      cwd,
      env,
    },
  );
  assert.deepEqual(await allowed(flags.url), [ours, another, null]);
  const variable = await startServer(t, [], {
    cwd,
    env: { ...env, PETSTORE_CORS_ORIGINS: ` ${ours},` },
  });
  assert.deepEqual(await allowed(variable.url), [ours, null, null]);
});

test('the process: no origin, a bad one, a missing library: one line, exit 2', async (t) => {
  const env = { PORT: '0', PETSTORE_API_KEYS: 'a', PETSTORE_STORAGE: 'memory:' };
  const cwd = folder(t);
  assertRefused(
    await runServer(['--plugin', 'cors'], { cwd, env }),
    2,
    /^--plugin cors .*--cors-origin ORIGIN$/m,
  );
  assertRefused(
    await runServer(['--cors-origin', `${ours}/`], { cwd, env }),
    2,
    /^--cors-origin: "https:\/\/app\.example\/" is no origin.*write https:\/\/app\.example$/m,
  );
  assertRefused(
    await runServer([], { cwd, env: { ...env, PETSTORE_CORS_ORIGINS: '*' } }),
    2,
    /^PETSTORE_CORS_ORIGINS: "\*"/,
  );
  assertRefused(
    await runServer(['keys', 'list', '--cors-origin', ours], { cwd, env }),
    2,
    /--cors-origin is not for keys/,
  );
  const bare = serverWithoutLibraries(t);
  assertRefused(
    await bare.run(['--cors-origin', ours], { cwd, env }),
    2,
    /^--plugin cors needs a package that is not installed: npm install cors@2$/m,
  );
});
