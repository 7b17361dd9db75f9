/**
 * Runs the suite as `npm run build-tests` built it: the test files as processes side by side, and one PostgreSQL server for
 * all that need just any, where its programs are installed. `node test-dist/run.js http storage` runs those folders alone.
 */
import { setMaxListeners } from 'node:events';
import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { Cluster, serverPrograms } from './postgres/cluster.js';

/** These take longest, many of them by waiting: begun first, they go on beside all others. */
const longest = [
  ...['postgres/standby', 'http/slow', 'postgres/servers', 'deploy/balancers', 'postgres/trouble', 'postgres/waiting'],
  ...['postgres/faults', 'postgres/schema', 'postgres/outcome', 'postgres/copy', 'standalone/crash', 'postgres/http'],
  ...['http/embedded', 'standalone/commands', 'standalone/signals', 'http/unread', 'plugins/page', 'plugins/docs'],
];

const folder = import.meta.dirname;
const folders = process.argv.slice(2);
const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.js') && (folders.length === 0 || folders.includes(dirname(name))))
  .map((name) => name.slice(0, -'.test.js'.length))
  .sort();
const inOrder = [...longest.filter((name) => names.includes(name)), ...names.filter((name) => !longest.includes(name))];
const given = process.env['PETSTORE_TEST_POSTGRES_URL'];
const needsOne = names.some((name) => /^(postgres|deploy)\//.test(name));
const cluster =
  !needsOne || given || serverPrograms() === undefined ? undefined : await Cluster.start(['max_connections=400']);
if (cluster !== undefined) {
  process.env['PETSTORE_TEST_POSTGRES_URL'] = cluster.url;
  process.env['PETSTORE_TEST_POSTGRES_THROWN_AWAY'] = '1';
}
process.env['NODE_OPTIONS'] =
  `${process.env['NODE_OPTIONS'] ?? ''} --import=${import.meta.resolve('./support/deadline.js')}`;

const stop = new AbortController();
// Each file that is at work listens to it.
setMaxListeners(0, stop.signal);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
const suite = run({
  files: inOrder.map((name) => join(folder, `${name}.test.js`)),
  concurrency: 8,
  timeout: 480_000,
  signal: stop.signal,
});
suite.on('test:fail', () => (process.exitCode = 1));
for await (const text of suite.compose(new spec())) process.stdout.write(text);
await cluster?.remove();
