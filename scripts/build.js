// Owns the build: src compiled into dist, and the two faces of each way into the package.
//
// `require('petstore')` must give the very module that `import` gives, for there is one PetstoreError, and so must its types.
// Node does that by itself, but TypeScript shows a CommonJS file no declarations of an ES module, while it shows an ES module
// both kinds. So the package's declarations are in `dist/types`, which is CommonJS, and each way in has two files of one line:
// a `.cjs` over its module and a `.d.mts` over its declarations. Those beside the modules are for our own tests.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';

const compile = (...options) => execFileSync('tsc', options, { stdio: 'inherit' });

compile(...process.argv.slice(2));
compile('--emitDeclarationOnly', '--declarationDir', 'dist/types');
writeFileSync('dist/types/package.json', '{ "type": "commonjs" }\n');
for (const entry of Object.values(JSON.parse(readFileSync('package.json', 'utf8')).exports)) {
  if (typeof entry === 'string') continue;
  const module = `./${basename(entry.import.default)}`;
  writeFileSync(entry.require.default, `module.exports = require('${module}');\n`);
  writeFileSync(entry.import.types, `export * from '${module}';\n`);
}
