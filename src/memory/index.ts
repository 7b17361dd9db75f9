/**
 * What other folders may import of memory/: the storage that forgets, and the parts of every
 * storage of JSON texts.
 */
export {
  checkOnce,
  IdempotencyKeys,
  inFlight,
  isTooFar,
  keptMs,
  mismatch,
  type KeyUse,
} from './idempotency.js';
export { Catalogue, memoryStorage, type MemoryStorageOptions } from './memory-storage.js';
export { closedError, isRecordName, restKind, maxTextBytes, petKind, petsOf } from './texts.js';
export { RecordNames, recordsWhenOpen, textsOf, type KeptKind } from './texts.js';
