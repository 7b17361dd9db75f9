// Tests a rule that takes half a minute, in a file of its own, so that other files run meanwhile.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { slowServers } from './servers/wrong-servers.js';
import { assertBreaksOnly, verdictsOf } from './verdicts.js';

/** The response that `verify` shows, by the beginning of what the server does. */
const responses = {
  'responds with 400': /^400 Bad Request/,
  'responds with 408': /^408 after \d{1,4} ms$/,
};

describe('a rule that takes half a minute', { concurrency: true }, () => {
  for (const { number, does, start } of slowServers)
    test(`verify fails ${number} on a server that ${does}`, async (t) => {
      const verdicts = await verdictsOf(await start(t), { only: [number] });
      assertBreaksOnly(verdicts, number);
      const [, response] =
        Object.entries(responses).find(([begins]) => does.startsWith(begins)) ?? assert.fail(does);
      assert.match(verdicts[0]?.failure?.came ?? '', response);
    });
});
