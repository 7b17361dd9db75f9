// Owns the build: src compiled into build, its modules joined into dist, and the two faces of each way into the package.
//
// A start spends most of its time on finding and reading modules, so what is shipped is a few files, and CommonJS, which
// Node loads faster. All ways in share them: there is one PetstoreError, whoever imports it from where. What src imports
// only when it is asked for stays a file of its own. Tests have the modules one by one, from build.
//
// `import('petstore')` must give the very things that `require('petstore')` gives, and so must its types, but TypeScript
// shows a CommonJS file no declarations of an ES module, while it shows an ES module both kinds. So the declarations are of
// CommonJS too, and each way in has two more files of one line: a `.mjs` over its file and a `.d.mts` over its declarations.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { rollup } from 'rollup';

const compile = (...options) => execFileSync('tsc', options, { stdio: 'inherit' });
const { exports, peerDependencies } = JSON.parse(readFileSync('package.json', 'utf8'));
const waysIn = Object.values(exports).filter((entry) => typeof entry !== 'string');

rmSync('build', { recursive: true, force: true });
// Every start would read them; the declarations, below, keep theirs.
compile('--removeComments');

/** A file of pure ASCII is decoded faster, and held in half the memory: a start then clears its memory once less. */
const escaped = (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** Hands on the maps from build to src, and says in CommonJS where a file is. */
const compiled = {
  name: 'compiled',
  load: (id) => ({ code: readFileSync(id, 'utf8'), map: readFileSync(`${id}.map`, 'utf8') }),
  renderChunk: (code) => ({ code: code.replace(/[^\0-\x7f]/g, escaped), map: null }),
  resolveImportMeta: (property) => (property === 'url' ? "require('node:url').pathToFileURL(__filename).href" : null),
};
const names = ['server', ...waysIn.map(({ require }) => require.default.slice('./dist/'.length, -'.js'.length))];
const modules = await rollup({
  input: Object.fromEntries(names.map((name) => [name, `build/${name}.js`])),
  external: [/^node:/, ...Object.keys(peerDependencies)],
  plugins: [compiled],
  // With hoistTransitiveImports below: a file requires what it uses itself, and not what others in turn do.
  treeshake: { moduleSideEffects: 'no-external' },
  onLog: (_level, { message }) => {
    throw new Error(message);
  },
});
rmSync('dist', { recursive: true, force: true });
const { output } = await modules.write({
  dir: 'dist',
  format: 'cjs',
  interop: 'default',
  exports: 'named',
  esModule: false,
  hoistTransitiveImports: false,
  sourcemap: !process.argv.includes('--without-maps'),
  chunkFileNames: 'parts/[name].js',
  // Each with all that it imports. Without them, each set of users that a module may have would be one more file.
  manualChunks: {
    library: ['build/index.js'],
    file: ['build/storage/file.js'],
    program: ['build/commands/start.js', ...readdirSync('build/server').flatMap((name) => (name.endsWith('.js') ? [`build/server/${name}`] : []))],
  },
});
writeFileSync('dist/package.json', '{ "type": "commonjs" }\n');

compile('--emitDeclarationOnly', '--declarationDir', 'dist/types');
for (const way of waysIn) {
  const joined = output.find(({ fileName }) => `./dist/${fileName}` === way.require.default);
  const file = basename(joined.fileName);
  writeFileSync(way.import.default, `export { ${joined.exports.join(', ')} } from './${file}';\n`);
  writeFileSync(way.import.types, `export * from './${file}';\n`);
}
