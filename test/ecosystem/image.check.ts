// Tests the Dockerfile without Docker. Each step runs in a folder, and the command of the image runs
// as process 1 of a namespace, as an unprivileged user. FROM, the volume and the network are not
// tested.
import assert from 'node:assert/strict';
import {
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { folder, freePort, root, StartedProcess } from '../support/process.js';
import { until } from '../support/waiting.js';
import { run } from './scene.js';

const linesOf = (name: string): readonly string[] =>
  readFileSync(join(root, name), 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));

/** The id of the user `node` in the base image. The user need not exist on this machine. */
const user = 1000;

/** The stages of the Dockerfile in order: the arguments of their steps, by instruction. */
const stages = linesOf('Dockerfile')
  .join('\n')
  .split(/^(?=FROM )/m)
  .map(
    (stage) =>
      (word: string): readonly string[] =>
        [...stage.matchAll(new RegExp(`^${word} (.*)$`, 'gm'))].map(([, rest = '']) => rest),
  );

/** Runs the steps of the stages, and returns a function that starts a container of the image. */
async function build(t: TestContext) {
  const [base, first, second] = stages;
  assert.ok(base !== undefined && first !== undefined && second !== undefined);
  assert.equal(stages.length, 3);

  // Each stage has a folder in place of its root.
  const builder = folder(t);
  const [workdir = ''] = first('WORKDIR');
  const context = join(builder, workdir);
  mkdirSync(context);
  const [everything, ...kept] = linesOf('.dockerignore');
  assert.equal(everything, '*');
  assert.deepEqual(first('COPY'), ['. .']);
  for (const name of kept)
    cpSync(join(root, name.slice(1)), join(context, name.slice(1)), { recursive: true });
  assert.deepEqual(first('ARG'), ['LIBRARIES=""']);
  for (const step of first('RUN'))
    await run(
      t,
      context,
      'sh',
      '-ec',
      `LIBRARIES=pg@8; ${step.replaceAll(`${workdir}/`, `${context}/`)}`,
    );

  // The programs of the base that install packages.
  const image = folder(t);
  for (const name of ['lib/node_modules/npm/bin/npm-cli.js', 'lib/node_modules/corepack/x.js'])
    write(join(image, 'usr/local', name));
  for (const name of ['npm', 'npx', 'corepack', 'yarn', 'yarnpkg'])
    write(join(image, 'usr/local/bin', name));
  write(join(image, 'opt/yarn-v1.22.22/bin/yarn'));

  const [asRoot = '', ...asNode] = second('RUN');
  assert.match(asRoot, /^rm -rf(?: \/(?:usr\/local|opt)\/\S+)+$/);
  await run(t, image, 'sh', '-ec', asRoot.replaceAll(' /', ` ${image}/`));
  assert.deepEqual(readdirSync(join(image, 'opt')), []);
  assert.deepEqual(readdirSync(join(image, 'usr/local/bin')), []);

  for (const step of second('COPY')) {
    const [, from = '', to = ''] = /^--from=build (\S+) (\S+)$/.exec(step) ?? assert.fail(step);
    cpSync(join(builder, from), join(image, to), { recursive: true, verbatimSymlinks: true });
  }
  assert.deepEqual(readdirSync(join(image, 'usr/local/bin')), ['petstore']);
  for (const name of ['petstore', 'pg'])
    assert.ok(existsSync(join(image, 'usr/local/lib/node_modules', name)), name);

  assert.deepEqual(second('USER'), ['node']);
  const home = join(image, second('WORKDIR')[0] ?? '');
  mkdirSync(home, { recursive: true });
  for (const path of [image, home]) chownSync(path, user, user);

  const variables = second('ENV').flatMap((line) => line.split(' '));
  const env = {
    ...Object.fromEntries(variables.map((variable) => variable.split('='))),
    HOME: home,
    PATH: `${join(image, 'usr/local/bin')}:${dirname(process.execPath)}:/usr/bin:/bin`,
    PORT: await freePort(),
  };
  const asUser = [
    '--reuid',
    `${user}`,
    '--regid',
    `${user}`,
    '--clear-groups',
    '--no-new-privs',
    '--bounding-set=-all',
  ];
  const [volume = ''] = second('VOLUME');
  const start = (...command: readonly string[]): StartedProcess => {
    const namespace = ['--pid', '--fork', '--kill-child', '--mount-proc'];
    const running = new StartedProcess('unshare', [...namespace, ...command], { cwd: home, env });
    atEnd(t, () => running.end('SIGKILL'));
    return running;
  };
  const asNodeUser = ['setpriv', ...asUser, '--'];
  for (const step of asNode) {
    const { code, output } = await outcome(start(...asNodeUser, 'sh', '-ec', step));
    assert.equal(code, 0, output);
  }

  // As `docker run --read-only --cap-drop=ALL` does: only the volume can be written.
  const mounts =
    'for path in "$1" "$2"; do mount --bind "$path" "$path"; done; ' +
    'mount -o remount,bind,ro "$1"; mount -o remount,bind,ro /; cd "$1$3"; shift 3; exec "$@"';
  /** Starts a command as in a container: as process 1, without root. */
  const container = (...command: readonly string[]): StartedProcess => {
    const places = [image, join(image, volume), second('WORKDIR')[0] ?? ''];
    return start('sh', '-ec', mounts, 'sh', ...places, ...asNodeUser, ...command);
  };
  const [entrypoint = ''] = second('ENTRYPOINT');
  const [, health = ''] = /^--.* CMD (.*)$/.exec(second('HEALTHCHECK')[0] ?? '') ?? [];
  assert.equal(statSync(join(image, volume)).uid, user);
  return {
    container,
    home,
    port: env.PORT,
    entrypoint: wordsOf(entrypoint),
    health: wordsOf(health),
  };
}

