// Tests the structure of the source: which folder imports which, one module per name, and no
// runtime dependency.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import './support/built.js';
import * as petstore from '../dist/index.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const textOf = (file: string): string => readFileSync(join(root, 'src', file), 'utf8');

/** Fails if `wrong` is not empty, with a message that names the problem and its fix. */
const holds = (wrong: readonly string[], problem: string): void =>
  assert.ok(wrong.length === 0, `${problem}:\n  ${wrong.join('\n  ')}`);

/** Fails if a list of exceptions differs from the files that need one. */
const isExactly = (
  found: readonly string[],
  exceptions: readonly string[],
  problem: string,
): void => {
  holds(
    found.filter((each) => !exceptions.includes(each)),
    problem,
  );
  holds(
    exceptions.filter((each) => !found.includes(each)),
    'exceptions in test/floors.test.ts that nothing needs any longer; delete them there',
  );
};

/**
 * The folders that a folder may import. `contract` stands for the modules directly in src, and
 * `index` for src/index.ts, the public API.
 */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  contract: [],
  http: ['contract'],
  // Assembles a petstore; the contract knows nothing of its parts.
  service: ['contract', 'http', 'engine', 'memory'],
  engine: ['contract'],
  memory: ['contract', 'engine'],
  journal: ['contract', 'engine'],
  file: ['contract', 'engine', 'journal'],
  postgres: ['contract', 'engine'],
  plugins: ['index', 'plugins/faults', 'plugins/page'],
  'plugins/faults': ['index'],
  'plugins/page': [],
  // The command line also uses what no user of the library needs.
  cli: ['index', 'contract', 'http', 'journal', 'postgres', 'plugins'],
  conformance: ['index'],
  'server.ts': ['cli'],
};
/** The modules that may import other folders than their own folder may. */
const modulesMayImport: Readonly<Record<string, readonly string[]>> = {
  'index.ts': ['contract', 'http', 'service', 'engine', 'memory', 'journal', 'file'],
  'cli/verify.ts': ['index', 'conformance'],
  'cli/verify-report.ts': ['conformance'],
};
/** Second entries of folders. Without this one, `verify` would load node:test. */
const secondEntries: readonly string[] = ['conformance/verify-petstore.ts'];
/** The modules that wrap a library, which is an optional peer. No other module may import it. */
const libraries: Readonly<Record<string, string>> = {
  'plugins/cors.ts': 'cors',
  'plugins/docs.ts': 'swagger-ui-dist',
  'plugins/metrics.ts': 'prom-client',
  'postgres/driver.ts': 'pg',
};
/** Each `index.ts` that still holds code. */
const indexesWithCode: readonly string[] = [];
/** The names that several modules still share. */
const sharedNames: readonly string[] = [];

const files = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter((name) =>
  name.endsWith('.ts'),
);
const folderOf = (file: string): string =>
  file.includes('/') ? posix.dirname(file) : file in mayImport ? file : 'contract';
/** Returns the specifiers of all imports of a module, types included. */
const targetsIn = (text: string): readonly string[] =>
  Array.from(text.matchAll(/\b(?:from |import\()'([^']+)'/g), ([, target = '']) => target);
/** Returns the imports of a module: the files of src, and the names of packages. */
const importsOf = (file: string): readonly string[] =>
  targetsIn(textOf(file)).map((target) =>
    target.startsWith('.')
      ? posix.join(posix.dirname(file), target).replace(/\.js$/, '.ts')
      : target,
  );
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

test('folders import each other in one order, and only through index.ts', () => {
  const wrong = files.flatMap((file) =>
    importsOf(file)
      .filter((target) => {
        const [from, to] = [folderOf(file), folderOf(target)];
        if (target.startsWith('node:') || target === libraries[file]) return false;
        if (!files.includes(target)) return true;
        if (from === to) return false;
        const isEntry =
          ['contract', 'plugins'].includes(to) ||
          target === `${to}/index.ts` ||
          secondEntries.includes(target);
        const allowed = modulesMayImport[file] ?? mayImport[from] ?? [];
        return (
          !isEntry ||
          !(allowed.includes(to) || (target === 'index.ts' && allowed.includes('index')))
        );
      })
      .map((target) => `${file} imports ${target}`),
  );
  holds(
    wrong,
    'forbidden imports; import the index.ts of a folder that `mayImport` in ' +
      'test/floors.test.ts allows, or move the code to where both may import it',
  );
});

test('only the command verify imports src/conformance, which no server needs', () => {
  holds(
    files.filter(
      (file) =>
        !file.startsWith('cli/verify') &&
        folderOf(file) !== 'conformance' &&
        importsOf(file).some((target) => folderOf(target) === 'conformance'),
    ),
    'modules that import src/conformance; move what they need to src/index.ts',
  );
});

test('an index.ts only re-exports', () => {
  const code = /\/\*.*?\*\/|\/\/[^\n]*|export (?:type )?(?:\{[^}]*\}|\*) from '[^']+';|\s/gs;
  isExactly(
    files.filter(
      (file) => posix.basename(file) === 'index.ts' && textOf(file).replace(code, '') !== '',
    ),
    indexesWithCode,
    'an index.ts that holds code; move the code to a module with a name, and re-export it',
  );
});

