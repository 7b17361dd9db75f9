// A command whose result cannot be written says so: on a full disk, or where the reader is gone.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe } from 'node:test';
import { assertRefused, root, type Ended } from '../support/process.js';
import { testInFolder, type WorkingFolder } from '../support/working-folder.js';

const animals = join(root, 'data/animals.jsonl');

/** Runs a command whose standard output is a disk that is always full. */
function runIntoFull(line: string, here: WorkingFolder): Promise<Ended> {
  return here.shell(`exec "$0" "$1" ${line} >/dev/full`).ended;
}

describe('the result of a command', { concurrency: 4, skip: !existsSync('/dev/full') }, () => {
  testInFolder(
    'keys add whose key was shown to nobody: exit 2, and how to revoke it',
    async (here) => {
      const line =
        /^standard output cannot be written \(ENOSPC.*\): the key bob is in data\/keys\.json, but was shown to nobody; take it out with `node dist\/server\.js keys revoke bob`\n$/;
      assertRefused(await runIntoFull('keys add bob', here), 2, line);
      await here.done('keys revoke bob');
    },
  );

  testInFolder('keys add whose reader is gone: exit 2, and how to revoke it', async (here) => {
    const adding = here.begin('keys add bob');
    adding.child.stdout?.destroy();
    assertRefused(
      await adding.ended,
      2,
      /\(.*EPIPE\): the key bob .* `node dist\/server\.js keys revoke bob`/,
    );
  });

  const toNobody = /the result was shown to nobody/;
  for (const [what, args, line] of [
    ['keys list', 'keys list', toNobody],
    ['check', 'check pets.jsonl', toNobody],
    ['check --salvage', 'check pets.jsonl --salvage out.jsonl', toNobody],
    [
      'import',
      `import "${animals}" --storage file:new.jsonl`,
      /301 animals added to file:new\.jsonl/,
    ],
    ['copy', 'copy --from file:pets.jsonl --to file:copy.jsonl', toNobody],
    ['--help', '--help', toNobody],
    ['--version', '--version', toNobody],
  ] as const) {
    testInFolder(`${what} whose result cannot be written says so, exit 2`, async (here) => {
      await here.command('keys add alice');
      await here.command(['import', animals, '--storage', 'file:pets.jsonl']);
      const ended = await runIntoFull(args, here);
      assertRefused(ended, 2, line);
      assert.match(ended.stderr, /^standard output cannot be written \(ENOSPC/);
    });
  }
});
