// Plugins of the operator: by path, by package, and refused.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { command } from '../support/command.js';
import { apiKey, assertRefused, folder, root, runServer, startServer } from '../support/process.js';

const env = { PETSTORE_STORAGE: 'memory:' };
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
const named = (path: string): string =>
  `exports.plugin = (host) => host.route({ path: '${path}', methods: { GET: { handler: () => ({ status: 200, headers: [], body: '1' }) } } });`;

/** A package as npm would install it. */
function install(cwd: string, name: string, text: string): void {
  mkdirSync(join(cwd, 'node_modules', name), { recursive: true });
  writeFileSync(join(cwd, 'node_modules', name, 'index.js'), text);
  writeFileSync(
    join(cwd, 'node_modules', name, 'package.json'),
    JSON.stringify({ name, version: '1.0.0' }),
  );
}

describe('plugins', { concurrency: 4 }, () => {
  test('C41: a plugin adds a route below /v1 with a key and one outside without, watches replies, describes, closes', async (t) => {
    const cwd = folder(t);
    writeFileSync(join(cwd, 'counting.mjs'), counting);
    const server = await startServer(t, ['--plugin', './counting.mjs'], { cwd, env });
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
    const cwd = folder(t);
    const handler =
      "() => { setTimeout(() => { throw new Error('of a plugin'); }); return { status: 200, headers: [], body: '1' }; }";
    writeFileSync(
      join(cwd, 'faulty.mjs'),
      `export default (host) => { host.route({ path: '/fault', methods: { GET: { handler: ${handler} } } }); host.onClose(() => host.log('info', 'closed')); };`,
    );
    const server = await startServer(t, ['--plugin', './faulty.mjs'], { cwd, env });
    await fetch(`${server.url}/fault`).catch(() => undefined);
    assert.equal((await server.ended).code, 70);
    const fault = server.log.find(({ level }) => level === 'error');
    assert.match(String(fault?.['error']), /of a plugin/);
    assert.ok(server.log.some(({ msg }) => msg === 'closed'));
  });

  test('--plugin can be repeated: a path, a file URL, a package of the working folder', async (t) => {
    const cwd = folder(t);
    writeFileSync(join(cwd, 'one.cjs'), named('/one'));
    writeFileSync(join(cwd, 'two.cjs'), named('/two'));
    install(cwd, '@some/plugin', named('/three'));
    const flags = [
      '--plugin',
      './one.cjs',
      `--plugin=${pathToFileURL(join(cwd, 'two.cjs')).href}`,
      '--plugin',
      '@some/plugin',
    ];
    const server = await startServer(t, flags, {
      cwd,
      env: { ...env, PETSTORE_PLUGINS: './nowhere.js' },
    });
    for (const path of ['/one', '/two', '/three'])
      assert.equal((await fetch(server.url + path)).status, 200, path);
  });

  for (const [file, importing] of [
    ['failing.mjs', "import { PetstoreError } from 'petstore'; export { plugin };"],
    ['failing.cjs', "const { PetstoreError } = require('petstore'); exports.plugin = plugin;"],
  ] as const) {
    test(`a PetstoreError that a plugin has from the package is the server's own, and its status reaches the client: ${file}`, async (t) => {
      const cwd = folder(t);
      mkdirSync(join(cwd, 'node_modules'));
      symlinkSync(root, join(cwd, 'node_modules/petstore'));
      const fail = "() => { throw new PetstoreError('unsupported_media_type', 'Not this one.'); }";
      writeFileSync(
        join(cwd, file),
        `${importing} function plugin(host) { host.route({ path: '/fail', methods: { GET: { handler: ${fail} } } }); }`,
      );
      const server = await startServer(t, ['--plugin', `./${file}`], { cwd, env });
      const response = await fetch(`${server.url}/fail`);
      assert.deepEqual(
        [response.status, await response.json()],
        [415, { code: 'unsupported_media_type', message: 'Not this one.', status: 415 }],
      );
    });
  }

  test('a plugin that --plugin names twice, by one name or by two, is refused with exit 2', async (t) => {
    const cwd = folder(t);
    writeFileSync(join(cwd, 'counting.mjs'), counting);
    const url = pathToFileURL(join(cwd, 'counting.mjs')).href;
    for (const [one, other] of [
      ['./counting.mjs', './counting.mjs'],
      ['./counting.mjs', url],
      ['faults', 'faults'],
    ] as const) {
      const args = ['--plugin', one, '--plugin', other];
      const ended = await command(args, { cwd, env: { ...env, PETSTORE_API_KEYS: apiKey } });
      assertRefused(ended, 2, /^--plugin (.*) is a plugin that is there already; name it once$/m);
      assert.ok(ended.stderr.includes(other), ended.stderr);
    }
    // What another option turns on may be named too.
    const dev = await startServer(t, ['--dev', '--plugin', 'docs'], { cwd, env });
    assert.equal((await fetch(`${dev.url}/docs`)).status, 200);
  });

  test('PETSTORE_PLUGINS holds several with commas between', async (t) => {
    const cwd = folder(t);
    writeFileSync(join(cwd, 'one.cjs'), named('/one'));
    writeFileSync(join(cwd, 'two.cjs'), named('/two'));
    const server = await startServer(t, [], {
      cwd,
      env: { ...env, PETSTORE_PLUGINS: ` ./one.cjs, ${join(cwd, 'two.cjs')},` },
    });
    for (const path of ['/one', '/two'])
      assert.equal((await fetch(server.url + path)).status, 200, path);
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
  for (const [what, name, text, line] of refusals) {
    test(`a plugin ${what} is refused with exit 2 before storage is touched`, async (t) => {
      const cwd = folder(t);
      if (text !== '') writeFileSync(join(cwd, name), text);
      assertRefused(
        await command(['--plugin', name, '--dev'], { cwd, env: { PORT: '0' } }),
        2,
        line,
      );
      assert.ok(!readdirSync(cwd).includes('data'));
    });
  }

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
  for (const [what, text, line] of failures) {
    test(`a plugin ${what} is refused with exit 2 and one line that is of the plugin`, async (t) => {
      const cwd = folder(t);
      writeFileSync(join(cwd, 'plugin.cjs'), text);
      const ended = await runServer(['--plugin', './plugin.cjs'], {
        cwd,
        env: { PORT: '0', PETSTORE_API_KEYS: apiKey },
      });
      assertRefused(ended, 2, line);
      assert.match(ended.stderr, /^--plugin \.\/plugin\.cjs /);
    });
  }

  test('the storage is closed again after a plugin that throws', async (t) => {
    const cwd = folder(t);
    const text = `exports.plugin = ({ storage }) => {
      const { close } = storage;
      storage.close = async () => { await close.call(storage); process.stdout.write('closed'); };
      throw new Error('no luck');
    };`;
    writeFileSync(join(cwd, 'plugin.cjs'), text);
    const ended = await runServer(['--plugin', './plugin.cjs'], {
      cwd,
      env: { PORT: '0', PETSTORE_API_KEYS: apiKey },
    });
    assertRefused(ended, 2, /failed to start \(no luck\)/);
    assert.equal(ended.stdout, 'closed');
  });

  test('a plugin is called with an open storage', async (t) => {
    const cwd = folder(t);
    writeFileSync(
      join(cwd, 'pets.jsonl'),
      '{"id":1,"name":"a","categoryId":1}\n{"id":2,"name":"b","categoryId":1}\n',
    );
    writeFileSync(
      join(cwd, 'plugin.cjs'),
      "exports.plugin = (host) => host.log('info', 'called', { pets: host.storage.size });",
    );
    const server = await startServer(
      t,
      ['--storage', 'file:pets.jsonl', '--plugin', './plugin.cjs'],
      {
        cwd,
      },
    );
    assert.equal((await server.said('called'))['pets'], 2);
  });
});