test('no two modules of src share a name', () => {
  const names = files.map((file) => posix.basename(file)).filter((name) => name !== 'index.ts');
  isExactly(
    [...new Set(names.filter((name, at) => names.indexOf(name) !== at))],
    sharedNames,
    'names that several modules of src share; rename all but one of the modules',
  );
});

/** The tests that import modules behind an index.ts, each with its reason. */
const whiteBox: Readonly<Record<string, string>> = {
  'conformance/verify.test.ts': 'the entry of the command, which loads no test runner',
  'http/changed-nodes.test.ts': 'the self-check, on Nodes that are changed in one place',
  'http/framing.test.ts': 'the table of requests that are not HTTP, sent in pieces and pipelined',
  'http/interface.test.ts': 'the self-check, and the list of tried versions of Node',
  'http/properties.test.ts': 'ten thousands of values for the readers of targets, ids and pets',
  'http/responses.test.ts': 'no response shows the whole list of error codes',
  'http/slow.test.ts': 'minutes of C44 by a clock of the test',
  'http/unread.test.ts': 'C55 needs more clients than a test can open sockets',
  'postgres/database.ts': 'all migrations in one statement, for two hundred databases',
  'postgres/slow.test.ts': 'commits of 20 ms, without a slow disk',
  'postgres/waiting.test.ts': 'the URL of a session whose TLS files are gone',
  'readme.test.ts': 'the list of error codes, against the table of docs/reference.md',
  'standalone/file-lock.test.ts': 'two changes of the keys file at the same time',
  'standalone/node-options.test.ts': 'the table of framing.test.ts, under NODE_OPTIONS',
  'standalone/rehearsing.test.ts': 'a seed that comes after pets of another program',
  'storage/replay.test.ts': 'the fast reader of journal lines, against the full JSON parser',
  'storage/wrong/records.ts': 'texts that are no byte strings, which the types forbid',
  'torture/cases.ts': 'the table of framing.test.ts, against a second reading of the contract',
  'support/client.ts': 'the connection of the conformance suite, which the tests use too',
  'support/command-lines.ts': 'runs many command lines in one process, where the entry exits',
};

test('tests import folders through index.ts, except for the listed white-box tests', () => {
  const entries =
    /\/dist\/((http|engine|memory|journal|file|postgres|conformance)\/index|index|plugins\/[a-z]+)\.js$/;
  isExactly(
    readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts') && !name.includes('node_modules'))
      .filter((name) =>
        targetsIn(readFileSync(join(root, 'test', name), 'utf8')).some(
          (target) => /^\..*\/(dist|src)\//.test(target) && !entries.test(target),
        ),
      ),
    Object.keys(whiteBox),
    'tests that import a module behind an index.ts; import the index.ts, ' +
      'or give the reason in `whiteBox` of test/floors.test.ts',
  );
});

test('imports form no cycle, types included', () => {
  const done = new Set<string>();
  const walk = (file: string, path: readonly string[]): void => {
    holds(
      path.includes(file) ? [[...path.slice(path.indexOf(file)), file].join(' -> ')] : [],
      'modules that import each other; move what both need to a third module',
    );
    if (done.has(file)) return;
    for (const target of importsOf(file)) if (files.includes(target)) walk(target, [...path, file]);
    done.add(file);
  };
  for (const file of files) walk(file, []);
});

test('only cli uses the environment, signals, the console or exit codes', () => {
  const ofProcess = /process\.(env|exit|exitCode|on|once|stdout|stderr|argv)\b|\bconsole\./;
  holds(
    files.filter(
      (file) =>
        !['cli', 'server.ts'].includes(folderOf(file)) &&
        // PETSTORE_SELF_CHECK must also work in processes of others (C80).
        ofProcess.test(textOf(file).replace(/process\Wenv\['PETSTORE_SELF_CHECK'\]/, '')),
    ),
    'library modules that use the process or the console; take an option, such as `log`, instead',
  );
});

test('there is no runtime dependency, and each plugin is an export', () => {
  assert.equal(manifest.dependencies, undefined, 'package.json must have no `dependencies`');
  holds(
    Object.entries<string>(manifest.devDependencies)
      .filter(([, version]) => !/^\d+\.\d+\.\d+$/.test(version))
      .map(([name, version]) => `${name} ${version}`),
    'development dependencies that are not pinned; give an exact version',
  );
  const wrapped = Object.values(libraries);
  holds(
    Object.keys(manifest.peerDependencies).filter((name) => !wrapped.includes(name)),
    'peer dependencies that no module uses; name the module in `libraries` of this test',
  );
  holds(
    wrapped.filter((name) => !(name in manifest.peerDependencies)),
    'libraries that a module wraps; add them to peerDependencies of package.json',
  );
  holds(
    wrapped.filter((name) => !manifest.peerDependenciesMeta[name]?.optional),
    'peer dependencies that are not optional; add them to peerDependenciesMeta of package.json',
  );
  const plugins = files
    .filter((file) => folderOf(file) === 'plugins')
    .map((file) => `./${file.replace(/\.ts$/, '')}`);
  const exported = Object.keys(manifest.exports).filter((name) => name.startsWith('./plugins/'));
  holds(
    plugins.filter((name) => !exported.includes(name)),
    'plugins without an entry in `exports` of package.json; add one',
  );
  holds(
    exported.filter((name) => !plugins.includes(name)),
    '`exports` of package.json that no module of src/plugins is behind; delete them',
  );
});

