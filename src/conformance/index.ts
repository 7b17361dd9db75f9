/**
 * `petstore/conformance`: suites on node:test for a storage of your own, and for a petstore in any
 * language.
 */
export { testInsertOnce } from './insert-once-suite.js';
export { testRecords } from './records-suite.js';
export { testStorage } from './storage-suite.js';
export { testPetstore, type RegisterTest, type TestedPetstore } from './test-petstore.js';
export {
  countRules,
  isPetstoreUrl,
  levels,
  listRules,
  UnusableServer,
  verifyPetstore,
  type Level,
  type ListedRule,
  type PetstoreUnderTest,
  type RuleDescription,
  type RuleFailure,
  type RuleOutcome,
  type Verdict,
} from './verify-petstore.js';
