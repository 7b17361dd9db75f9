/** The suite for the members that every storage has. */
import { describe } from 'node:test';
import { testClose } from './close-suite.js';
import { testGet } from './get-suite.js';
import { testInsert } from './insert-suite.js';
import { testList } from './list-suite.js';
import { storageTester, type OpenStorage } from './storage-tester.js';
import { testTexts } from './texts-suite.js';

/**
 * Registers the tests of a storage with node:test. The optional members `insertOnce` and `records`
 * have suites of their own. Nothing is tested that needs a restart.
 *
 * @param options `open` returns a new, empty, open storage for each test; the suite closes it.
 */
export function testStorage({ open }: { readonly open: OpenStorage }): void {
  describe('the contract of a storage', () => {
    const testWith = storageTester(open);
    testInsert(testWith);
    testGet(testWith);
    testList(testWith);
    testTexts(testWith);
    testClose(testWith);
  });
}
