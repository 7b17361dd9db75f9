/**
 * Owns a throw-away PostgreSQL from the binaries of this machine: made, started, crashed, removed.
 * Knows no animals.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { chmodSync, chownSync, existsSync, readdirSync } from 'node:fs';
import { once } from 'node:events';
import { delimiter, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import pg from 'pg';
import { childEnvironment } from '../support/environment.js';
import { folderInMemory } from '../support/in-memory.js';
import { freePort } from '../support/process.js';

/** How long it may take to start or stop. */
const deadlineMs = 60_000;

/**
 * How much of the memory must be free for a cluster, which takes some hundred MiB, beside others.
 * Each schema is twenty files that are made, which a disk takes long over; no power cut is tried on
 * them, and what a killed server wrote is there as it would be on a disk.
 */
const roomBytes = 4 * 2 ** 30;

/**
 * Ends the cluster and removes its folder once nobody holds its standard input: so also where the
 * tests are killed. It must not be killed with them, and is in a process group of its own.
 */
const guardScript = `cat > /dev/null
if pid=$(head -n 1 "$1/data/postmaster.pid" 2> /dev/null) && kill -QUIT "$pid" 2> /dev/null; then
  tries=0
  while kill -0 "$pid" 2> /dev/null && [ $tries -lt 500 ]; do sleep 0.02; tries=$((tries + 1)); done
  kill -KILL "$pid" 2> /dev/null
fi
rm -rf "$1"`;

/**
 * The folder of PostgreSQL's server programs, the newest where there are several; undefined where
 * there are none.
 */
export function serverPrograms(): string | undefined {
  const debian = '/usr/lib/postgresql';
  const versions = existsSync(debian)
    ? readdirSync(debian).sort((one, other) => Number(other) - Number(one))
    : [];
  const folders = [
    ...versions.map((version) => join(debian, version, 'bin')),
    ...(childEnvironment()['PATH'] ?? '').split(delimiter),
  ];
  return folders.find(
    (folder) => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres')),
  );
}

/**
 * A PostgreSQL of our own on a free port of 127.0.0.1. Its superuser is `postgres`, without a
 * password.
 */
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
   * Makes and starts one.
   * @param settings More settings of the server, such as `max_connections=20`.
   * @param folder An empty one of its own, which goes with it; without it one in memory.
   * @param environment What is set for the server alone, in addition to `childEnvironment`.
   */
  static async start(
    settings: readonly string[] = [],
    folder?: string,
    environment: NodeJS.ProcessEnv = {},
  ): Promise<Cluster> {
    const programs = serverPrograms() ?? assert.fail('no PostgreSQL server programs here');
    // Not synced, for a cluster that a power cut may take; what the server writes later is.
    const words = ['-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'];
    return new Cluster(programs, folder).#begin('initdb', words, settings, environment);
  }

  /**
   * Makes and starts a standby of one, which can only be read. @param name What it calls itself to
   * the other.
   */
  static async standbyOf(primary: Cluster, name: string): Promise<Cluster> {
    const from = `host=127.0.0.1 port=${primary.port} user=postgres application_name=${name}`;
    const words = ['-X', 'stream', '-R', '--checkpoint=fast', '--no-sync', '-d', from];
    return new Cluster(primary.#programs).#begin('pg_basebackup', words);
  }

  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.port}/postgres`;
  }

  /** Starts the server, where it does not run, and waits until it takes connections. */
  async up(settings: readonly string[] = [], environment: NodeJS.ProcessEnv = {}): Promise<void> {
    if (this.#isRunning) return;
    if (this.port === 0) this.port = Number(await freePort());
    const giveUpAt = performance.now() + deadlineMs;
    // Behind a crash the last of the old processes may hold the memory that they shared for a
    // moment.
    while (!(await this.#tryUp(settings, environment))) {
      assert.ok(performance.now() < giveUpAt, `PostgreSQL does not start: ${this.#said}`);
      await wait(20);
    }
  }

  /**
   * Ends the server: SIGTERM waits for its clients, SIGINT throws them out, SIGQUIT ends at once,
   * SIGKILL crashes it.
   */
  async down(signal: 'SIGTERM' | 'SIGINT' | 'SIGQUIT' | 'SIGKILL'): Promise<void> {
    const server = this.#server;
    if (server === undefined || !this.#isRunning) return;
    const gone = once(server, 'exit', { signal: AbortSignal.timeout(deadlineMs) });
    if (signal === 'SIGKILL') {
      // Its children first, while it can start no more.
      server.kill('SIGSTOP');
      spawnSync('pkill', ['-KILL', '-P', String(server.pid)]);
    }
    server.kill(signal);
    await gone;
  }

  /** Ends it for good. */
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

  /** Runs the program that makes its data, and starts it; removes all of it where that fails. */
  async #begin(
    program: string,
    words: readonly string[],
    settings: readonly string[] = [],
    environment: NodeJS.ProcessEnv = {},
  ): Promise<Cluster> {
    const options = { ...this.#identity, cwd: this.folder, timeout: deadlineMs } as const;
    try {
      execFileSync(join(this.#programs, program), ['-D', this.#data, ...words], {
        ...options,
        stdio: 'pipe',
      });
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
      // What a killed server wrote is there all the same; only a power cut would take it.
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
      // Killed with the tests, it would leave its shared memory: the guard ends it.
      detached: true,
    });
    this.#server = server;
    this.#said = '';
    server.stderr
      ?.setEncoding('utf8')
      .on('data', (text: string) => (this.#said = (this.#said + text).slice(-4_000)));
    const giveUpAt = performance.now() + deadlineMs;
    while (server.exitCode === null && server.signalCode === null && performance.now() < giveUpAt) {
      if (await answers(this.url)) return true;
      await wait(20);
    }
    return false;
  }
}

/** Whether a server takes a connection. */
async function answers(url: string): Promise<boolean> {
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

/** PostgreSQL refuses to run as root; then it runs as Debian's user for it. */
function identity(): { readonly uid?: number; readonly gid?: number } {
  if (process.getuid?.() !== 0) return {};
  const ofUser = (flag: string): number => Number(execFileSync('id', [flag, 'postgres']));
  return { uid: ofUser('-u'), gid: ofUser('-g') };
}
