// Tests that the README leads through the files that a request crosses.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { extension, extensionArgs, root, StartedProcess } from './support/process.js';

test('the README names each file that a GET and a POST to a storage file cross', async () => {
  const script = join(import.meta.dirname, `crossings${extension}`);
  const { stdout, stderr } = await new StartedProcess(
    process.execPath,
    [...extensionArgs, script],
    {
      cwd: root,
    },
  ).ended;
  const filesOf = (request: string): readonly string[] =>
    request.match(/(?<=^ {2}).*(?=\.js$)/gm) ?? [];
  const [get = [], post = []] = stdout.split(/^(?=POST)/m).map(filesOf);
  assert.ok(get.includes('petstore') && post.includes('journal/index'), stdout + stderr);
  const chapter =
    /^## Reading the source$.*/ms.exec(readFileSync(join(root, 'README.md'), 'utf8'))?.[0] ?? '';
  for (const file of [...get, ...post])
    assert.ok(chapter.includes(`\`${file}\``), `the README must name \`${file}\``);
});
