/**
 * The public API of `petstore`; only its plugins, `petstore/postgres` and `petstore/conformance`
 * export more.
 */
export { digestOfKey, KeyRing, type KeyEntry, type VerifyKey } from './auth.js';
export {
  codeOf,
  detailOf,
  PetstoreError,
  reasonOf,
  type ErrorCode,
  type ErrorDetails,
} from './errors.js';
export type { ReplyErrorCode } from './errors.js';
export type { Log, LogLevel } from './log.js';
export type { Listening, ListenOptions, TlsPair } from './http/index.js';
export { int64OfJsonNumber, JsonNumber, maxBodyValues, parseJson, toByteString } from './json.js';
export type { ByteString, JsonValue } from './json.js';
export { errorResponses, jsonContent, response, schemaRef } from './openapi.js';
export type { OpenApiDocument, OpenApiOperation, OpenApiValue } from './openapi.js';
export { largestBodyBytes, type PetstoreOptions } from './options.js';
export { afterParameter, limitParameter, listDocument, pageReply, parsePage } from './paging.js';
export { readParameter, type ListParameter, type ListParameters } from './paging.js';
export { parseDraft, petFields, petStatuses } from './pet.js';
export type { FieldType, Pet, PetDraft, PetField, PetStatus } from './pet.js';
export { createPetstore, type Petstore } from './petstore.js';
export type {
  AcceptedRequest,
  Plugin,
  PluginHost,
  ReplyEvent,
  ReplySource,
  RequestHead,
  Wrapper,
} from './plugin.js';
export { emptyReply, jsonReply, type Reply } from './reply.js';
export type { Query } from './request.js';
export type { Deprecation, Operation, OperationRequest, Route } from './router.js';
export type {
  Commit,
  IdempotencyKeyUse,
  ImportTarget,
  PageQuery,
  PetQuery,
  PetStorage,
  PetTexts,
} from './storage.js';
export type { RecordKind, Records, StoredText, TextPage, Texts, TextTarget } from './storage.js';
export {
  checkFile,
  copyPets,
  copyRecords,
  fileImport,
  fileRecordNames,
  fileStorage,
} from './file/index.js';
export { fileTarget } from './file/index.js';
export {
  salvageFile,
  type FileReport,
  type LeftOutLine,
  type SalvageReport,
} from './file/index.js';
export type { CopyProgress, CopyReport, CopyTarget, FileStorageOptions } from './file/index.js';
export type { Disk, FileFacts } from './journal/index.js';
export { memoryStorage, type MemoryStorageOptions } from './memory/index.js';
export { checkDraft, checkQuery, petJson } from './engine/index.js';