function write(path: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, '');
}

function wordsOf(json: string): readonly string[] {
  const words: unknown = JSON.parse(json);
  assert.ok(Array.isArray(words));
  return words.map(String);
}

async function outcome(
  running: StartedProcess,
): Promise<{ readonly code: number | null; readonly output: string }> {
  const { code } = await running.ended;
  return { code, output: running.output };
}

test('the image runs as process 1 without npm and root, on a root file system that is read-only', async (t) => {
  assert.equal(process.getuid?.(), 0, 'namespaces need root here');
  const { container, home, port, entrypoint, health } = await build(t);

  const forbidden = await outcome(container('sh', '-c', 'touch file; touch /usr/file'));
  assert.match(forbidden.output, /Read-only file system.*\n.*Read-only file system/);
  const added = await outcome(container(...entrypoint, 'keys', 'add', 'alice'));
  assert.equal(added.code, 0, added.output);
  const key = /psk_[\w-]{43}/.exec(added.output)?.[0] ?? assert.fail(added.output);
  assert.equal((await outcome(container(...health))).code, 1);

  const server = container(...entrypoint);
  await until('the server to listen', () => server.stdout.includes('"msg":"listening"'));
  assert.match(server.stdout, /"pid":1,/);
  assert.deepEqual(await outcome(container(...health)), { code: 0, output: '' });
  const response = await fetch(`http://127.0.0.1:${port}/v1/pets`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
    body: '{"name":"Rex","categoryId":5}',
  });
  assert.equal(response.status, 201);

  // Signals go to the process itself, because unshare does not pass them on.
  const [first = ''] = readFileSync(
    `/proc/${server.pid}/task/${server.pid}/children`,
    'utf8',
  ).split(' ');
  process.kill(Number(first), 'SIGTERM');
  const { code, output } = await outcome(server);
  assert.equal(code, 0, output);
  assert.match(output, /"msg":"stopping","signal":"SIGTERM"/);
  assert.match(readFileSync(join(home, 'data/pets.jsonl'), 'utf8'), /^\{"id":1,"name":"Rex"/);
});
