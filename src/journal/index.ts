/** A durable, append-only file of lines. */
export {
  appendingOn,
  appendInSteps,
  createFile,
  isHeldElsewhere,
  lockingOn,
  makeFolders,
  nodeDisk,
  syncFolder,
  unusable,
  withFile,
  type Disk,
  type FileFacts,
} from './disk.js';
export {
  batchBytes,
  BatchSum,
  firstLineIn,
  idempotencyLine,
  importLine,
  offerLine,
  readLine,
  wholeLines,
  type AcceptLine,
} from './lines.js';
export { replay, type OnCommit, type Problem } from './replay.js';
export { openJournal, type Journal, type JournalOptions } from './journal.js';
