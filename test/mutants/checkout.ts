/** Owns copies of this checkout that are built and tested, and every process that this starts. */
import { spawn } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { folderInMemory } from '../support/in-memory.js';
import { root } from '../support/process.js';

/** How the tests of a file ended: as they should, by one that failed, or not in their time. */
export type Outcome = 'passed' | 'failed' | 'late';

const folder = mkdtempSync(join(tmpdir(), 'petstore-mutants-'));
/** What tests keep in memory is there, as they are killed before they can remove it. */
const inMemory = folderInMemory('petstore-mutants-', 2 ** 30);
// PostgreSQL runs as somebody else, and goes through to what is its own.
for (const each of [folder, inMemory]) chmodSync(each, 0o711);

/** The leaders of the process groups that live. */
const groups = new Set<number>();

/** Ends what is left of every test, and removes the copies. */
export function removeCheckouts(): void {
  for (const group of groups) end(group);
  for (const each of [folder, inMemory])
    rmSync(each, { recursive: true, force: true, maxRetries: 10 });
}

function end(group: number): void {
  try {
    process.kill(-group, 'SIGKILL');
  } catch {
    // All of them have ended.
  }
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

    const support = 'test-dist/support/in-memory.js';
    this.write(support, this.read(support).replace("'/dev/shm'", JSON.stringify(inMemory)));
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
    const child = spawn(process.execPath, [compiler, ...args], { cwd: this.folder });
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
    const code = await new Promise((resolve) => child.once('close', resolve));
    return code === 0 ? '' : said;
  }

  /**
   * Runs a file of tests until one of them fails, in its time; then ends what it has started.
   * @param coverage The folder for V8's coverage of each process, where that is wanted.
   */
  async test(file: string, limitMs: number, coverage?: string): Promise<Outcome> {
    // Not below the copy, whose libraries a test that must do without them would find.
    const temporary = mkdtempSync(join(folder, 'temporary-'));
    const child = spawn(process.execPath, ['--test-reporter=tap', file], {
      cwd: this.folder,
      env: { ...process.env, TMPDIR: temporary, NODE_V8_COVERAGE: coverage ?? '' },
      stdio: ['ignore', 'pipe', 'ignore'],
      detached: true,
    });
    const group = child.pid ?? 0;
    groups.add(group);
    let outcome: Outcome = 'passed';
    const stop = (why: Outcome): void => {
      outcome = why;
      end(group);
    };
    const timer = setTimeout(() => stop('late'), limitMs);
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      if (outcome === 'passed' && /^ *not ok/m.test(said)) stop('failed');
      said = said.slice(said.lastIndexOf('\n') + 1);
    });
    const code = await new Promise((resolve) => child.once('exit', resolve));
    clearTimeout(timer);
    end(group);
    groups.delete(group);
    rmSync(temporary, { recursive: true, force: true });
    return outcome === 'passed' && code !== 0 ? 'failed' : outcome;
  }
}
