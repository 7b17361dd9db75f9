/** The door of memory/: the storage that forgets, and what every storage is made of that keeps texts. */
export { checkOnce, IdempotencyKeys, inFlight, isTooFar, keptMs, mismatch, type KeyUse } from './idempotency.js';
export { Catalogue, memoryStorage, type MemoryStorageOptions } from './memory-storage.js';
export { closedError, isRecordName, keptKindOf, maxTextBytes, petKind, petsOf } from './texts.js';
export { RecordNames, recordsWhenOpen, textsOf, type KeptKind } from './texts.js';
