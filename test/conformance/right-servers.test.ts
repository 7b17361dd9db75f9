// Tests that `verify` passes each petstore that is right in an unusual way.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rightPetstores } from './servers/right-petstores.js';
import { numbersOf, verdictsOf } from './verdicts.js';

for (const { is, level, start, only = [] } of rightPetstores)
  test(`verify passes a petstore that ${is}`, async (t) => {
    const verdicts = await verdictsOf(await start(t), level);
    const failed = verdicts.filter(({ outcome }) => outcome === 'failed');
    assert.deepEqual(
      failed.map((each) => [each.number, each.failure]),
      [],
    );
    assert.deepEqual(numbersOf(verdicts, 'untried'), []);
    assert.deepEqual(numbersOf(verdicts, 'inapplicable'), only);
  });
