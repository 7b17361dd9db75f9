// Tests the package as a user has it: packed from a clean folder, installed elsewhere, imported,
// required, compiled and run.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { after, before, test } from 'node:test';
import { CleanupScope, type Ending } from '../support/at-end.js';
import { folder, root } from '../support/process.js';
import { program, run } from './scene.js';

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const libraries = Object.keys(manifest.peerDependencies);

/**
 * The files that the package may contain, and its largest size. Three quarters of it are
 * JavaScript, which keeps its comments because the package has no other source.
 */
const belongs = new RegExp(
  [
    String.raw`^(package\.json|(README|CHANGELOG|CONTRIBUTING|SECURITY)\.md|LICENSE|Dockerfile|compose\.yaml`,
    String.raw`dist\/[\w/-]+\.(js|d\.ts)|data\/animals\.jsonl`,
    String.raw`docs\/(\w[\w-]*\.(md|d\.ts)|page[\w-]*\.png|figures\/speed\.svg))$`,
  ].join('|'),
);
const largest = { packed: 800_000, unpacked: 2_000_000, files: 420 };

interface Packed {
  readonly file: string;
  readonly size: number;
  readonly unpackedSize: number;
  readonly paths: readonly string[];
}

/** Packs a clone in a new folder, because packing rebuilds dist, which is in use here. */
async function pack(t: Ending): Promise<Packed> {
  const clone = folder(t);
  const kept = (manifest.files as readonly string[]).filter((name) => !/^!|^dist/.test(name));
  const names = 'src build.js package.json tsconfig.json README.md LICENSE Makefile'.split(' ');
  for (const name of [...names, ...kept])
    cpSync(join(root, name), join(clone, name), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(clone, 'node_modules'));
  await run(t, clone, 'npm', 'pack', '--silent');
  const file = join(clone, `petstore-${manifest.version}.tgz`);
  const [facts] = JSON.parse(
    await run(t, clone, 'npm', 'pack', '--json', '--dry-run', '--ignore-scripts', file),
  );
  return {
    file,
    size: facts.size,
    unpackedSize: facts.unpackedSize,
    paths: facts.files.map(({ path }: { readonly path: string }) => path),
  };
}

let packed: Packed;
const scope = new CleanupScope();
before(async () => {
  packed = await pack(scope);
});
after(() => scope.end());

/** The entries of the package, each with its module. */
const entries = Object.entries<unknown>(manifest.exports).flatMap(([name, target]) => {
  const module = /^\.\/dist\/(.*)\.js$/.exec(String(target))?.[1];
  return module === undefined ? [] : [{ specifier: name.replace('.', 'petstore'), module }];
});

