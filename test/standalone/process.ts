// Runs dist/server.js as a stranger would: a folder of its own, a clean environment, what it prints and how it ends.
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { atEnd } from '../at-end.js';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const serverFile = join(root, 'dist/server.js');
export const apiKey = 'test-key';
const deadlineMs = 15_000;

/** An empty folder that is gone behind the test. */
export function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'petstore-'));
  atEnd(t, () => rmSync(path, { recursive: true, force: true }));
  return path;
}

export interface RunOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
}

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A process that has been started. */
export class Running {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  stdout = '';
  stderr = '';

  constructor(command: string, args: readonly string[], { cwd, env = {} }: RunOptions) {
    const { PATH = '', NODE_V8_COVERAGE } = process.env;
    this.child = spawn(command, args, { cwd, env: { PATH, ...(NODE_V8_COVERAGE && { NODE_V8_COVERAGE }), ...env } });
    this.child.stdout?.setEncoding('utf8').on('data', (text: string) => (this.stdout += text));
    this.child.stderr?.setEncoding('utf8').on('data', (text: string) => (this.stderr += text));
    this.ended = new Promise((resolve, reject) => {
      this.child.once('error', reject);
      this.child.once('close', (code, signal) => resolve({ code, signal, stdout: this.stdout, stderr: this.stderr }));
    });
  }

  /** Sends a signal and answers how the process ended. */
  end(signal: NodeJS.Signals = 'SIGTERM'): Promise<Ended> {
    this.child.kill(signal);
    return this.ended;
  }
}

/** A server that listens. */
export class RunningServer extends Running {
  /** Its JSON lines so far. */
  get log(): readonly Record<string, unknown>[] {
    const lines = this.stdout.split('\n').slice(0, -1);
    return lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line));
  }

  get url(): string {
    return String(this.log.find(({ msg }) => msg === 'listening')?.['url']);
  }

  /** The first line of the log with this message, once there is one. */
  async said(msg: string): Promise<Record<string, unknown>> {
    return until(`"${msg}" in ${this.stdout} ${this.stderr}`, () => this.log.find((line) => line['msg'] === msg));
  }

  get(path: string, key = apiKey): Promise<Response> {
    return fetch(this.url + path, { headers: { Authorization: `Bearer ${key}` } });
  }

  add(name: string, key = apiKey): Promise<Response> {
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    return fetch(`${this.url}/v1/pets`, { method: 'POST', headers, body: JSON.stringify({ name, categoryId: 1 }) });
  }
}

/** Runs the server's program to its end. */
export function run(args: readonly string[], options: RunOptions): Promise<Ended> {
  return new Running(process.execPath, [serverFile, ...args], options).ended;
}

/** Starts a server on a free port, with the key {@link apiKey} unless the environment says otherwise; waits until it listens. */
export async function start(t: TestContext, args: readonly string[], { cwd, env }: RunOptions): Promise<RunningServer> {
  const full = { PETSTORE_API_KEYS: apiKey, PORT: '0', ...env };
  const server = new RunningServer(process.execPath, [serverFile, ...args], { cwd, env: full });
  atEnd(t, async () => server.end('SIGKILL'));
  const ended = server.ended.then(({ code, stderr }) => assert.fail(`ended with ${code}: ${stderr}`));
  // Lost by the time the server ends on purpose.
  ended.catch(() => undefined);
  await Promise.race([server.said('listening'), ended]);
  return server;
}

/** Asserts an end with this exit code and one line on standard error that matches, no stack trace. */
export function assertRefused(ended: Ended, code: number, line: RegExp): void {
  assert.equal(ended.code, code, ended.stderr);
  assert.match(ended.stderr, /^[^\n]+\n$/);
  assert.match(ended.stderr, line);
}

/** Asks again and again until there is an answer; fails behind a deadline. */
export async function until<Value>(what: string, ask: () => Value | undefined | false | Promise<Value | undefined | false>): Promise<Value> {
  const giveUpAt = performance.now() + deadlineMs;
  while (performance.now() < giveUpAt) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer;
    await wait(10);
  }
  assert.fail(`waited in vain for ${what}`);
}

/** A port that was free just now. */
export async function freePort(): Promise<string> {
  const probe = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => probe.once('listening', resolve));
  const address = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  return typeof address === 'object' ? String(address?.port) : '';
}
