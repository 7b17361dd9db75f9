// Plugins of the operator: by path, by package, and refused.
import assert from 'node:assert/strict';
import { symlinkSync } from 'node:fs';
import { describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { apiKey, assertRefused, root } from '../support/process.js';
import { testRefusals, WorkingFolder } from '../support/working-folder.js';

const env = { PETSTORE_STORAGE: 'memory:' };
const keyed = { PETSTORE_API_KEYS: apiKey, PORT: '0' };
const counting = `
export default function (host) {
  let replies = 0;
  const handler = () => ({ status: 200, headers: [], body: JSON.stringify({ replies }) });
  const document = { operationId: 'countReplies', responses: { 200: { description: 'The count.' } } };
  host.route({ path: '/v1/replies', methods: { GET: { handler, document } } });
  host.route({ path: '/replies', methods: { GET: { handler } } });
  host.onReply(({ keyName }) => { if (keyName !== undefined) replies += 1; });
  host.describe((document) => { document['x-counts'] = true; });
  host.onClose(() => host.log('info', 'counted', { replies }));
}`;
/** A plugin whose one route is answered by a function of this code. */
const routing = (path: string, handler: string): string =>
  `plugin = (host) => host.route({ path: '${path}', methods: { GET: { handler: ${handler} } } });`;
const named = (path: string): string =>
  `exports.${routing(path, "() => ({ status: 200, headers: [], body: '1' })")}`;

describe('plugins', { concurrency: 4 }, () => {
  test('C41: a plugin adds a route below /v1 with a key and one outside without, watches replies, describes, closes', async (t) => {
    const here = new WorkingFolder(t, { 'counting.mjs': counting });
    const server = await here.start('--plugin ./counting.mjs', env);
    assert.equal((await fetch(`${server.url}/v1/replies`)).status, 401);
    assert.equal(await (await server.get('/v1/replies')).text(), '{"replies":0}');
    assert.equal(await (await fetch(`${server.url}/replies`)).text(), '{"replies":1}');
    const document = JSON.parse(await (await fetch(`${server.url}/openapi.json`)).text());
    assert.equal(document['x-counts'], true);
    assert.equal(document.paths['/replies'].get.operationId, 'countReplies');
    assert.equal((await server.end()).code, 0);
    assert.equal(server.log.find(({ msg }) => msg === 'counted')?.['replies'], 1);
  });

  test('a fault that nobody caught is logged, stops the server as a signal does, and exits 70', async (t) => {
    const failing =
      "() => { setTimeout(() => { throw new Error('of a plugin'); }); return { status: 200, headers: [], body: '1' }; }";
    const closing = "host.onClose(() => host.log('info', 'closed'))";
    const here = new WorkingFolder(t, {
      'faulty.mjs': `const ${routing('/fault', failing)} export default (host) => { plugin(host); ${closing}; };`,
    });
    const server = await here.start('--plugin ./faulty.mjs', env);
    await fetch(`${server.url}/fault`).catch(() => undefined);
    assert.equal((await server.ended).code, 70);
    const fault = server.log.find(({ level }) => level === 'error');
    assert.match(String(fault?.['error']), /of a plugin/);
    assert.ok(server.log.some(({ msg }) => msg === 'closed'));
  });

  test('--plugin can be repeated, PETSTORE_PLUGINS hold several: a path, a file URL, a package of the working folder', async (t) => {
    const installed = 'node_modules/@some/plugin';
    const here = new WorkingFolder(t, {
      'one.cjs': named('/one'),
      'two.cjs': named('/two'),
      // As npm would install it.
      [`${installed}/index.js`]: named('/three'),
      [`${installed}/package.json`]: '{"name":"@some/plugin","version":"1.0.0"}',
    });
    const url = pathToFileURL(here.at('two.cjs')).href;
    const line = `--plugin ./one.cjs --plugin=${url} --plugin @some/plugin`;
    const server = await here.start(line, { ...env, PETSTORE_PLUGINS: './nowhere.js' });
    for (const path of ['/one', '/two', '/three'])
      assert.equal((await fetch(server.url + path)).status, 200, path);

    // The variable holds several with commas between.
    const PETSTORE_PLUGINS = ` ./one.cjs, ${here.at('two.cjs')},`;
    const other = await here.start('', { ...env, PETSTORE_PLUGINS });
    for (const path of ['/one', '/two'])
      assert.equal((await fetch(other.url + path)).status, 200, path);
  });

  test("a PetstoreError that a plugin has from the package is the server's own, and its status reaches the client", async (t) => {
    const fail = "() => { throw new PetstoreError('unsupported_media_type', 'Not this one.'); }";
    const here = new WorkingFolder(t, {
      'module.mjs': `import { PetstoreError } from 'petstore'; export const ${routing('/esm', fail)}`,
      'script.cjs': `const { PetstoreError } = require('petstore'); exports.${routing('/cjs', fail)}`,
      'node_modules/.keep': '',
    });
    symlinkSync(root, here.at('node_modules/petstore'));
    const server = await here.start('--plugin ./module.mjs --plugin ./script.cjs', env);
    for (const path of ['/esm', '/cjs']) {
      const response = await fetch(server.url + path);
      assert.deepEqual(
        [response.status, await response.json()],
        [415, { code: 'unsupported_media_type', message: 'Not this one.', status: 415 }],
      );
    }
  });

  test('a plugin that --plugin names twice, by one name or by two, is refused with exit 2', async (t) => {
    const here = new WorkingFolder(t, { 'counting.mjs': counting });
    const url = pathToFileURL(here.at('counting.mjs')).href;
    for (const [one, other] of [
      ['./counting.mjs', './counting.mjs'],
      ['./counting.mjs', url],
      ['faults', 'faults'],
    ] as const) {
      const told = new RegExp(
        `^--plugin ${other} is a plugin that is there already; name it once$`,
        'm',
      );
      await here.refuses(`--plugin ${one} --plugin ${other}`, 2, told, keyed);
    }
    // What another option turns on may be named too.
    const dev = await here.start('--dev --plugin docs', env);
    assert.equal((await fetch(`${dev.url}/docs`)).status, 200);
  });

  const refusals: readonly (readonly [string, string, string, RegExp])[] = [
    [
      'that is not there',
      './nowhere.js',
      '',
      /^--plugin \.\/nowhere\.js cannot be loaded .*name an installed package/,
    ],
    ['of an unknown name', 'no-such-plugin', '', /^--plugin no-such-plugin cannot be loaded/],
    ['that leads out of the shipped ones', '..%2fserver', '', /cannot be loaded/],
    [
      'with a syntax error',
      './plugin.mjs',
      'export default function (',
      /^--plugin \.\/plugin\.mjs cannot be loaded/,
    ],
    [
      'that throws several lines',
      './plugin.mjs',
      'throw new Error("no\\nluck");',
      /cannot be loaded \(no\);/,
    ],
    [
      'that throws what is no error',
      './plugin.mjs',
      'throw "no luck";',
      /cannot be loaded \(no luck\);/,
    ],
    [
      'that exports no function',
      './plugin.mjs',
      'export default {};',
      /^--plugin \.\/plugin\.mjs is no plugin; .*export a function/,
    ],
  ];
  for (const [what, name, text, told] of refusals)
    testRefusals(
      [[`a plugin ${what}`, `--plugin ${name} --dev`, told]],
      text === '' ? {} : { [name]: text },
    );

  const failures: readonly (readonly [string, string, RegExp])[] = [
    ['whose path is taken', named('/v1/pets'), /failed to start \(.*\/v1\/pets/],
    [
      'that throws',
      'exports.plugin = () => { throw new Error("no\\nluck"); };',
      /failed to start \(no\); mend it/,
    ],
    [
      'that opens what cannot be opened',
      "exports.plugin = (host) => host.waitFor(Promise.reject(new Error('no such engine')));",
      /failed to start \(no such engine\); mend it/,
    ],
    [
      'whose own port is taken',
      `exports.plugin = (host) => host.waitFor(new Promise((resolve, reject) => {
        const one = require('node:net').createServer().listen(0, '127.0.0.1', () =>
          require('node:net').createServer().once('error', reject).listen(one.address().port, '127.0.0.1'));
      }));`,
      /failed to start \(listen EADDRINUSE.*\); mend it/,
    ],
  ];
  for (const [what, text, reason] of failures) {
    test(`a plugin ${what} is refused with exit 2 and one line that is of the plugin`, async (t) => {
      const here = new WorkingFolder(t, { 'plugin.cjs': text });
      const told = new RegExp(`^--plugin \\./plugin\\.cjs .*${reason.source}`);
      await here.refuses('--plugin ./plugin.cjs', 2, told, keyed);
    });
  }

  test('the storage is closed again after a plugin that throws', async (t) => {
    const text = `exports.plugin = ({ storage }) => {
      const { close } = storage;
      storage.close = async () => { await close.call(storage); process.stdout.write('closed'); };
      throw new Error('no luck');
    };`;
    const here = new WorkingFolder(t, { 'plugin.cjs': text });
    const ended = await here.command('--plugin ./plugin.cjs', keyed);
    assertRefused(ended, 2, /failed to start \(no luck\)/);
    assert.equal(ended.stdout, 'closed');
  });

  test('a plugin is called with an open storage', async (t) => {
    const here = new WorkingFolder(t, {
      'pets.jsonl': '{"id":1,"name":"a","categoryId":1}\n{"id":2,"name":"b","categoryId":1}\n',
      'plugin.cjs':
        "exports.plugin = (host) => host.log('info', 'called', { pets: host.storage.size });",
    });
    const server = await here.start('--storage file:pets.jsonl --plugin ./plugin.cjs');
    assert.equal((await server.said('called'))['pets'], 2);
  });
});
