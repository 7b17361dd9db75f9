// Runs processes, and dist/server.js in particular, and collects their output and exit codes.
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { atEnd, type Ending } from './at-end.js';
import { childEnvironment } from './environment.js';
import { until } from './waiting.js';
import { warningIn } from './warnings.js';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const serverFile = join(root, 'dist/server.js');
/** The extension of test files, `.js` if they are built, and Node's options to run such a file. */
export const extension = extname(import.meta.filename);
export const extensionArgs: readonly string[] =
  extension === '.ts' ? ['--import', import.meta.resolve('tsx')] : [];
export const apiKey = 'test-key';

/** Makes an empty folder, which is removed after the test. */
export function folder(t: Ending): string {
  const path = mkdtempSync(join(tmpdir(), 'petstore-'));
  atEnd(t, () => rmSync(path, { recursive: true, force: true }));
  return path;
}

export interface RunOptions {
  readonly cwd: string;
  /** The variables that the process gets in addition to those of `childEnvironment`. */
  readonly env?: Readonly<NodeJS.ProcessEnv>;
  /** True if it starts other processes, as npx does. Signals then go to all of them. */
  readonly isGroup?: boolean;
}

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The processes that have not ended. */
const living = new Set<StartedProcess>();

/** True once the test file must end. It must not start another process then. */
let isEnding = false;

/** The time in milliseconds after which processes that ignore SIGTERM are killed. */
const graceMs = 5_000;

/**
 * Ends all processes of this test file, then the file itself. The test runner sends its signal only
 * to the file.
 */
async function endAll(signal: NodeJS.Signals): Promise<void> {
  isEnding = true;
  for (const each of living) each.signal('SIGTERM');
  await Promise.race([Promise.allSettled(Array.from(living, ({ ended }) => ended)), wait(graceMs)]);
  for (const each of living) each.signal('SIGKILL');
  // The listener ran once, so the signal now ends the process.
  process.kill(process.pid, signal);
}

// A file may also end by an error, such as that of writing to a runner that has ended.
process.once('exit', () => {
  for (const each of living) each.signal('SIGKILL');
});

/** A running process, and its output so far. */
export class StartedProcess {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  stdout = '';
  stderr = '';
  /** Standard output and standard error together, in the order of arrival. */
  output = '';
  readonly #isGroup: boolean;
  #isOver = false;
  #wake: (() => void)[] = [];

  constructor(
    command: string,
    args: readonly string[],
    { cwd, env = {}, isGroup = false }: RunOptions,
  ) {
    assert.ok(!isEnding, 'a test file must not start a process while it ends');
    // A program with listeners of its own ends by them.
    for (const signal of ['SIGINT', 'SIGTERM'] as const)
      if (process.listenerCount(signal) === 0) process.once(signal, endAll);
    living.add(this);
    this.child = spawn(command, args, {
      cwd,
      env: childEnvironment(env),
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: isGroup,
    });
    this.#isGroup = isGroup;
    for (const stream of ['stdout', 'stderr'] as const)
      this.child[stream]?.setEncoding('utf8').on('data', (text: string) => {
        this[stream] += text;
        this.#note(text);
      });
    this.ended = new Promise((resolve, reject) => {
      const over = (): void => {
        this.#isOver = true;
        living.delete(this);
        this.#note('');
      };
      this.child.once('error', (error) => (over(), reject(error)));
      this.child.once('close', (code, signal) => {
        over();
        const warning = warningIn(this.stderr);
        if (warning === undefined)
          resolve({ code, signal, stdout: this.stdout, stderr: this.stderr });
        else reject(new assert.AssertionError({ message: `${command} warned: ${warning}` }));
      });
    });
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  /** The complete lines of standard output so far. */
  get lines(): readonly string[] {
    return this.stdout.split('\n').slice(0, -1);
  }

  /**
   * Waits for the first line of standard output for which `find` returns a value, and returns the
   * value; undefined if the process ends first.
   */
  async findLine<Value>(find: (line: string) => Value | undefined): Promise<Value | undefined> {
    for (let seen = 0; ; ) {
      const { lines } = this;
      for (const line of lines.slice(seen)) {
        const value = find(line);
        if (value !== undefined) return value;
      }
      seen = lines.length;
      if (this.#isOver) return undefined;
      await new Promise<void>((resolve) => this.#wake.push(resolve));
    }
  }

  signal(signal: NodeJS.Signals): void {
    if (!this.#isGroup) this.child.kill(signal);
    else if (this.pid !== 0 && this.child.exitCode === null && this.child.signalCode === null)
      process.kill(-this.pid, signal);
  }

  /** Sends a signal, and waits for the end of the process. */
  end(signal: NodeJS.Signals = 'SIGTERM'): Promise<Ended> {
    this.signal(signal);
    return this.ended;
  }

  #note(text: string): void {
    this.output += text;
    for (const wake of this.#wake.splice(0)) wake();
  }
}

/** A process of dist/server.js. */
export class StartedServer extends StartedProcess {
  /** The log lines so far. */
  get log(): readonly Record<string, unknown>[] {
    return this.lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line));
  }

  get url(): string {
    return String(this.log.find(({ msg }) => msg === 'listening')?.['url']);
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  /** Waits for the first log line with this message. */
  async waitForLog(msg: string): Promise<Record<string, unknown>> {
    return until(`"${msg}" in ${this.stdout} ${this.stderr}`, () =>
      this.log.find((line) => line['msg'] === msg),
    );
  }

  get(path: string, key = apiKey): Promise<Response> {
    return fetch(this.url + path, { headers: { Authorization: `Bearer ${key}` } });
  }

  async status(path: string, key = apiKey): Promise<number> {
    return (await this.get(path, key)).status;
  }

  async text(path: string, key = apiKey): Promise<string> {
    return (await this.get(path, key)).text();
  }

  /** Sends a signal, and checks that the process exits with 0. */
  async stopCleanly(signal: NodeJS.Signals = 'SIGTERM'): Promise<Ended> {
    const ended = await this.end(signal);
    assert.equal(ended.code, 0, ended.stderr);
    return ended;
  }

  add(name: string, key = apiKey): Promise<Response> {
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    return fetch(`${this.url}/v1/pets`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ name, categoryId: 1 }),
    });
  }
}

