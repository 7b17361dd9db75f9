// Tests plugins that the operator names: loading by path and by package, and refusals.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { describe } from 'node:test';
import { pathToFileURL } from 'node:url';
import { assertRefused, root } from '../support/process.js';
import { testInFolder, testRefusal } from '../support/working-folder.js';

/** Returns the code of a plugin with one route, whose handler has this code. */
const routing = (path: string, handler: string): string =>
  `plugin = (host) => host.route({ path: '${path}', methods: { GET: { handler: ${handler} } } });`;
const named = (path: string): string =>
  `exports.${routing(path, "() => ({ status: 200, headers: [], body: '1' })")}`;

describe('plugins', { concurrency: 4 }, () => {
  testInFolder(
    'logs an uncaught error of a plugin, closes cleanly and exits with 70',
    async (here) => {
      const failing =
        "() => { setTimeout(() => { throw new Error('of a plugin'); }); return { status: 200, headers: [], body: '1' }; }";
      const closing = "host.onClose(() => host.log('info', 'closed'))";
      here.write(
        'faulty.mjs',
        `const ${routing('/fault', failing)} export default (host) => { plugin(host); ${closing}; };`,
      );
      const server = await here.start('--storage memory: --plugin ./faulty.mjs');
      await server.get('/fault').catch(() => undefined);
      assert.equal((await server.ended).code, 70);
      const fault = server.log.find(({ level }) => level === 'error');
      assert.match(String(fault?.['error']), /of a plugin/);
      assert.ok(server.log.some(({ msg }) => msg === 'closed'));
    },
  );

  testInFolder(
    'loads several plugins by path, file URL, and package of the working folder',
    {
      // In a URL, these characters would have a meaning.
      'one%20#1.cjs': named('/one'),
      'two.cjs': named('/two'),
      // A package as npm installs it.
      'node_modules/@some/plugin/index.js': named('/three'),
      'node_modules/@some/plugin/package.json': '{"name":"@some/plugin","version":"1.0.0"}',
    },
    async (here) => {
      const url = pathToFileURL(here.at('two.cjs')).href;
      const server = await here.start(
        `PETSTORE_PLUGINS=./nowhere.js --storage memory: --plugin ./one%20#1.cjs --plugin=${url} --plugin @some/plugin`,
      );
      for (const path of ['/one', '/two', '/three'])
        assert.equal(await server.status(path), 200, path);

      // The variable is a comma-separated list.
      const PETSTORE_PLUGINS = ` ./one%20#1.cjs, ${here.at('two.cjs')},`;
      const other = await here.start('--storage memory:', { PETSTORE_PLUGINS });
      for (const path of ['/one', '/two']) assert.equal(await other.status(path), 200, path);
    },
  );

  const fail = "() => { throw new PetstoreError('unsupported_media_type', 'Not this one.'); }";
  testInFolder(
    'responds with the status of a PetstoreError that a plugin imports from the package',
    {
      'module.mjs': `import { PetstoreError } from 'petstore'; export const ${routing('/esm', fail)}`,
      'script.cjs': `const { PetstoreError } = require('petstore'); exports.${routing('/cjs', fail)}`,
    },
    async (here) => {
      mkdirSync(here.at('node_modules'));
      symlinkSync(root, here.at('node_modules/petstore'));
      const server = await here.start(
        '--storage memory: --plugin ./module.mjs --plugin ./script.cjs',
      );
      for (const path of ['/esm', '/cjs']) {
        const response = await server.get(path);
        assert.deepEqual(
          [response.status, await response.json()],
          [415, { code: 'unsupported_media_type', message: 'Not this one.', status: 415 }],
        );
      }
    },
  );

  testInFolder(
    'exits with 2 if --plugin names a plugin twice, even by two names',
    { 'one.cjs': named('/one') },
    async (here) => {
      const url = pathToFileURL(here.at('one.cjs')).href;
      for (const [one, other] of [
        ['./one.cjs', './one.cjs'],
        ['./one.cjs', url],
        ['faults', 'faults'],
      ] as const) {
        const message = new RegExp(
          `^--plugin ${other} names a plugin that is already loaded; name it once\n$`,
        );
        await here.refuses(`--plugin ${one} --plugin ${other}`, 2, message);
      }
      // A plugin that another option turns on may also be named.
      const dev = await here.start('--storage memory: --dev --plugin docs');
      assert.equal(await dev.status('/docs'), 200);
    },
  );

  const broken = 'const a = 1;\n\nexport default function (';
  for (const [plugin, files, place, reason] of [
    ['./a.mjs', { 'a.mjs': broken }, 'a.mjs:3', 'Unexpected end of input'],
    ['./a.mjs', { 'a.mjs': "import './b.mjs';", 'b.mjs': broken }, 'b.mjs:3', 'Unexpected end'],
    ['./a.cjs', { 'a.cjs': '\nlet let = 1;' }, 'a.cjs:2', 'let is disallowed'],
    ['./a.cjs', { 'a.cjs': "require('./b.cjs');", 'b.cjs': 'let let;' }, 'b.cjs:1', 'let is'],
    ['./a.mjs', { 'a.mjs': "\nimport { no } from './b.mjs';", 'b.mjs': '' }, 'a.mjs:2', '.*no'],
    ['./a b.mjs', { 'a b.mjs': '\n\nabsent.call();' }, 'a b.mjs:3', 'absent is not defined'],
    ['./a.mjs', { 'a.mjs': '\nundefined.call();' }, 'a.mjs:2', 'Cannot read properties'],
  ] as const)
    testInFolder(
      `exits with 2 for an error in the source of ${plugin}, and names ${place}`,
      files,
      async (here) => {
        const message = new RegExp(
          `^--plugin ${plugin} cannot be loaded \\(${reason}.*, in ${here.at(place)}\\); fix the plugin, or leave it out\n$`,
        );
        await here.refuses(['--plugin', plugin], 2, message);
      },
    );

  for (const [source, problem] of [
    ['export default () => new Promise(() => {});', 'failed to start'],
    ['export default (host) => host.waitFor(new Promise(() => {}));', 'failed to start'],
    ['export default (host) => host.onStart(() => new Promise(() => {}));', 'failed to start'],
    ['await new Promise(() => {}); export default () => {};', 'cannot be loaded'],
  ] as const)
    testInFolder(
      `exits with 2 if a plugin waits for a promise that cannot settle: ${source}`,
      { 'a.mjs': source },
      async (here) => {
        const message = new RegExp(
          `^--plugin ./a.mjs ${problem} \\(it waits for a promise that nothing settles\\);`,
        );
        // In a process of its own, because the shared one of `refuses` has other work left.
        for (const storage of ['memory:', 'file:a.jsonl'])
          assertRefused(
            await here.begin(`--plugin ./a.mjs --storage ${storage}`).ended,
            2,
            message,
          );
      },
    );

  testInFolder(
    'locates a syntax error without running any module',
    {
      'a.mjs': "import './b.mjs';\nimport './c.mjs';",
      'b.mjs': "await import('node:fs').then(({ writeFileSync }) => writeFileSync('ran', ''));",
      'c.mjs': broken,
    },
    async (here) => {
      await here.refuses('--plugin ./a.mjs', 2, /c\.mjs:3/);
      assert.ok(!existsSync(here.at('ran')));
    },
  );

  for (const [what, text, reason] of [
    ['returns a function', 'export default () => () => undefined', 'it returned a function: .*'],
    [
      'calls waitFor without a promise',
      'export default (host) => host.waitFor(5)',
      'waitFor takes a promise, not 5',
    ],
    [
      'throws in onStart',
      "export default (host) => host.onStart(() => { throw new Error('no start'); })",
      'no start',
    ],
    [
      'adds a hook that is not a function',
      'export default (host) => host.around()',
      'around takes a function, not undefined',
    ],
  ] as const)
    testInFolder(`exits with 2 for a plugin that ${what}`, { 'a.mjs': text }, async (here) => {
      const message = new RegExp(`^--plugin ./a.mjs failed to start \\(${reason}\\); `);
      await here.refuses('--plugin ./a.mjs --storage memory: --port 0', 2, message);
    });

  for (const [what, name, text, message] of [
    [
      'that does not exist',
      './nowhere.js',
      '',
      /^--plugin \.\/nowhere\.js cannot be loaded .*name an installed package/,
    ],
    ['of an unknown name', 'no-such-plugin', '', /^--plugin no-such-plugin cannot be loaded/],
    ['with a path outside of the shipped plugins', '..%2fserver', '', /cannot be loaded/],
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
    ['that throws a string', './plugin.mjs', 'throw "no luck";', /cannot be loaded \(no luck\);/],
    [
      'that exports no function',
      './plugin.mjs',
      'export default {};',
      /^--plugin \.\/plugin\.mjs is not a plugin; export a function/,
    ],
  ] as const)
    testRefusal(
      `--plugin ${name} --dev`,
      message,
      text === '' ? {} : { [name]: text },
      `a plugin ${what}`,
    );

  for (const [what, text, reason] of [
    ['whose path is already used', named('/v1/pets'), '.*/v1/pets'],
    [
      'that throws',
      'exports.plugin = () => { throw new Error("no\\nluck"); };',
      'no\\); fix the plugin',
    ],
    [
      'whose promise rejects',
      "exports.plugin = (host) => host.waitFor(Promise.reject(new Error('no such engine')));",
      'no such engine\\); fix the plugin',
    ],
    [
      'whose port is in use',
      `exports.plugin = (host) => host.waitFor(new Promise((resolve, reject) => {
        const one = require('node:net').createServer().listen(0, '127.0.0.1', () =>
          require('node:net').createServer().once('error', reject).listen(one.address().port, '127.0.0.1'));
      }));`,
      'address already in use .*\\); fix the plugin',
    ],
  ] as const) {
    const message = new RegExp(`^--plugin \\./plugin\\.cjs failed to start \\(${reason}`);
    testRefusal(
      '--plugin ./plugin.cjs --storage memory:',
      message,
      { 'plugin.cjs': text },
      `a plugin ${what}`,
    );
  }

  testInFolder('closes the storage if a plugin throws', async (here) => {
    const text = `exports.plugin = ({ storage }) => {
      const { close } = storage;
      storage.close = async () => { await close.call(storage); process.stdout.write('closed'); };
      throw new Error('no luck');
    };`;
    here.write('plugin.cjs', text);
    const ended = await here.command('--plugin ./plugin.cjs');
    assertRefused(ended, 2, /failed to start \(no luck\)/);
    assert.equal(ended.stdout, 'closed');
  });

  testInFolder(
    'opens the storage before it calls a plugin',
    {
      'pets.jsonl': '{"id":1,"name":"a","categoryId":1}\n{"id":2,"name":"b","categoryId":1}\n',
      'plugin.cjs':
        "exports.plugin = (host) => host.log('info', 'called', { pets: host.storage.size });",
    },
    async (here) => {
      const server = await here.start('--storage file:pets.jsonl --plugin ./plugin.cjs');
      assert.equal((await server.waitForLog('called'))['pets'], 2);
    },
  );
});