/** Returns each exported name of a declaration file, with the file that declares it. */
const declaredBy = (file: string): readonly (readonly [name: string, file: string])[] => {
  const text = readFileSync(file, 'utf8');
  const reExported = [...text.matchAll(/^export (?:type )?\{([^}]*)\} from '([^']+)'/gm)].flatMap(
    ([, list = '', from = '']) =>
      declaredBy(join(dirname(file), from.replace(/\.js$/, '.d.ts'))).filter(([name]) =>
        list.split(/\W+/).includes(name),
      ),
  );
  const own = text.matchAll(/^export (?:declare )?(?:interface|type|class|function|const) (\w+)/gm);
  return [...reExported, ...Array.from(own, ([, name = '']) => [name, file] as const)];
};

test('every name that the package exports has a doc comment', () => {
  const entries = Object.values<string>(manifest.exports).filter((entry) => entry.endsWith('.js'));
  const names = entries.flatMap((entry) => declaredBy(join(root, entry.replace(/\.js$/, '.d.ts'))));
  assert.ok(names.length > 80, `found only ${names.length} exported names: the search is broken`);
  holds(
    names.flatMap(([name, file]) => {
      const lines = readFileSync(file, 'utf8').split('\n');
      const declared = new RegExp(
        `^export (declare )?(interface|class|type|function|const) ${name}\\b`,
      );
      const at = lines.findIndex((line) => declared.test(line));
      return lines[at - 1]?.endsWith('*/') ? [] : [name];
    }),
    'exported names without a doc comment; write one, or export the name no longer',
  );
});

test('exported objects are frozen, because all importers share them', () => {
  const shared = Object.entries(petstore).filter(([, value]) => typeof value === 'object');
  assert.ok(shared.length >= 5, `found only ${shared.length} objects: the search is broken`);
  holds(
    shared.filter(([, value]) => !Object.isFrozen(value)).map(([name]) => name),
    'exported objects that a plugin could change for all others; wrap them in Object.freeze',
  );
});

test('a status is a lowercase word, and the first three stay', () => {
  const petStatuses: readonly string[] = petstore.petStatuses;
  holds(
    petStatuses.filter((word) => word === 'none' || !/^[a-z]{1,40}$/.test(word)),
    'statuses that cannot be part of an index name or of a count of `check`; ' +
      'use 1 to 40 lowercase letters, other than "none"',
  );
  assert.equal(new Set(petStatuses).size, petStatuses.length, 'petStatuses repeats a word');
  // Pets of the first version have these. A word that replaced one of them would also leave the
  // number of PostgreSQL's migrations unchanged, so that the new word got no index.
  holds(
    ['available', 'pending', 'sold'].filter((word) => !petStatuses.includes(word)),
    'statuses of the first version that are missing; add new ones, and keep these',
  );
});

test('lines have at most 100 columns', () => {
  holds(
    files.filter((file) => /^.{101,}$/m.test(textOf(file))),
    'files of src with a longer line; break it, which `make format` does for code',
  );
});

test('C68 no module of src uses the global timers, which fake timers replace', () => {
  const globals = files.flatMap((file) => {
    const code = textOf(file).replace(/\/\*.*?\*\/|\/\/[^\n]*/gs, '');
    const names = /^import \{([^}]*)\} from 'node:timers(?:\/promises)?';$/gm;
    const imported = [...code.matchAll(names)].flatMap(([, list = '']) => list.match(/\w+/g) ?? []);
    const body = code.replace(/^import [^;]*;$/gm, '');
    const timers = body.match(/(?<![.\w])(?:set|clear)(?:Timeout|Interval|Immediate)\b/g) ?? [];
    const others = body.match(/\bqueueMicrotask\b|\bnextTick\(|\bAbortSignal\.timeout\b/g);
    const usesPerformance = /(?<![.\w])performance\./.test(body);
    // The process has no fake timers, and the suite has no clock.
    const isExempt = ['cli', 'conformance'].includes(folderOf(file));
    const usesDate = !isExempt && /\bDate\.now\b(?!;)|\bnew Date\(\)/.test(body);
    const hasPerformance = code.includes("import { performance } from 'node:perf_hooks';");
    return [
      ...timers.filter((name) => !imported.includes(name)),
      ...(others ?? []),
      ...(usesPerformance && !hasPerformance ? ['performance'] : []),
      ...(usesDate ? ['Date.now; use machineClock'] : []),
    ].map((name) => `${file}: ${name}`);
  });
  holds(globals, 'globals that fake timers replace; import them from node:timers or perf_hooks');
});
