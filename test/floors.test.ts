// Holds the house: rooms are entered through their index alone, in one order, without circles; and
// nothing is depended on.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import './support/built.js';
import * as petstore from '../dist/index.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const textOf = (file: string): string => readFileSync(join(root, 'src', file), 'utf8');

/**
 * Which rooms a room may enter. The contract stands directly in src; `index` joins it with what it
 * is made of. Beside it stands the process's entry alone.
 */
const enters: Readonly<Record<string, readonly string[]>> = {
  contract: [],
  http: ['contract'],
  engine: ['contract'],
  memory: ['contract', 'engine'],
  journal: ['contract', 'engine'],
  file: ['contract', 'engine', 'journal'],
  postgres: ['contract', 'engine'],
  plugins: ['index'],
  cli: ['index', 'postgres', 'plugins', 'conformance'],
  conformance: ['index'],
  'server.ts': ['cli'],
};
/** The modules of the contract that join the rooms. */
const joins: Readonly<Record<string, readonly string[]>> = {
  'index.ts': ['contract', 'http', 'engine', 'memory', 'journal', 'file'],
  'petstore.ts': ['contract', 'http', 'engine', 'memory'],
};
/** The library that a room or a plugin wraps: an optional peer, which nobody else may touch. */
const libraries: Readonly<Record<string, string>> = {
  'plugins/cors.ts': 'cors',
  'plugins/docs.ts': 'swagger-ui-dist',
  'plugins/metrics.ts': 'prom-client',
  'postgres/driver.ts': 'pg',
};

const files = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter((name) =>
  name.endsWith('.ts'),
);
const roomOf = (file: string): string =>
  file.includes('/') ? posix.dirname(file) : file in enters ? file : 'contract';
/** What a module imports, types included, as it is named there. */
const targetsIn = (text: string): readonly string[] =>
  Array.from(text.matchAll(/\b(?:from |import\()'([^']+)'/g), ([, target = '']) => target);
/** The same: files of src, and what is not ours as it is named. */
const importsOf = (file: string): readonly string[] =>
  targetsIn(textOf(file)).map((target) =>
    target.startsWith('.')
      ? posix.join(posix.dirname(file), target).replace(/\.js$/, '.ts')
      : target,
  );
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

test('a room is entered through its index alone, and only by those above it', () => {
  const wrong = files.flatMap((file) =>
    importsOf(file)
      .filter((target) => {
        const [from, to] = [roomOf(file), roomOf(target)];
        if (target.startsWith('node:') || target === libraries[file]) return false;
        if (!files.includes(target)) return true;
        if (from === to) return false;
        const isDoor = to === 'contract' || to === 'plugins' || target === `${to}/index.ts`;
        const may = joins[file] ?? enters[from] ?? [];
        return !isDoor || !(may.includes(to) || (target === 'index.ts' && may.includes('index')));
      })
      .map((target) => `${file} -> ${target}`),
  );
  assert.deepEqual(wrong, []);
});

/** Tests that look inside a room, and why; all others come through the doors. */
const whiteBox: Readonly<Record<string, string>> = {
  'http/answers.test.ts': 'the closed set of codes is a list that no answer shows whole',
  'http/framing.test.ts':
    'the table of requests that are no HTTP, sent byte by byte and behind others',
  'http/properties.test.ts':
    'generated values by the ten thousand against the readers of targets, ids and animals',
  'http/slow.test.ts': 'minutes of C44 by a clock of our own',
  'http/unread.test.ts': 'thousands of clients of C55, more than sockets that a test opens',
  'postgres/database.ts':
    'the statements that make the tables: all at once, for two hundred databases',
  'readme.test.ts': 'the closed set of codes, against the table of the README',
  'standalone/file-lock.test.ts': 'two changes of the keys file at one moment',
  'storage/replay.test.ts': 'the quick reader of our own lines against the reader of the contract',
  'torture/cases.ts': 'the same table, against a second reading of the contract',
  'support/client.ts': "the suite's connection, which is the tests' client too",
  'support/command-lines.ts':
    'many command lines in one process, where the entry runs one and ends',
};

test('tests come through the doors, but for the white-box ones that say why', () => {
  const doors =
    /\/dist\/((http|engine|memory|journal|file|postgres|conformance)\/index|index|plugins\/[a-z]+)\.js$/;
  const inside = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.includes('node_modules'))
    .filter((name) =>
      targetsIn(readFileSync(join(root, 'test', name), 'utf8')).some(
        (target) => /^\..*\/(dist|src)\//.test(target) && !doors.test(target),
      ),
    );
  assert.deepEqual(inside.sort(), Object.keys(whiteBox).sort());
});

test('there is no circle of imports, types included', () => {
  const done = new Set<string>();
  const walk = (file: string, path: readonly string[]): void => {
    assert.ok(!path.includes(file), [...path.slice(path.indexOf(file)), file].join(' -> '));
    if (done.has(file)) return;
    for (const target of importsOf(file)) if (files.includes(target)) walk(target, [...path, file]);
    done.add(file);
  };
  for (const file of files) walk(file, []);
});

test('only the process reads the environment, listens to signals, writes to the console or exits', () => {
  const telling = /process\.(env|exit|exitCode|on|once|stdout|stderr|argv)\b|\bconsole\./;
  assert.deepEqual(
    files.filter(
      (file) => !['cli', 'server.ts'].includes(roomOf(file)) && telling.test(textOf(file)),
    ),
    [],
  );
});

