// Tests a rule that takes half a minute, in a file of its own, so that other files run meanwhile.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { slowServer } from './servers/wrong-servers.js';
import { assertBreaksOnly, verdictsOf } from './verdicts.js';

const { number, does, start } = slowServer;
test(`verify fails ${number} on a server that ${does}`, async (t) => {
  const verdicts = await verdictsOf(await start(t), { only: [number] });
  assertBreaksOnly(verdicts, number);
  assert.match(verdicts[0]?.failure?.came ?? '', /^400 Bad Request/);
});
