// nginx and HAProxy as docs/deploy.md has them, before two servers on one database that are
// restarted one after the other.
import '../support/unmeasured.js';
import assert from 'node:assert/strict';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { atEnd } from '../support/at-end.js';
import { newDatabase, withoutDatabase } from '../postgres/database.js';
import { Caller } from '../support/client.js';
import { bytesOf } from '../support/fixture.js';
import {
  apiKey,
  folder,
  freePort,
  root,
  StartedProcess,
  StartedServer,
  serverFile,
} from '../support/process.js';
import { until } from '../support/waiting.js';

const deploy = readFileSync(join(root, 'docs/deploy.md'), 'utf8');
const clients = 4;
/**
 * How long the load goes on at least, all of the restarts within it: each server is restarted
 * twice.
 */
const loadMs = 5_000;

/** A balancer: its block of the document, and how it is run with a file that holds that. */
interface Balancer {
  readonly name: string;
  readonly block: string;
  /** Writes what it needs into the folder and answers its command line. */
  readonly prepare: (folder: string, config: string) => readonly string[];
  /** What it said of failures. */
  readonly logOf: (folder: string) => string;
}

const balancers: readonly Balancer[] = [
  {
    name: 'nginx',
    block: 'nginx',
    prepare: (cwd, config) => {
      // What a package's own nginx.conf is around a file of conf.d, with every path below the
      // test's folder.
      const bodies = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
        .map((kind) => `${kind}_temp_path ${join(cwd, kind)};`)
        .join(' ');
      const paths = `pid ${join(cwd, 'nginx.pid')}; error_log ${join(cwd, 'error.log')};`;
      const http = `http { access_log off; ${bodies}\n${config}\n}`;
      writeFileSync(
        join(cwd, 'nginx.conf'),
        `daemon off; master_process off; ${paths} events {} ${http}`,
      );
      return ['-p', cwd, '-e', join(cwd, 'error.log'), '-c', join(cwd, 'nginx.conf')];
    },
    logOf: (cwd) => readFileSync(join(cwd, 'error.log'), 'utf8'),
  },
  {
    name: 'haproxy',
    block: 'haproxy',
    prepare: (cwd, config) => {
      writeFileSync(join(cwd, 'haproxy.cfg'), config);
      return ['-db', '-f', join(cwd, 'haproxy.cfg')];
    },
    logOf: () => 'it keeps no log',
  },
];

// Most of the time of both is the servers' drain.
describe('rolling restarts', { concurrency: balancers.length }, () => {
  for (const balancer of balancers) {
    const program = find(balancer.name);
    const missing =
      program === undefined ? `no ${balancer.name} here: apt-get install ${balancer.name}` : false;
    if (missing !== false) assert.ok(!process.env['PETSTORE_TEST_NO_SKIP'], missing);
    const skip = missing || withoutDatabase();
    test(`C48: rolling restarts after ${balancer.name}, under load: no error reaches a client`, {
      skip,
    }, async (t) => {
      assert.ok(program !== undefined);
      const cwd = folder(t);
      const url = await newDatabase();
      const ports = [await freePort(), await freePort()];
      const servers = await Promise.all(ports.map((port) => startServer(t, cwd, url, port)));
      const front = await freePort();
      const config = configOf(balancer.block, front, ports);
      const running = new StartedProcess(program, balancer.prepare(cwd, config), { cwd });
      atEnd(t, () => running.end('SIGKILL'));
      await until(`${balancer.name} to be ready: ${running.stderr}`, () => answers(front));

      const load = new Load(front);
      atEnd(t, () => load.end());
      const endAt = performance.now() + loadMs;
      let restarts = 0;
      for (let at = 0; performance.now() < endAt || restarts < 4; at = 1 - at, restarts++) {
        const [server, port] = [servers[at], ports[at]];
        assert.ok(server !== undefined && port !== undefined);
        const { code, stderr } = await server.end('SIGTERM');
        assert.equal(code, 0, stderr);
        servers[at] = await startServer(t, cwd, url, port);
      }
      await load.end();
      assert.deepEqual(load.failures, [], balancer.logOf(cwd));
      t.diagnostic(
        `${load.answers} answers, ${load.added.length} animals added, ${restarts} restarts`,
      );
      assert.ok(load.added.length > 0);
      const ids = await idsThrough(front);
      assert.deepEqual(ids, load.added.sort(ascending));
    });
  }
});

