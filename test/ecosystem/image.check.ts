// Tests the Dockerfile without Docker. Each step runs in a folder, and the command of the image runs
// as process 1 of a namespace, as an unprivileged user. FROM, the volume and the network are not
// tested.
import assert from 'node:assert/strict';
import { chownSync, cpSync, mkdirSync, readFileSync, statSync } from 'node:fs';
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

/** Runs the steps of both stages, and returns a function that starts a container of the image. */
async function build(t: TestContext) {
  const [first, second] = stages;
  assert.ok(first !== undefined && second !== undefined && stages.length === 2);

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
  for (const step of first('RUN'))
    await run(t, context, 'sh', '-ec', step.replaceAll(`${workdir}/`, `${context}/`));

  const image = folder(t);
  for (const step of second('COPY')) {
    const [, from = '', to = ''] = /^--from=build (\S+) (\S+)$/.exec(step) ?? assert.fail(step);
    cpSync(join(builder, from), join(image, to), { recursive: true, verbatimSymlinks: true });
  }
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
  const asUser = ['--reuid', `${user}`, '--regid', `${user}`, '--clear-groups', '--no-new-privs'];
  /** Starts a command as in a container: as process 1, without root. */
  const container = (...command: readonly string[]): StartedProcess => {
    const namespace = ['--pid', '--fork', '--kill-child', '--mount-proc'];
    const args = [...namespace, 'setpriv', ...asUser, '--', ...command];
    const running = new StartedProcess('unshare', args, { cwd: home, env });
    atEnd(t, () => running.end('SIGKILL'));
    return running;
  };

  for (const step of second('RUN')) {
    const { code, output } = await outcome(container('sh', '-ec', step));
    assert.equal(code, 0, output);
  }
  const [entrypoint = ''] = second('ENTRYPOINT');
  const [, health = ''] = /^--.* CMD (.*)$/.exec(second('HEALTHCHECK')[0] ?? '') ?? [];
  const [volume = ''] = second('VOLUME');
  assert.equal(statSync(join(image, volume)).uid, user);
  return {
    container,
    home,
    port: env.PORT,
    entrypoint: wordsOf(entrypoint),
    health: wordsOf(health),
  };
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

test('the image runs its server as process 1 without root, with a health check and SIGTERM', async (t) => {
  assert.equal(process.getuid?.(), 0, 'namespaces need root here');
  const { container, home, port, entrypoint, health } = await build(t);

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
