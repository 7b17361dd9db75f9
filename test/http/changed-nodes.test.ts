// Tests that the self-check detects changes of Node's HTTP library that would hurt users (C80). R16
// of the torture also serves requests on these Nodes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isTried } from '../../dist/http/mode.js';
import { root, StartedProcess } from '../support/process.js';
import { harmlessChanges, nodeChanges } from '../torture/node-changes.js';

/** The number of changes that are tried at the same time. */
const atOnce = 3;

const script = `
  import { selfCheck } from ${JSON.stringify(import.meta.resolve('../../dist/http/self-check.js'))};
  console.log(JSON.stringify(await selfCheck()));
  process.exit();`;
const args = [
  '--expose-internals',
  '--no-warnings',
  '--require',
  './test/torture/changed-node.cjs',
];

test('C80 the self-check fails on each Node with a change that would hurt users', async (t) => {
  for (const name of harmlessChanges) assert.ok(Object.hasOwn(nodeChanges, name), name);
  const harmful = Object.entries(nodeChanges).filter(([name]) => !harmlessChanges.has(name));
  const left = harmful.values();
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (const [name, change] of left) {
        const { stdout, stderr } = await new StartedProcess(
          process.execPath,
          [...args, '--input-type=module', '-e', script],
          { cwd: root, env: { CHANGED_NODE: JSON.stringify(change) } },
        ).ended;
        // A version that nobody has tried may lack the text that is replaced.
        if (stderr.includes('CHANGED_NODE') && !isTried(process.versions.node)) {
          t.diagnostic(`this Node has no place for the change: ${name}`);
          continue;
        }
        assert.match(stdout, /^\[".+"\]\n$/, `a Node that ${name}: ${stdout}${stderr}`);
      }
    }),
  );
});
