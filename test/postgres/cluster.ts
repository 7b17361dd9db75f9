/** A temporary PostgreSQL server from the binaries of this machine. */
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { chmodSync, chownSync, existsSync, readdirSync } from 'node:fs';
import { once } from 'node:events';
import { delimiter, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import pg from 'pg';
import { childEnvironment, testSetting } from '../support/environment.js';
import { folderInMemory } from '../support/in-memory.js';
import { freePort } from '../support/process.js';

/** The time limit of starting and of stopping, in ms. */
const deadlineMs = 60_000;

/**
 * The bytes of memory that must be free for a cluster in memory, which takes some hundred MiB. It
 * is in memory because creating the twenty files of each schema is slow on a disk. The writes of a
 * killed server survive there too.
 */
const roomBytes = 4 * 2 ** 30;

/**
 * Ends the cluster and removes its folder once its standard input is closed, so also if the tests
 * are killed. It has its own process group, so that it is not killed with the tests.
 */
const guardScript = `cat > /dev/null
if pid=$(head -n 1 "$1/data/postmaster.pid" 2> /dev/null) && kill -QUIT "$pid" 2> /dev/null; then
  tries=0
  while kill -0 "$pid" 2> /dev/null && [ $tries -lt 500 ]; do sleep 0.02; tries=$((tries + 1)); done
  kill -KILL "$pid" 2> /dev/null
fi
rm -rf "$1"`;

/** Makes a copy of the data of a stopped primary the data of a standby. */
const standbyScript = `cp -Rp "$1" "$2" && touch "$2/standby.signal" &&
echo "primary_conninfo = '$3'" >> "$2/postgresql.auto.conf"`;

/**
 * Returns the folder of the PostgreSQL server programs: that of PETSTORE_TEST_POSTGRES_PROGRAMS,
 * else the newest of this machine; undefined if there are none.
 */
export function serverPrograms(): string | undefined {
  const given = testSetting('POSTGRES_PROGRAMS');
  const debian = '/usr/lib/postgresql';
  const versions = existsSync(debian)
    ? readdirSync(debian).sort((one, other) => Number(other) - Number(one))
    : [];
  const installed = [
    ...versions.map((version) => join(debian, version, 'bin')),
    ...(childEnvironment()['PATH'] ?? '').split(delimiter),
  ];
  const folders = given === undefined ? installed : [given];
  return folders.find(
    (folder) => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres')),
  );
}

/** Returns the major version of a program of PostgreSQL; 0 if the program does not run. */
export function majorVersion(program: string): number {
  const { stdout } = spawnSync(program, ['--version'], { encoding: 'utf8' });
  return Number(/\(PostgreSQL\) (\d+)/.exec(stdout ?? '')?.[1] ?? 0);
}

/** Returns the major version of the server programs; 0 if there are none. */
export function serverVersion(): number {
  return majorVersion(join(serverPrograms() ?? '', 'postgres'));
}

/** A PostgreSQL server on a free port of 127.0.0.1. Its superuser `postgres` has no password. */
export class Cluster {
  readonly folder: string;
  readonly #programs: string;
  readonly #identity: { readonly uid?: number; readonly gid?: number };
  readonly #guard: ChildProcess;
  port = 0;
  #server: ChildProcess | undefined;
  #said = '';

  private constructor(programs: string, folder = folderInMemory('petstore-postgres-', roomBytes)) {
    this.#programs = programs;
    this.folder = folder;
    this.#identity = identity();
    const { uid, gid } = this.#identity;
    if (uid !== undefined && gid !== undefined) chownSync(this.folder, uid, gid);
    chmodSync(this.folder, 0o700);
    this.#guard = spawn('/bin/sh', ['-c', guardScript, 'sh', this.folder], {
      stdio: ['pipe', 'ignore', 'ignore'],
      detached: true,
    });
  }

  /**
   * Creates and starts a cluster.
   * @param settings Settings of the server, such as `max_connections=20`.
   * @param folder An empty folder, which is removed with the cluster; by default a folder in
   * memory.
   * @param environment Variables of the server, in addition to `childEnvironment`.
   */
  static async start(
    settings: readonly string[] = [],
    folder?: string,
    environment: NodeJS.ProcessEnv = {},
  ): Promise<Cluster> {
    const programs = serverPrograms() ?? assert.fail('no PostgreSQL server programs here');
    // Not synced, because a power cut may destroy a cluster of a test.
    const words = ['-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'];
    const cluster = new Cluster(programs, folder);
    const initdb = [join(programs, 'initdb'), '-D', cluster.#data, ...words] as const;
    return cluster.#begin(initdb, settings, environment);
  }

  /**
   * Creates and starts a read-only standby. Restarts the primary, because its data is copied while
   * it is stopped. The server packages of npm have no `pg_basebackup`.
   * @param name Its `application_name` at the primary.
   * @param settings Settings with which the primary starts again.
   */
  static async standbyOf(
    primary: Cluster,
    name: string,
    settings: readonly string[] = [],
  ): Promise<Cluster> {
    const to = `host=127.0.0.1 port=${primary.port} user=postgres application_name=${name}`;
    const standby = new Cluster(primary.#programs);
    await primary.down('SIGINT');
    const copy = ['/bin/sh', '-c', standbyScript, 'sh', primary.#data, standby.#data, to] as const;
    // The standby is ready only once it has reached the primary.
    const begun = standby.#begin(copy);
    await primary.up(settings);
    return await begun;
  }

  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.port}/postgres`;
  }

  /** Starts the server unless it runs, and waits until it accepts connections. */
  async up(settings: readonly string[] = [], environment: NodeJS.ProcessEnv = {}): Promise<void> {
    if (this.#isRunning) return;
    if (this.port === 0) this.port = Number(await freePort());
    const giveUpAt = performance.now() + deadlineMs;
    // For a moment after a crash, an old process may still hold the shared memory.
    while (!(await this.#tryUp(settings, environment))) {
      assert.ok(performance.now() < giveUpAt, `PostgreSQL does not start: ${this.#said}`);
      await wait(20);
    }
  }

  /**
   * Ends the server. SIGTERM waits for its clients, SIGINT disconnects them, SIGQUIT ends at once,
   * and SIGKILL crashes it.
   */
  async down(signal: 'SIGTERM' | 'SIGINT' | 'SIGQUIT' | 'SIGKILL'): Promise<void> {
    const server = this.#server;
    if (server === undefined || !this.#isRunning) return;
    const gone = once(server, 'exit', { signal: AbortSignal.timeout(deadlineMs) });
    if (signal === 'SIGKILL') {
      // Stops it first, so that it cannot start new children.
      server.kill('SIGSTOP');
      spawnSync('pkill', ['-KILL', '-P', String(server.pid)]);
    }
    server.kill(signal);
    await gone;
  }

  /** Ends the server and removes its folder. */
  async remove(): Promise<void> {
    if (this.#guard.exitCode !== null) return;
    const gone = once(this.#guard, 'exit', { signal: AbortSignal.timeout(deadlineMs) });
    this.#guard.stdin?.end();
    await gone;
  }

  get #isRunning(): boolean {
    return this.#server?.exitCode === null && this.#server.signalCode === null;
  }

  get #data(): string {
    return join(this.folder, 'data');
  }

  /** Creates the data by a command and starts the server. If that fails, removes everything. */
  async #begin(
    [program, ...args]: readonly [string, ...string[]],
    settings: readonly string[] = [],
    environment: NodeJS.ProcessEnv = {},
  ): Promise<Cluster> {
    const options = { ...this.#identity, cwd: this.folder, timeout: deadlineMs } as const;
    try {
      execFileSync(program, args, { ...options, stdio: 'pipe' });
      await this.up(settings, environment);
      return this;
    } catch (error) {
      await this.remove();
      throw error;
    }
  }

  async #tryUp(settings: readonly string[], environment: NodeJS.ProcessEnv): Promise<boolean> {
    const all = [
      'unix_socket_directories=',
      'listen_addresses=127.0.0.1',
      'logging_collector=off',
      // Only a power cut would lose writes; those of a killed server survive.
      'fsync=off',
      ...settings,
    ];
    const words = all.flatMap((setting) => ['-c', setting]);
    const args = ['-D', this.#data, '-p', String(this.port), ...words];
    const server = spawn(join(this.#programs, 'postgres'), args, {
      ...this.#identity,
      cwd: this.folder,
      env: childEnvironment(environment),
      stdio: ['ignore', 'ignore', 'pipe'],
      // Ended by the guard. If it were killed with the tests, its shared memory would stay.
      detached: true,
    });
    this.#server = server;
    this.#said = '';
    server.stderr
      ?.setEncoding('utf8')
      .on('data', (text: string) => (this.#said = (this.#said + text).slice(-4_000)));
    const giveUpAt = performance.now() + deadlineMs;
    while (server.exitCode === null && server.signalCode === null && performance.now() < giveUpAt) {
      if (await acceptsConnection(this.url)) return true;
      await wait(20);
    }
    return false;
  }
}

/** True if a server accepts a connection. */
async function acceptsConnection(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
  client.on('error', () => undefined);
  try {
    await client.connect();
    return true;
  } catch {
    return false;
  } finally {
    await client.end();
  }
}

/** Returns Debian's user `postgres` if this process is root, because PostgreSQL refuses root. */
function identity(): { readonly uid?: number; readonly gid?: number } {
  if (process.getuid?.() !== 0) return {};
  const ofUser = (flag: string): number => Number(execFileSync('id', [flag, 'postgres']));
  return { uid: ofUser('-u'), gid: ofUser('-g') };
}
