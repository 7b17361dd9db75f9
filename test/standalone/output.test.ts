// A command whose result cannot be written says so: on a full disk, or where the reader is gone.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { assertRefused, root, type Ended } from '../support/process.js';
import { WorkingFolder } from '../support/working-folder.js';

const animals = join(root, 'data/animals.jsonl');

/** Runs a command whose standard output is a disk that is always full. */
function runIntoFull(line: string, here: WorkingFolder): Promise<Ended> {
  return here.shell(`exec "$0" "$1" ${line} >/dev/full`).ended;
}

describe('the result of a command', { concurrency: 4, skip: !existsSync('/dev/full') }, () => {
  test('keys add whose key was shown to nobody: exit 2, and how to revoke it', async (t) => {
    const here = new WorkingFolder(t);
    const line =
      /^standard output cannot be written \(ENOSPC.*\): the key bob is in data\/keys\.json, but was shown to nobody; take it out with `node dist\/server\.js keys revoke bob`\n$/;
    assertRefused(await runIntoFull('keys add bob', here), 2, line);
    assert.equal((await here.command('keys revoke bob')).code, 0);
  });

  test('keys add whose reader is gone: exit 2, and how to revoke it', async (t) => {
    const adding = new WorkingFolder(t).begin('keys add bob');
    adding.child.stdout?.destroy();
    assertRefused(
      await adding.ended,
      2,
      /\(.*EPIPE\): the key bob .* `node dist\/server\.js keys revoke bob`/,
    );
  });

  const commands: readonly (readonly [string, string, RegExp])[] = [
    ['keys list', 'keys list', /the result was shown to nobody/],
    ['check', 'check pets.jsonl', /the result was shown to nobody/],
    ['check --salvage', 'check pets.jsonl --salvage out.jsonl', /the result was shown to nobody/],
    [
      'import',
      `import "${animals}" --storage file:new.jsonl`,
      /301 animals added to file:new\.jsonl/,
    ],
    ['copy', 'copy --from file:pets.jsonl --to file:copy.jsonl', /the result was shown to nobody/],
    ['--help', '--help', /the result was shown to nobody/],
    ['--version', '--version', /the result was shown to nobody/],
  ];
  for (const [what, args, line] of commands) {
    test(`${what} whose result cannot be written says so, exit 2`, async (t) => {
      const here = new WorkingFolder(t);
      await here.command('keys add alice');
      await here.command(['import', animals, '--storage', 'file:pets.jsonl']);
      const ended = await runIntoFull(args, here);
      assertRefused(ended, 2, line);
      assert.match(ended.stderr, /^standard output cannot be written \(ENOSPC/);
    });
  }
});
