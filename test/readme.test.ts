// Tests the documents: their code compiles with the options of the source, runs and prints what a
// `// …` after a console.log says, and their tables and links match the project.
import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { hash } from 'node:crypto';

import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { errorCodes } from '../dist/errors.js';
import * as petstore from '../dist/index.js';
import { testInsertOnce, testStorage } from '../dist/conformance/index.js';
import { jsonStoreOf } from '../dist/engine/index.js';
import { commitOf } from './storage/commit-line.js';
import { folder as newFolder, StartedProcess, type Ended } from './support/process.js';
import { testInFolder } from './support/working-folder.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const names = [
  ...['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md'],
  ...readdirSync(join(root, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];
const textOf = (name: string): string => readFileSync(join(root, name), 'utf8');
const readme = textOf('README.md');
const reference = textOf('docs/reference.md');
const documents = names.map(textOf).join('\n');
/** Returns the first group of each match. */
const allIn = (text: string, pattern: RegExp): readonly string[] =>
  Array.from(text.matchAll(pattern), ([, found = '']) => found);

/** A code block. If its first line is a comment with a file name, that is the name of the file. */
interface Example {
  readonly place: string;
  readonly file: string;
  readonly code: string;
}

const examples = names.flatMap((name) =>
  [...textOf(name).matchAll(/^```(js|ts)\n(.*?)^```$/gms)].map(
    ([, language, code = ''], index): Example => {
      const file = /^\/\/ ([\w-]+\.(?:mjs|ts))\b/.exec(code)?.[1];
      const own = `${name.replace(/\W/g, '-')}-${index + 1}.${language === 'js' ? 'mjs' : 'ts'}`;
      return { place: `${name}, example ${index + 1}`, file: file ?? own, code };
    },
  ),
);

describe('the code in documents', () => {
  // A package that depends on petstore.
  const folder = realpathSync(newFolder({ after }));
  mkdirSync(join(folder, 'node_modules/@types'), { recursive: true });
  symlinkSync(root, join(folder, 'node_modules/petstore'));
  for (const name of ['@types/node', 'prom-client'])
    symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name));
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  const compilerOptions = {
    rootDir: '.',
    outDir: 'out',
    declaration: false,
    declarationMap: false,
    sourceMap: false,
  };
  const config = { extends: join(root, 'tsconfig.json'), compilerOptions, include: ['*.ts'] };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config));
  for (const { file, code } of examples) writeFileSync(join(folder, file), code);
  const compiled = (file: string): string => file.replace(/^(.*)\.ts$/, 'out/$1.js');

  const run = (...args: readonly string[]): Promise<Ended> =>
    new StartedProcess(process.execPath, args, { cwd: folder }).ended;

  before(async () => {
    const tsc = join(root, 'node_modules/typescript/bin/tsc');
    // tsc prints errors on standard output.
    const { code, stdout } = await run(tsc);
    assert.equal(code, 0, stdout);
  });

  test('has at least nine examples with distinct file names', () => {
    assert.ok(examples.length >= 9, `${examples.length}`);
    assert.equal(new Set(examples.map(({ file }) => file)).size, examples.length);
  });

  for (const { place, file, code } of examples) {
    test(`an example runs and prints what its comments say: ${place}`, async () => {
      const ended = await run(compiled(file));
      assert.equal(ended.code, 0, ended.stderr);
      for (const line of allIn(code, /console\.log\(.*\); \/\/ (.*)$/gm))
        assert.ok(ended.stdout.split('\n').includes(line), `${line} is not in ${ended.stdout}`);
    });
  }

  // Another example runs the suites with the plain storage. Here they get the JSON texts that a
  // petstore makes of its pets.
  describe('the storage of docs/extending.md', () => {
    const open = async () => {
      const { WholeStorage } = await import(
        pathToFileURL(join(folder, compiled('whole-storage.ts'))).href
      );
      const storage = new WholeStorage();
      return Object.assign(storage, { texts: jsonStoreOf(storage) });
    };
    testStorage({ open });
    testInsertOnce({ open });
  });

  test('a suite fails with one line if the storage lacks the optional member that it tests', async () => {
    const suites = ['testInsertOnce', 'testRecords'] as const;
    const code = [
      `import { ${suites.join(', ')} } from 'petstore/conformance';`,
      "import { MapStorage } from './out/map-storage.js';",
      ...suites.map((suite) => `${suite}({ open: () => new MapStorage() });`),
    ];
    writeFileSync(join(folder, 'lacking.mjs'), code.join('\n'));

    const { code: exitCode, stdout } = await run('--test', '--test-reporter=tap', 'lacking.mjs');
    assert.equal(exitCode, 1, stdout);
    assert.deepEqual(allIn(stdout, /^ *error: '(.*)'$/gm), [
      'the storage has no insertOnce: leave this suite out',
      'the storage has no records: leave this suite out',
    ]);
  });
});

