// What `node --test` needs of us: no file tests an old build, and none leaves a process behind when
// it is ended.
import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { atEnd } from './support/at-end.js';
import { outdated } from './support/built.js';
import { folder, root, StartedProcess } from './support/process.js';
import { until } from './support/waiting.js';

test('a build is outdated by a source that was changed behind it, or is gone', (t) => {
  const cwd = folder(t);
  const [sources, build] = [join(cwd, 'src'), join(cwd, 'dist')];
  for (const path of [sources, build]) mkdirSync(join(path, 'room'), { recursive: true });
  const write = (path: string, time: number): void => {
    writeFileSync(path, '');
    utimesSync(path, time, time);
  };
  write(join(sources, 'room/one.ts'), 1_000);
  write(join(sources, 'two.ts'), 1_000);
  write(join(build, 'room/one.js'), 1_001);
  write(join(build, 'two.js'), 1_001);
  assert.equal(outdated(sources, build), undefined);

  write(join(sources, 'room/one.ts'), 1_002);
  assert.equal(outdated(sources, build), 'room/one.js');
  write(join(build, 'room/one.js'), 1_003);
  rmSync(join(sources, 'two.ts'));
  assert.equal(outdated(sources, build), 'two.js');
});

/** A module of the tests, and all that it imports of them. */
function reached(file: string, seen = new Set<string>()): ReadonlySet<string> {
  if (seen.has(file)) return seen;
  seen.add(file);
  const imports = readFileSync(file, 'utf8').matchAll(
    /^(?:import|\} from|import .* from) '(\.[^']*)\.js';/gm,
  );
  for (const [, path] of imports) {
    const imported = join(dirname(file), `${path}.ts`);
    if (existsSync(imported)) reached(imported, seen);
  }
  return seen;
}

test('every file of tests refuses an old build', () => {
  const tests = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.test.ts') && !name.includes('node_modules'),
  );
  assert.ok(tests.length > 50);
  const guard = join(root, 'test/support/built.ts');
  const unguarded = tests.filter((name) => !reached(join(root, 'test', name)).has(guard));
  assert.deepEqual(unguarded, []);
});

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  test(`${signal} of the runner ends what the files have started, and they start nothing more`, async (t) => {
    const cwd = folder(t);
    const ours = import.meta.resolve('./support/process.js');
    writeFileSync(
      join(cwd, 'endless.test.mjs'),
      `import { appendFileSync } from 'node:fs';
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
    );
    const pids = (): readonly number[] =>
      existsSync(join(cwd, 'pids'))
        ? readFileSync(join(cwd, 'pids'), 'utf8').trim().split('\n').map(Number)
        : [];
    const runner = new StartedProcess(process.execPath, ['--test', 'endless.test.mjs'], { cwd });
    atEnd(t, () => {
      for (const pid of pids().filter(isAlive)) process.kill(pid, 'SIGKILL');
    });
    await until('a server', () => pids().length === 2);
    await runner.end(signal);
    await until('the end of the file and its servers', () => !pids().some(isAlive));
  });
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
