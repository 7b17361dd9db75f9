/** Re-exports the parts of the faults plugin. */
export { Delays } from './delays.js';
export { describeFaults, documents } from './documents.js';
export { ActiveRules, checkMatches, checkRules, type FaultRule } from './rules.js';
export { codes, faultWords, parseFault, type Fault } from './words.js';