test('README.md has at most 250 lines', () => {
  assert.ok(readme.split('\n').length <= 251);
});

test('README.md has the numbers of power cuts and pets of docs/evidence.md', () => {
  const rows = [
    ...textOf('docs/evidence.md').matchAll(
      /^\| R2 \|.*\| (\d+) (?:of \d+ )?cuts, ([\d,]+) \w+ acknowledged: 0 lost, 0 altered/gm,
    ),
  ];
  const sumOf = (group: number) =>
    rows.reduce((sum, row) => sum + Number(row[group]?.replaceAll(',', '')), 0);
  const words = readme.replace(/\s+/g, ' ');
  assert.ok(rows.length >= 1);
  assert.match(words, new RegExp(`In ${sumOf(1)} power cuts of a real file system`));
  assert.match(words, new RegExp(`with ${sumOf(2).toLocaleString('en')} pets acknowledged`));
});

test('each link in a document leads to an existing file and heading', () => {
  for (const name of names) {
    for (const target of allIn(textOf(name), /\]\((?!https?:)([^)]+)\)/g)) {
      const [path = '', anchor] = target.split('#');
      const file = path === '' ? name : join(dirname(name), path);
      assert.ok(existsSync(join(root, file)), `${name}: ${target}`);
      if (anchor !== undefined)
        assert.ok(anchorsOf(textOf(file)).includes(anchor), `${name}: ${target}`);
    }
  }
});

/** Returns the anchors of the headings of a document. */
function anchorsOf(text: string): readonly string[] {
  return allIn(text.replace(/^```.*?^```$/gms, ''), /^#+ (.*)$/gm).map((heading) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

testInFolder(
  'docs/reference.md has each flag, variable, default and command of the help, and no other flag',
  async (here) => {
    const help = await here.allHelp();
    const forms = allIn(
      help,
      /^ {2}(?!serve)((?:import|copy|migrate|check|verify|keys [a-z]+)) /gm,
    );
    const flags = allIn(help, /^ {2}(--[a-z-]+)/gm);
    const variables = allIn(help, /\[((?!COMMAND)[A-Z_]+)\]/g);
    const defaults = allIn(help, /\(default (.*)\)$/gm);
    for (const words of [forms, flags, variables, defaults]) {
      assert.ok(words.length >= 5, help);
      for (const word of words) assert.match(reference, new RegExp(`[\`[ ]${word}[\` ]`), word);
    }
    const ours = `${readme}${reference}`.replaceAll('npm install --ignore-scripts', '');
    for (const flag of allIn(ours, /[`[ ](--[a-z][a-z-]*)/g)) assert.ok(flags.includes(flag), flag);
  },
);

testInFolder(
  'docs/testing.md has each word of `petstore help faults` in its tables',
  async (here) => {
    const { stdout: help } = await here.command('help faults');
    const words = allIn(help, /^ {2}([a-z-]+)(?:=[A-Z]+)? {2,}[a-z]/gm);
    assert.ok(words.length >= 14, help);
    const chapter = /^## Faults$.*?^## /ms.exec(textOf('docs/testing.md'))?.[0] ?? '';
    for (const word of words) assert.match(chapter, new RegExp(`[\`,]${word}[\`=,]`), word);
  },
);

testInFolder(
  'each row of the quick start in README.md names one thing that exists after the first start',
  async (here) => {
    const { url } = await here.start('--dev', { PETSTORE_API_KEYS: '' });
    const chapter = /^## Quick start$.*?^## /ms.exec(readme)?.[0] ?? '';
    const rows = [...chapter.matchAll(/^\| (?!what )([^|]+) \| ([^|]+) \|$/gm)];
    assert.ok(rows.length >= 7, `${rows.length} rows`);
    for (const [row, what = '', where = ''] of rows) {
      const place =
        /^`(?:http:\/\/127\.0\.0\.1:3000)?([^`]+)`$/.exec(where)?.[1] ?? assert.fail(row);
      assert.ok(!what.includes(';'), row);
      if (place.startsWith('/')) assert.equal((await fetch(url + place)).status, 200, row);
      else assert.ok(existsSync(here.at(place)), row);
    }
  },
);

test('documents name the major version of a library that package.json requires', () => {
  const { peerDependencies } = JSON.parse(textOf('package.json'));
  const named = names.flatMap((name) =>
    [...textOf(name).matchAll(/npm install (?:--[a-z-]+ )*([a-z][a-z-]*)(@\S+?)?[`\n ]/g)].map(
      ([, library = '', version]) => ({ name, library, version }),
    ),
  );
  const missing = Object.keys(peerDependencies).filter(
    (library) => !named.some((each) => each.library === library),
  );
  assert.deepEqual(missing, []);
  for (const { name, library, version } of named)
    assert.equal(version, `@${/\d+/.exec(peerDependencies[library])?.[0]}`, `${name}: ${library}`);
});

