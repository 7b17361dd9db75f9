/** Runs the tests of HTTP that a storage has a part in once more, with PostgreSQL beneath. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { atEnd, type Ending } from '../support/at-end.js';
import { extension, extensionArgs, root, StartedProcess } from '../support/process.js';
import { adminUrl } from './database.js';

/**
 * What no storage has a part in: the library's options, damaged requests, connections and their
 * ends, certificates.
 */
const ofHttpAlone = [
  ...['early-answers', 'framing', 'generated', 'options', 'plugins'],
  ...['properties', 'slow', 'stopping', 'tls', 'unread'],
];
/** What asks a petstore within the process, without servers between. */
const inProcess = 'embedded';

const folder = join(import.meta.dirname, '../http');
const suffix = `.test${extension}`;

/**
 * Runs them over storages within their process, or through servers that share one database; all
 * must pass.
 */
export async function passHttpSuite(t: Ending, storage: 'postgres' | 'servers'): Promise<void> {
  const all = readdirSync(folder).filter((file) => file.endsWith(suffix));
  const left = [...ofHttpAlone, inProcess];
  const names =
    storage === 'postgres'
      ? [inProcess, 'conformance'].map((name) => name + suffix)
      : all.filter((file) => !left.includes(file.slice(0, -suffix.length)));
  // One process for all files, so that they share its servers.
  const imports = names
    .map((name) => `import ${JSON.stringify(pathToFileURL(join(folder, name)).href)};`)
    .join('');
  const { NODE_TEST_CONTEXT: _runner, ...env } = process.env;
  const args = [...extensionArgs, '--test-reporter=tap', '--input-type=module', '--eval', imports];
  const suite = new StartedProcess(process.execPath, args, {
    cwd: root,
    env: {
      ...env,
      PETSTORE_TEST_STORAGE: storage,
      PETSTORE_TEST_POSTGRES_URL: await adminUrl(),
    },
    isGroup: true,
  });
  atEnd(t, () => suite.end('SIGKILL'));
  const { code, stdout } = await suite.ended;
  const told = stdout.split('\n').filter((line) => /not ok|error:|expected|actual/.test(line));
  assert.equal(code, 0, `${told.join('\n')}${suite.stderr}`);
  const passed = Number(/^# pass (\d+)$/m.exec(stdout)?.[1]);
  assert.ok(passed >= (storage === 'servers' ? 85 : 21), `only ${passed} tests`);
}
