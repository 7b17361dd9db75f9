/** File storage, and what commands do with storage files. */
export { checkFile, type FileReport } from './check-file.js';
export {
  copyPets,
  copyRecords,
  type CopyProgress,
  type CopyReport,
  type CopyTarget,
} from './copy-pets.js';
export type { FileStorageOptions } from './file-options.js';
export { fileStorage } from './file-storage.js';
export { fileImport, fileTarget, type FileImport } from './file-target.js';
export { petLines } from './record-lines.js';
export { fileRecordNames } from './file-record-names.js';
export { salvageFile, type LeftOutLine, type SalvageReport } from './salvage.js';
