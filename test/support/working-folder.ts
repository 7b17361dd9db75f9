/** Runs command lines of dist/server.js in a temporary folder, for the tests of the process. */
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

/** The arguments of the program, as a list, or as one text separated by spaces. */
export type CommandLine = string | readonly string[];
type Environment = Readonly<NodeJS.ProcessEnv>;
type Content = string | Uint8Array;
type Files = Readonly<Record<string, Content>>;

/** Returns the arguments of a command line as a list. */
function wordsOf(line: CommandLine): readonly string[] {
  if (typeof line !== 'string') return line;
  return line === '' ? [] : line.split(' ');
}

/** The commands of the program. */
export const commandNames = ['serve', 'keys', 'import', 'copy', 'migrate', 'check', 'verify'];

/** A folder with the given files, which is removed after the test. */
export class WorkingFolder {
  readonly path: string;
  readonly #t: TestContext;

  constructor(t: TestContext, files: Files = {}) {
    this.#t = t;
    this.path = folder(t);
    for (const [name, content] of Object.entries(files)) this.write(name, content);
  }

  /** Returns the path of a name in the folder. */
  at(name: string): string {
    return join(this.path, name);
  }

  /** Returns the sorted names in the folder or in a folder below it. */
  names(within = '.', recursive = false): readonly string[] {
    return readdirSync(this.at(within), { recursive, encoding: 'utf8' }).sort();
  }

  read(name: string): string {
    return readFileSync(this.at(name), 'utf8');
  }

  bytes(name: string): Buffer {
    return readFileSync(this.at(name));
  }

  /** Returns the permission bits of a file or a folder. */
  mode(name: string): number {
    return statSync(this.at(name)).mode & 0o777;
  }

  /** Returns the size of a file in bytes; 0 if it does not exist. */
  size(name: string): number {
    return statSync(this.at(name), { throwIfNoEntry: false })?.size ?? 0;
  }

  /** Writes a file, and makes its folder. */
  write(name: string, content: Content): void {
    mkdirSync(dirname(this.at(name)), { recursive: true });
    writeFileSync(this.at(name), content);
  }

  /** Runs a command line to its end, as `command` does. */
  command(line: CommandLine): Promise<Ended> {
    return command(...this.#parsed(line));
  }

  /** Runs a command line, and checks that it exits with 0. */
  async done(line: CommandLine): Promise<Ended> {
    const ended = await this.command(line);
    assert.equal(ended.code, 0, ended.stderr);
    return ended;
  }

  /** Returns the main help and the help of each command. */
  async allHelp(): Promise<string> {
    const texts: string[] = [];
    for (const line of ['--help', ...commandNames.map((name) => `help ${name}`)])
      texts.push((await this.done(line)).stdout);
    return texts.join('\n');
  }

  /** Runs a command line, and checks that it exits with 0 and prints only `stdout`. */
  async prints(line: CommandLine, stdout: string | RegExp): Promise<void> {
    assertPrinted(await this.command(line), stdout);
  }

  /** Runs a command line, and checks that it is refused as in `assertRefused`. */
  async refuses(line: CommandLine, code: number, message: RegExp): Promise<void> {
    assertRefused(await this.command(line), code, message);
  }

  /** Starts a server, and does not wait until it listens. */
  begin(line: CommandLine = '', env: Environment = {}): StartedServer {
    const [words, options] = this.#parsed(line, env);
    return this.#begin(process.execPath, [serverFile, ...words], options.env);
  }

  /** Starts the shell with a line in which `"$0" "$1"` is the program. */
  shell(line: string, env: Environment = {}): StartedServer {
    const args = ['-c', line, process.execPath, serverFile];
    return this.#begin('sh', args, env);
  }

  /** Starts the program on a terminal by `script`. Its output is what the terminal receives. */
  onTerminal(line: string, env: Environment = {}): StartedServer {
    const command = `"${process.execPath}" "${serverFile}" ${line}`;
    return this.#begin('script', ['-qec', command, '/dev/null'], env);
  }

  /** Starts a server, and waits until it listens. */
  start(line: CommandLine = '', env: Environment = {}): Promise<StartedServer> {
    return startServer(this.#t, ...this.#parsed(line, env));
  }

  /**
   * Returns the arguments and the options of a command line. It may begin with variables, as in a
   * shell. By default it has the key of the tests and a free port.
   */
  #parsed(line: CommandLine, env: Environment = {}) {
    const words = wordsOf(line);
    const variables = words.filter((word) => /^[A-Z_]+=/.test(word));
    const named = Object.fromEntries(variables.map((word) => word.split(/=(.*)/s)));
    const full = { PETSTORE_API_KEYS: apiKey, PORT: '0', ...named, ...env };
    return [words.slice(variables.length), { cwd: this.path, env: full }] as const;
  }

  /** Starts a program in the folder. By default a server listens on a free port. */
  #begin(program: string, args: readonly string[], env: Environment): StartedServer {
    const begun = new StartedServer(program, args, { cwd: this.path, env: { PORT: '0', ...env } });
    atEnd(this.#t, () => begun.end('SIGKILL'));
    return begun;
  }
}

type Run = (here: WorkingFolder, t: TestContext) => Promise<void>;

/** Checks that a command exited with 0, and printed only `stdout`. */
export function assertPrinted(ended: Ended, stdout: string | RegExp): void {
  assert.deepEqual([ended.code, messagesOf(ended)], [0, ''], 'the exit code and standard error');
  if (typeof stdout === 'string') assert.equal(ended.stdout, stdout);
  else assert.match(ended.stdout, stdout);
}

/**
 * Declares a test that runs in a folder of its own.
 * @param rest - The initial files of the folder, if any, and the test function.
 */
export function testInFolder(title: string, ...rest: [run: Run] | [files: Files, run: Run]): void {
  const [files, run] = rest.length === 2 ? rest : [{}, rest[0]];
  test(title, (t) => run(new WorkingFolder(t, files), t));
}

/**
 * Declares a test that a command line is refused with exit code 2 and one matching line, and
 * changes no file.
 * @param files - The initial files of the folder.
 * @param why - The mistake, if the command line does not show it.
 */
export function testRefusal(
  line: CommandLine,
  message: RegExp,
  files: Files = {},
  why = JSON.stringify(line).slice(0, 55),
): void {
  testInFolder(`refuses ${why}: exit code 2, no file changed`, files, async (here) => {
    const before = here.names('.', true);
    const ended = await here.command(line);
    assertRefused(ended, 2, message);
    assert.equal(ended.stdout, '');
    assert.doesNotMatch(ended.stderr, /secret/);
    for (const [name, content] of Object.entries(files))
      assert.deepEqual(here.bytes(name), Buffer.from(content));
    assert.deepEqual(here.names('.', true), before);
  });
}

/** Declares a test as {@link testRefusal} does for each command line and its message. */
export function testRefusals(rows: Readonly<Record<string, RegExp>>, files: Files = {}): void {
  for (const [line, message] of Object.entries(rows)) testRefusal(line, message, files);
}
