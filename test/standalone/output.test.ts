// Tests commands whose result cannot be written, because the disk is full or the reader is gone.
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
    'keys add exits with 2 and says how to revoke the key if the disk is full',
    async (here) => {
      const line =
        /^standard output cannot be written \(no space left on device\): the key bob is in data\/keys\.json, but was not printed; revoke it with `node dist\/server\.js keys revoke bob`\n$/;
      assertRefused(await runIntoFull('keys add bob', here), 2, line);
      await here.done('keys revoke bob');
    },
  );

  testInFolder(
    'keys add exits with 2 and says how to revoke the key if its reader is gone',
    async (here) => {
      const adding = here.begin('keys add bob');
      adding.child.stdout?.destroy();
      assertRefused(
        await adding.ended,
        2,
        /\(its reader is gone\): the key bob .* `node dist\/server\.js keys revoke bob`/,
      );
    },
  );

  for (const [line, message] of Object.entries({
    'keys list': /the result is lost/,
    'check pets.jsonl': /the result is lost/,
    'check pets.jsonl --salvage out.jsonl': /the result is lost/,
    'import more.jsonl --storage file:new.jsonl': /1 pet added to file:new\.jsonl/,
    'copy --from file:pets.jsonl --to file:copy.jsonl': /the result is lost/,
    '--help': /the result is lost/,
    '--version': /the result is lost/,
  }))
    testInFolder(
      `${line} exits with 2 if its result cannot be written`,
      {
        'pets.jsonl': '{"id":1,"name":"a","categoryId":1}\n',
        'more.jsonl': '{"name":"a","categoryId":1}\n',
      },
      async (here) => {
        await here.command('keys add alice');
        const ended = await runIntoFull(line, here);
        assertRefused(ended, 2, message);
        assert.match(
          ended.stderr,
          /^standard output cannot be written \(no space left on device\)/,
        );
      },
    );
});
