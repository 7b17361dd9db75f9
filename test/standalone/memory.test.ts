// Tests C60: the memory of a body is a small multiple of its length, here 16 MiB with a heap of 256
// MiB.
import '../support/unmeasured.js';
import assert from 'node:assert/strict';
import { apiKey } from '../support/process.js';
import { testInFolder } from '../support/working-folder.js';

const bytes = 2 ** 24;

/** Returns a body of almost the maximum length that repeats one part. */
function bodyOf(head: string, part: string, tail: string): Buffer {
  const count = Math.floor((bytes - head.length - tail.length) / Buffer.byteLength(part));
  return Buffer.from(head + part.repeat(count) + tail);
}

const name = '{"categoryId":1,"name":"';
const bodies = [
  ['letters of two bytes', bodyOf(name, 'é', '"}'), 201],
  ['letters of three bytes', bodyOf(name, '猫', '"}'), 201],
  ['escapes', bodyOf(name, '\\n', '"}'), 201],
  ['empty objects', bodyOf('[', '{},', '{}]'), 400],
  ['numbers', bodyOf('[', '0,', '0]'), 400],
  [
    'empty arrays in an unknown member',
    bodyOf('{"name":"a","categoryId":1,"x":[', '[],', '[]]}'),
    400,
  ],
] as const;

testInFolder('C60 responds to bodies of 16 MiB with a heap of 256 MiB', async (here) => {
  const env = {
    NODE_OPTIONS: '--max-old-space-size=256',
    NODE_V8_COVERAGE: '',
    PETSTORE_MAX_BODY_BYTES: `${bytes}`,
  };
  const server = await here.start('--storage memory: --plugin faults', env);
  const headers = { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' };
  for (const [what, body, status] of bodies) {
    for (let times = 0; times < 2; times++) {
      const response = await fetch(`${server.url}/v1/pets`, { method: 'POST', headers, body });
      assert.equal(response.status, status, what);
      await response.arrayBuffer();
    }
    // The added pet must not take memory from the next body.
    assert.equal((await fetch(`${server.url}/v1/reset`, { method: 'POST', headers })).status, 204);
  }
  await server.stopCleanly();
});