/** Runs dist/server.js to its end, in a process of its own. */
export function runServer(args: readonly string[], options: RunOptions): Promise<Ended> {
  return new StartedProcess(process.execPath, [serverFile, ...args], options).ended;
}

/**
 * Starts a server and waits until it listens. By default it has a free port and the key
 * {@link apiKey}.
 */
export async function startServer(
  t: TestContext,
  args: readonly string[],
  { cwd, env }: RunOptions,
): Promise<StartedServer> {
  const full = { PETSTORE_API_KEYS: apiKey, PORT: '0', ...env };
  const server = new StartedServer(process.execPath, [serverFile, ...args], { cwd, env: full });
  atEnd(t, async () => server.end('SIGKILL'));
  const ended = server.ended.then(({ code, stderr }) =>
    assert.fail(`ended with ${code}: ${stderr}`),
  );
  // Ignored once the server listens.
  ended.catch(() => undefined);
  await Promise.race([server.waitForLog('listening'), ended]);
  return server;
}

/** Matches the lines that a command logs while it waits for the disk or the database. */
const waitingLines =
  /^\{"level":"\w+","msg":"(?:reading the storage file|waiting for the database|the database can(?:not)? [a-z, ]+)".*\n/gm;

/** Returns the standard error of a command without the lines that only a slow machine causes. */
export function messagesOf({ stderr }: Pick<Ended, 'stderr'>): string {
  return stderr.replace(waitingLines, '');
}

/**
 * Checks that a command ended with this exit code, and with one matching line on standard error.
 */
export function assertRefused(ended: Ended, code: number, line: RegExp): void {
  assert.equal(ended.code, code, `exit code, after: ${ended.stderr}`);
  const message = messagesOf(ended);
  assert.match(message, /^[^\n]+\n$/);
  assert.match(message, line);
}

/** Listens on a port of 127.0.0.1 until the end of the test, and returns the port. */
export async function takenPort(t: TestContext): Promise<number> {
  const taken = createServer().listen(0, '127.0.0.1');
  atEnd(t, () => taken.close());
  await once(taken, 'listening');
  return Object(taken.address()).port;
}

/**
 * Returns a free port of 127.0.0.1. It is below 32768, from where Linux assigns ports, so that no
 * connection of another test takes it before it is used.
 */
export async function freePort(): Promise<string> {
  for (;;) {
    const port = randomInt(10_000, 32_000);
    const probe = createServer().listen(port, '127.0.0.1');
    try {
      await once(probe, 'listening');
    } catch (error) {
      if (Object(error).code === 'EADDRINUSE') continue;
      throw error;
    }
    await new Promise((resolve) => probe.close(resolve));
    return String(port);
  }
}
