/**
 * Runs the tests that depend on the version of Node, on the Node of this process. If they pass on a
 * release, its version goes into src/http/tried-nodes.ts (C80). If one fails, the output names the
 * entry of src/http/node.ts whose behaviour has changed.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { nodeEntries } from './support/node-entries.js';
import { root } from './support/process.js';
import { runTests } from './support/tap.js';

const folders = ['http', 'plugins', 'standalone', 'storage'];
const listFile = join(root, 'src/http/tried-nodes.ts');

/** Notes a version in the list, unless it has a later one of its line. Returns true if it did. */
function note(version: string): boolean {
  const list = readFileSync(listFile, 'utf8');
  const [major = '', minor = '', patch = ''] = version.split('.');
  const row = new RegExp(`^  ${major}: '\\d+\\.(\\d+)\\.(\\d+)',\\n`, 'm');
  const [known, knownMinor, knownPatch] = row.exec(list) ?? [];
  const isLater =
    Number(minor) - Number(knownMinor ?? -1) || Number(patch) - Number(knownPatch ?? -1);
  if (version.includes('-') || isLater <= 0) return false;

  const entry = `  ${major}: '${version}',\n`;
  const noted =
    known === undefined ? list.replace(/^};$/m, `${entry}};`) : list.replace(row, entry);
  writeFileSync(listFile, noted);
  return true;
}

const files = folders.flatMap((folder) => {
  const path = join(import.meta.dirname, folder);
  return readdirSync(path)
    .filter((name) => name.endsWith('.test.js'))
    .map((name) => join(path, name));
});
const { passed, failed } = await runTests(files);
const { node } = process.versions;
if (failed.length > 0 || passed === 0) {
  process.stdout.write(`${failed.length} tests failed on Node ${node}\n`);
  for (const { text, heldBy } of nodeEntries())
    if (heldBy.some(({ name }) => failed.some((each) => each.startsWith(name))))
      process.stdout.write(`This behaviour has changed (src/http/node.ts): ${text}\n`);
  process.exitCode = 1;
} else if (note(node))
  process.stdout.write(`Node ${node} is now in src/http/tried-nodes.ts: commit that file\n`);
