/**
 * Runs the suite as `npm run build-tests` built it, in processes side by side, and one PostgreSQL
 * server for all that need just any, where its programs are installed. `node test-dist/run.js http
 * storage` runs those folders alone.
 */
import assert from 'node:assert/strict';
import { setMaxListeners } from 'node:events';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { Cluster, serverPrograms } from './postgres/cluster.js';

/** These mostly wait: begun first, they go on beside what computes. */
const waiting = ['postgres/standby', 'http/slow', 'postgres/waiting', 'postgres/outcome'];
/**
 * These take longest, those first that also wait. Each file of the two lists has a process of its
 * own; the other files of a folder share one, for the start of a process takes longer than most of
 * their tests.
 */
const longest = [
  'change',
  ...[
    'postgres/servers',
    'postgres/copy',
    'deploy/balancers',
    'postgres/schema',
    'postgres/faults',
  ],
  ...[
    'postgres/trouble',
    'postgres/http',
    'http/embedded',
    'standalone/signals',
    'standalone/crash',
  ],
  ...[
    'standalone/commands',
    'http/unread',
    'storage/once',
    'http/generated',
    'standalone/copy',
    'http/properties',
  ],
];
const alone = [...waiting, ...longest];

const folder = import.meta.dirname;
for (const name of alone)
  assert.ok(existsSync(join(folder, `${name}.test.js`)), `there is no test file ${name}`);
const folders = process.argv.slice(2);
const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter(
    (name) =>
      name.endsWith('.test.js') && (folders.length === 0 || folders.includes(dirname(name))),
  )
  .map((name) => name.slice(0, -'.test.js'.length))
  .sort();
const short = names.filter((name) => !alone.includes(name));
// storage and standalone compute most: last by name, they begin beside what waits.
const shared = [...new Set(short.map(dirname))].reverse().map((of) => {
  const imports = short
    .filter((name) => dirname(name) === of)
    .map((name) => `import './${basename(name)}.test.js';\n`);
  const file = join(folder, of, 'short.js');
  writeFileSync(file, imports.join(''));
  return file;
});
const filesOf = (list: readonly string[]): readonly string[] =>
  list.filter((name) => names.includes(name)).map((name) => join(folder, `${name}.test.js`));
const given = process.env['PETSTORE_TEST_POSTGRES_URL'];
const needsOne = names.some((name) => /^(postgres|deploy)\//.test(name));
const hasPrograms = needsOne && serverPrograms() !== undefined;
const made = hasPrograms ? await Cluster.make() : undefined;
if (made !== undefined) process.env['PETSTORE_TEST_POSTGRES_MADE'] = made.folder;
const cluster = hasPrograms && !given ? await Cluster.start(['max_connections=400']) : undefined;
if (cluster !== undefined) {
  process.env['PETSTORE_TEST_POSTGRES_URL'] = cluster.url;
  process.env['PETSTORE_TEST_POSTGRES_THROWN_AWAY'] = '1';
}
// Each process would read the certificates that it names, for longer than it takes to start; only a
// given database needs any.
if (!given) delete process.env['NODE_EXTRA_CA_CERTS'];
process.env['NODE_OPTIONS'] =
  `${process.env['NODE_OPTIONS'] ?? ''} --import=${import.meta.resolve('./support/deadline.js')}`;

const stop = new AbortController();
// Each file that is at work listens to it.
setMaxListeners(0, stop.signal);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
const suite = run({
  files: [...filesOf(waiting), ...shared, ...filesOf(longest)],
  // On two cores: with six both were idle for four seconds more, while all six waited.
  concurrency: 8,
  timeout: 480_000,
  signal: stop.signal,
});
suite.on('test:fail', () => (process.exitCode = 1));
for await (const text of suite.compose(new spec())) process.stdout.write(text);
await Promise.all([cluster?.remove(), made?.remove()]);
