/**
 * `petstore/conformance`: suites on node:test for a storage of your own, and for a petstore in any
 * language.
 */
export { testInsertOnce } from './insert-once-suite.js';
export { testRecords } from './records-suite.js';
export { testStorage } from './storage-suite.js';
export {
  countRules,
  isPetstoreUrl,
  testPetstore,
  UnusableServer,
  verifyPetstore,
  type PetstoreUnderTest,
  type RuleFailure,
  type Verdict,
} from './verify-petstore.js';
export { levels, type Level } from './levels.js';
