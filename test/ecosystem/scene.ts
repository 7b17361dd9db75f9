// The scene of clients of others: a petstore with orders, its document, and programs that npx
// downloads.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createPetstore, type Petstore, type Plugin } from '../../dist/index.js';
import { faultsPlugin } from '../../dist/plugins/faults.js';
import { ordersPlugin } from '../../dist/plugins/orders.js';
import { atEnd, type Ending } from '../support/at-end.js';
import { callersEnvironment } from '../support/environment.js';
import { key } from '../support/fixture.js';
import { folder, StartedProcess } from '../support/process.js';

export { key };

/** The programs that npx downloads, with their versions. */
export const programs = {
  prism: '@stoplight/prism-cli@5.14.2',
  redocly: '@redocly/cli@2.77.0',
  spectral: '@stoplight/spectral-cli@6.16.3',
} as const;

/** The plugins that add to the OpenAPI document. */
const documentedPlugins = (): readonly Plugin[] => [ordersPlugin(), faultsPlugin()];

/** Returns a petstore that closes after the test. */
export function petstoreOf(t: Ending, more: readonly Plugin[] = []): Petstore {
  const petstore = createPetstore({ keys: [key], plugins: [...documentedPlugins(), ...more] });
  atEnd(t, petstore.close);
  return petstore;
}

/** Returns the OpenAPI document of such a petstore. */
export async function documentText(): Promise<string> {
  const { fetch, close } = createPetstore({ keys: [key], plugins: documentedPlugins() });
  const text = await (await fetch(new Request('http://any/openapi.json'))).text();
  await close();
  return text;
}

/** Writes the document to a file in a new folder, and returns the path. */
export async function documentFile(t: Ending): Promise<string> {
  const file = join(folder(t), 'openapi.json');
  writeFileSync(file, await documentText());
  return file;
}

/** Starts a program, which ends after the test with all processes that it has started. */
export function program(
  t: Ending,
  cwd: string,
  command: string,
  ...args: readonly string[]
): StartedProcess {
  // Without the last variable, a test runner would behave as a child of this test runner.
  const env = {
    ...callersEnvironment,
    REDOCLY_TELEMETRY: 'off',
    NO_COLOR: '1',
    NODE_TEST_CONTEXT: undefined,
    // The program would warn of a variable that it does not know.
    PETSTORE_TEST_NO_SKIP: undefined,
  };
  const running = new StartedProcess(command, args, { cwd, env, isGroup: true });
  atEnd(t, () => running.end('SIGKILL'));
  return running;
}

/** Runs a program, checks that it exits with 0, and returns its standard output. */
export async function run(
  t: Ending,
  cwd: string,
  command: string,
  ...args: readonly string[]
): Promise<string> {
  const running = program(t, cwd, command, ...args);
  const { code, stdout } = await running.ended;
  assert.equal(code, 0, `${command} ${args.join(' ')}: ${running.output}`);
  return stdout;
}

/** Returns the arguments with which npx runs one of the programs. */
export function npxArgs(
  name: keyof typeof programs,
  ...args: readonly string[]
): readonly string[] {
  return ['--yes', `--package=${programs[name]}`, '--', name, ...args];
}

/**
 * Adds, lists and fetches a pet and causes an error, over HTTP, on an empty petstore that a host
 * has mounted under a path.
 */
export async function useMounted(origin: string, mounted = ''): Promise<void> {
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  const pets = `${origin}${mounted}/v1/pets`;
  const pet = '{"name":"Rex 🐕","categoryId":9223372036854775807}';
  const stored = `{"id":1,${pet.slice(1)}`;
  const added = await fetch(pets, { method: 'POST', headers, body: pet });
  assert.deepEqual(
    [added.status, added.headers.get('Location'), await added.text()],
    [201, `${mounted}/v1/pets/1`, stored],
  );
  assert.equal(await (await fetch(`${pets}/1`, { headers })).text(), stored);
  const listed = await fetch(`${pets}?limit=1`, { headers });
  assert.deepEqual(
    [await listed.text(), listed.headers.get('Cache-Control')],
    [`[${stored}]`, 'no-store'],
  );
  const head = await fetch(`${pets}/1`, { method: 'HEAD', headers });
  assert.deepEqual([head.status, await head.text()], [200, '']);
  assert.equal((await fetch(`${origin}${mounted}/healthz`)).status, 200);

  for (const [status, code, path, init] of [
    [401, 'unauthorized', '', {}],
    [404, 'not_found', '/2', { headers }],
    [405, 'method_not_allowed', '', { method: 'DELETE', headers }],
    [400, 'invalid_json', '', { method: 'POST', headers, body: '{"name":' }],
    [413, 'content_too_large', '', { method: 'POST', headers, body: 'x'.repeat(70_000) }],
  ] as const) {
    const response = await fetch(pets + path, init);
    const error = Object(await response.json());
    assert.deepEqual([response.status, error.status, error.code], [status, status, code]);
  }
}
