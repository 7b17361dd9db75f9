// Tests the test setup: each file refuses an outdated build, and no process outlives its runner.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, utimesSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { atEnd } from './support/at-end.js';
import { outdated } from './support/built.js';
import { root, StartedProcess } from './support/process.js';
import { until } from './support/waiting.js';
import { testInFolder } from './support/working-folder.js';

testInFolder('a build is outdated if a source was changed after it or removed', async (here) => {
  const write = (name: string, time: number): void => {
    here.write(name, '');
    utimesSync(here.at(name), time, time);
  };
  const found = (): string | undefined => outdated(here.at('src'), here.at('dist'));
  write('src/folder/one.ts', 1_000);
  write('src/two.ts', 1_000);
  write('dist/folder/one.js', 1_001);
  write('dist/two.js', 1_001);
  assert.equal(found(), undefined);

  write('src/folder/one.ts', 1_002);
  assert.equal(found(), 'folder/one.js');
  write('dist/folder/one.js', 1_003);
  rmSync(here.at('src/two.ts'));
  assert.equal(found(), 'two.js');
});

/** Returns a test module and all test modules that it imports, directly or not. */
function importsOf(file: string, seen = new Set<string>()): ReadonlySet<string> {
  if (seen.has(file)) return seen;
  seen.add(file);
  const imports = readFileSync(file, 'utf8').matchAll(
    /^(?:import|\} from|import .* from) '(\.[^']*)\.js';/gm,
  );
  for (const [, path] of imports) {
    const imported = join(dirname(file), `${path}.ts`);
    if (existsSync(imported)) importsOf(imported, seen);
  }
  return seen;
}

test('each test file refuses an outdated build', () => {
  const tests = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.test.ts') && !name.includes('node_modules'),
  );
  assert.ok(tests.length > 50);
  const guard = join(root, 'test/support/built.ts');
  const unguarded = tests.filter((name) => !importsOf(join(root, 'test', name)).has(guard));
  assert.deepEqual(unguarded, []);
});

test('only test/support reads the environment', () => {
  const readers = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' }).filter(
    (name) =>
      /^(?!.*(node_modules|generated)|support\/|runner\.test).*\.ts$/.test(name) &&
      readFileSync(join(root, 'test', name), 'utf8').includes('process.env'),
  );
  assert.deepEqual(
    readers,
    [],
    'use childEnvironment or testSetting of test/support/environment.ts',
  );
});

testInFolder(
  'a test and its child processes ignore the environment of the caller',
  {
    'environment.test.mjs': `import { spawnSync } from 'node:child_process';
    import { appendFileSync } from 'node:fs';
    import { test } from 'node:test';
    import { StartedProcess } from ${JSON.stringify(import.meta.resolve('./support/process.js'))};
    const args = ['-e', 'process.stdout.write(JSON.stringify(process.env))'];
    test('environments', async () => {
      const started = await new StartedProcess(process.execPath, args, { cwd: '.' }).ended;
      const inherited = spawnSync(process.execPath, args, { encoding: 'utf8' });
      for (const { stdout } of [started, inherited]) appendFileSync('seen', stdout + '\\n');
    });`,
  },
  async (here) => {
    const odd = { PORT: '3000', PETSTORE_LOG: 'loud', PGSSLMODE: 'verify-full', FORCE_COLOR: '1' };
    const languages = { TZ: 'Pacific/Kiritimati', LANG: 'tr_TR.UTF-8', TERM: 'dumb' };
    const env = { ...odd, ...languages, HOME: '/nonexistent', NODE_V8_COVERAGE: '' };
    const args = ['--test', 'environment.test.mjs'];
    const ended = await new StartedProcess(process.execPath, args, { cwd: here.path, env }).ended;
    assert.equal(ended.code, 0, ended.stdout);

    const { PATH, TMPDIR } = process.env;
    const expected = { PATH, ...(TMPDIR && { TMPDIR }) };
    const [started, inherited] = here
      .read('seen')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.deepEqual(started, expected);
    const { NODE_TEST_CONTEXT: _runner, NODE_V8_COVERAGE: _folder, ...rest } = inherited;
    assert.deepEqual(rest, expected);
  },
);

