/** Tests of `get`. */
import assert from 'node:assert/strict';
import { int64Limits, type TestWith } from './storage-tester.js';

/** Registers the tests of `get`. */
export function testGet(testWith: TestWith): void {
  testWith('get returns undefined for an id that no pet has', [], async (storage) => {
    for (const id of [...int64Limits, -1n, 0n, 1n, 2n ** 53n])
      assert.equal(await storage.get(id), undefined);
  });
}
