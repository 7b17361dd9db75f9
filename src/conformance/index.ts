/**
 * `petstore/conformance`: suites on node:test for whoever writes a storage, or a petstore of their
 * own in any language.
 */
export { testInsertOnce } from './once.js';
export { testRecords } from './records.js';
export { testStorage } from './storage.js';
export {
  countRules,
  isPetstoreUrl,
  testPetstore,
  UnusableServer,
  verifyPetstore,
  type PetstoreUnderTest,
  type RuleFailure,
  type Verdict,
} from './petstore.js';
export { levels, type Level } from './server.js';
