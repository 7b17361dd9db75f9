// Tests the process with functions of Node replaced by a module that is loaded first.
import assert from 'node:assert/strict';
import { pathToFileURL } from 'node:url';
import { apiKey, StartedProcess } from '../support/process.js';
import { testInFolder, type WorkingFolder } from '../support/working-folder.js';

/** Returns the variables that load `preload.mjs` of the folder before the program. */
const preloading = (here: WorkingFolder) => ({
  NODE_OPTIONS: `--import ${pathToFileURL(here.at('preload.mjs')).href}`,
});

testInFolder(
  'C40 keys add syncs the new file, renames it, then syncs the name',
  {
    'preload.mjs': `import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
const calls = [];
const pathOf = (descriptor) => fs.readlinkSync('/proc/self/fd/' + descriptor);
const note = (name, toText) => {
  const call = fs[name];
  fs[name] = (...args) => (calls.push(name + ' ' + toText(args[0])), call(...args));
};
note('fsync', pathOf);
note('fsyncSync', pathOf);
note('renameSync', String);
syncBuiltinESMExports();
process.on('exit', () => fs.writeFileSync('calls', calls.join('\\n')));`,
    'data/.keep': '',
  },
  async (here) => {
    const { code, stderr } = await here.begin('keys add alice', preloading(here)).ended;
    assert.equal(code, 0, stderr);
    const calls = here.read('calls').replaceAll(`${here.path}/`, '').split('\n');
    assert.deepEqual(calls, [
      'fsyncSync data/keys.json.lock',
      'renameSync data/keys.json.lock',
      'fsync data',
    ]);
  },
);

for (const line of [
  'import in.jsonl',
  'copy --from file:a.jsonl --to file:b.jsonl',
  `verify URL --key ${apiKey}`,
])
  for (const signal of ['SIGINT', 'SIGTERM'])
    testInFolder(
      `clears the progress if ${signal} ends the process: ${line}`,
      {
        'in.jsonl': '{"name":"a","categoryId":1}\n'.repeat(10_000),
        'preload.mjs': `const { stderr } = process;
const write = stderr.write.bind(stderr);
stderr.write = (text, ...rest) => {
  if (/\\d (pets?|rules)/.test(text)) process.kill(process.pid, '${signal}');
  return write(text, ...rest);
};`,
      },
      async (here) => {
        await here.done('import in.jsonl --storage file:a.jsonl');
        const { url } = await here.start('--storage memory:');
        const env = { TERM: 'xterm', ...preloading(here) };
        const { code, stdout } = await here.onTerminal(line.replace('URL', url), env).ended;
        assert.equal(code, signal === 'SIGINT' ? 130 : 143);
        // A shell may name the signal in the cleared line.
        assert.match(stdout, /\d (pets?|rules)\u001b\[K\r\u001b\[K[^\u001b]*$/);
      },
    );

testInFolder(
  'exits with 1 and logs the reason if closing the storage fails',
  {
    'preload.mjs': `import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
const { close } = fs;
let isStopping = false;
process.on('SIGTERM', () => (isStopping = true));
fs.close = (descriptor, callback) =>
  isStopping
    ? callback(Object.assign(new Error('EIO: i/o error, close'), { code: 'EIO' }))
    : close(descriptor, callback);
syncBuiltinESMExports();`,
  },
  async (here) => {
    const server = await here.start('--storage file:pets.jsonl', preloading(here));
    assert.equal((await server.add('a')).status, 201);
    assert.equal((await server.end()).code, 1);
    const { level, error } = server.log.find(({ msg }) => msg === 'closing failed') ?? {};
    assert.equal(level, 'error');
    assert.match(String(error), /EIO/);
  },
);

testInFolder(
  'C75 the 9.5 s of the shutdown begin after a longer drain',
  {
    // Ends the drain at once, and fires each timer that would have fired during it.
    'preload.mjs': `import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers';
import promises from 'node:timers/promises';
const { setTimeout } = timers;
let isDraining = false;
const ends = [];
process.on('SIGTERM', () => (isDraining = true));
timers.setTimeout = (callback, ms, ...args) => {
  if (isDraining && ms < 20_000) ends.push(callback);
  return setTimeout(callback, ms, ...args);
};
promises.setTimeout = async (ms) => {
  if (ms === 20_000) for (const end of ends) end();
};
syncBuiltinESMExports();`,
  },
  async (here) => {
    const server = await here.start('--storage memory: --drain 20', preloading(here));
    await server.stopCleanly();
    assert.deepEqual(
      server.log.slice(1).map(({ msg }) => msg),
      ['draining', 'stopping'],
    );
  },
);

testInFolder(
  'clears every timer when it closes with open connections',
  {
    'embedding.mjs': `import { createHook } from 'node:async_hooks';
import { connect } from 'node:net';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { createPetstore } from ${JSON.stringify(import.meta.resolve('../../dist/index.js'))};
const timers = new Map();
createHook({
  init: (id, type) => type === 'Timeout' && timers.set(id, new Error('started here').stack),
  destroy: (id) => timers.delete(id),
}).enable();
const petstore = createPetstore({ keys: ['a'] });
const { port } = await petstore.listen({ port: 0 });
for (const bytes of ['', 'GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n', 'garbage\\r\\n\\r\\n']) {
  const socket = connect(port, '127.0.0.1').on('error', () => {});
  await once(socket, 'connect');
  socket.resume().write(bytes);
}
await wait(50);
await petstore.close();
// A connection is closed, and its timers are cleared, some ticks later.
const closedAt = performance.now();
while (timers.size > 1 && performance.now() - closedAt < 4_000) await wait(20);
process.stdout.write([...timers.values()].filter((stack) => stack.includes('/dist/')).join('\\n'));
process.exit();`,
  },
  async (here) => {
    const args = ['embedding.mjs'];
    const { code, stdout, stderr } = await new StartedProcess(process.execPath, args, {
      cwd: here.path,
    }).ended;
    assert.deepEqual([code, stdout, stderr], [0, '', '']);
  },
);
