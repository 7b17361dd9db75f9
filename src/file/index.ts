/**
 * What other folders may import of file/: the storage in a file of JSON Lines; checking, salvaging
 * and copying it.
 */
export {
  checkFile,
  salvageFile,
  type FileReport,
  type LeftOutLine,
  type SalvageReport,
} from './check.js';
export {
  copyPets,
  copyRecords,
  fileRecordNames,
  type CopyProgress,
  type CopyReport,
  type CopyTarget,
} from './copy.js';
export { fileImport, fileStorage, fileTarget, type FileStorageOptions } from './file-storage.js';
// For tests.
export { petLines } from './record-lines.js';
