/** Re-exports the parts of the faults plugin. */
export { carryOut } from './carry-out.js';
export { FaultControl, isOwnPath } from './control.js';
export { controlRoutes } from './control-routes.js';
export { describeFaults } from './documents.js';
export { parseFault, type Fault } from './fault.js';
export { matcherOf, type RequestFilter } from './journal-filters.js';
export { defaultJournalSize, maxJournalSize, type JournalItem } from './request-journal.js';
export { checkRules, checkSeed } from './rule-checks.js';
export type { FaultRule, RuleSet } from './rules.js';
export { faultWords, type FaultWord } from './words.js';