function configOf(block: string, front: string, ports: readonly string[]): string {
  const config = new RegExp(`^\`\`\`${block}\\n(.*?)^\`\`\``, 'ms').exec(deploy)?.[1] ?? '';
  const [one = '', two = ''] = ports;
  const own = config
    .replace('127.0.0.1:3001', `127.0.0.1:${one}`)
    .replace('127.0.0.1:3002', `127.0.0.1:${two}`);
  const listening = own
    .replace('listen 8080', `listen 127.0.0.1:${front}`)
    .replace('bind :8080', `bind 127.0.0.1:${front}`);
  for (const part of [one, two, front])
    assert.ok(listening.includes(part), `${part} in ${listening}`);
  return listening;
}

/** Starts a server as the document says, and waits until `/readyz` is 200. */
async function startServer(
  t: TestContext,
  cwd: string,
  url: string,
  port: string,
): Promise<StartedServer> {
  const [, flags = ''] = /^petstore --storage \S+ --port 3001 (.*)$/m.exec(deploy) ?? [];
  assert.match(flags, /^--drain [1-9]$/);
  const args = [serverFile, '--storage', url, '--port', port, ...flags.split(' ')];
  const env = { PETSTORE_API_KEYS: apiKey };
  const server = new StartedServer(process.execPath, args, { cwd, env });
  atEnd(t, () => server.end('SIGKILL'));
  await server.said('listening');
  await until('a server that is ready', async () => (await server.get('/readyz')).status === 200);
  return server;
}

async function answers(port: string): Promise<boolean> {
  try {
    return (await fetch(`http://127.0.0.1:${port}/healthz`)).status === 200;
  } catch {
    return false;
  }
}

/**
 * Clients that each ask one thing after the other on a connection of their own, until they are
 * ended.
 */
class Load {
  answers = 0;
  readonly added: bigint[] = [];
  readonly failures: string[] = [];
  readonly #port: number;
  readonly #loops: Promise<unknown>;
  #isEnding = false;

  constructor(port: string) {
    this.#port = Number(port);
    this.#loops = Promise.all(Array.from({ length: clients }, (_, index) => this.#loop(index)));
  }

  async end(): Promise<void> {
    this.#isEnding = true;
    await this.#loops;
  }

  async #loop(client: number): Promise<void> {
    const caller = new Caller(this.#port);
    for (let turn = 0; !this.#isEnding; turn++) {
      try {
        await this.#one(caller, client, turn);
      } catch (error) {
        this.failures.push(`client ${client}: ${error}`);
      }
      // Some hundred requests a second in all: enough that each moment of a restart meets some.
      await wait(100);
    }
    caller.end();
  }

  async #one(caller: Caller, client: number, turn: number): Promise<void> {
    const ask = async (
      method: string,
      path: string,
      status: number,
      body?: string,
    ): Promise<string> => {
      const words = { authorization: `Bearer ${apiKey}`, ...(body !== undefined && { body }) };
      const answer = await caller.ask(bytesOf(method, path, words));
      assert.equal(
        answer?.status,
        status,
        `${method} ${path}: ${answer?.body.slice(0, 200) ?? 'no answer'}`,
      );
      this.answers++;
      return answer?.body ?? '';
    };
    const added = await ask(
      'POST',
      '/v1/pets',
      201,
      JSON.stringify({ name: `${client}-${turn}`, categoryId: client }),
    );
    const id = /"id":(\d+)/.exec(added)?.[1] ?? '';
    this.added.push(BigInt(id));
    assert.ok((await ask('GET', `/v1/pets/${id}`, 200)).includes(`"${client}-${turn}"`));
    await ask('GET', '/v1/pets?limit=20', 200);
    await ask('GET', '/healthz', 200);
  }
}

/** Every id that is there, page by page. */
async function idsThrough(port: string): Promise<readonly bigint[]> {
  const ids: bigint[] = [];
  for (let path: string | undefined = '/v1/pets?limit=100'; path !== undefined; ) {
    const response: Response = await fetch(`http://127.0.0.1:${port}${path}`, {
      headers: { Authorization: `Bearer ${apiKey}` },
    });
    ids.push(
      ...[...(await response.text()).matchAll(/"id":(\d+)/g)].map((match) =>
        BigInt(match[1] ?? ''),
      ),
    );
    path = /<([^>]+)>; rel="next"/.exec(response.headers.get('Link') ?? '')?.[1];
  }
  return ids;
}

function ascending(one: bigint, other: bigint): number {
  return one < other ? -1 : 1;
}

function find(program: string): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin'];
  return folders
    .map((each) => join(each, program))
    .find((path) => statSync(path, { throwIfNoEntry: false })?.isFile());
}
