/** A durable, append-only file of lines. */
export { BatchSum } from './batch-sum.js';
export {
  appendingOn,
  appendInSteps,
  createFile,
  makeFolders,
  nodeDisk,
  syncFolder,
  withFile,
  type Disk,
  type FileFacts,
} from './disk.js';
export { unusableError } from './disk-errors.js';
export { isHeldElsewhere, lockingOn } from './file-lock.js';
export { openJournal, type Journal, type JournalOptions } from './journal.js';
export { firstLineOffset, lineChunks } from './line-chunks.js';
export {
  batchBytes,
  idempotencyLine,
  importLine,
  offerLine,
  readLine,
  type AcceptLine,
} from './lines.js';
export { replay, type OnCommit, type Problem } from './replay.js';
