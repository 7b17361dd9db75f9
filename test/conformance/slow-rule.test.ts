// Tests a rule that takes half a minute, in a file of its own, so that other files run meanwhile.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { slowServers } from './servers/wrong-servers.js';
import { assertBreaksOnly, verdictsOf } from './verdicts.js';

const responses = [/^400 Bad Request/, /^408 after \d{1,4} ms$/];

describe('a rule that takes half a minute', { concurrency: true }, () => {
  for (const [index, { number, does, start }] of slowServers.entries())
    test(`verify fails ${number} on a server that ${does}`, async (t) => {
      const verdicts = await verdictsOf(await start(t), { only: [number] });
      assertBreaksOnly(verdicts, number);
      assert.match(verdicts[0]?.failure?.came ?? '', responses[index] ?? /^$/);
    });
});
