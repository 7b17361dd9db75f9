/** The public API; what is not exported here is private. */
export { digestOfKey, KeyRing, type KeyEntry, type VerifyKey } from './auth.js';
export { codeOf, detailOf, PetstoreError, reasonOf, type ErrorCode, type ErrorDetails } from './errors.js';
export type { Log, LogLevel, ReplyErrorCode, StorageErrorCode } from './errors.js';
export type { ListenOptions, TlsPair } from './http/index.js';
export { int64OfJsonNumber } from './int64.js';
export { JsonNumber, parseJson, toByteString, type JsonValue } from './json.js';
export { errorResponses, jsonContent, response, schemaRef } from './openapi.js';
export type { OpenApiDocument, OpenApiOperation, OpenApiValue } from './openapi.js';
export { largestBodyBytes, type PetstoreOptions } from './options.js';
export { listDocument, pageReply, parsePage } from './paging.js';
export { checkDraft, checkQuery, parseDraft, petJson, petStatuses } from './pet.js';
export type { Pet, PetDraft, PetStatus } from './pet.js';
export { createPetstore, type Listening, type Petstore } from './petstore.js';
export type { AcceptedRequest, Plugin, PluginHost, ReplyEvent, ReplySource, RequestHead, Wrapper } from './plugin.js';
export { emptyReply, jsonReply, type Reply } from './reply.js';
export type { Query } from './request.js';
export type { Deprecation, Operation, OperationRequest, Route } from './router.js';
export type {
  Commit,
  InsertOnce,
  PageQuery,
  PetQuery,
  PetStorage,
  PetTexts,
  RecordKind,
  Records,
  StoredText,
  TextPage,
  Texts,
  TextTarget,
} from './storage.js';
export {
  checkFile,
  copyPets,
  copyRecords,
  fileStorage,
  fileRecordNames,
  fileTarget,
  salvageFile,
  type FileReport,
  type CopyProgress,
  type CopyReport,
  type CopyTarget,
  type FileStorageOptions,
  type LeftOutLine,
  type SalvageReport,
} from './file/index.js';
export type { Disk, FileFacts } from './journal/index.js';
export { memoryStorage, type MemoryStorageOptions } from './memory/index.js';
