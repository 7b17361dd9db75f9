// Tests that docs/architecture.md names the files that a request crosses.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { extension, extensionArgs, root, StartedProcess } from './support/process.js';

test('docs/architecture.md names each file that a GET and a POST with a storage file run through', async () => {
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
  assert.ok(
    get.includes('service/request-service') && post.includes('journal/journal'),
    stdout + stderr,
  );
  const architecture = readFileSync(join(root, 'docs/architecture.md'), 'utf8');
  const chapter = /^## Four stories$.*/ms.exec(architecture)?.[0] ?? '';
  for (const file of [...get, ...post])
    assert.ok(chapter.includes(`\`${file}\``), `docs/architecture.md must name \`${file}\``);
});
