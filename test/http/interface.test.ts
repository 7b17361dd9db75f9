/** Tests of the interface of Node that a port uses: fast or documented, and the self-check. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createPetstore } from '../../dist/index.js';
import { isTried } from '../../dist/http/mode.js';
import { selfCheck } from '../../dist/http/self-check.js';
import { triedNodes } from '../../dist/http/tried-nodes.js';
import { metricsPlugin } from '../../dist/plugins/metrics.js';
import { atEnd } from '../support/at-end.js';
import { sendRequest, key } from '../support/fixture.js';

test('C80 the self-check passes on this Node, and then captures no uncaught exception', async () => {
  assert.deepEqual(await selfCheck(), []);
  assert.equal(process.hasUncaughtExceptionCaptureCallback(), false);
});

test('C80 counts a version as tried up to the last minor version of its line', () => {
  for (const [line, version] of Object.entries(triedNodes)) {
    const [major, minor] = version.split('.').map(Number);
    assert.equal(String(major), line);
    for (const tried of [version, `${major}.${minor}.99`, `${major}.0.0`])
      assert.ok(isTried(tried), tried);
    for (const untried of [
      `${major}.${Number(minor) + 1}.0`,
      `${version}-nightly`,
      '99.0.0',
      '21.0.0',
    ])
      assert.equal(isTried(untried), false, untried);
  }
});

test('C79 C81 serves over the documented interface, and logs that', async (t) => {
  const petstore = createPetstore({ keys: [key], plugins: [metricsPlugin()] });
  atEnd(t, () => petstore.close());
  const modes = [];
  for (const nodeInterface of ['documented', 'check'] as const) {
    const { port, mode } = await petstore.listen({ port: 0, nodeInterface });
    modes.push(mode);
    assert.equal((await sendRequest(port, 'GET', '/v1/pets')).body, '[]');
    const { body } = await sendRequest(port, 'GET', '/metrics');
    assert.match(body, /^petstore_ports\{mode="documented"\} 1$/m);
  }
  assert.deepEqual(modes, ['documented', 'fast']);
});

test('C79 listen rejects an interface of Node that it does not know', async (t) => {
  const petstore = createPetstore({ keys: [key] });
  atEnd(t, () => petstore.close());
  await assert.rejects(petstore.listen({ port: 0, nodeInterface: Object('fast') }), {
    name: 'TypeError',
    message: 'nodeInterface must be one of auto, check, documented',
  });
});
