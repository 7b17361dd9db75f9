// A command whose result cannot be written says so: on a full disk, or where the reader is gone.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { describe } from 'node:test';
import { assertRefused, type Ended } from '../support/process.js';
import { testInFolder, type WorkingFolder } from '../support/working-folder.js';

/** Runs a command whose standard output is a disk that is always full. */
function runIntoFull(line: string, here: WorkingFolder): Promise<Ended> {
  return here.shell(`exec "$0" "$1" ${line} >/dev/full`).ended;
}

describe('the result of a command', { concurrency: 4, skip: !existsSync('/dev/full') }, () => {
  testInFolder(
    'keys add whose key was shown to nobody: exit 2, and how to revoke it',
    async (here) => {
      const line =
        /^standard output cannot be written \(ENOSPC.*\): the key bob is in data\/keys\.json, but was not printed; revoke it with `node dist\/server\.js keys revoke bob`\n$/;
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

  for (const [line, told] of Object.entries({
    'keys list': /the result is lost/,
    'check pets.jsonl': /the result is lost/,
    'check pets.jsonl --salvage out.jsonl': /the result is lost/,
    'import more.jsonl --storage file:new.jsonl': /1 pet added to file:new\.jsonl/,
    'copy --from file:pets.jsonl --to file:copy.jsonl': /the result is lost/,
    '--help': /the result is lost/,
    '--version': /the result is lost/,
  }))
    testInFolder(
      `${line}: a result that cannot be written says so, exit 2`,
      {
        'pets.jsonl': '{"id":1,"name":"a","categoryId":1}\n',
        'more.jsonl': '{"name":"a","categoryId":1}\n',
      },
      async (here) => {
        await here.command('keys add alice');
        const ended = await runIntoFull(line, here);
        assertRefused(ended, 2, told);
        assert.match(ended.stderr, /^standard output cannot be written \(ENOSPC/);
      },
    );
});
