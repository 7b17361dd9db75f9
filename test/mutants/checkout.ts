/** Owns copies of this checkout that are built and tested, and every process that this starts. */
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

/** How the tests of a file ended: as they should, by one that failed, or not in their time. */
export type Outcome = 'passed' | 'failed' | 'late';

const folder = mkdtempSync(join(tmpdir(), 'petstore-mutants-'));
/** What tests keep in a temporary folder, or in memory, is there: they may be killed before they end. */
const inMemory = folderInMemory('petstore-mutants-', 2 ** 30);
/** The leaders of the process groups that live. */
const groups = new Set<number>();

/** Ends what is left of every test and compiler, and removes the copies. */
export function removeCheckouts(): void {
  for (const group of groups) kill(group);
  for (const each of [inMemory, folder])
    try {
      rmSync(each, { recursive: true, force: true, maxRetries: 10 });
    } catch (error) {
      process.stderr.write(`${each} is left: ${error}\n`);
    }
}

function kill(group: number): void {
  try {
    process.kill(-group, 'SIGKILL');
  } catch {
    // All of them have ended.
  }
}

/** A folder of its own for what a test writes; PostgreSQL goes through it as somebody else. */
function newTemporaryFolder(): string {
  const temporary = mkdtempSync(join(inMemory, 'temporary-'));
  for (const each of [inMemory, temporary]) chmodSync(each, 0o711);
  return temporary;
}

async function removeTemporaryFolder(temporary: string): Promise<void> {
  // Of a PostgreSQL that has lost its test, a process of its own is the end.
  const isRunning = (): boolean =>
    readdirSync(temporary).some((name) => name.startsWith('petstore-postgres-'));
  for (let looks = 0; looks < 500 && isRunning(); looks++) await wait(20);
  await rm(temporary, { recursive: true, force: true, maxRetries: 10 });
}

type Child = ChildProcessByStdio<null, Readable, null> & { readonly pid: number };

/** Starts Node in a process group of its own, which ends with this process at the latest. */
function startNode(args: readonly string[], cwd: string, env = callersEnvironment): Child {
  const child = spawn(process.execPath, args, {
    cwd,
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  });
  const { pid } = child;
  if (pid === undefined) throw new Error('no process can be started');
  groups.add(pid);
  return Object.assign(child, { pid });
}

/** Waits until it has ended, ends what is left of its group, and answers its exit code. */
async function endOf(child: Child, event: 'exit' | 'close'): Promise<number | null> {
  const code = await new Promise<number | null>((resolve) => child.once(event, resolve));
  kill(child.pid);
  groups.delete(child.pid);
  return code;
}

const ours = new Set(['.git', 'node_modules', 'dist', 'test-dist', 'coverage']);
let copies = 0;

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

  /** Another one of the same files and builds, with their times: a test compares these. */
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

  /** Builds all that is tested. @throws Error where the compiler complains */
  async buildAll(): Promise<void> {
    const complaint = (await this.buildSource()) + (await this.#compile('--project', 'test'));
    if (complaint !== '') throw new Error(complaint);

    // What tests keep in memory is in their temporary folder, which is in memory here.
    const support = 'test-dist/support/in-memory.js';
    const built = this.read(support);
    const moved = built.replace("inMemory = '/dev/shm'", 'inMemory = tmpdir()');
    if (moved === built) throw new Error(`${support} names its folder otherwise`);
    this.write(support, moved);
  }

  /**
   * Builds src, of which a mutant may leave names unused; again only what has changed. Answers what
   * the compiler complains of, nothing where it does not.
   */
  buildSource(): Promise<string> {
    const again = ['--incremental', '--tsBuildInfoFile', 'source.tsbuildinfo'];
    const unused = ['--noUnusedLocals', 'false', '--noUnusedParameters', 'false'];
    return this.#compile(...again, ...unused);
  }

  async #compile(...args: readonly string[]): Promise<string> {
    const compiler = join(root, 'node_modules/typescript/bin/tsc');
    const child = startNode([compiler, ...args], this.folder);
    let complaint = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (complaint += text));
    const code = await endOf(child, 'close');
    return code === 0 ? '' : complaint || `the compiler ended with ${code}`;
  }

  /**
   * Runs a file of tests until one of them fails, in its time; then ends what it has started.
   * @param coverage The folder for V8's coverage of each process, where that is wanted.
   */
  async test(file: string, limitMs: number, coverage = ''): Promise<Outcome> {
    const temporary = newTemporaryFolder();
    const env = { ...callersEnvironment, TMPDIR: temporary, NODE_V8_COVERAGE: coverage };
    const child = startNode(['--test-reporter=tap', file], this.folder, env);
    let outcome: Outcome = 'passed';
    const stop = (why: Outcome): void => {
      outcome = why;
      kill(child.pid);
    };
    const timer = setTimeout(() => stop('late'), limitMs);
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      if (outcome === 'passed' && /^ *not ok/m.test(said)) stop('failed');
      said = said.slice(said.lastIndexOf('\n') + 1);
    });
    // What it has started may hold its output.
    const code = await endOf(child, 'exit');
    clearTimeout(timer);
    await removeTemporaryFolder(temporary);
    return outcome === 'passed' && code !== 0 ? 'failed' : outcome;
  }
}