testInFolder(
  'a warning of Node fails the test, in its own process and in one that it starts',
  {
    'warning.test.mjs': `import { test } from 'node:test';
    import { StartedProcess } from ${JSON.stringify(import.meta.resolve('./support/process.js'))};
    const start = (code) => new StartedProcess(process.execPath, ['-e', code], { cwd: '.' }).ended;
    test('own', () => new Promise((resolve) => {
      process.emitWarning('leak of the test');
      setTimeout(resolve, 100);
    }));
    test('child', () => start('process.emitWarning("leak of a child")'));
    test('none', () => start('process.emitWarning("new", "ExperimentalWarning")'));`,
  },
  async (here) => {
    const args = ['--test', '--test-reporter=tap', 'warning.test.mjs'];
    const runner = new StartedProcess(process.execPath, args, { cwd: here.path });
    const { stdout } = await runner.ended;
    assert.match(stdout, /^ *not ok 1 - own$/m);
    assert.match(stdout, /leak of the test/);
    assert.match(stdout, /^ *not ok 2 - child$/m);
    assert.match(stdout, /Warning: leak of a child/);
    assert.match(stdout, /^ *ok 3 - none$/m);
  },
);

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  const ours = import.meta.resolve('./support/process.js');
  testInFolder(
    `${signal} to the runner ends all processes that test files started`,
    {
      pids: '',
      'endless.test.mjs': `import { appendFileSync } from 'node:fs';
      import { test } from 'node:test';
      import { StartedProcess, serverFile } from ${JSON.stringify(ours)};
      appendFileSync('pids', process.pid + '\\n');
      test('endless', async () => {
        for (;;) {
          const env = { PETSTORE_API_KEYS: 'secret', PORT: '0' };
          const server = new StartedProcess(process.execPath, [serverFile, '--storage', 'memory:'], { cwd: '.', env });
          appendFileSync('pids', server.pid + '\\n');
          await server.ended;
        }
      });`,
    },
    async (here, t) => {
      const pids = (): readonly number[] => (here.read('pids').match(/\d+/g) ?? []).map(Number);
      const args = ['--test', 'endless.test.mjs'];
      const runner = new StartedProcess(process.execPath, args, { cwd: here.path });
      atEnd(t, () => {
        for (const pid of pids().filter(isAlive)) process.kill(pid, 'SIGKILL');
      });
      await until('a server', () => pids().length === 2);
      const ended = await runner.end(signal);
      try {
        await until('the end of the file and its servers', () => !pids().some(isAlive));
      } catch (error) {
        t.diagnostic(`living:\n${processTable(pids())}\nrunner: ${JSON.stringify(ended)}`);
        throw error;
      }
    },
  );
}

testInFolder(
  'a test file that exits before its end ends the processes that it started',
  {
    pids: '',
    'exit.test.mjs': `import { appendFileSync } from 'node:fs';
    import { StartedProcess } from ${JSON.stringify(import.meta.resolve('./support/process.js'))};
    const args = ['-e', 'setInterval(() => undefined, 1_000)'];
    appendFileSync('pids', String(new StartedProcess(process.execPath, args, { cwd: '.' }).pid));
    process.exit(1);`,
  },
  async (here, t) => {
    const runner = new StartedProcess(process.execPath, ['--test', 'exit.test.mjs'], {
      cwd: here.path,
    });
    await runner.ended;
    const pid = Number(here.read('pids'));
    atEnd(t, () => void (isAlive(pid) && process.kill(pid, 'SIGKILL')));
    await until('the end of the process', () => !isAlive(pid));
  },
);

/** True if a process runs. A zombie (Z) has ended. */
function isAlive(pid: number): boolean {
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' });
  return /^[^Z\s]/.test(stdout);
}

/** Returns the state and the command of each process, to explain a failure. */
function processTable(pids: readonly number[]): string {
  const args = ['-o', 'pid,ppid,stat,wchan,args', '-p', pids.join()];
  return spawnSync('ps', args, { encoding: 'utf8' }).stdout;
}
