/** Tests of `get`. */
import assert from 'node:assert/strict';
import { int64Limits, rex, type TestWith } from './storage-tester.js';

/** Registers the tests of `get`. */
export function testGet(testWith: TestWith): void {
  testWith('get returns undefined for an id that no pet has', [rex, rex], async (storage) => {
    for (const id of [...int64Limits, -2n, -1n, 0n, 3n, 2n ** 32n + 1n, 2n ** 53n]) {
      assert.equal(await storage.get(id), undefined, `the id ${id}`);
      assert.equal(await storage.texts?.get(id), undefined, `the text of the id ${id}`);
    }
  });
}
