/** Builds and tests copies of this checkout, and ends all processes that it starts. */
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import { callersEnvironment } from '../support/environment.js';
import { folderInMemory } from '../support/in-memory.js';
import { root } from '../support/process.js';

/** The result of a test file; `late` if it exceeded its time limit. */
export type Outcome = 'passed' | 'failed' | 'late';

const folder = mkdtempSync(join(tmpdir(), 'petstore-mutants-'));
/** The folder for all files of tests, because a test may be killed before it removes them. */
const inMemory = folderInMemory('petstore-mutants-', 2 ** 30);
/** The leaders of the running process groups. */
const groups = new Set<number>();

/** Kills all processes of tests and compilers, and removes the copies. */
export function removeCheckouts(): void {
  for (const group of groups) kill(group);
  for (const each of [inMemory, folder])
    try {
      rmSync(each, { recursive: true, force: true, maxRetries: 10 });
    } catch (error) {
      process.stderr.write(`cannot remove ${each}: ${error}\n`);
    }
}

function kill(group: number): void {
  try {
    process.kill(-group, 'SIGKILL');
  } catch {
    // All processes of the group have ended.
  }
}

/** Makes a temporary folder for a test file. Another user may enter it, as PostgreSQL does. */
function newTemporaryFolder(): string {
  const temporary = mkdtempSync(join(inMemory, 'temporary-'));
  for (const each of [inMemory, temporary]) chmodSync(each, 0o711);
  return temporary;
}

async function removeTemporaryFolder(temporary: string): Promise<void> {
  // A PostgreSQL whose test was killed is removed by a process of its own.
  const isRunning = (): boolean =>
    readdirSync(temporary).some((name) => name.startsWith('petstore-postgres-'));
  for (let looks = 0; looks < 500 && isRunning(); looks++) await wait(20);
  await rm(temporary, { recursive: true, force: true, maxRetries: 10 });
}

type Child = ChildProcessByStdio<null, Readable, null> & { readonly pid: number };

/** Starts Node in a new process group, which ends with this process at the latest. */
function startNode(args: readonly string[], cwd: string, env = callersEnvironment): Child {
  const child = spawn(process.execPath, args, {
    cwd,
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  });
  const { pid } = child;
  if (pid === undefined) throw new Error('cannot start a process');
  groups.add(pid);
  return Object.assign(child, { pid });
}

/** Waits for the end of a process, kills the rest of its group, and returns its exit code. */
async function endOf(child: Child, event: 'exit' | 'close'): Promise<number | null> {
  const code = await new Promise<number | null>((resolve) => child.once(event, resolve));
  kill(child.pid);
  groups.delete(child.pid);
  return code;
}

interface TestOptions {
  readonly coverage?: string;
  readonly only?: string;
}

const ours = new Set(['.git', 'node_modules', 'dist', 'test-dist', 'coverage']);
let copies = 0;

/** A copy of this checkout. */
export class Checkout {
  readonly folder = join(folder, String(++copies));

  /** Copies this checkout as it is, without a build. */
  static ofHere(): Checkout {
    const copy = new Checkout();
    const isCopied = (path: string): boolean =>
      !relative(root, path)
        .split('/')
        .some((name) => ours.has(name));
    cpSync(root, copy.folder, { recursive: true, filter: isCopied });
    symlinkSync(join(root, 'node_modules'), join(copy.folder, 'node_modules'));
    return copy;
  }

  /**
   * Returns a copy with the same builds and the same times of files, because a test compares them.
   */
  copy(): Checkout {
    const copy = new Checkout();
    cpSync(this.folder, copy.folder, {
      recursive: true,
      preserveTimestamps: true,
      verbatimSymlinks: true,
    });
    return copy;
  }

  read(path: string): string {
    return readFileSync(join(this.folder, path), 'utf8');
  }

  write(path: string, text: string): void {
    writeFileSync(join(this.folder, path), text);
  }

  /** Builds src and test. @throws Error with the messages of the compiler */
  async buildAll(): Promise<void> {
    const compiler = join(root, 'node_modules/typescript/bin/tsc');
    const messages = (await this.buildSource()) + (await this.#run(compiler, '--project', 'test'));
    if (messages !== '') throw new Error(messages);

    // Tests that use a folder in memory use their temporary folder, which is in memory here.
    const support = 'test-dist/support/in-memory.js';
    const built = this.read(support);
    const moved = built.replace("inMemory = '/dev/shm'", 'inMemory = tmpdir()');
    if (moved === built) throw new Error(`${support} has no inMemory = '/dev/shm'`);
    this.write(support, moved);
  }

  /**
   * Builds the changed files of src, and allows unused names, which a mutant may cause. Returns the
   * messages of the compiler, or ''.
   */
  buildSource(): Promise<string> {
    const again = ['--incremental', '--tsBuildInfoFile', 'source.tsbuildinfo'];
    const unused = ['--noUnusedLocals', 'false', '--noUnusedParameters', 'false'];
    return this.#run('build.js', ...again, ...unused);
  }

  async #run(...args: readonly string[]): Promise<string> {
    const child = startNode(args, this.folder);
    let messages = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (messages += text));
    const code = await endOf(child, 'close');
    return code === 0 ? '' : messages || `the compiler ended with ${code}`;
  }

  /**
   * Runs a test file until a test fails, and then kills all processes that it has started.
   * @param options.coverage The folder for V8's coverage of each process; by default no coverage.
   * @param options.only The word that the names of the tests have; by default all tests run.
   */
  async test(
    file: string,
    limitMs: number,
    { coverage = '', only = '' }: TestOptions = {},
  ): Promise<Outcome> {
    const temporary = newTemporaryFolder();
    const env = { ...callersEnvironment, TMPDIR: temporary, NODE_V8_COVERAGE: coverage };
    const pattern = only === '' ? [] : [`--test-name-pattern=\\b${only}\\b`];
    const child = startNode(['--test-reporter=tap', ...pattern, file], this.folder, env);
    let outcome: Outcome = 'passed';
    const stop = (why: Outcome): void => {
      outcome = why;
      kill(child.pid);
    };
    const timer = setTimeout(() => stop('late'), limitMs);
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      if (outcome === 'passed' && /^ *not ok/m.test(output)) stop('failed');
      output = output.slice(output.lastIndexOf('\n') + 1);
    });
    // Not `close`, because a process that the test has started may hold the output open.
    const code = await endOf(child, 'exit');
    clearTimeout(timer);
    await removeTemporaryFolder(temporary);
    return outcome === 'passed' && code !== 0 ? 'failed' : outcome;
  }
}