test('there is no runtime dependency, and those of development are pinned; libraries are optional peers, and each plugin has its own export', () => {
  assert.equal(manifest.dependencies, undefined);
  for (const version of Object.values<string>(manifest.devDependencies))
    assert.match(version, /^\d+\.\d+\.\d+$/);
  assert.deepEqual(Object.keys(manifest.peerDependencies).sort(), Object.values(libraries).sort());
  for (const name of Object.values(libraries))
    assert.deepEqual(manifest.peerDependenciesMeta[name], { optional: true });
  const plugins = files
    .filter((file) => roomOf(file) === 'plugins')
    .map((file) => `./${file.replace(/\.ts$/, '')}`);
  const exported = Object.keys(manifest.exports).filter((name) => name.startsWith('./plugins/'));
  assert.deepEqual(exported.sort(), plugins.sort());
});

/**
 * Where each name is declared that a module hands on or declares, in the declarations that a
 * consumer's editor reads.
 */
const declaredBy = (file: string): readonly (readonly [name: string, file: string])[] => {
  const text = readFileSync(file, 'utf8');
  const handedOn = [...text.matchAll(/^export (?:type )?\{([^}]*)\} from '([^']+)'/gm)].flatMap(
    ([, list = '', from = '']) =>
      declaredBy(join(dirname(file), from.replace(/\.js$/, '.d.ts'))).filter(([name]) =>
        list.split(/\W+/).includes(name),
      ),
  );
  const own = text.matchAll(/^export (?:declare )?(?:interface|type|class|function|const) (\w+)/gm);
  return [...handedOn, ...Array.from(own, ([, name = '']) => [name, file] as const)];
};

test('every public name has words of its own, and every member of one, for whoever sees it in an editor', () => {
  const doors = Object.values<string>(manifest.exports).filter((door) => door.endsWith('.js'));
  const names = doors.flatMap((door) => declaredBy(join(root, door.replace(/\.js$/, '.d.ts'))));
  assert.ok(names.length > 80, `${names.length}`);
  const wordless = names.flatMap(([name, file]) => {
    const lines = readFileSync(file, 'utf8').split('\n');
    const declared = new RegExp(
      `^export (declare )?(?:(interface|class)|type|function|const) ${name}\\b`,
    );
    const from = lines.findIndex((line) => declared.test(line));
    const end =
      declared.exec(lines[from] ?? '')?.[2] === undefined ? from : lines.indexOf('}', from);
    return lines
      .filter((line, at) => {
        const isMember = at > from && at < end && /^ {4}(?=\w)[\w ]+\??[:(<]/.test(line);
        return (isMember || at === from) && !lines[at - 1]?.endsWith('*/');
      })
      .map((line) => `${name}: ${line.trim()}`);
  });
  // Editors show the words of `Texts` for these, which only say that they are promises.
  assert.deepEqual(
    [...new Set(wordless)].filter((member) => !member.startsWith('Records:')),
    [],
  );
});

test('what all who import the package share is frozen: no plugin changes it for others', () => {
  const shared = Object.entries(petstore).filter(([, value]) => typeof value === 'object');
  assert.ok(shared.length >= 5, `${shared.length}`);
  assert.deepEqual(
    shared.filter(([, value]) => !Object.isFrozen(value)).map(([name]) => name),
    [],
  );
});

test('statuses are words that an index can be named by and `check` can count by; none that animals have goes', () => {
  const petStatuses: readonly string[] = petstore.petStatuses;
  assert.deepEqual(
    petStatuses.filter((word) => word === 'none' || !/^[a-z]{1,40}$/.test(word)),
    [],
  );
  assert.equal(new Set(petStatuses).size, petStatuses.length);
  // The words of the first version. A word in the place of another would leave the version of
  // PostgreSQL's tables as it is, and so the word without its index; and animals without their word.
  for (const word of ['available', 'pending', 'sold']) assert.ok(petStatuses.includes(word), word);
});

/**
 * What a module is made of, whatever its layout: comments, texts, patterns, words and numbers, and
 * signs.
 */
const partsOfCode = new RegExp(
  [
    /\/\*.*?\*\//s,
    /\/\/[^\n]*/,
    /`(?:\\.|[^`\\])*`/s,
    /'(?:\\.|[^'\\\n])*'/,
    /"(?:\\.|[^"\\\n])*"/,
    /\/(?![*/\s])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/[a-z]*(?=[\s.,;)\]])/,
    /[A-Za-z_$#][\w$]*/,
    /\d[\w.]*/,
    /\?\?=|\|\|=|&&=|===|!==|\.\.\.|=>|\*\*|\?\.|\?\?|&&|\|\||[<>=!+\-*/%&|^]=|\+\+|--|<<|>>/,
    /\S/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'gs',
);
const tokensOf = (some: readonly string[]): number =>
  some
    .flatMap((file) => textOf(file).match(partsOfCode) ?? [])
    .filter((part) => !part.startsWith('//') && !part.startsWith('/*')).length;

test('the house does not grow: modules, and tokens of code without comments and layout; lines have 100 columns', () => {
  assert.equal('const a = `b`; // c\n/* d */'.match(partsOfCode)?.length, 7);
  const contract = files.filter((file) => roomOf(file) === 'contract');
  const house = files.filter((file) => roomOf(file) !== 'conformance');
  // A plugin is a module more, and a short one fits: whoever adds one raises no bound.
  const modules = house.filter((file) => roomOf(file) !== 'plugins');
  assert.ok(
    contract.length <= 16 && tokensOf(contract) <= 14_650,
    `${contract.length}, ${tokensOf(contract)}`,
  );
  assert.ok(
    modules.length <= 58 && tokensOf(house) <= 64_000,
    `${modules.length} modules, ${tokensOf(house)} tokens`,
  );
  assert.deepEqual(
    files.filter((file) => /^.{101,}$/m.test(textOf(file))),
    [],
  );
});
