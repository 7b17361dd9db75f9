/** The code that all storages share. */
export { checkDraft, checkKeyUse, checkQuery } from './arguments.js';
export { Catalogue } from './catalogue.js';
export {
  closedError,
  commitWatchers,
  groupCommit,
  untilClosed,
  type GroupCommitOptions,
} from './group-commit.js';
export {
  hasExpired,
  IdempotencyKeys,
  keptMs,
  mismatch,
  replayOf,
  type KnownUse,
} from './idempotency.js';
export { importedStart } from './imports.js';
export {
  jsonAfterId,
  maxTextBytes,
  parsePet,
  pendingPet,
  petJson,
  withId,
  type PendingRecord,
} from './pet-json.js';
export {
  jsonStoreOf,
  recordBytes,
  toPetStorage,
  toPetTexts,
  type KeyedRecord,
  type RecordStore,
} from './pet-storage.js';
export { isRecordName, RecordNames, recordsWhenOpen } from './plugin-records.js';