/** Returns the declaration files that a compiler reads: those of the entries and their imports. */
function declarationsRead(): readonly string[] {
  const seen = new Set<string>();
  const read = (file: string): void => {
    if (seen.has(file)) return;
    seen.add(file);
    const imports = readFileSync(join(root, file), 'utf8').matchAll(
      /(?:\bfrom |\bimport\()['"](\.[^'"]+)\.js['"]/g,
    );
    for (const [, target = ''] of imports) read(`${posix.join(posix.dirname(file), target)}.d.ts`);
  };
  for (const { module } of entries) read(`dist/${module}.d.ts`);
  return [...seen].sort();
}

/** Returns a module that re-exports every public name, so that it compiles only if all exist. */
async function handOn(specifier: string, module: string): Promise<string> {
  const values = Object.keys(await import(join(root, `dist/${module}.js`)));
  const declarations = readFileSync(join(root, `dist/${module}.d.ts`), 'utf8').replace(
    /\/\*\*.*?\*\//gs,
    '',
  );
  const listed = [...declarations.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].flatMap(
    ([, names = '']) => names.split(','),
  );
  const declared = [...declarations.matchAll(/^export (?:interface|type) (\w+)/gm)].map(
    ([, name = '']) => name,
  );
  const types = [...listed, ...declared]
    .map((name) => name.replace('type ', '').trim())
    .filter((name) => name !== '' && !values.includes(name));
  return `export { ${[...values, ...types.map((name) => `type ${name}`)].join(', ')} } from '${specifier}';\n`;
}

/** A module that compiles only if the types accept valid uses and reject invalid ones. */
const consumer = `
import { createPetstore, KeyRing, memoryStorage, PetstoreError, type Pet, type PetStorage } from 'petstore';
import { corsPlugin } from 'petstore/plugins/cors';
import { docsPlugin } from 'petstore/plugins/docs';
import { metricsPlugin } from 'petstore/plugins/metrics';
import { ordersPlugin } from 'petstore/plugins/orders';

export async function use(storage: PetStorage = memoryStorage()): Promise<Pet | undefined> {
  const plugins = [corsPlugin({ origins: ['https://a.example'] }), docsPlugin(), metricsPlugin(), ordersPlugin()];
  const { fetch, close } = createPetstore({ keys: ['a'], storage, plugins });
  const response: Response = await fetch(new Request('http://a/v1/pets'));
  if (!response.ok) throw new PetstoreError('unavailable', await response.text());
  await close();
  // @ts-expect-error Ids are bigints.
  return storage.get(1);
}
export const codeOf = (error: unknown): string | undefined => (error instanceof PetstoreError ? error.code : undefined);
export const isRing = (value: unknown): value is KeyRing => value instanceof KeyRing;
// @ts-expect-error There is no such option.
createPetstore({ keys: [], port: 1 });
`;

/**
 * Compilers with common settings. None of them skips the check of declaration files. `node10`
 * ignores `exports`, and finds only the main entry, by the member `types` of package.json.
 */
const compilers: readonly {
  readonly tsc: string;
  readonly settings: readonly (readonly [
    module: string,
    moduleResolution?: string,
    include?: readonly string[],
  ])[];
}[] = [
  {
    tsc: 'node_modules/.bin/tsc',
    settings: [['node20', 'nodenext'], ['nodenext'], ['preserve', 'bundler']],
  },
  {
    tsc: 'test/ecosystem/node_modules/.bin/tsc',
    settings: [
      ['nodenext'],
      ['preserve', 'bundler'],
      ['commonjs', 'node10', ['cts/index.cts', 'cts/petstore.cts']],
    ],
  },
];

/** A script that checks that `import` and `require` give the same objects, without a warning. */
const sameThings = `
(async () => {
  for (const specifier of ${JSON.stringify(entries.map(({ specifier }) => specifier))}) {
    const [required, imported] = [require(specifier), await import(specifier)];
    for (const name of Object.keys(imported)) if (required[name] !== imported[name]) throw new Error(specifier + ' ' + name);
    if (Object.keys(required).length === 0) throw new Error(specifier);
  }
})();
`;

/**
 * A script that runs `testStorage` on a storage in JavaScript. `lists` is the expression that its
 * method `list` returns.
 */
const foreignStorage = (lists: string): string => `
import { describe } from 'node:test';
import { checkDraft, checkQuery, PetstoreError } from 'petstore';
import { testStorage } from 'petstore/conformance';
function arrayStorage() {
  const pets = [];
  let isClosed = false;
  const checkOpen = () => {
    if (isClosed) throw new PetstoreError('unavailable', 'The storage is closed.');
  };
  return {
    durable: false,
    insert: async (draft) => (checkDraft(draft), checkOpen(), pets[pets.push({ id: BigInt(pets.length + 1), ...draft }) - 1]),
    get: async (id) => (checkOpen(), pets.find((pet) => pet.id === id)),
    list: async (query) => {
      checkQuery(query);
      checkOpen();
      const { limit, status, after = 0n } = query;
      const matching = pets.filter((pet) => pet.id > after && (status === undefined || pet.status === status));
      return matching${lists};
    },
    close: async () => void (isClosed = true),
  };
}
describe('a storage of a stranger', () => testStorage({ open: arrayStorage }));
`;

/** A script that checks that the package contains the files of the page. */
const servesPage = `
import { createPetstore } from 'petstore';
import { docsPlugin } from 'petstore/plugins/docs';
const { fetch } = createPetstore({ keys: ['a'], plugins: [docsPlugin()] });
const statuses = ['', 'page/script.js', 'docs/'].map(async (path) => (await fetch('http://a/' + path)).status);
process.stdout.write((await Promise.all(statuses)).join(' '));
`;

test('the package has the expected files, and can be imported, required, compiled and run', async (t) => {
  const { file, size, unpackedSize, paths } = packed;
  t.diagnostic(`${size} bytes packed, ${unpackedSize} unpacked, ${paths.length} files`);
  assert.deepEqual(
    paths.filter((path) => !belongs.test(path)),
    [],
  );
  assert.ok(size <= largest.packed && unpackedSize <= largest.unpacked, `${size} ${unpackedSize}`);
  assert.ok(paths.length <= largest.files, `${paths.length} files`);
  for (const file of declarationsRead()) assert.ok(paths.includes(file), `${file} is missing`);

  const programs = join(root, 'test/ecosystem/node_modules/.bin');
  await run(t, root, join(programs, 'publint'), '--strict', file);
  await run(t, root, join(programs, 'attw'), file, '--profile', 'esm-only');

  const home = folder(t);
  const install = (...names: readonly string[]): Promise<string> =>
    run(
      t,
      home,
      'npm',
      ...'install --ignore-scripts --omit=peer --no-fund --no-audit'.split(' '),
      ...names,
    );
  writeFileSync(join(home, 'package.json'), '{ "private": true }');
  // The package's types need only the types of Node.
  await install(
    file,
    `@types/node@${JSON.parse(readFileSync(join(root, 'node_modules/@types/node/package.json'), 'utf8')).version}`,
  );
  for (const extension of ['cts', 'mts']) {
    mkdirSync(join(home, extension));
    writeFileSync(join(home, extension, `consumer.${extension}`), consumer);
    for (const { specifier, module } of entries)
      writeFileSync(
        join(home, extension, `${module.replaceAll('/', '-')}.${extension}`),
        await handOn(specifier, module),
      );
  }
  for (const { tsc, settings } of compilers) {
    for (const [module, moduleResolution = module, include = ['cts', 'mts']] of settings) {
      const compilerOptions = {
        module,
        moduleResolution,
        // The default of all but the oldest.
        esModuleInterop: true,
        target: 'es2022',
        lib: ['es2022'],
        types: ['node'],
        strict: true,
        exactOptionalPropertyTypes: true,
        skipLibCheck: false,
        noEmit: true,
      };
      writeFileSync(join(home, 'tsconfig.json'), JSON.stringify({ compilerOptions, include }));
      await run(t, home, join(root, tsc), '--project', home);
    }
  }

  await install(...libraries.map((name) => `${name}@${manifest.devDependencies[name]}`));
  writeFileSync(join(home, 'same.cjs'), sameThings);
  writeFileSync(join(home, 'page.mjs'), servesPage);
  assert.equal(await run(t, home, process.execPath, 'page.mjs'), '200 200 200');
  assert.equal(await run(t, home, process.execPath, '--trace-warnings', 'same.cjs'), '');
  writeFileSync(join(home, 'sound.mjs'), foreignStorage('.slice(0, limit)'));
  assert.match(await run(t, home, process.execPath, '--test', 'sound.mjs'), /^(# |ℹ )pass 12$/m);
  writeFileSync(join(home, 'unsound.mjs'), foreignStorage('.reverse().slice(0, limit)'));
  await assert.rejects(
    run(t, home, process.execPath, '--test', 'unsound.mjs'),
    /list returns the first pets that match/,
  );
  for (const command of [['node_modules/.bin/petstore'], ['npx', 'petstore']] as const) {
    const [program, ...args] = command;
    assert.equal(
      await run(t, home, program, ...args, '--version'),
      `${manifest.version}\nHTTP on Node ${process.versions.node}: fast\n`,
    );
  }
});

test('two commands in an empty folder install the package and add the first pet', async (t) => {
  const { file } = packed;
  const home = folder(t);
  await run(t, home, 'npm', 'install', '--no-fund', '--no-audit', file);

  const server = program(t, home, 'npx', 'petstore', '--dev', '--port', '0');
  const toPaste = await server.findLine((line) => (line.startsWith('curl ') ? line : undefined));
  assert.ok(toPaste !== undefined, server.output);
  const pet = '{"id":1,"name":"Rex","categoryId":1,"status":"available"}';
  assert.equal(await run(t, home, 'sh', '-c', toPaste), `${pet}\n[${pet}]\n`);

  // As after Ctrl-C, which a terminal sends to npx and to the server. npx itself ends by the signal.
  const { stdout } = await server.end('SIGINT');
  assert.match(stdout, /"msg":"stopping"/);
  assert.match(readFileSync(join(home, 'data/pets.jsonl'), 'utf8'), /^\{"id":1,"name":"Rex"/);
});

/** The runtimes on which the package is tried: this Node or, by npx, another. */
const nodes = [20, 24].map((major) => ({
  major,
  command: process.versions.node.startsWith(`${major}.`)
    ? [process.execPath]
    : ['npx', '--yes', `--package=node@${major}`, '--', 'node'],
}));

test('README.md works from the package alone: its documents, its server, its curl lines, its module', async (t) => {
  const { file, paths } = packed;
  const home = folder(t);
  await run(t, home, 'npm', 'install', '--no-fund', '--no-audit', file);
  const installed = join(home, 'node_modules/petstore');

  // Each link of the documents leads to a file of the package.
  for (const name of paths.filter((path) => path.endsWith('.md')))
    for (const [, target = ''] of readFileSync(join(installed, name), 'utf8').matchAll(
      /\]\((?!https?:|#)([^)#]+)/g,
    ))
      assert.ok(
        // The source is not in the package.
        paths.includes(posix.join(posix.dirname(name), target)) || target.startsWith('../src/'),
        `${name}: ${target}`,
      );

  const readme = readFileSync(join(installed, 'README.md'), 'utf8');
  const [, start = ''] =
    /^PETSTORE_API_KEYS=secret node dist\/server\.js (.*)$/m.exec(readme.replace(/\\\n */g, '')) ??
    [];
  const [, calls = ''] = /^```sh\n(api=.*?)^```$/ms.exec(readme) ?? [];
  const [, module = ''] = /^```js\n(\/\/ rehearse\.mjs.*?)^```$/ms.exec(readme) ?? [];
  const said = (code: string, mark: string) =>
    [...code.matchAll(new RegExp(`\\S ${mark} (.*)$`, 'gm'))].map(([, line]) => line);
  assert.ok(said(calls, '#').length >= 3 && said(module, '//').length >= 3);
  writeFileSync(join(home, 'rehearse.mjs'), module);

  for (const { major, command } of nodes) {
    const [name = '', ...args] = command;
    assert.match(await run(t, home, name, ...args, '--version'), new RegExp(`^v${major}\\.`));

    const options = start.replace('data/', 'node_modules/petstore/data/').split(' ');
    const bin = ['node_modules/petstore/dist/server.js', ...options, '--port', '0'];
    const env = 'PETSTORE_API_KEYS=secret';
    const server = program(t, home, 'env', env, name, ...args, ...bin);
    const url = await server.findLine((line) => /"url":"([^"]*)"/.exec(line)?.[1]);
    assert.ok(url !== undefined, server.output);
    writeFileSync(join(home, 'calls.sh'), calls.replaceAll('http://127.0.0.1:3000', url));
    const printed = (await run(t, home, 'sh', 'calls.sh')).split('\n').map((line) => line.trim());
    for (const line of said(calls, '#'))
      assert.ok(printed.includes(line ?? ''), `${line}: ${printed}`);
    await server.end('SIGKILL');

    const lines = (await run(t, home, name, ...args, 'rehearse.mjs')).split('\n');
    for (const line of said(module, '//'))
      assert.ok(lines.includes(line ?? ''), `${line}: ${lines}`);
  }
});
