// compose.yaml without Docker: the commands of its services, one after the other, on a database.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { newSchema, withoutDatabase } from '../postgres/database.js';
import { freePort, root, StartedProcess } from '../support/process.js';
import { WorkingFolder } from '../support/working-folder.js';

const compose = readFileSync(join(root, 'compose.yaml'), 'utf8');

/** Returns the lines of a service, or of the part that services share. */
function blockOf(name: string): string {
  const pattern = new RegExp(`^( *)${name}:.*\\n((?:\\1 .*\\n|\\n)*)`, 'm');
  return pattern.exec(compose)?.[2] ?? assert.fail(`compose.yaml has no ${name}`);
}

/** Returns the words of a list of a service, such as its command. */
function wordsOf(service: string, key: string): readonly string[] {
  const list = new RegExp(`^ +${key}: \\[(.*)\\]$`, 'm').exec(blockOf(service))?.[1] ?? '';
  assert.notEqual(list, '', `${service} has a ${key}`);
  // The words of the health check have commas within quotes.
  return Array.from(
    list.matchAll(/"([^"]*)"|'([^']*)'|([^\s,]+)/g),
    ([, double, single, plain]) => double ?? single ?? plain ?? '',
  );
}

test('the services of compose.yaml migrate a database, and serve it until SIGTERM', {
  skip: withoutDatabase(),
}, async (t) => {
  const here = new WorkingFolder(t);
  const url = await newSchema();
  const shared = blockOf('x-petstore');
  const [, form = ''] = /PETSTORE_STORAGE: (\S+)$/m.exec(shared.replace(/:\?[^}]*/, '')) ?? [];
  // The form of the URL is valid; the test has another database.
  assert.ok(URL.canParse(form.replace(/\$\{\w+\}/, 'abc123')), form);
  const port = await freePort();
  const env = { PETSTORE_STORAGE: url, PORT: port, PETSTORE_API_KEYS: '' };

  const migrated = await here.begin(wordsOf('migrate', 'command'), env).ended;
  assert.deepEqual([migrated.code, migrated.stderr], [0, '']);

  const server = wordsOf('server', 'command');
  const refused = await here.begin(server, env).ended;
  assert.equal(refused.code, 2);
  assert.match(refused.stderr, /keys add NAME/);
  const key = (await here.begin('keys add alice', env).ended).stdout.trim();

  const check = wordsOf('server', 'test').map((word) => word.replace(':3000', `:${port}`));
  assert.equal(check[0], 'CMD');
  const isReady = async (): Promise<boolean> => {
    const args = check.slice(2);
    const { code } = await new StartedProcess(process.execPath, args, { cwd: here.path }).ended;
    return code === 0;
  };
  assert.equal(await isReady(), false);
  const running = here.begin(server, env);
  await running.findLine((line) => (line.includes('"msg":"listening"') ? line : undefined));
  assert.equal(await isReady(), true);
  const response = await fetch(`http://127.0.0.1:${port}/v1/pets`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
    body: '{"name":"Rex","categoryId":5}',
  });
  assert.equal(response.status, 201);
  const { code } = await running.end('SIGTERM');
  assert.equal(code, 0);

  // Longer than the drain and the time for the requests in flight.
  const drain = Number(server[server.indexOf('--drain') + 1]);
  assert.ok(Number(/stop_grace_period: (\d+)s/.exec(compose)?.[1]) >= drain + 10);
});

test('compose.yaml and docs/deploy.md give a container no root, no capability and no writable root', () => {
  const deploy = readFileSync(join(root, 'docs/deploy.md'), 'utf8');
  assert.match(compose, /^ {2}read_only: true\n {2}cap_drop: \[ALL\]\n.*no-new-privileges:true/m);
  for (const line of ['runAsNonRoot: true', 'readOnlyRootFilesystem: true', 'drop: [ALL]'])
    assert.ok(deploy.includes(line), line);
  assert.match(deploy, /^docker run --read-only --cap-drop=ALL /m);
  // The load balancer has noticed the shutdown before the drain ends.
  const [, period, failures] =
    /readinessProbe: .*periodSeconds: (\d+), failureThreshold: (\d+)/.exec(deploy) ?? [];
  const [, drain] = /args: \[--drain, '(\d+)'\]/.exec(deploy) ?? [];
  const [, grace] = /terminationGracePeriodSeconds: (\d+)/.exec(deploy) ?? [];
  assert.ok(Number(drain) > Number(period) * Number(failures));
  assert.ok(Number(grace) >= Number(drain) + 10);
});
