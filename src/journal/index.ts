/**
 * What other folders may import of journal/: files of animals or of other records, a line each, and
 * group commit.
 */
export { appendingOn, appendInSteps, createFile, nodeDisk, unusable, withFile } from './disk.js';
export type { Disk, FileFacts } from './disk.js';
export {
  commitWatchers,
  groupCommit,
  untilClosed,
  type GroupCommitOptions,
} from './group-commit.js';
export { openJournal, type JournalOptions } from './journal.js';
export {
  batchBytes,
  idempotencyLine,
  importLine,
  offerLine,
  readLine,
  wholeLines,
  type AcceptLine,
} from './lines.js';
export { isHeldElsewhere, lockingOn } from './lock.js';
export { replay, type OnCommit } from './replay.js';
