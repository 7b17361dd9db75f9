// nginx and HAProxy, configured as in docs/deploy.md, during rolling restarts of two servers.
import '../support/unmeasured.js';
import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEnd } from '../support/at-end.js';
import { childEnvironment, isSkipForbidden } from '../support/environment.js';
import { newDatabase, query, withoutDatabase } from '../postgres/database.js';
import { rowsIn } from '../postgres/scene.js';
import { Writers } from '../postgres/writers.js';
import {
  apiKey,
  folder,
  freePort,
  root,
  StartedProcess,
  type StartedServer,
  startServer,
} from '../support/process.js';
import { until } from '../support/waiting.js';

const deploy = readFileSync(join(root, 'docs/deploy.md'), 'utf8');
/** The clients of each balancer. They are few, but busy at each moment of a restart. */
const clients = 4;
const pauseMs = 200;

/** The balancers: how to run each in a folder with its block of the document, and its log. */
const balancers = [
  {
    name: 'nginx',
    prepare: (cwd: string, config: string): readonly string[] => {
      // The nginx.conf of a package, around a file of conf.d. Paths are relative to the folder of
      // `-p`, because the folder's name may contain a space.
      const bodies = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
        .map((kind) => `${kind}_temp_path ${kind};`)
        .join(' ');
      const paths = 'pid nginx.pid; error_log error.log;';
      const http = `http { access_log off; ${bodies}\n${config}\n}`;
      writeFileSync(
        join(cwd, 'nginx.conf'),
        `daemon off; master_process off; ${paths} events {} ${http}`,
      );
      return ['-p', cwd, '-e', join(cwd, 'error.log'), '-c', join(cwd, 'nginx.conf')];
    },
    logOf: (cwd: string) => readFileSync(join(cwd, 'error.log'), 'utf8'),
  },
  {
    name: 'haproxy',
    prepare: (cwd: string, config: string): readonly string[] => {
      writeFileSync(join(cwd, 'haproxy.cfg'), config);
      return ['-db', '-f', join(cwd, 'haproxy.cfg')];
    },
    logOf: () => 'no log',
  },
];

const programs = balancers.map(({ name }) => find(name));
const missing = balancers.filter((_, index) => programs[index] === undefined);
const words = missing.map(({ name }) => `no ${name} here: apt-get install ${name}`).join('; ');
if (words !== '') assert.ok(!isSkipForbidden, words);

test('C48 restarts servers behind nginx and HAProxy without an error for clients', {
  skip: words || withoutDatabase(),
}, async (t) => {
  const url = await newDatabase();
  const ports = [await freePort(), await freePort()];
  const servers = await Promise.all(ports.map((port) => startBehind(t, url, port)));
  const fronts = balancers.map(async (balancer) => {
    const { port, log } = await startBalancer(t, balancer, ports);
    return { writers: new Writers(t, Number(port), clients, pauseMs), logOf: log };
  });
  const loads = await Promise.all(fronts);

  // The first server is restarted twice, the second time after it has rejoined.
  for (const at of [0, 1, 0]) {
    const { code, stderr } = (await servers[at]?.end('SIGTERM')) ?? assert.fail();
    assert.equal(code, 0, stderr);
    servers[at] = await startBehind(t, url, ports[at] ?? '');
  }

  await Promise.all(loads.map(({ writers }) => writers.stop()));
  const rows = await rowsIn(url);
  for (const { writers, logOf } of loads) {
    assert.equal(writers.refused, 0, logOf());
    assert.ok(writers.added > 0);
    writers.assertKept(rows);
  }
  const added = loads.map(({ writers }) => writers.added);
  assert.equal(
    rows.length,
    added.reduce((sum, each) => sum + each),
  );
  t.diagnostic(`${added.join(' and ')} pets added and read`);
});

test('C78 serves pages behind nginx and HAProxy while no server is ready', {
  skip: words || withoutDatabase(),
}, async (t) => {
  const url = await newDatabase();
  const ports = [await freePort(), await freePort()];
  const servers = await Promise.all(ports.map((port) => startBehind(t, url, port)));
  const fronts = await Promise.all(balancers.map((each) => startBalancer(t, each, ports)));
  await query(url, 'ALTER TABLE petstore_pets ADD CONSTRAINT odd CHECK (false)');
  for (const server of servers) assert.equal((await server.add('Rex')).status, 503);
  const areUnready = async () =>
    (await Promise.all(servers.map((server) => server.status('/readyz')))).every(
      (status) => status === 503,
    );
  await until('both to be unready', areUnready);

  // HAProxy notices it within 1.5 s.
  const headers = { Authorization: `Bearer ${apiKey}` };
  for (const since = performance.now(); performance.now() - since < 3_000; await sleep(50))
    for (const { port } of fronts) {
      const page = await fetch(`http://127.0.0.1:${port}/v1/pets`, { headers });
      assert.equal(page.status, 200);
    }
  assert.ok(await areUnready());
});

/** Starts a balancer in front of servers, and waits until it serves. */
async function startBalancer(
  t: TestContext,
  { name, prepare, logOf }: (typeof balancers)[number],
  ports: readonly string[],
) {
  const cwd = folder(t);
  const port = await freePort();
  const args = prepare(cwd, configOf(name, port, ports));
  const running = new StartedProcess(find(name) ?? '', args, { cwd });
  atEnd(t, () => running.end('SIGKILL'));
  await until(`${name} to be ready`, () => isHealthy(port));
  return { port, log: () => logOf(cwd) };
}

function configOf(block: string, front: string, ports: readonly string[]): string {
  const config = new RegExp(`^\`\`\`${block}\\n(.*?)^\`\`\``, 'ms').exec(deploy)?.[1] ?? '';
  const [one = '', two = ''] = ports;
  const own = config
    .replaceAll('127.0.0.1:3001', `127.0.0.1:${one}`)
    .replaceAll('127.0.0.1:3002', `127.0.0.1:${two}`);
  const listening = own
    .replace('listen 8080', `listen 127.0.0.1:${front}`)
    .replace('bind :8080', `bind 127.0.0.1:${front}`);
  for (const part of [one, two, front])
    assert.ok(listening.includes(part), `${part} in ${listening}`);
  return listening;
}

/** Starts a server as in the document, and waits until `/readyz` is 200. */
async function startBehind(t: TestContext, url: string, port: string): Promise<StartedServer> {
  const [, flags = ''] = /^petstore --storage \S+ --port 3001 (.*)$/m.exec(deploy) ?? [];
  assert.match(flags, /^--drain [1-9]$/);
  const args = ['--storage', url, '--port', port, ...flags.split(' ')];
  const server = await startServer(t, args, { cwd: folder(t) });
  await until('a ready server', async () => (await server.get('/readyz')).status === 200);
  return server;
}

async function isHealthy(port: string): Promise<boolean> {
  try {
    return (await fetch(`http://127.0.0.1:${port}/healthz`)).status === 200;
  } catch {
    return false;
  }
}

function find(program: string): string | undefined {
  const { PATH = '' } = childEnvironment();
  const folders = [...PATH.split(delimiter), '/usr/sbin', '/usr/local/sbin'];
  // Some folders of PATH may be closed to this user, so `existsSync` comes before `statSync`.
  return folders
    .map((each) => join(each, program))
    .find((path) => existsSync(path) && statSync(path).isFile());
}
