/** The door of journal/: lines that last, of whatever kind. */
export { appendingOn, appendInSteps, createFile, nodeDisk, unusable, withFile } from './disk.js';
export type { Disk, FileFacts } from './disk.js';
export { CommitWatchers, GroupCommit, untilClosed, type GroupCommitOptions } from './group-commit.js';
export { openJournal, type Journal, type OpenJournalOptions } from './journal.js';
export { batchBytes, idempotencyLine, offerLine, readLine, wholeLines, type AcceptLine } from './lines.js';
export { isHeldElsewhere, lockingOn } from './lock.js';
export { replay, type ReplayProblem } from './replay.js';
