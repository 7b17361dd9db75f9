/** The file storage: opening, checking, salvaging, copying. */
export {
  checkFile,
  salvageFile,
  type FileReport,
  type LeftOutLine,
  type SalvageReport,
} from './check-file.js';
export {
  copyPets,
  copyRecords,
  fileRecordNames,
  type CopyProgress,
  type CopyReport,
  type CopyTarget,
} from './copy-pets.js';
// For tests.
export { petLines } from './record-lines.js';
export {
  fileImport,
  fileStorage,
  fileTarget,
  type FileImport,
  type FileStorageOptions,
} from './file-storage.js';