test('documents name the package file of this version', () => {
  const { version } = JSON.parse(textOf('package.json'));
  const named = new Set(documents.match(/petstore-[\w.]+\.tgz/g));
  assert.deepEqual([...named], [`petstore-${version}.tgz`]);
});

testInFolder('commands in documents exist and take the flags that are shown', async (here) => {
  const blocks = allIn(documents.replace(/\\\n */g, ''), /^```sh\n(.*?)^```$/gms);
  const inline = allIn(documents, /`(node dist\/server\.js [^`]*)`/g);
  const lines = allIn(
    [...blocks, ...inline].join('\n'),
    /^(?:[A-Z_]+=\S+ )?(?:node dist\/server\.js|petstore)\b *(.*)$/gm,
  );
  assert.ok(lines.length >= 10, `${lines.length}`);
  for (const words of lines) {
    const command = /^[a-z]+\b/.exec(words)?.[0] ?? 'serve';
    // An unknown command would exit with 2.
    const { code, stdout: help } = await here.command(
      `help ${command === 'help' ? '' : command}`.trim(),
    );
    assert.equal(code, 0, words);
    for (const [flag] of words.matchAll(/(?<=^| )--(?!help)\S+/g))
      assert.match(help, new RegExp(`^  ${flag} `, 'm'), words);
  }
});

test('make targets in documents exist, and CI runs them', () => {
  const makefile = textOf('Makefile');
  // `make evidence` runs the targets that test/bench/evidence.ts lists.
  const ci = ['.ci/run', '.ci/fresh-clone', 'test/bench/evidence.ts'].map(textOf).join('\n');
  const targets = new Set(allIn(documents, /(?<=`|^|\d )make ([a-z-]+)/gm));
  assert.ok(targets.size >= 12, [...targets].join(', '));
  for (const target of targets) {
    assert.match(makefile, new RegExp(`^${target}:`, 'm'));
    assert.match(ci, new RegExp(`^[^#\n]*make ${target}(?![\\w-])|'${target}'`, 'm'), target);
  }
});

test('make help and docs/evidence.md name the same durations', () => {
  const evidence = textOf('docs/evidence.md').replace(/\s+/g, ' ');
  const duration = /(?:half a|[a-z]+(?: to [a-z]+)?) (?:minute|hour)s?\b/;
  const named = [...textOf('Makefile').matchAll(/^([a-z-]+):.*?## (.*)$/gm)].flatMap(
    ([, target = '', about = '']) => {
      const [words] = duration.exec(about) ?? [];
      return words === undefined ? [] : [{ target, words }];
    },
  );
  assert.ok(named.length >= 6, `${named.length} durations`);
  for (const { target, words } of named) {
    const places = evidence.split(new RegExp(`make ${target}(?![\\w-])`)).slice(1);
    const found = places.map((text) => duration.exec(text.slice(0, 300))?.[0]);
    assert.ok(found.includes(words), `${target}: ${words}, not ${found.join(', ')}`);
  }

  // The seconds that the rows were measured to take.
  const rows = readdirSync(join(root, 'test/torture')).map((name) =>
    textOf(`test/torture/${name}`),
  );
  const seconds = rows.flatMap((text) => allIn(text, /^ {2}fullS: (\d+),$/gm)).map(Number);
  const minutes = Math.round(seconds.reduce((sum, each) => sum + each) / 60);
  assert.equal(minutes, 16);
  assert.match(textOf('Makefile'), /^torture:.* for sixteen minutes /m);
});

test('the documents name each exported value, and the removal of each deprecated value', () => {
  const text = reference + textOf('docs/upgrading.md');
  const missing = Object.keys(petstore).filter((name) => !text.includes(`\`${name}\``));
  assert.deepEqual(missing, [], 'name these in "What the package exports" of docs/reference.md');
});

test('docs/reference.md has all error codes', () => {
  const chapter = /^## Errors$.*?^## /ms.exec(reference)?.[0] ?? '';
  for (const code of Object.keys(errorCodes)) assert.ok(chapter.includes(`\`${code}\``), code);
});

test('docs/contract.md shows a storage file as the storage writes it', () => {
  const [, pets = '', commit] =
    /```\n(\{"id":1.*?\n\{.*?\n)(.*?\n)/.exec(textOf('docs/contract.md')) ?? [];
  assert.equal(commit, `${commitOf(Buffer.from(pets), 0)}`);
});

test('docs/extending.md shows the idempotency record of the example in README.md, for the key alice', () => {
  const [, key = '', body = ''] =
    /"key":"(\w{8})…","body":"(\w{8})…"/.exec(textOf('docs/extending.md')) ?? [];
  const [, idempotencyKey, sent = ''] =
    /'Idempotency-Key': '(\w+)'.*?body: '([^']+)'/s.exec(readme) ?? [];
  assert.ok(
    hash('sha256', JSON.stringify(['alice', idempotencyKey])).startsWith(key) && key !== '',
  );
  assert.ok(hash('sha256', sent).startsWith(body) && body !== '');
});
