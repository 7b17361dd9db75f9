/**
 * Runs the harnesses of docs/testing.md as they are printed, each with its runner. A runner that is
 * not installed is skipped.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, describe, test, type TestContext } from 'node:test';
import { atEnd } from '../support/at-end.js';
import { childEnvironment } from '../support/environment.js';
import { folder, freePort, root, StartedProcess } from '../support/process.js';

const documents = ['docs/testing.md', 'docs/clients.md']
  .map((name) => readFileSync(join(root, name), 'utf8'))
  .join('\n');

/** The code blocks that begin with a comment of a file's name, by that name. */
const files = new Map(
  Array.from(
    documents.matchAll(/^```\w+\n((?:#|\/\/) ([\w.-]+)\n.*?)^```$/gms),
    ([, code = '', name = '']) => [name, code],
  ),
);

const ecosystem = join(root, 'test/ecosystem/node_modules');
/** A writable home folder, because compilers keep their caches there. */
const env = { HOME: folder({ after }), GOTOOLCHAIN: 'local', GOFLAGS: '-mod=mod', NO_COLOR: '1' };
const isThere = (program: string, ...args: readonly string[]): boolean =>
  spawnSync(program, args, { env: childEnvironment(env) }).status === 0;
const isPackage = (name: string): boolean => existsSync(join(ecosystem, name));

/** The jars of JUnit that Debian's package `junit5` installs. */
const jars = ['junit-platform-console-standalone', 'opentest4j', 'apiguardian-api'].map(
  (name) => `/usr/share/java/${name}.jar`,
);

/** A harness: its files, and the commands that run it. */
interface Harness {
  readonly isInstalled: boolean;
  readonly names: readonly string[];
  readonly commands: readonly (readonly string[])[];
  /** The number of tests that pass, in the output of the last command. */
  readonly passed: RegExp;
}

const node = process.execPath;
const harnesses: Readonly<Record<string, Harness>> = {
  'node:test': {
    isInstalled: true,
    names: ['client.cjs', 'add.test.mjs'],
    commands: [[node, '--test']],
    passed: /^(?:# |ℹ )pass 8$/m,
  },
  Vitest: {
    isInstalled: isPackage('vitest'),
    names: ['client.cjs', 'add.vitest.mjs', 'vitest.config.mjs'],
    commands: [[node, join(ecosystem, 'vitest/vitest.mjs'), 'run']],
    passed: /Tests +1 passed/,
  },
  Jest: {
    isInstalled: isPackage('jest'),
    names: ['client.cjs', 'jest.config.cjs', 'jest-setup.mjs', 'jest-teardown.mjs', 'add.jest.cjs'],
    commands: [[node, join(ecosystem, 'jest/bin/jest.js')]],
    passed: /^Tests: +1 passed/m,
  },
  Playwright: {
    isInstalled: isPackage('@playwright/test'),
    names: ['client.cjs', 'playwright.config.mjs', 'add.spec.mjs'],
    commands: [[node, join(ecosystem, '@playwright/test/cli.js'), 'test', '--workers=4']],
    passed: /^ +5 passed/m,
  },
  pytest: {
    isInstalled: isThere('python3', '-c', 'import pytest'),
    names: ['add.py', 'conftest.py', 'test_add.py'],
    commands: [['python3', '-m', 'pytest', '-p', 'no:cacheprovider']],
    passed: /5 passed/,
  },
  Go: {
    isInstalled: isThere('go', 'version'),
    names: ['add.go', 'add_test.go'],
    commands: [
      ['go', 'mod', 'init', 'example'],
      ['go', 'test', '-v'],
    ],
    passed: /^ok\b/m,
  },
  JUnit: {
    isInstalled: isThere('javac', '--version') && jars.every((jar) => existsSync(jar)),
    names: ['AddOnce.java', 'AddOnceTest.java'],
    commands: [
      ['javac', '-cp', jars.join(':'), 'AddOnce.java', 'AddOnceTest.java'],
      [
        ...['java', '-cp', jars.join(':'), 'org.junit.platform.console.ConsoleLauncher'],
        ...['--class-path', '.', '--select-class', 'AddOnceTest', '--disable-ansi-colors'],
      ],
    ],
    passed: /5 tests successful/,
  },
};

/** Runs a command to its end; returns all that it printed. */
async function run(t: TestContext, cwd: string, command: readonly string[]): Promise<string> {
  const [program = '', ...args] = command;
  // A group, because runners start the server.
  const own = { ...env, NODE_TEST_CONTEXT: undefined };
  const running = new StartedProcess(program, args, { cwd, env: own, isGroup: true });
  atEnd(t, () => running.end('SIGKILL'));
  const { code } = await running.ended;
  assert.equal(code, 0, `${command.join(' ')}: ${running.output}`);
  return running.output;
}

/** Returns a folder with files of the documents, and with packages in its node_modules. */
async function layOut(
  t: TestContext,
  names: readonly string[],
  packages: readonly string[],
): Promise<string> {
  const cwd = folder(t);
  for (const name of ['petstore', ...packages]) {
    const path = join(cwd, 'node_modules', name);
    mkdirSync(dirname(path), { recursive: true });
    symlinkSync(name === 'petstore' ? root : join(ecosystem, name), path);
  }
  const port = await freePort();
  for (const name of names) {
    const code = files.get(name) ?? assert.fail(name);
    writeFileSync(join(cwd, name), code.replaceAll(/(?<=127\.0\.0\.1:|--port )3000/g, port));
  }
  return cwd;
}

describe('the harnesses of docs/testing.md', { concurrency: 2 }, () => {
  for (const [name, { isInstalled, names, commands, passed }] of Object.entries(harnesses))
    test(`${name} runs its harness`, {
      skip: isInstalled ? false : `${name} is not installed`,
    }, async (t) => {
      const packages = ['vitest', 'jest', '@playwright/test'].filter(isPackage);
      const cwd = await layOut(t, names, packages);
      let output = '';
      for (const command of commands) output = await run(t, cwd, command);
      assert.match(output, passed);
    });
});
