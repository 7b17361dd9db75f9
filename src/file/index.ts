/** What other folders may import of file/: the storage in a file of JSON Lines; checking, salvaging and copying it. */
export { checkFile, salvageFile } from './check.js';
export type { FileReport, LeftOutLine, SalvageReport } from './check.js';
export { copyPets, copyRecords, fileRecordNames } from './copy.js';
export type { CopyProgress, CopyReport, CopyTarget } from './copy.js';
export { fileStorage, fileTarget, type FileStorageOptions } from './file-storage.js';
// For tests.
export { petLines } from './record-lines.js';
