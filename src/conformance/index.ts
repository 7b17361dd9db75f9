/**
 * `petstore/conformance`: suites on node:test for whoever writes a storage, or a petstore of their
 * own in any language.
 */
export { testInsertOnce } from './test-insert-once.js';
export { testRecords } from './test-records.js';
export { testStorage } from './test-storage.js';
export {
  countRules,
  isPetstoreUrl,
  testPetstore,
  UnusableServer,
  verifyPetstore,
  type PetstoreUnderTest,
  type RuleFailure,
  type Verdict,
} from './test-petstore.js';
export { levels, type Level } from './server-under-test.js';
