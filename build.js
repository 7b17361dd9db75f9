// Builds dist: compiles src by tsc, with the options of this command, and writes the files of the page
// into their module. So dist needs no other file, and bundlers find all of it.
import { spawnSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';

const root = import.meta.dirname;
const options = process.argv.slice(2);
// tsc then writes only what has changed.
if (!options.includes('--incremental')) rmSync(`${root}/dist`, { recursive: true, force: true });
const tsc = `${root}/node_modules/typescript/bin/tsc`;
const { status } = spawnSync(process.execPath, [tsc, ...options], {
  cwd: root,
  stdio: 'inherit',
});
if (status !== 0) process.exit(status ?? 1);

const module = `${root}/dist/plugins/page/page-files.js`;
const { readPageFiles } = await import(module);
const files = readPageFiles(new URL('src/plugins/page/', import.meta.url));
rmSync(`${module}.map`, { force: true });
writeFileSync(
  module,
  `/** The files of the pages at \`/\` and \`/docs\`, as the build has read them. */
const files = new Map(${JSON.stringify([...files], null, 2)});
export const readPageFiles = () => files;
`,
);
