// Tests a rule that takes half a minute, in a file of its own, so that other files run meanwhile.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { verifyPetstore } from '../../dist/conformance/index.js';
import { key } from '../support/fixture.js';
import { slowProxy } from './servers/wrong-proxies.js';
import { startWrong } from './wrong-server.js';

const [number, does, fault] = slowProxy;
test(`verify fails ${number} on a server that ${does}`, async (t) => {
  const url = await startWrong(t, fault);
  for await (const verdict of verifyPetstore({ url, key, only: [number] })) {
    assert.deepEqual([verdict.number, verdict.outcome], [number, 'failed']);
    assert.match(verdict.failure?.came ?? '', /^400 Bad Request/);
  }
});
