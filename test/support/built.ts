/**
 * Exits with an error if dist is older than src, or test-dist older than test. Every test file
 * imports this module, most of them indirectly.
 */
import { readdirSync, statSync } from 'node:fs';
import { extname, join } from 'node:path';
import './environment.js';
import './warnings.js';

/** Returns the first script of a build whose source was changed later, or deleted. */
export function outdated(sources: string, build: string): string | undefined {
  return readdirSync(build, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.js'))
    .find((name) => {
      const source = join(sources, name.replace(/js$/, 'ts'));
      const { mtimeMs = Infinity } = statSync(source, { throwIfNoEntry: false }) ?? {};
      return mtimeMs > statSync(join(build, name)).mtimeMs;
    });
}

const root = join(import.meta.dirname, '../..');
const isBuilt = extname(import.meta.filename) === '.js';
const builds = [['src', 'dist'] as const, ...(isBuilt ? [['test', 'test-dist'] as const] : [])];
for (const [sources, build] of builds) {
  const name = outdated(join(root, sources), join(root, build));
  if (name !== undefined) {
    process.stderr.write(
      `${build}/${name} was built before ${sources} was changed: npm run build-tests\n`,
    );
    process.exit(1);
  }
}
