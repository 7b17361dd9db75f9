/**
 * Owns the scene of most tests of the process: a folder of its own, with files, in which command
 * lines of dist/server.js are run.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { atEnd } from './at-end.js';
import { command } from './command.js';
import {
  apiKey,
  assertRefused,
  folder,
  messagesOf,
  serverFile,
  StartedServer,
  startServer,
  type Ended,
} from './process.js';

/** The words behind the program's name: in one text with a space between, or each by itself. */
export type CommandLine = string | readonly string[];
type Environment = Readonly<NodeJS.ProcessEnv>;
type Content = string | Uint8Array;
type Files = Readonly<Record<string, Content>>;

/** The single words of a command line. */
function wordsOf(line: CommandLine): readonly string[] {
  if (typeof line !== 'string') return line;
  return line === '' ? [] : line.split(' ');
}

/** An empty folder that is gone behind the test, but for the files that it begins with. */
export class WorkingFolder {
  readonly path: string;
  readonly #t: TestContext;

  constructor(t: TestContext, files: Files = {}) {
    this.#t = t;
    this.path = folder(t);
    for (const [name, content] of Object.entries(files)) this.write(name, content);
  }

  /** The path of what has this name in the folder. */
  at(name: string): string {
    return join(this.path, name);
  }

  /** What is in the folder, or in one that is in it, by name; where asked for, in all below too. */
  names(within = '.', recursive = false): readonly string[] {
    return readdirSync(this.at(within), { recursive, encoding: 'utf8' }).sort();
  }

  /** The text of a file. */
  read(name: string): string {
    return readFileSync(this.at(name), 'utf8');
  }

  /** The bytes of a file. */
  bytes(name: string): Buffer {
    return readFileSync(this.at(name));
  }

  /** The permissions of a file or a folder. */
  mode(name: string): number {
    return statSync(this.at(name)).mode & 0o777;
  }

  /** The size of a file in bytes; 0 where there is none. */
  size(name: string): number {
    return statSync(this.at(name), { throwIfNoEntry: false })?.size ?? 0;
  }

  /** Writes a file, and makes the folder that it is in. */
  write(name: string, content: Content): void {
    mkdirSync(dirname(this.at(name)), { recursive: true });
    writeFileSync(this.at(name), content);
  }

  /** Runs a command line that ends by itself, in the process that the test file has for that. */
  command(line: CommandLine): Promise<Ended> {
    return command(...this.#parsed(line));
  }

  /** Runs a command line that must end with 0. */
  async done(line: CommandLine): Promise<Ended> {
    const ended = await this.command(line);
    assert.equal(ended.code, 0, ended.stderr);
    return ended;
  }

  /** Runs a command line that must end with 0, and print this and nothing else. */
  async prints(line: CommandLine, stdout: string | RegExp): Promise<void> {
    assertPrinted(await this.command(line), stdout);
  }

  /** Runs a command line that must be refused with this exit code and one line that matches. */
  async refuses(line: CommandLine, code: number, told: RegExp): Promise<void> {
    assertRefused(await this.command(line), code, told);
  }

  /** Starts a process as {@link start} does, and waits for nothing. */
  begin(line: CommandLine = '', env: Environment = {}): StartedServer {
    const [words, options] = this.#parsed(line, env);
    return this.#begin(process.execPath, [serverFile, ...words], options.env);
  }

  /** Starts the shell with a line in which `"$0" "$1"` is our program. */
  shell(line: string, env: Environment = {}): StartedServer {
    const args = ['-c', line, process.execPath, serverFile];
    return this.#begin('sh', args, env);
  }

  /** Starts our program on a terminal, as `script` has one: its output is what is drawn there. */
  onTerminal(line: string, env: Environment = {}): StartedServer {
    const command = `"${process.execPath}" "${serverFile}" ${line}`;
    return this.#begin('script', ['-qec', command, '/dev/null'], env);
  }

  /** Starts a server, and waits until it listens. */
  start(line: CommandLine = '', env: Environment = {}): Promise<StartedServer> {
    return startServer(this.#t, ...this.#parsed(line, env));
  }

  /**
   * The words of a command line, and what it is run with: the variables that it begins with, as in
   * a shell, beside the key of the tests and any free port.
   */
  #parsed(line: CommandLine, env: Environment = {}) {
    const words = wordsOf(line);
    const variables = words.filter((word) => /^[A-Z_]+=/.test(word));
    const named = Object.fromEntries(variables.map((word) => word.split(/=(.*)/s)));
    const full = { PETSTORE_API_KEYS: apiKey, PORT: '0', ...named, ...env };
    return [words.slice(variables.length), { cwd: this.path, env: full }] as const;
  }

  /** Starts a program in the folder. A server that it starts listens on a free port by default. */
  #begin(program: string, args: readonly string[], env: Environment): StartedServer {
    const begun = new StartedServer(program, args, { cwd: this.path, env: { PORT: '0', ...env } });
    atEnd(this.#t, () => begun.end('SIGKILL'));
    return begun;
  }
}

type Run = (here: WorkingFolder, t: TestContext) => Promise<void>;

/** Asserts an end with 0 that printed this and nothing else. */
export function assertPrinted(ended: Ended, stdout: string | RegExp): void {
  assert.deepEqual([ended.code, messagesOf(ended)], [0, ''], 'the exit code and standard error');
  if (typeof stdout === 'string') assert.equal(ended.stdout, stdout);
  else assert.match(ended.stdout, stdout);
}

/**
 * Declares a test in a folder of its own.
 *
 * @param rest The files that the folder begins with, where there are any, and what to run.
 */
export function testInFolder(title: string, ...rest: [run: Run] | [files: Files, run: Run]): void {
  const [files, run] = rest.length === 2 ? rest : [{}, rest[0]];
  test(title, (t) => run(new WorkingFolder(t, files), t));
}

/**
 * Tests that a command line is refused with 2 and one line that matches, and touches nothing.
 *
 * @param files What the folder has before.
 * @param why What is wrong, where the line does not show it.
 */
export function testRefusal(
  line: CommandLine,
  told: RegExp,
  files: Files = {},
  why = JSON.stringify(line).slice(0, 100),
): void {
  testInFolder(`refused with exit 2, nothing touched: ${why}`, files, async (here) => {
    const before = here.names('.', true);
    const ended = await here.command(line);
    assertRefused(ended, 2, told);
    assert.equal(ended.stdout, '');
    assert.doesNotMatch(ended.stderr, /secret/);
    for (const [name, content] of Object.entries(files))
      assert.deepEqual(here.bytes(name), Buffer.from(content));
    assert.deepEqual(here.names('.', true), before);
  });
}

/** The same of each of these command lines, told so. */
export function testRefusals(rows: Readonly<Record<string, RegExp>>, files: Files = {}): void {
  for (const [line, told] of Object.entries(rows)) testRefusal(line, told, files);
}
